from __future__ import annotations

import functools
import os
import platform
import signal
import socket
import sys
import threading
import warnings
from typing import TYPE_CHECKING, Any, Literal

import pytest

from pytest_gputrace.errors import ClusterError
from pytest_gputrace.fakes import Cluster, Job, faults, make_rank_dirs
from pytest_gputrace.fakes.isolation import _probe, namespaces_refused
from pytest_gputrace.model import Capture, Mark

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs Linux: simulated nodes")
Identity = Literal["namespaces", "patched"]


@pytest.fixture(params=["namespaces", "patched"])
def identity(request: pytest.FixtureRequest) -> Identity:
    wanted: Identity = request.param
    if wanted == "namespaces" and (reason := namespaces_refused()):
        pytest.skip(f"needs namespaces: this machine refuses them: {reason}")
    return wanted


def who_am_i(job: Job) -> dict[str, Any]:
    return {
        "hosts": {socket.gethostname(), os.uname().nodename, platform.node(), platform.uname().node},
        "pid": os.getpid(),
        "namespace": os.stat("/proc/self/ns/pid").st_ino,
        "link": os.readlink("/proc/self/ns/pid"),
        "cwd": os.getcwd(),
        "environment": dict(os.environ),
    }


def test_each_worker_has_its_folder_host_and_pid(tmp_path: Path, identity: Identity) -> None:
    platform.node()  # remembered by platform before the fork
    cluster = Cluster(tmp_path, configurations=["a:b/c", "d"], hostnames=["alpha", "beta"], node_identity=identity)
    run = cluster.run(who_am_i)
    assert run.node_identity == identity
    assert len(run) == 8
    pids: dict[str, list[int]] = {"node0": [], "node1": []}
    for outcome in run:
        value, worker = outcome.value, outcome.job.worker
        assert value is not None
        folder = f"{worker.node}/benchmarks/{outcome.job.configuration}/rank{worker.local_rank}"
        assert value["cwd"] == str(tmp_path / folder)
        assert value["hosts"] == {{"node0": "alpha", "node1": "beta"}[worker.node]}
        assert value["link"] == f"pid:[{value['namespace']}]"
        pids[worker.node].append(value["pid"])
    assert pids["node0"] == pids["node1"] == [2, 3, 4, 5]
    first, second = run.of("node0", 0, "d").value, run.of("node1", 2, "d").value
    assert first is not None
    assert second is not None
    assert first["namespace"] != second["namespace"]


def test_the_environment_is_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("SLURM_PROCID", "PROC_RANK", "OMPI_COMM_WORLD_RANK", "PYTEST_XDIST_WORKER", "OUTER"):
        monkeypatch.setenv(name, "99")
    run = Cluster(tmp_path, env={"EXTRA": "1", "MASTER_PORT": "1234"}).run(who_am_i)
    value = run.of("node1", 3).value
    assert value is not None
    environment = value["environment"]
    assert environment["RANK"] == "3"
    assert environment["LOCAL_RANK"] == "1"
    assert environment["GROUP_RANK"] == "1"
    assert environment["EXTRA"] == "1"
    assert environment["MASTER_PORT"] == "1234", "the user's variables come last"
    assert environment["PATH"] == os.environ["PATH"]
    assert "99" not in environment.values()


@pytest.mark.parametrize(
    ("launcher", "name"),
    [("slurm", "SLURM_PROCID"), ("mpi", "OMPI_COMM_WORLD_RANK"), ("local", "PROC_RANK")],
)
def test_the_launchers_variables_arrive(tmp_path: Path, launcher: Any, name: str) -> None:
    run = Cluster(tmp_path, launcher=launcher).run(lambda job: os.environ[name])
    assert run.values == (["0", "1", "0", "1"] if launcher == "local" else ["0", "1", "2", "3"])


def test_nothing_of_the_parent_changes(tmp_path: Path) -> None:
    before = os.getcwd(), dict(os.environ), socket.gethostname(), signal.getsignal(signal.SIGTERM), set(fds())
    Cluster(tmp_path).run(lambda job: os.environ.update(X="1"))
    after = os.getcwd(), dict(os.environ), socket.gethostname(), signal.getsignal(signal.SIGTERM), set(fds())
    assert after == before


def fds() -> list[str]:
    return os.listdir("/proc/self/fd")


class Exporter:
    def __init__(self, text: str) -> None:
        self.text = text

    def export(self, job: Job) -> str:
        return f"{self.text}{job.worker.rank}"


def test_any_callable_will_do(tmp_path: Path) -> None:
    lock = threading.Lock()  # cannot be pickled: what the function holds must not have to travel

    def closure(job: Job) -> str:
        with lock:
            return f"c{job.worker.rank}"

    cluster = Cluster(tmp_path, nodes=1)
    assert cluster.run(closure).values == ["c0", "c1"]
    assert cluster.run(lambda job: f"l{job.worker.rank}").values == ["l0", "l1"]
    assert cluster.run(Exporter("b").export).values == ["b0", "b1"]
    assert cluster.run(functools.partial(lambda text, job: text, "p")).values == ["p", "p"]


def test_expected_names_every_capture_once(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path, configurations=["a", "b"], rounds=2)
    assert len(cluster.expected) == len(set(cluster.expected)) == 16
    assert cluster.expected[-1] == Capture("node1", 3, "b", 1)
    run = cluster.run(lambda job: [job.capture(round) for round in range(job.rounds)])
    assert [capture for value in run.values for capture in value or []] == cluster.expected


def test_profiles_carry_the_workers_marks_round_by_round(tmp_path: Path) -> None:
    def profile(job: Job) -> set[Capture]:
        found = set()
        for _ in range(job.rounds):
            with job.profiler() as one:
                pass
            found |= {mark.capture for event in one.events() if (mark := Mark.parse(event.name))}
        return found

    cluster = Cluster(tmp_path, rounds=2, configurations=["a", "b"])
    captures = [capture for value in cluster.run(profile).values for capture in value or ()]
    assert sorted(captures) == sorted(cluster.expected)


def test_torch_looks_like_a_gpu_build_in_a_worker_and_its_operations_run(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch", reason="needs torch: compares with the real one")
    torch.ones(256, 256).mm(torch.ones(256, 256))  # the parent's thread pool exists, and does not survive the fork

    def look(job: Job) -> tuple[bool, bool, float, set[Capture]]:
        total = float(torch.ones(512, 512).mm(torch.ones(512, 512)).sum())
        with torch.profiler.profile() as one:
            pass
        found = {mark.capture for event in one.events() if (mark := Mark.parse(event.name))}
        return torch.cuda.is_available(), bool(torch.version.hip), total, found

    run = Cluster(tmp_path, nodes=1, vendor="hip").run(look)
    assert run.values == [(True, True, 512.0**3, {outcome.job.capture()}) for outcome in run]
    assert not torch.version.hip


def test_a_shared_and_a_private_trace_folder(tmp_path: Path) -> None:
    def put(job: Job) -> str:
        (job.trace_dir / job.legacy_name).touch()
        return job.legacy_name

    shared = Cluster(tmp_path / "shared", model="bert")
    names = shared.run(put).values
    assert names == [f"torch-profiler-sb-bert-{rank}.json" for rank in (0, 1, 0, 1)]
    assert shared.trace_dirs == [shared.trace_dir] == [tmp_path / "shared" / "traces"]
    assert len(list(shared.trace_dir.iterdir())) == 2, "two nodes collide in the legacy names, as in SuperBench"
    private = Cluster(tmp_path / "private", shared_trace_dir=False)
    private.run(put)
    assert [len(list(folder.iterdir())) for folder in private.trace_dirs] == [1, 1, 1, 1]
    assert private.trace_dir == private.root
    given = Cluster(tmp_path / "given", trace_dir=tmp_path / "mine")
    assert given.run(lambda job: str(job.trace_dir)).values == [str(tmp_path / "mine")] * 4


def test_workers_start_together(tmp_path: Path) -> None:
    run = Cluster(tmp_path, ranks=4).run(lambda job: None)
    starts = [outcome.started_ns or 0 for outcome in run]
    ends = [outcome.ended_ns or 0 for outcome in run]
    assert all(0 < start <= end for start, end in zip(starts, ends, strict=True))
    assert max(starts) - min(starts) < 2_000_000_000


def test_output_goes_to_each_workers_log(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    def talk(job: Job) -> None:
        sys.stdout.write(f"hello {job.worker.rank}\n")
        os.write(2, b"raw\n")

    run = Cluster(tmp_path).run(talk)
    assert sorted(outcome.log.read_text() for outcome in run)[3] in {"hello 3\nraw\n", "raw\nhello 3\n"}
    assert capfd.readouterr() == ("", "")


def test_a_second_run_keeps_the_first_ones_logs(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path, nodes=1, ranks=1)
    first = cluster.run(lambda job: sys.stdout.write("one"))
    second = cluster.run(lambda job: sys.stdout.write("two"))
    assert [run.outcomes[0].log.read_text() for run in (first, second)] == ["one", "two"]


def test_it_works_beside_threads_and_warns_nothing(tmp_path: Path) -> None:
    stop = threading.Event()
    thread = threading.Thread(target=stop.wait)
    thread.start()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert Cluster(tmp_path, nodes=1).run(lambda job: 1).values == [1, 1]
    finally:
        stop.set()
        thread.join()


def test_a_fork_beside_threads_warns_nothing_on_new_pythons(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.fork

    def fork() -> int:  # as Python 3.12 does
        message = "This process (pid=1) is multi-threaded, use of fork() may lead to deadlocks in the child."
        warnings.warn(message, DeprecationWarning, stacklevel=2)
        return real()

    monkeypatch.setattr(os, "fork", fork)
    assert Cluster(tmp_path, nodes=1).run(lambda job: 1).values == [1, 1]


def test_a_user_namespace_serves_who_is_not_root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if reason := _probe("user"):
        pytest.skip(f"needs namespaces: this machine refuses those of users: {reason}")
    monkeypatch.setattr("pytest_gputrace.fakes.cluster.namespaces", lambda: ("user", ""))
    run = Cluster(tmp_path, hostnames=["a", "b"]).run(lambda job: (socket.gethostname(), os.getpid(), os.getuid()))
    uid = os.getuid()
    assert run.values == [("a", 2, uid), ("a", 3, uid), ("b", 2, uid), ("b", 3, uid)]


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"nodes": 0}, "at least 1"),
        ({"launcher": "srun"}, "'srun' is not one of"),
        ({"configurations": ["a", "a"]}, "given twice"),
        ({"hostnames": ["x"]}, "1 host names for 2 nodes"),
        ({"shared_trace_dir": False, "trace_dir": "x"}, "trace_dir is the shared folder"),
        ({"ranks": -1}, "ranks=-1 must be at least 1"),
        ({"rounds": 0}, "rounds=0 must be at least 1"),
        ({"configurations": []}, "must be at least 1"),
        ({"launcher": "torchrum"}, "did you mean 'torchrun'"),
        ({"vendor": "rocm"}, "vendor 'rocm' is not one of cuda, hip"),
        (
            {"node_identity": "namespace"},
            "'namespace' is not one of auto, namespaces, patched; did you mean 'namespaces'",
        ),
        ({"deadline_s": 0}, "deadline_s=0 must be"),
        ({"deadline_s": float("nan")}, "deadline_s=nan must be"),
        ({"deadline_s": float("inf")}, "deadline_s=inf must be"),
        ({"model": ""}, "model is empty"),
        ({"hostnames": ["a", ""]}, "host name is empty"),
        ({"faults": [faults.equal_hosts("x" * 65)]}, "longer than 64 bytes"),
        ({"env": {"A=B": "1"}}, "no system takes such a variable"),
        ({"legacy_name": "{models}.json"}, r"the field \{models\}; known are \{model\}.*did you mean 'model'"),
        ({"legacy_name": "{}.json"}, r"the field \{\}; known are"),
        ({"legacy_name": "{model.x}"}, r"the field \{model\.x\}"),
        ({"legacy_name": "{model"}, "is no template"),
        ({"legacy_name": "{model:d}"}, "is no template"),
        ({"legacy_name": ""}, "legacy_name is empty"),
        ({"legacy_name": "/x"}, "must name a file below the trace folder"),
        ({"legacy_name": "{model}", "model": "../x"}, r"gives '\.\./x'"),
    ],
)
def test_wrong_arguments(tmp_path: Path, wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Cluster(tmp_path, **wrong)


WRONG_TYPES: list[tuple[dict[str, Any], str]] = [
    ({"configurations": "a"}, r"configurations='a' is one text; give a list of them: configurations=\['a'\]"),
    ({"configurations": 3}, "configurations=3 must be a list of texts"),
    ({"configurations": ["a", 3]}, "configuration=3 must be a text"),
    ({"nodes": "2"}, "nodes='2' must be a whole number of at least 1, not a str"),
    ({"ranks": 2.0}, r"ranks=2\.0 must be a whole number"),
    ({"rounds": True}, "rounds=True must be a whole number"),
    ({"model": None}, "model=None must be a text"),
    ({"legacy_name": 3}, "legacy_name=3 must be a text"),
    ({"hostnames": "ab"}, "hostnames='ab' is one text"),
    ({"hostnames": ["a", 1]}, "host name=1 must be a text"),
    ({"deadline_s": "3"}, "deadline_s='3' must be a number of seconds above 0"),
    ({"shared_trace_dir": "no"}, "shared_trace_dir='no' must be True or False"),
    ({"env": ["A"]}, r"env=\['A'\] must be a mapping"),
    ({"env": {"A": 1}}, "env: 'A'=1 must be a text"),
    ({"faults": "truncate_legacy"}, "faults='truncate_legacy' is no list of faults; give a list"),
    ({"faults": ["sigkill"]}, "'sigkill' is no fault"),
    ({"faults": [faults.equal_hosts]}, "equal_hosts was not called"),
    ({"faults": faults.equal_hosts}, "equal_hosts was not called"),
    ({"faults": faults.equal_hosts()}, r"is one fault; give a list: faults=\[equal_hosts\(\)\]"),
]


@pytest.mark.parametrize(("wrong", "message"), WRONG_TYPES, ids=range(len(WRONG_TYPES)))
def test_arguments_of_a_wrong_kind(tmp_path: Path, wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(TypeError, match=f"^Cluster: .*{message}"):
        Cluster(tmp_path, **wrong)


@pytest.mark.parametrize("name", ["", "/a", "a//b", "a/", "./a", "a/..", "a\0", "a\nb", "\ud800", "x" * 256])
def test_configurations_that_are_no_folder(tmp_path: Path, name: str) -> None:
    with pytest.raises(ValueError, match="Cluster: configuration "):
        Cluster(tmp_path, configurations=["ok", name])
    with pytest.raises(ValueError, match="make_rank_dirs: configuration "):
        make_rank_dirs(tmp_path, [name], 1)


def test_configurations_with_spaces_colons_and_slashes_are_fine(tmp_path: Path) -> None:
    names = ["a b:c/d", "...", "\u00e9", "a\\b"]
    run = Cluster(tmp_path, nodes=1, ranks=1, configurations=names, node_identity="patched").run(
        lambda job: os.getcwd()
    )
    assert run.values == [str(tmp_path / "node0" / "benchmarks" / name / "rank0") for name in names]


@pytest.mark.parametrize("thing", [None, 3, "export"])
def test_only_what_can_be_called_is_run(tmp_path: Path, thing: Any) -> None:
    with pytest.raises(TypeError, match="cannot be called; give the function itself"):
        Cluster(tmp_path).run(thing)
    assert list(tmp_path.iterdir()) == []


def test_namespaces_that_are_refused_are_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pytest_gputrace.fakes.cluster.namespaces", lambda: (None, "unshare: not permitted"))
    with pytest.raises(ClusterError, match="refuses namespaces: unshare: not permitted"):
        Cluster(tmp_path, node_identity="namespaces").run(lambda job: 1)
    assert Cluster(tmp_path, nodes=1).run(lambda job: 1).node_identity == "patched"


def test_a_process_group_that_torch_tells_of(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch", reason="needs torch: its process group is the subject")

    def ask(job: Job) -> tuple[bool, int, int, str]:
        torch.distributed.barrier()
        group = torch.distributed
        return group.is_initialized(), group.get_rank(), group.get_world_size(), group.get_backend()

    run = Cluster(tmp_path, process_group=True).run(ask)
    assert run.values == [(True, rank, 4, "gloo") for rank in range(4)]
    assert not torch.distributed.is_initialized()
    assert Cluster(tmp_path, nodes=1, ranks=1).run(lambda job: torch.distributed.is_initialized()).values == [False]
