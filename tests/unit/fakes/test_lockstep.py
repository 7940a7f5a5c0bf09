from __future__ import annotations

import contextlib
import fcntl
import os
import signal
import sys
import threading
import time
from typing import TYPE_CHECKING, Literal

import pytest

from pytest_gputrace.errors import ClusterError
from pytest_gputrace.fakes import Cluster, Job, faults
from pytest_gputrace.fakes.isolation import namespaces_refused

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs Linux: simulated nodes")
Identity = Literal["namespaces", "patched"]
RUNS = 20


@pytest.fixture(params=["namespaces", "patched"])
def identity(request: pytest.FixtureRequest) -> Identity:
    wanted: Identity = request.param
    if wanted == "namespaces" and (reason := namespaces_refused()):
        pytest.skip(f"needs namespaces: this machine refuses them: {reason}")
    return wanted


def together(folder: Path, *, ranks: int = 2, patience_s: float = 20.0, **more: object) -> Cluster:
    fault = faults.lockstep(patience_s)
    return Cluster(folder, nodes=1, ranks=ranks, configurations=["c"], faults=[fault], deadline_s=30, **more)  # type: ignore[arg-type]


def free_name(job: Job) -> str:
    """Look for a name that is free, then write: every one of them, when all look first, finds the same."""
    if job.worker.rank:
        time.sleep(0.02)  # without lockstep the first has long written
    name = next(name for name in ("a", "b", "c", "d") if not (job.trace_dir / name).exists())
    (job.trace_dir / name).write_text(str(job.worker.rank))
    return name


@pytest.mark.parametrize("ranks", [2, 4])
def test_who_looks_before_it_writes_collides_in_every_run(tmp_path: Path, identity: Identity, ranks: int) -> None:
    for number in range(RUNS // 2):
        run = together(tmp_path / str(number), ranks=ranks, node_identity=identity).run(free_name)
        assert run.values == ["a"] * ranks
        assert run.struck == {"lockstep(patience_s=20.0)": ranks}
    assert len(set(Cluster(tmp_path / "alone", nodes=1, ranks=2).run(free_name).values)) == 2


def test_a_shared_temporary_name_loses_one_of_two_in_every_run(tmp_path: Path) -> None:
    def publish(job: Job) -> bool:
        beside = job.trace_dir / "x.tmp"
        beside.write_text("[]")
        try:
            os.replace(beside, job.trace_dir / f"{job.worker.rank}.json")
        except FileNotFoundError:
            return False
        return True

    for number in range(RUNS):
        assert sorted(together(tmp_path / str(number)).run(publish, check=False).values) == [False, True]  # type: ignore[type-var]


ACTS: dict[str, Callable[[Path, Path], object]] = {
    "open": lambda mine, name: name.write_text("new"),
    "rename": lambda mine, name: mine.replace(name),
    "link": lambda mine, name: os.link(mine, name),
    "remove": lambda mine, name: name.unlink(),
    "truncate": lambda mine, name: os.truncate(name, 0),
    "mkdir": lambda mine, name: name.mkdir(),
}


@pytest.mark.parametrize("kind", ACTS)
def test_each_kind_of_event_is_a_step(tmp_path: Path, kind: str) -> None:
    """Both look before either acts, though the second looks long after the first could have acted."""
    there_before = kind in ("remove", "truncate")

    def look_then_act(job: Job) -> int | None:
        mine, name = job.rank_dir / "mine", job.trace_dir / "name"
        mine.write_text("mine")
        if job.worker.rank:
            time.sleep(0.05)
        seen = name.stat().st_size if name.exists() else None
        with contextlib.suppress(FileExistsError, FileNotFoundError):
            ACTS[kind](mine, name)
        return seen

    cluster = together(tmp_path)
    if there_before:
        cluster.trace_dir.mkdir()
        (cluster.trace_dir / "name").write_text("old")
    assert cluster.run(look_then_act).values == ([3, 3] if there_before else [None, None])


def test_one_that_ended_no_longer_counts(tmp_path: Path) -> None:
    def unequal(job: Job) -> float:
        if job.worker.rank == 1:
            raise OSError("at once")
        began = time.monotonic()
        for number in range(5 if job.worker.rank == 2 else 2):
            (job.trace_dir / f"{job.worker.rank}-{number}").touch()
        return time.monotonic() - began

    run = together(tmp_path, ranks=3, patience_s=25.0).run(unequal, check=False)
    assert [outcome.ok for outcome in run] == [True, False, True], "nobody waited for the deadline"
    assert [bool(outcome.injected) for outcome in run] == [True, False, True]


def test_who_holds_a_lock_ends_the_lockstep_and_the_run_ends(tmp_path: Path) -> None:
    def locked(job: Job) -> None:
        with (job.trace_dir / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            for number in range(20):
                (job.trace_dir / f"{job.worker.rank}-{number}").touch()

    run = together(tmp_path, patience_s=1.5).run(locked)
    assert run.struck == {"lockstep(patience_s=1.5)": 2}, "they met when they opened the lock"
    assert len(list((tmp_path / "traces").iterdir())) == 41


def test_one_that_was_killed_is_not_waited_for_twice(tmp_path: Path) -> None:
    def dies(job: Job) -> int:
        if job.worker.rank == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        for number in range(100):
            (job.trace_dir / f"{job.worker.rank}-{number}").touch()
        return job.worker.rank

    run = together(tmp_path, ranks=3, patience_s=0.3).run(dies, check=False)
    assert run.values == [0, None, 2], "a hundred waits would pass the deadline"


def test_only_selected_workers_wait(tmp_path: Path) -> None:
    fault = faults.lockstep(20.0, who=lambda job: job.worker.rank < 2)

    def export(job: Job) -> str:
        return "" if job.worker.rank == 2 else free_name(job)

    run = Cluster(tmp_path, nodes=1, ranks=3, faults=[fault], deadline_s=15).run(export)
    assert run.values == ["a", "a", ""]
    assert [bool(outcome.injected) for outcome in run] == [True, True, False]


def test_what_a_worker_forks_goes_its_own_way(tmp_path: Path, identity: Identity) -> None:
    def fork_first(job: Job) -> str:
        pid = os.fork()
        if pid == 0:
            (job.rank_dir / "elsewhere").touch()
            (job.trace_dir / f"child-{job.worker.rank}").touch()
            os._exit(0)
        os.waitpid(pid, 0)
        return free_name(job)

    cluster = together(tmp_path, node_identity=identity)
    assert cluster.run(fork_first).values == ["a", "a"]


def test_threads_of_one_worker_count_together(tmp_path: Path) -> None:
    def export(job: Job) -> None:
        def put(number: int) -> None:
            (job.trace_dir / f"{job.worker.rank}-{number}").touch()

        threads = [threading.Thread(target=put, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    together(tmp_path).run(export)
    assert len(list((tmp_path / "traces").iterdir())) == 8


def test_it_fails_the_run_where_nobody_met(tmp_path: Path) -> None:
    with pytest.raises(ClusterError, match="no two workers came to a file event below the trace folder together"):
        together(tmp_path).run(lambda job: (job.rank_dir.parent / "x").touch())
    fault = faults.lockstep(who=faults.Who(rank=1))
    with pytest.raises(ClusterError, match=r"it selected node0 rank 1 \(.*\) alone, who has nobody to meet"):
        Cluster(tmp_path, nodes=1, faults=[fault]).run(free_name)


def test_it_is_not_for_turns(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"lockstep\(\) needs workers that run side by side; .* turns=True"):
        Cluster(tmp_path, turns=True, faults=[faults.lockstep()])


@pytest.mark.parametrize("patience_s", [0, -1.0, float("nan")])
def test_wrong_patience(patience_s: float) -> None:
    with pytest.raises(ValueError, match=r"lockstep: patience_s=.* above 0"):
        faults.lockstep(patience_s)
