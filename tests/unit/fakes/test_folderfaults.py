from __future__ import annotations

import os
import shutil
import signal
import stat
import sys
from typing import TYPE_CHECKING, Literal

import pytest

from pytest_gputrace.errors import ClusterError
from pytest_gputrace.fakes import Cluster, Job, faults
from pytest_gputrace.fakes.capabilities import CAP_DAC_OVERRIDE, without_capability
from pytest_gputrace.fakes.isolation import namespaces_refused

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


def mode(folder: Path) -> int:
    return stat.S_IMODE(folder.stat().st_mode)


def attempts(job: Job) -> dict[str, str]:
    """What each way to change the folder says."""
    old = job.trace_dir / "old"
    ways = {
        "make": lambda: (job.trace_dir / "new").touch(),
        "mkdir": lambda: (job.trace_dir / "sub").mkdir(),
        "rename": lambda: os.replace(job.rank_dir / "mine", job.trace_dir / "mine"),
        "link": lambda: os.link(job.rank_dir / "mine", job.trace_dir / "mine"),
        "remove": lambda: old.unlink(),
        "write": lambda: old.write_text("changed"),
        "list": lambda: os.listdir(job.trace_dir),
    }
    (job.rank_dir / "mine").touch()
    said = {}
    for name, way in ways.items():
        try:
            way()  # type: ignore[no-untyped-call]
        except OSError as error:
            said[name] = type(error).__name__
        else:
            said[name] = "ok"
    return said


def test_a_read_only_folder_takes_and_loses_no_name(tmp_path: Path, identity: Identity) -> None:
    cluster = Cluster(tmp_path, nodes=1, ranks=1, faults=[faults.read_only()], node_identity=identity)
    cluster.trace_dir.mkdir(mode=0o750)
    (cluster.trace_dir / "old").touch()
    run = cluster.run(attempts)
    refused = dict.fromkeys(["make", "mkdir", "rename", "link", "remove"], "PermissionError")
    assert run.values == [{**refused, "write": "ok", "list": "ok"}]
    assert run.struck == run.selected == {"read_only()": 1}
    assert mode(cluster.trace_dir) == 0o750
    assert [path.name for path in cluster.trace_dir.iterdir()] == ["old"]


def test_the_modes_come_back_when_a_worker_is_killed_and_when_the_run_fails(tmp_path: Path) -> None:
    def die(job: Job) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    given = [faults.read_only()]
    cluster = Cluster(tmp_path / "a", nodes=1, faults=given, shared_trace_dir=False)
    run = cluster.run(die, check=False)
    assert [outcome.signal for outcome in run] == [signal.SIGKILL] * 2
    assert [mode(folder) & stat.S_IWUSR for folder in cluster.trace_dirs] == [stat.S_IWUSR] * 2
    late = Cluster(tmp_path / "b", nodes=1, faults=given, deadline_s=0.5)
    with pytest.raises(ClusterError, match="the deadline passed"):
        late.run(lambda job: signal.pause())
    assert mode(late.trace_dir) & stat.S_IWUSR


def test_a_worker_that_is_not_selected_keeps_roots_power(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("needs root: for any other user the mode holds for all who share the folder")

    def put(job: Job) -> bool:
        try:
            (job.trace_dir / f"{job.worker.rank}").touch()
        except PermissionError:
            return False
        return True

    fault = faults.read_only(who=faults.Who(rank=1))
    assert Cluster(tmp_path, nodes=1, faults=[fault]).run(put).values == [True, False]


def test_the_result_and_a_removed_folder_are_no_problem(tmp_path: Path) -> None:
    def remove(job: Job) -> bytes:
        os.chmod(job.trace_dir, 0o700)
        shutil.rmtree(job.trace_dir)
        return b"x" * 100_000

    run = Cluster(tmp_path, nodes=1, ranks=1, faults=[faults.read_only()]).run(remove)
    assert run.values == [b"x" * 100_000]


def effective() -> int:
    with open("/proc/thread-self/status") as stream:
        return next(int(line.split()[1], 16) for line in stream if line.startswith("CapEff"))


def test_a_capability_comes_back(tmp_path: Path) -> None:
    before = effective()
    with without_capability(CAP_DAC_OVERRIDE):
        assert effective() == before & ~(1 << CAP_DAC_OVERRIDE)
        with without_capability(CAP_DAC_OVERRIDE):
            assert effective() == before & ~(1 << CAP_DAC_OVERRIDE)
        assert effective() == before & ~(1 << CAP_DAC_OVERRIDE)
    assert effective() == before


def test_a_folder_whose_mode_cannot_be_changed_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: Path, mode: int) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr("pathlib.Path.chmod", refuse)
    with pytest.raises(ClusterError, match=r"^read_only\(\): the mode of .*/traces cannot be changed: .*not permitted"):
        Cluster(tmp_path, faults=[faults.read_only()]).run(lambda job: None)


def test_a_missing_folder_is_not_there_at_the_start(tmp_path: Path, identity: Identity) -> None:
    def export(job: Job) -> str:
        try:
            (job.trace_dir / "x").write_text("[]")
        except FileNotFoundError:
            job.trace_dir.mkdir(exist_ok=True)
            return "made"
        return "was there"

    cluster = Cluster(tmp_path, nodes=1, ranks=1, faults=[faults.missing_folder()] * 2, node_identity=identity)
    run = cluster.run(export)
    assert run.values == ["made"]
    assert run.struck == {"missing_folder()": 1}
    assert cluster.trace_dir.is_dir()


def test_a_missing_folder_must_be_empty_until_then(tmp_path: Path) -> None:
    called = tmp_path / "called"
    cluster = Cluster(tmp_path, nodes=1, faults=[faults.missing_folder(), faults.stale_files()])
    with pytest.raises(
        ClusterError, match=r"^missing_folder\(\): the trace folder .* it is not empty; use it on a first"
    ):
        cluster.run(lambda job: called.touch())
    assert not called.exists()
    assert len(list(cluster.trace_dir.iterdir())) == 4, "what lay there stays"


def test_a_folder_that_cannot_be_taken_away_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: Path) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr("pathlib.Path.rmdir", refuse)
    with pytest.raises(ClusterError, match=r"cannot be taken away: .*Operation not permitted"):
        Cluster(tmp_path, faults=[faults.missing_folder()]).run(lambda job: None)


def test_a_worker_cannot_run_in_a_missing_folder(tmp_path: Path) -> None:
    with pytest.raises(ClusterError, match=r"node0 rank 0 .* runs in its trace folder"):
        Cluster(tmp_path, shared_trace_dir=False, faults=[faults.missing_folder()]).run(lambda job: None)
