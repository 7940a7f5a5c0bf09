"""Who a worker is: every step of the order, every nesting of launchers, every disagreement, and the node label."""

from __future__ import annotations

import builtins
import importlib.util
import io
import os
import pickle
import re
import socket
import subprocess
import sys
import time
from types import ModuleType, SimpleNamespace
from typing import TYPE_CHECKING, Any
from unittest import mock

import pytest

from pytest_gputrace.errors import IdentityError
from pytest_gputrace.identity import Identity, Source, identify
from pytest_gputrace.model import WorkerId

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

Environ = dict[str, str]


def torchrun(rank: int, world_size: int, local_world_size: int, **more: str) -> Environ:
    """The five variables of a worker that torchrun started, nodes filled one after the other."""
    return {
        "RANK": str(rank),
        "WORLD_SIZE": str(world_size),
        "LOCAL_RANK": str(rank % local_world_size),
        "LOCAL_WORLD_SIZE": str(local_world_size),
        "GROUP_RANK": str(rank // local_world_size),
        **more,
    }


def plain(rank: int, world_size: int, local_rank: int) -> Environ:
    return {"RANK": str(rank), "WORLD_SIZE": str(world_size), "LOCAL_RANK": str(local_rank)}


def openmpi(rank: int, world_size: int, local_rank: int | None = None, local_size: int | None = None) -> Environ:
    environ = {"OMPI_COMM_WORLD_RANK": str(rank), "OMPI_COMM_WORLD_SIZE": str(world_size)}
    if local_rank is not None:
        environ["OMPI_COMM_WORLD_LOCAL_RANK"] = str(local_rank)
    if local_size is not None:
        environ["OMPI_COMM_WORLD_LOCAL_SIZE"] = str(local_size)
    return environ


def slurm(procid: int, ntasks: int, localid: int, nodeid: int, step: str = "0") -> Environ:
    return {
        "SLURM_JOB_ID": "77",
        "SLURM_STEP_ID": step,
        "SLURM_NTASKS": str(ntasks),
        "SLURM_PROCID": str(procid),
        "SLURM_LOCALID": str(localid),
        "SLURM_NODEID": str(nodeid),
    }


def live(rank: Any, world_size: Any, *, initialized: Any = True, available: Any = True) -> ModuleType:
    torch = ModuleType("torch")
    torch.distributed = SimpleNamespace(  # type: ignore[attr-defined]  # a stand-in gets what the real module has
        is_available=lambda: available,
        is_initialized=lambda: initialized,
        get_rank=lambda: rank,
        get_world_size=lambda: world_size,
    )
    return torch


def roles(identity: Identity) -> list[tuple[str, str]]:
    return [(source.name, source.role) for source in identity.sources]


@pytest.fixture(autouse=True)
def host(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """A known host without torch; the function it gives changes the host's name, machine id or PID namespace."""
    real_stat, real_open = os.stat, builtins.open

    def become(
        name: str = "box", *, machine_id: str | None = "0123", dbus: str | None = None, inode: int | None = 7
    ) -> None:
        files = {"/etc/machine-id": machine_id, "/var/lib/dbus/machine-id": dbus}

        def fake_stat(path: Any, *args: Any, **kwargs: Any) -> Any:
            if path != "/proc/self/ns/pid":
                return real_stat(path, *args, **kwargs)
            if inode is None:
                raise PermissionError(path)
            return SimpleNamespace(st_ino=inode)

        def fake_open(file: Any, *args: Any, **kwargs: Any) -> Any:
            if file not in files:
                return real_open(file, *args, **kwargs)
            text = files[file]
            if text is None:
                raise FileNotFoundError(file)
            return io.StringIO(text)

        monkeypatch.setattr(socket, "gethostname", lambda: name)
        monkeypatch.setattr(os, "stat", fake_stat)
        monkeypatch.setattr(builtins, "open", fake_open)

    monkeypatch.delitem(sys.modules, "torch", raising=False)
    become()
    return become


def label(environ: Environ | None = None) -> str:
    return identify(environ or {}).worker.node


# -- the order ---------------------------------------------------------------------------------------------------------

PROC = {"PROC_RANK": "1"}
EXPLICIT = {"GPUTRACE_RANK": "40", "GPUTRACE_WORLD_SIZE": "64", "GPUTRACE_LOCAL_RANK": "2", "GPUTRACE_NODE_ID": "blade"}
# Every later step stays in the environment of an earlier one, so each row fails if two steps are swapped. The worlds
# differ, as those of nested launchers do, and the local ranks agree.
STEPS: list[tuple[str, Environ, int | None, tuple[int, int, int]]] = [
    ("default", {}, None, (0, 1, 0)),
    ("rank folder", {}, 1, (1, 2, 1)),
    ("PROC_RANK", PROC, 1, (1, 2, 1)),
    ("Slurm", {**PROC, **slurm(3, 4, 1, 1)}, 1, (3, 4, 1)),
    ("OpenMPI", {**PROC, **slurm(3, 4, 1, 1), **openmpi(5, 8, 1)}, 1, (5, 8, 1)),
    ("RANK", {**PROC, **slurm(3, 4, 1, 1), **openmpi(5, 8, 1), **plain(9, 16, 1)}, 1, (9, 16, 1)),
    ("torchrun", {**PROC, **slurm(3, 4, 1, 1), **openmpi(5, 8, 1), **torchrun(9, 16, 8)}, 1, (9, 16, 1)),
    ("explicit", {**PROC, **slurm(3, 4, 1, 1), **openmpi(5, 8, 1), **torchrun(9, 16, 8), **EXPLICIT}, 1, (40, 64, 2)),
]


@pytest.mark.parametrize(("name", "environ", "folder_rank", "numbers"), STEPS, ids=[step[0] for step in STEPS])
def test_each_step_of_the_order_beats_all_later_ones(
    name: str, environ: Environ, folder_rank: int | None, numbers: tuple[int, int, int]
) -> None:
    identity = identify(environ, folder_rank=folder_rank)
    worker = identity.worker
    assert (worker.rank, worker.world_size, worker.local_rank) == numbers
    assert roles(identity)[0] == (name, "used")
    assert [role for _, role in roles(identity)].count("used") == 1


def test_a_live_group_stands_between_explicit_and_torchrun(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", live(21, 32))
    identity = identify(torchrun(9, 16, 8))
    assert (identity.worker.rank, identity.worker.world_size) == (21, 32)
    assert roles(identity)[:2] == [("torch.distributed", "used"), ("torchrun", "outer")]
    assert identity.sources[0].variables == ("get_rank()=21", "get_world_size()=32")
    assert identify({**torchrun(9, 16, 8), **EXPLICIT}).worker.rank == 40


def test_the_environment_is_that_of_the_process_unless_given(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in EXPLICIT.items():
        monkeypatch.setenv(name, value)
    assert identify().worker == WorkerId("blade", 40, 2, 64)
    assert identify({"GPUTRACE_NODE_ID": "a"}).worker == WorkerId("a", 0, 0, 1)


def test_torchrun_gives_everything() -> None:
    identity = identify(torchrun(9, 16, 8, TORCHELASTIC_RESTART_COUNT="2", TORCHELASTIC_RUN_ID="none"))
    assert identity.worker == WorkerId("1", 9, 1, 16, 8, restart=2)
    assert identity.sources == (
        Source(
            "torchrun",
            (
                "RANK=9",
                "WORLD_SIZE=16",
                "LOCAL_RANK=1",
                "LOCAL_WORLD_SIZE=8",
                "GROUP_RANK=1",
                "TORCHELASTIC_RUN_ID=none",
                "TORCHELASTIC_RESTART_COUNT=2",
            ),
            "used",
            rank=9,
            world_size=16,
            local_rank=1,
            local_world_size=8,
            node="1",
        ),
    )


@pytest.mark.parametrize("missing", ["LOCAL_WORLD_SIZE", "GROUP_RANK"])
def test_a_torchrun_set_without_one_of_the_last_two_is_the_plain_set(missing: str) -> None:
    environ = torchrun(9, 16, 8)
    del environ[missing]
    identity = identify(environ)
    assert roles(identity)[0] == ("RANK", "used")
    assert (identity.worker.rank, identity.worker.node) == (9, "1")


@pytest.mark.parametrize("missing", ["RANK", "WORLD_SIZE", "LOCAL_RANK"])
@pytest.mark.parametrize("as_empty", [False, True])
def test_a_partial_set_is_recorded_and_not_used(missing: str, as_empty: bool) -> None:
    environ = plain(9, 16, 1)
    del environ[missing]
    if as_empty:
        environ[missing] = ""
    identity = identify(environ)
    assert (identity.worker.rank, identity.worker.world_size) == (0, 1)
    assert identity.worker.local_rank == (0 if missing == "LOCAL_RANK" else 1)
    assert roles(identity)[:2] == [("default", "used"), ("RANK", "incomplete")]
    assert identity.sources[1].variables == tuple(f"{name}={value}" for name, value in environ.items() if value)


def test_the_node_index_of_a_pod_does_not_become_a_rank_beside_openmpi() -> None:
    identity = identify({"RANK": "1", "WORLD_SIZE": "2", **openmpi(9, 16, 1, 8)})
    assert identity.worker == WorkerId("1", 9, 1, 16, 8)
    assert roles(identity) == [("OpenMPI", "used"), ("RANK", "incomplete")]


def test_a_lone_local_rank_is_the_rank_where_nothing_else_is() -> None:
    assert identify({"LOCAL_RANK": "3"}).worker.rank == 3
    assert identify({"LOCAL_RANK": "3"}).worker.local_rank == 3
    assert roles(identify({"LOCAL_RANK": "3"}))[0] == ("LOCAL_RANK", "used")
    assert identify({"LOCAL_RANK": "0"}, folder_rank=3).worker.rank == 3
    beside = identify({"LOCAL_RANK": "1", **openmpi(5, 8)})
    assert (beside.worker.rank, beside.worker.local_rank) == (5, 1)
    assert roles(beside)[:2] == [("OpenMPI", "used"), ("LOCAL_RANK", "local")]


# -- Slurm -------------------------------------------------------------------------------------------------------------


def test_a_slurm_step_gives_rank_and_node() -> None:
    identity = identify(slurm(5, 8, 1, 1))
    assert identity.worker == WorkerId("1", 5, 1, 8)
    assert identity.sources[0].variables == (
        "SLURM_PROCID=5",
        "SLURM_NTASKS=8",
        "SLURM_LOCALID=1",
        "SLURM_NODEID=1",
        "SLURM_STEP_ID=0",
    )


NO_STEP: dict[str, Environ] = {
    "batch script": {"SLURM_STEP_ID": ""},
    "batch script with a step id": {"SLURM_STEP_ID": "4294967291"},
    "older batch step id": {"SLURM_STEP_ID": "4294967294"},
    "interactive step": {"SLURM_STEP_ID": "4294967290"},
    "named step": {"SLURM_STEP_ID": "batch"},
    "one task": {"SLURM_NTASKS": "1"},
    "one task in the step": {"SLURM_STEP_NUM_TASKS": "1"},
    "no task count": {"SLURM_NTASKS": ""},
}


@pytest.mark.parametrize("change", NO_STEP.values(), ids=NO_STEP.keys())
def test_slurm_outside_a_step_of_several_tasks_says_nothing(change: Environ) -> None:
    identity = identify({**slurm(5, 8, 1, 1), **change})
    assert (identity.worker.rank, identity.worker.world_size, identity.worker.local_rank) == (0, 1, 0)
    assert identity.worker.node.startswith("box-")
    assert roles(identity) == [("default", "used"), ("Slurm", "incomplete"), ("hostname", "node")]


def test_the_task_count_of_the_step_comes_before_that_of_the_job() -> None:
    identity = identify({**slurm(5, 64, 1, 1), "SLURM_STEP_NUM_TASKS": "8"})
    assert (identity.worker.rank, identity.worker.world_size) == (5, 8)


def test_a_slurm_step_without_its_process_id_is_incomplete() -> None:
    environ = slurm(5, 8, 1, 1)
    del environ["SLURM_PROCID"]
    assert roles(identify(environ))[1] == ("Slurm", "incomplete")


# -- nesting -----------------------------------------------------------------------------------------------------------


def test_srun_torchrun_has_one_slurm_task_per_node() -> None:
    identity = identify({**slurm(1, 2, 0, 1), **torchrun(9, 16, 8)})
    assert identity.worker == WorkerId("1", 9, 1, 16, 8)
    assert roles(identity) == [("torchrun", "used"), ("Slurm", "outer")]


def test_srun_torchrun_with_one_worker_per_node_may_number_them_otherwise() -> None:
    environ = {**slurm(2, 4, 0, 2), **torchrun(1, 4, 1)}
    identity = identify({**environ, "TORCHELASTIC_RUN_ID": "77"})
    assert identity.worker == WorkerId("1", 1, 0, 4, 1)
    assert roles(identity) == [("torchrun", "used"), ("Slurm", "outer")]
    with pytest.raises(IdentityError, match="global rank"):
        identify(environ)  # nothing proves that torchrun set it


def test_the_group_of_such_a_worker_must_still_agree_with_torchrun(monkeypatch: pytest.MonkeyPatch) -> None:
    environ = {**slurm(2, 4, 0, 2), **torchrun(1, 4, 1, TORCHELASTIC_RUN_ID="77")}
    monkeypatch.setitem(sys.modules, "torch", live(1, 4))
    assert roles(identify(environ)) == [("torch.distributed", "used"), ("torchrun", "agrees"), ("Slurm", "outer")]
    monkeypatch.setitem(sys.modules, "torch", live(3, 4))
    with pytest.raises(IdentityError, match=r"torch\.distributed .* says 3, torchrun .* says 1"):
        identify(environ)


def test_mpirun_inside_a_slurm_allocation() -> None:
    # On the first node mpirun inherits the batch script's variables, on the others a step of one daemon per node.
    first = identify({**slurm(0, 16, 0, 0, step=""), **openmpi(1, 16, 1, 8)})
    second = identify({**slurm(0, 1, 0, 0), **openmpi(9, 16, 1, 8)})
    third = identify({**slurm(1, 2, 0, 1), **openmpi(17, 24, 1, 8)})
    assert first.worker == WorkerId("0", 1, 1, 16, 8)
    assert second.worker == WorkerId("1", 9, 1, 16, 8)
    assert third.worker == WorkerId("2", 17, 1, 24, 8)  # not SLURM_NODEID, which leaves the first node out
    assert [roles(each)[1] for each in (first, second, third)] == [
        ("Slurm", "incomplete"),
        ("Slurm", "incomplete"),
        ("Slurm", "outer"),
    ]


def test_torchrun_standalone_alone_and_inside_a_larger_step() -> None:
    assert identify(torchrun(3, 4, 4)).worker == WorkerId("0", 3, 3, 4, 4)
    identity = identify({**slurm(7, 16, 3, 1), **torchrun(1, 2, 2)})
    assert identity.worker == WorkerId("0", 1, 1, 2, 2)
    assert roles(identity) == [("torchrun", "used"), ("Slurm", "outer")]


def test_mpirun_of_torchrun_agents() -> None:
    identity = identify({**openmpi(1, 2, 0, 1), **torchrun(9, 16, 8)})
    assert identity.worker == WorkerId("1", 9, 1, 16, 8)
    assert roles(identity) == [("torchrun", "used"), ("OpenMPI", "outer")]


def test_launchers_of_one_world_agree() -> None:
    identity = identify({**openmpi(9, 16, 1, 8), **plain(9, 16, 1), **slurm(9, 16, 1, 1)})
    assert identity.worker == WorkerId("1", 9, 1, 16, 8)
    assert roles(identity) == [("RANK", "used"), ("OpenMPI", "agrees"), ("Slurm", "agrees")]


def test_a_group_in_srun_takes_local_rank_and_node_from_the_step(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", live(5, 8))
    assert identify(slurm(5, 8, 1, 1)).worker == WorkerId("1", 5, 1, 8)


def test_workers_spawned_in_one_task_per_node_take_the_node_of_their_task(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", live(9, 16))
    identity = identify(slurm(1, 2, 0, 1), folder_rank=1)
    assert identity.worker == WorkerId("1", 9, 1, 16)  # the folder knows the local rank, the task of the node does not
    assert roles(identity)[1] == ("Slurm", "outer")


def test_a_small_group_in_a_large_step_takes_no_node_from_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", live(1, 2))
    assert identify(slurm(5, 8, 1, 1)).worker.node.startswith("box-")


def test_the_group_index_of_another_job_is_no_node() -> None:
    environ = {**torchrun(1, 2, 2), "GPUTRACE_RANK": "5", "GPUTRACE_WORLD_SIZE": "8"}
    worker = identify(environ).worker
    assert (worker.rank, worker.local_rank, worker.local_world_size) == (5, 1, None)
    assert worker.node.startswith("box-")


def test_an_outer_launcher_of_the_explicit_size_still_says_nothing_about_the_nodes() -> None:
    worker = identify({**plain(1, 8, 1), **openmpi(3, 16, 1, 2), "GPUTRACE_WORLD_SIZE": "16"}).worker
    assert (worker.rank, worker.world_size, worker.local_world_size) == (1, 16, None)


# -- local ranks -------------------------------------------------------------------------------------------------------


def test_rank_8_in_folder_rank0_is_normal() -> None:
    identity = identify(torchrun(8, 16, 8), folder_rank=0)
    assert identity.worker == WorkerId("1", 8, 0, 16, 8)
    assert roles(identity) == [("torchrun", "used"), ("rank folder", "local")]
    assert identify({**PROC, **torchrun(9, 16, 8)}, folder_rank=1).worker.local_rank == 1


@pytest.mark.parametrize("folder_rank", [None, 3])
def test_local_rank_0_on_every_worker_is_no_claim_against_the_executor(folder_rank: int | None) -> None:
    identity = identify({**plain(11, 16, 0), "PROC_RANK": "3"}, folder_rank=folder_rank)
    assert (identity.worker.rank, identity.worker.local_rank) == (11, 3)


@pytest.mark.parametrize("environ", [openmpi(11, 16, 0), slurm(11, 16, 0, 1), plain(11, 16, 0)])
def test_a_launchers_local_rank_0_does_not_contradict_the_folder(environ: Environ) -> None:
    assert identify(environ, folder_rank=3).worker.local_rank == 0


def test_local_rank_0_on_every_worker_does_not_contradict_openmpi() -> None:
    worker = identify({**plain(11, 16, 0), **openmpi(11, 16, 3, 8)}).worker
    assert worker == WorkerId("1", 11, 0, 16, 8)  # the node comes from OpenMPI's own local rank


def test_an_outer_local_rank_is_about_another_world() -> None:
    assert identify({**openmpi(1, 2, 1), **torchrun(10, 16, 8)}).worker.local_rank == 2


LOCAL_DISAGREEMENTS: list[tuple[Environ, int | None, tuple[str, str], str]] = [
    (
        {"PROC_RANK": "2"},
        1,
        ("PROC_RANK", "rank1"),
        "PROC_RANK says 2 (PROC_RANK=2), rank folder says 1 (rank1)",
    ),
    (
        {"PROC_RANK": "0"},
        1,
        ("PROC_RANK", "rank1"),
        "PROC_RANK says 0 (PROC_RANK=0), rank folder says 1 (rank1)",
    ),
    (
        {"PROC_RANK": "0", **torchrun(9, 16, 8)},
        None,
        ("PROC_RANK", "LOCAL_RANK"),
        "PROC_RANK says 0 (PROC_RANK=0), torchrun says 1 (LOCAL_RANK=1)",
    ),
    (
        torchrun(9, 16, 8),
        0,
        ("LOCAL_RANK", "rank0"),
        "torchrun says 1 (LOCAL_RANK=1), rank folder says 0 (rank0)",
    ),
    (
        {**plain(9, 16, 1), **openmpi(9, 16, 3)},
        None,
        ("LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK"),
        "RANK says 1 (LOCAL_RANK=1), OpenMPI says 3 (OMPI_COMM_WORLD_LOCAL_RANK=3)",
    ),
    (
        {**openmpi(9, 16, 0), **slurm(9, 16, 1, 1)},
        None,
        ("OMPI_COMM_WORLD_LOCAL_RANK", "SLURM_LOCALID"),
        "OpenMPI says 0 (OMPI_COMM_WORLD_LOCAL_RANK=0), Slurm says 1 (SLURM_LOCALID=1)",
    ),
    (
        {"LOCAL_RANK": "2", "PROC_RANK": "1"},
        None,
        ("PROC_RANK", "LOCAL_RANK"),
        "PROC_RANK says 1 (PROC_RANK=1), LOCAL_RANK says 2 (LOCAL_RANK=2)",
    ),
]


@pytest.mark.parametrize(("environ", "folder_rank", "blamed", "text"), LOCAL_DISAGREEMENTS)
def test_local_ranks_that_differ_are_an_error_naming_both(
    environ: Environ, folder_rank: int | None, blamed: tuple[str, str], text: str
) -> None:
    with pytest.raises(IdentityError) as caught:
        identify(environ, folder_rank=folder_rank)
    assert str(caught.value) == (
        f"two sources disagree about this worker's local rank: {text}; correct the wrong one, or set "
        "GPUTRACE_LOCAL_RANK"
    )
    assert caught.value.sources == blamed
    assert identify({**environ, "GPUTRACE_LOCAL_RANK": "5"}, folder_rank=folder_rank).worker.local_rank == 5


@pytest.mark.parametrize(
    ("environ", "local_rank"),
    [
        ({**openmpi(3, 8, 3), "LOCAL_RANK": "0", "PROC_RANK": "3"}, 3),
        ({**openmpi(3, 8, 0), "PROC_RANK": "3"}, 3),
        ({**openmpi(3, 8, 3), **plain(3, 8, 0)}, 0),
        ({"LOCAL_RANK": "0"}, 0),
        ({"OMPI_COMM_WORLD_LOCAL_RANK": "3"}, 3),
    ],
)
def test_the_local_rank_is_the_one_superbench_names_its_file_by(environ: Environ, local_rank: int) -> None:
    names = ("PROC_RANK", "LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK")
    assert next(int(environ[name]) for name in names if environ.get(name)) == local_rank
    assert identify(environ).worker.local_rank == local_rank


def test_a_local_world_too_small_for_the_local_rank_is_dropped() -> None:
    environ = {**plain(11, 16, 0), "LOCAL_WORLD_SIZE": "2", "PROC_RANK": "3"}
    assert identify(environ).worker.local_world_size is None


# -- disagreement about the global rank --------------------------------------------------------------------------------


def test_two_ranks_in_one_world_are_an_error_naming_both() -> None:
    environ = {**torchrun(3, 16, 8), **openmpi(5, 16, 3, 8)}
    with pytest.raises(IdentityError) as caught:
        identify(environ)
    assert str(caught.value) == (
        "two sources disagree about this worker's global rank in a world of 16: torchrun (RANK=3 WORLD_SIZE=16 "
        "LOCAL_RANK=3 LOCAL_WORLD_SIZE=8 GROUP_RANK=0) says 3, OpenMPI (OMPI_COMM_WORLD_RANK=5 "
        "OMPI_COMM_WORLD_SIZE=16 OMPI_COMM_WORLD_LOCAL_RANK=3 OMPI_COMM_WORLD_LOCAL_SIZE=8) says 5; unset the "
        "variables of the wrong one, or set GPUTRACE_RANK, which comes before every other source"
    )
    assert caught.value.sources == ("RANK", "OMPI_COMM_WORLD_RANK")
    copy = pickle.loads(pickle.dumps(caught.value))
    assert (str(copy), copy.sources) == (str(caught.value), caught.value.sources)


def test_any_pair_of_launchers_can_disagree(monkeypatch: pytest.MonkeyPatch) -> None:
    for environ in ({**plain(3, 16, 3), **slurm(5, 16, 3, 0)}, {**openmpi(3, 16, 3), **slurm(5, 16, 3, 0)}):
        with pytest.raises(IdentityError, match=r"says 3, Slurm .* says 5"):
            identify(environ)
    monkeypatch.setitem(sys.modules, "torch", live(4, 16))
    with pytest.raises(IdentityError, match=r"says 4, RANK .* says 3") as caught:
        identify(plain(3, 16, 3))
    assert caught.value.sources == ("get_rank()", "RANK")


def test_an_explicit_rank_settles_a_disagreement() -> None:
    identity = identify({**torchrun(3, 16, 8), **openmpi(5, 16, 5, 8), "GPUTRACE_RANK": "5"})
    assert (identity.worker.rank, identity.worker.world_size, identity.worker.local_rank) == (5, 16, 5)
    assert roles(identity) == [("explicit", "used"), ("torchrun", "overruled"), ("OpenMPI", "agrees")]
    alone = identify({**torchrun(3, 16, 8), "GPUTRACE_RANK": "5"})
    assert alone.worker == WorkerId("0", 5, 3, 16, 8)


def test_ranks_in_different_worlds_are_no_disagreement() -> None:
    assert roles(identify({**plain(3, 16, 3), **openmpi(5, 8, 5)}))[1] == ("OpenMPI", "outer")
    assert roles(identify({**plain(3, 16, 3), **openmpi(5, 32, 5)}))[1] == ("OpenMPI", "outer")


# -- explicit values ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("explicit", "others", "numbers"),
    [
        ({"GPUTRACE_RANK": "5"}, {}, (5, 6, 0)),
        ({"GPUTRACE_RANK": "5"}, plain(1, 4, 1), (5, 6, 1)),
        ({"GPUTRACE_RANK": "5"}, plain(1, 8, 1), (5, 8, 1)),
        ({"GPUTRACE_RANK": "5"}, {"PROC_RANK": "3"}, (5, 6, 3)),
        ({"GPUTRACE_RANK": "5", "GPUTRACE_WORLD_SIZE": "32"}, plain(1, 8, 1), (5, 32, 1)),
        ({"GPUTRACE_WORLD_SIZE": "32"}, plain(1, 8, 1), (1, 32, 1)),
        ({"GPUTRACE_WORLD_SIZE": "32"}, {"PROC_RANK": "3"}, (3, 32, 3)),
        ({"GPUTRACE_WORLD_SIZE": "32"}, {}, (0, 32, 0)),
        ({"GPUTRACE_LOCAL_RANK": "7"}, plain(1, 8, 1), (1, 8, 7)),
        ({"GPUTRACE_NODE_ID": "a/b"}, plain(1, 8, 1), (1, 8, 1)),
        ({"GPUTRACE_RANK": "", "GPUTRACE_WORLD_SIZE": ""}, plain(1, 8, 1), (1, 8, 1)),
    ],
)
def test_explicit_values_may_be_given_singly(explicit: Environ, others: Environ, numbers: tuple[int, int, int]) -> None:
    worker = identify({**others, **explicit}).worker
    assert (worker.rank, worker.world_size, worker.local_rank) == numbers
    assert (worker.node == "a/b") == ("GPUTRACE_NODE_ID" in explicit)


def test_the_explicit_source_and_the_one_of_the_rank_are_both_used_and_first() -> None:
    identity = identify({**openmpi(1, 8, 1), **slurm(0, 2, 0, 0), "GPUTRACE_NODE_ID": "a"})
    assert roles(identity) == [("explicit", "used"), ("OpenMPI", "used"), ("Slurm", "outer")]


@pytest.mark.parametrize(
    ("environ", "text", "blamed"),
    [
        (plain(8, 8, 0), "RANK=8 is not in the world of WORLD_SIZE=8", ("RANK", "WORLD_SIZE")),
        (openmpi(0, 0), "OMPI_COMM_WORLD_RANK=0 is not in the", ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE")),
        (
            {"GPUTRACE_RANK": "8", "GPUTRACE_WORLD_SIZE": "8"},
            "GPUTRACE_RANK=8 is not in the world of GPUTRACE_WORLD_SIZE=8",
            ("GPUTRACE_RANK", "GPUTRACE_WORLD_SIZE"),
        ),
        (
            {**plain(8, 16, 0), "GPUTRACE_WORLD_SIZE": "8"},
            "RANK=8 is not in the world of GPUTRACE_WORLD_SIZE=8",
            ("RANK", "GPUTRACE_WORLD_SIZE"),
        ),
        (
            {"GPUTRACE_WORLD_SIZE": "0"},
            "rank 0 is not in the world of GPUTRACE_WORLD_SIZE=0",
            ("rank 0", "GPUTRACE_WORLD_SIZE"),
        ),
    ],
)
def test_a_rank_outside_its_world_is_an_error(environ: Environ, text: str, blamed: tuple[str, str]) -> None:
    with pytest.raises(IdentityError, match=re.escape(text)) as caught:
        identify(environ)
    assert str(caught.value).endswith(
        ": ranks count from 0; correct one of the two, or set GPUTRACE_RANK and GPUTRACE_WORLD_SIZE, which come "
        "before every other source"
    )
    assert caught.value.sources == blamed


# -- values that cannot be read ----------------------------------------------------------------------------------------

NUMBERS = [
    *torchrun(0, 16, 8),
    *openmpi(0, 16, 0, 8),
    *(name for name in slurm(0, 16, 0, 0) if name not in {"SLURM_JOB_ID", "SLURM_STEP_ID"}),
    "SLURM_STEP_NUM_TASKS",
    "PROC_RANK",
    "TORCHELASTIC_RESTART_COUNT",
    "GPUTRACE_RANK",
    "GPUTRACE_WORLD_SIZE",
    "GPUTRACE_LOCAL_RANK",
]


@pytest.mark.parametrize("name", NUMBERS)
@pytest.mark.parametrize("value", ["3x", "²", "٣", "-1", "+1", "1e3", "1_0", " 3", "3\n", "0x1", "9" * 5000])
def test_a_value_that_is_no_plain_number_is_an_error(name: str, value: str) -> None:
    environ = {**torchrun(0, 16, 8), **openmpi(0, 16, 0, 8), **slurm(0, 16, 0, 0), name: value}
    with pytest.raises(IdentityError) as caught:
        identify(environ)
    assert str(caught.value) == (
        f"{name}={value!r} cannot be read: expected a number in the digits 0 to 9; correct it or unset it"
    )
    assert caught.value.sources == (name,)


@pytest.mark.parametrize("environ", [{"RANK": "gold"}, {"LOCAL_RANK": "3x"}, {"OMPI_COMM_WORLD_LOCAL_RANK": "x"}])
def test_a_partial_set_must_be_readable_too(environ: Environ) -> None:
    with pytest.raises(IdentityError, match="cannot be read"):
        identify(environ)


@pytest.mark.parametrize(
    "environ", [{"RANK": "gold"}, {"PROC_RANK": "x"}, plain(8, 8, 0), {**slurm(0, 8, 0, 0), "SLURM_PROCID": "x"}]
)
def test_nothing_unreadable_stands_in_the_way_of_both_explicit_ranks(environ: Environ) -> None:
    identity = identify({**environ, "GPUTRACE_RANK": "3", "GPUTRACE_LOCAL_RANK": "1"})
    assert (identity.worker.rank, identity.worker.local_rank) == (3, 1)
    assert roles(identity)[1][1] == "incomplete"
    with pytest.raises(IdentityError):
        identify({**environ, "GPUTRACE_RANK": "3"})


def test_leading_zeros_are_a_number() -> None:
    assert identify(plain(0, 8, 0) | {"RANK": "007"}).worker.rank == 7


# -- the live process group --------------------------------------------------------------------------------------------

IDLE: dict[str, Any] = {
    "blocked": None,
    "no distributed": ModuleType("torch"),
    "not available": live(1, 2, available=False),
    "not initialised": live(1, 2, initialized=False),
    "a mock": mock.MagicMock(),
    "a mock of a group": live(mock.MagicMock(), mock.MagicMock()),
    "a truthy mock": live(1, 2, initialized=mock.MagicMock()),
    "a truthy mock of availability": live(1, 2, available=mock.MagicMock()),
    "outside the group": live(-1, -1),
    "outside a group of some": live(-1, 8),
    "a rank beyond the world": live(2, 2),
    "booleans": live(True, 2),
    "a world that is no number": live(0, "2"),
    "half imported": SimpleNamespace(distributed=ModuleType("torch.distributed")),
}


@pytest.mark.parametrize("torch", IDLE.values(), ids=IDLE.keys())
def test_a_torch_without_a_group_says_nothing(torch: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", torch)
    assert roles(identify(openmpi(3, 8, 3)))[0] == ("OpenMPI", "used")


@pytest.mark.parametrize("error", [AttributeError, ImportError, RuntimeError, TypeError, ValueError])
def test_a_group_destroyed_meanwhile_says_nothing(error: type[Exception], monkeypatch: pytest.MonkeyPatch) -> None:
    torch = live(3, 8)
    torch.distributed.get_rank = mock.Mock(side_effect=error("Default process group has not been initialized"))
    monkeypatch.setitem(sys.modules, "torch", torch)
    assert identify({}).worker.rank == 0


def test_identifying_never_imports_torch() -> None:
    code = (
        "import sys; from pytest_gputrace.identity import identify; identify({'RANK': '1', 'WORLD_SIZE': '2', "
        "'LOCAL_RANK': '1'}); assert not {'torch', 'numpy', 'pytest'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


GLOO = """
import os, sys
import torch.distributed as dist
from pytest_gputrace.identity import identify
dist.init_process_group("gloo", init_method="file://" + sys.argv[1], rank=0, world_size=1)
inside = identify({"PROC_RANK": "3"})
dist.destroy_process_group()
outside = identify({"PROC_RANK": "3"})
for each in inside, outside:
    worker, source = each.worker, each.sources[0]
    print(source.name, source.role, worker.rank, worker.world_size, worker.local_rank)
"""


def test_a_real_group_is_seen_while_it_lives(tmp_path: Path) -> None:
    # Not importorskip: torch is hidden from this process by a fixture, and cannot be imported twice.
    if importlib.util.find_spec("torch") is None:
        pytest.skip("needs torch: pip install 'pytest-gputrace[torch]'")
    command = [sys.executable, "-W", "ignore", "-c", GLOO, str(tmp_path / "store")]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["torch.distributed used 0 1 3", "PROC_RANK used 3 4 3"]


# -- the node label ----------------------------------------------------------------------------------------------------


def test_the_node_is_explicit_then_the_launchers_index_then_the_uniform_one_then_the_host() -> None:
    assert label({**torchrun(9, 16, 8), "GPUTRACE_NODE_ID": "blade 7/ü"}) == "blade 7/ü"
    assert label({**torchrun(9, 16, 8), "GROUP_RANK": "5"}) == "5"
    assert label({**openmpi(9, 16, 1, 8), **slurm(9, 16, 1, 4)}) == "4"
    assert label(openmpi(9, 16, 1, 8)) == "1"
    assert label(openmpi(9, 16, 1)).startswith("box-")


@pytest.mark.parametrize(
    "environ",
    [
        openmpi(9, 15, 1, 8),  # the last node has one worker less
        openmpi(1, 16, 0, 8),  # ranks dealt round the nodes
        openmpi(9, 16, 1, 0),
    ],
)
def test_nodes_that_are_not_filled_one_after_the_other_have_no_index(environ: Environ) -> None:
    assert label(environ).startswith("box-")


def test_ranks_dealt_round_the_nodes_take_the_node_of_the_step_around() -> None:
    assert label({**openmpi(1, 16, 0, 8), **slurm(1, 2, 0, 1)}) == "1"


def test_the_host_label_is_the_name_and_a_short_hash() -> None:
    identity = identify({})
    assert re.fullmatch("box-[a-z2-7]{10}", identity.worker.node)
    assert identity.sources[-1] == Source("hostname", ("hostname=box",), "node", node=identity.worker.node)


@pytest.mark.parametrize(
    "other",
    [{"name": "box2"}, {"machine_id": "4567"}, {"inode": 8}, {"machine_id": None}, {"inode": None}],
)
def test_two_nodes_that_differ_in_one_thing_have_two_labels(other: dict[str, Any], host: Callable[..., None]) -> None:
    here = label()
    host(**other)
    assert label() != here


def test_equal_parts_in_other_places_are_another_label(host: Callable[..., None]) -> None:
    host("box", machine_id="12", inode=3)
    here = label()
    host("box", machine_id="1", dbus=None, inode=23)
    assert label() != here


@pytest.mark.parametrize("machine_id", [None, "", "\n"])
def test_the_machine_id_of_dbus_stands_in(machine_id: str | None, host: Callable[..., None]) -> None:
    host(machine_id=machine_id, dbus="0123\n")
    stands_in = label()
    host(machine_id="0123")
    assert label() == stands_in


def test_a_locked_container_still_has_a_label(host: Callable[..., None]) -> None:
    host("", machine_id=None, inode=None)
    assert re.fullmatch("host-[a-z2-7]{10}", label())
    host("b\udcff", machine_id=None, inode=None)  # a name that is not UTF-8
    assert re.fullmatch("b\udcff-[a-z2-7]{10}", label())


def test_process_boot_and_clock_do_not_change_the_label(monkeypatch: pytest.MonkeyPatch) -> None:
    here = label()
    opened = builtins.open

    def no_boot_id(file: Any, *args: Any, **kwargs: Any) -> Any:
        assert "boot_id" not in str(file)
        return opened(file, *args, **kwargs)

    monkeypatch.setattr(builtins, "open", no_boot_id)
    monkeypatch.setattr(os, "getpid", lambda: 1)
    monkeypatch.setattr(os, "getppid", lambda: 0)
    for clock in ("time", "time_ns", "monotonic", "monotonic_ns"):
        monkeypatch.setattr(time, clock, lambda: 0)
    assert label() == here


def test_the_label_is_a_fixed_function_of_the_host() -> None:
    # A change here renames every baseline of every host.
    assert label() == "box-dheftj3wtz"


# -- coordinates -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "tag"),
    [
        ("DP=1,CP=0,TP=2", "DP1-CP0-TP2"),
        ("TP=2,DP=1", "DP1-TP2"),
        ("EP=4,TP=3,CP=2,PP=1,DP=0", "DP0-PP1-CP2-TP3-EP4"),
        ("PP=0", "PP0"),
        ("", ""),
    ],
)
def test_only_the_coordinates_that_exist_are_in_the_tag(text: str, tag: str) -> None:
    assert identify({"GPUTRACE_COORDINATES": text}).worker.tag == tag
    assert identify({}).worker.coordinates == {}


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("DP", "DP"),
        ("DP=", "DP="),
        ("DP=x", "DP=x"),
        ("DP=²", "DP=²"),
        ("XP=1", "XP=1"),
        ("dp=1", "dp=1"),
        ("DP=1,DP=1", "DP=1"),
        ("DP=1,", ""),
        ("DP=1, TP=2", " TP=2"),
        ("DP=None", "DP=None"),
    ],
)
def test_a_coordinate_that_cannot_be_read_is_an_error(text: str, part: str) -> None:
    with pytest.raises(IdentityError) as caught:
        identify({"GPUTRACE_COORDINATES": text})
    assert str(caught.value) == (
        f"GPUTRACE_COORDINATES={text!r}: {part!r} is not one of DP, PP, CP, TP, EP, given once and with a decimal "
        "number; write for example DP=1,CP=0,TP=2"
    )
    assert caught.value.sources == ("GPUTRACE_COORDINATES",)


# -- for people --------------------------------------------------------------------------------------------------------


def test_describe_lists_the_worker_and_every_source() -> None:
    worker = torchrun(9, 16, 8, TORCHELASTIC_RESTART_COUNT="1")
    environ = {
        **slurm(1, 2, 0, 1),
        **worker,
        "GPUTRACE_COORDINATES": "DP=1,TP=1",
    }
    assert identify(environ, folder_rank=1).describe().splitlines() == [
        "rank 9 of 16, local rank 1 of 8, node 1, coordinates DP1-TP1, restart 1",
        "  used       explicit (GPUTRACE_COORDINATES=DP=1,TP=1)",
        f"  used       torchrun ({' '.join(f'{name}={value}' for name, value in worker.items())})",
        "  outer      Slurm (SLURM_PROCID=1 SLURM_NTASKS=2 SLURM_LOCALID=0 SLURM_NODEID=1 SLURM_STEP_ID=0)",
        "  local      rank folder (rank1)",
    ]


def test_describe_says_so_when_nothing_is_known() -> None:
    identity = identify({})
    assert identity.describe().splitlines() == [
        f"rank 0 of 1, local rank 0, node {identity.worker.node}",
        "  used       default",
        "  node       hostname (hostname=box)",
    ]
