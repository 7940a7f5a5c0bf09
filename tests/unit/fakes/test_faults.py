from __future__ import annotations

import json
import math
import os
import pickle
import signal
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from pytest_gputrace.errors import ClusterError
from pytest_gputrace.fakes import Cluster, Job, faults
from pytest_gputrace.fakes.faults import STALE_ROUND, Fault, Moment, Who
from pytest_gputrace.fakes.files import event_list
from pytest_gputrace.model import Capture, Mark, WorkerId

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs Linux: simulated nodes")


def size(path: Path) -> int | None:
    return path.stat().st_size if path.exists() else None


def captures(path: Path) -> set[Capture]:
    return {mark.capture for event in json.loads(path.read_text()) if (mark := Mark.parse(event["name"]))}


def naive(job: Job) -> dict[str, Any]:
    """Writes the legacy file twice with two files of its own between and after; says what it saw."""
    seen: dict[str, Any] = {"begin": size(job.legacy_path)}
    with job.profiler() as profile:
        pass
    text = json.dumps(event_list(profile.events()))
    job.legacy_path.write_text(text)
    seen["full"] = len(text)
    seen["written"] = size(job.legacy_path)
    (job.trace_dir / f"{job.worker.rank}-a.json").write_text(text)
    seen["after a"] = size(job.legacy_path)
    beside = job.trace_dir / "legacy.tmp"
    beside.write_text(text)
    os.replace(beside, job.legacy_path)
    seen["replaced"] = size(job.legacy_path)
    (job.trace_dir / f"{job.worker.rank}-b.json").write_text(text)
    seen["returned"] = size(job.legacy_path)
    return seen


def one(tmp_path: Path, *given: Fault, **more: Any) -> Cluster:
    return Cluster(tmp_path, nodes=1, ranks=1, configurations=["c"], faults=given, deadline_s=30, **more)


def legacy(cluster: Cluster) -> Path:
    return cluster.trace_dir / "torch-profiler-sb-resnet50-0.json"


def test_truncate_at_start(tmp_path: Path) -> None:
    cluster = one(tmp_path, faults.truncate_legacy("start"))
    run = cluster.run(naive)
    seen = run.values[0]
    assert seen is not None
    assert seen["begin"] == 0
    assert seen["returned"] == seen["full"]
    assert run.outcomes[0].injected == ("truncate_legacy()",)


def test_truncate_when_the_legacy_file_was_written(tmp_path: Path) -> None:
    cluster = one(tmp_path, faults.truncate_legacy("legacy-written", to_bytes=10))
    seen = cluster.run(naive).values[0]
    assert seen is not None
    assert seen["begin"] is None
    assert seen["written"] == seen["full"]
    assert seen["after a"] == 10
    assert seen["returned"] == seen["full"], "it strikes once, and the exporter wrote again"


def test_truncate_when_the_legacy_file_came_by_rename(tmp_path: Path) -> None:
    def rename_last(job: Job) -> None:
        beside = job.trace_dir / "x.tmp"
        beside.write_text("[1, 2, 3]")
        os.replace(beside, job.legacy_path)
        (job.trace_dir / "other.json").touch()
        assert size(job.legacy_path) == 0

    one(tmp_path, faults.truncate_legacy("legacy-written")).run(rename_last)


def test_legacy_written_strikes_at_the_return_when_no_event_follows(tmp_path: Path) -> None:
    def only_legacy(job: Job) -> int | None:
        job.legacy_path.write_text("[]")
        return size(job.legacy_path)

    cluster = one(tmp_path, faults.truncate_legacy("legacy-written"))
    run = cluster.run(only_legacy)
    assert run.values == [2]
    assert size(legacy(cluster)) == 0
    assert run.outcomes[0].injected


def test_a_fault_that_never_struck_is_not_listed(tmp_path: Path) -> None:
    run = one(tmp_path, faults.truncate_legacy("legacy-written")).run(lambda job: (job.trace_dir / "x").touch())
    assert run.outcomes[0].injected == ()


def test_a_legacy_file_that_was_only_read_was_not_written(tmp_path: Path) -> None:
    def read_first(job: Job) -> int | None:
        with job.legacy_path.open():
            (job.trace_dir / "mine").touch()
        return size(job.legacy_path)

    cluster = one(tmp_path, faults.stale_files(), faults.truncate_legacy("legacy-written"))
    run = cluster.run(read_first)
    assert (run.values[0] or 0) > 2
    assert run.outcomes[0].injected == ()


def test_another_workers_writing_is_not_this_workers(tmp_path: Path) -> None:
    def foreign(job: Job) -> int | None:
        # Another process writes the name; this one only goes on to its own file.
        subprocess.run(["sh", "-c", 'printf "[]" > "$0"', job.legacy_path], check=True, timeout=20)
        (job.trace_dir / "mine").touch()
        return size(job.legacy_path)

    assert one(tmp_path, faults.truncate_legacy("legacy-written")).run(foreign).values == [2]


def test_truncate_at_every_open(tmp_path: Path) -> None:
    cluster = one(tmp_path, faults.truncate_legacy("every-open"))
    seen = cluster.run(naive).values[0]
    assert seen is not None
    assert seen["begin"] is None, "cutting makes no file"
    assert seen["after a"] == 0
    assert seen["replaced"] == seen["full"]
    assert seen["returned"] == 0


def test_truncate_at_the_end(tmp_path: Path) -> None:
    cluster = one(tmp_path, faults.truncate_legacy("end", to_bytes=3))
    seen = cluster.run(naive).values[0]
    assert seen is not None
    assert seen["after a"] == seen["returned"] == seen["full"]
    assert size(legacy(cluster)) == 3


@pytest.mark.parametrize("moment", ["legacy-written", "every-open", "end"])
def test_overwrite_leaves_another_workers_whole_capture(tmp_path: Path, moment: Moment) -> None:
    def export(job: Job) -> set[Capture]:
        with job.profiler() as profile:
            pass
        job.legacy_path.write_text(json.dumps(event_list(profile.events())))
        (job.trace_dir / f"mine-{job.worker.rank}").touch()
        return captures(job.legacy_path)

    fault = faults.overwrite_legacy(moment, who=Who(rank=0))
    cluster = Cluster(tmp_path, nodes=1, ranks=2, configurations=["c"], faults=[fault])
    run = cluster.run(export)
    mine, other = Capture("node0", 0, "c"), Capture("node0", 1, "c")
    assert run.values == [{mine if moment == "end" else other}, {other}]
    assert captures(legacy(cluster)) == {other}
    assert all(record.keys() == json.loads(legacy(cluster).read_text())[0].keys() for record in event_list([]))
    assert [outcome.injected for outcome in run] == [(f"overwrite_legacy(who=Who(rank=0), at={moment!r})",), ()]


def test_overwrite_at_start(tmp_path: Path) -> None:
    run = one(tmp_path, faults.overwrite_legacy("start")).run(lambda job: captures(job.legacy_path))
    assert run.values == [{Capture("node0", 0, "c-other")}], "a worker that is alone meets another configuration"


def steps(job: Job) -> int:
    (job.trace_dir / "called").touch()
    job.legacy_path.write_text("[]")
    (job.trace_dir / "after").touch()
    return 1


@pytest.mark.parametrize(
    ("when", "left"),
    [
        ("start", set()),
        ("every-open", set()),
        (1, set()),
        (2, {"called"}),
        (3, {"called", "legacy"}),
        ("legacy-written", {"called", "legacy"}),
        ("end", {"called", "legacy", "after"}),
    ],
)
@pytest.mark.parametrize("identity", ["auto", "patched"])
def test_sigkill_at_a_moment(tmp_path: Path, when: Any, left: set[str], identity: Any) -> None:
    cluster = one(tmp_path, faults.sigkill(when), node_identity=identity)
    outcome = cluster.run(steps, check=False).outcomes[0]
    assert outcome.signal is signal.SIGKILL
    assert outcome.value is None
    names = {"legacy" if path == legacy(cluster) else path.name for path in cluster.trace_dir.iterdir()}
    assert names == left


def test_sigkill_in_the_middle_of_a_write(tmp_path: Path) -> None:
    def export(job: Job) -> None:
        target = job.trace_dir / "big.json"
        beside = job.trace_dir / "big.tmp"
        try:
            with beside.open("wb", buffering=0) as stream:
                stream.write(b"x" * 700)
                stream.write(b"y" * 700)
                stream.write(b"z" * 700)
            os.replace(beside, target)
        finally:
            beside.unlink(missing_ok=True)

    fault = faults.sigkill(at_byte=1000, who=Who(rank=1))
    cluster = Cluster(tmp_path, nodes=1, shared_trace_dir=False, faults=[fault])
    run = cluster.run(export, check=False)
    assert [outcome.signal for outcome in run] == [None, signal.SIGKILL]
    assert not (cluster.trace_dirs[1] / "big.json").exists()
    assert (cluster.trace_dirs[1] / "big.tmp").read_bytes() == b"x" * 700 + b"y" * 300
    assert not list(tmp_path.rglob("core*"))


def test_sigkill_in_one_large_buffered_write(tmp_path: Path) -> None:
    def export(job: Job) -> None:
        try:
            job.legacy_path.write_text("a" * 500_000)
        except BaseException:
            (job.trace_dir / "handler").touch()
            raise

    cluster = one(tmp_path, faults.sigkill(at_byte=12345))
    assert cluster.run(export, check=False).outcomes[0].signal is signal.SIGKILL
    assert [path.stat().st_size for path in cluster.trace_dir.iterdir()] == [12345]


def test_a_file_below_the_limit_is_safe_and_the_result_may_be_larger(tmp_path: Path) -> None:
    def export(job: Job) -> bytes:
        job.legacy_path.write_text("[]")
        return b"r" * 5000

    assert one(tmp_path, faults.sigkill(at_byte=100)).run(export).values == [b"r" * 5000]


def test_sigkill_refuses_to_kill_the_test(tmp_path: Path) -> None:
    job = Job("m", "c", WorkerId("node0", 0, 0, 1), tmp_path, tmp_path)
    for fault in (faults.sigkill("start"), faults.sigkill(at_byte=1)):
        with pytest.raises(RuntimeError, match=r"hand it to Cluster\(faults=\.\.\.\)"), fault.applied(job):
            raise AssertionError("applied")


def test_a_fault_can_be_applied_in_process(tmp_path: Path) -> None:
    job = Job("m", "c", WorkerId("node0", 0, 0, 1), tmp_path, tmp_path)
    with faults.truncate_legacy("legacy-written").applied(job) as record:
        job.legacy_path.write_text("[]")
        (tmp_path / "next").touch()
        assert size(job.legacy_path) == 0
    assert record is not None
    assert record.fired == 1
    job.legacy_path.write_text("[]")
    (tmp_path / "later").touch()
    assert size(job.legacy_path) == 2, "the fault is over"


def test_equal_hosts(tmp_path: Path) -> None:
    import socket

    cluster = Cluster(tmp_path, ranks=1, faults=[faults.equal_hosts("localhost")])
    run = cluster.run(lambda job: (socket.gethostname(), os.getpid(), job.worker.node))
    assert run.values == [("localhost", 2, "node0"), ("localhost", 2, "node1")]
    assert len(set(cluster.expected)) == 2


def test_stale_files_are_there_before_the_start(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path, nodes=1, configurations=["c"], faults=[faults.stale_files()])
    run = cluster.run(lambda job: sorted(path.name for path in job.trace_dir.iterdir()))
    names = run.values[0] or []
    assert len(names) == 4
    assert "torch-profiler-sb-resnet50-1.json" in names
    stale = {Capture("node0", rank, "c", STALE_ROUND) for rank in (0, 1)}
    assert captures(legacy(cluster)) <= stale
    traces = [json.loads(path.read_text()) for path in cluster.trace_dir.glob("*.pt.trace.json")]
    marks = [Mark.parse(event["name"]) for trace in traces for event in trace["traceEvents"] if event["ph"] == "X"]
    assert {mark.capture for mark in marks if mark} == stale
    assert not stale & set(cluster.expected)


def test_bad_values(tmp_path: Path) -> None:
    def values(job: Job) -> list[Any]:
        with job.profiler() as profile:
            pass
        return [value for event in profile.events() for value in event.concrete_inputs if not isinstance(value, list)]

    def held(*given: Fault) -> list[Any]:
        return one(tmp_path, *given).run(values).values[0] or []

    found = held(faults.bad_values())
    assert {math.inf, -math.inf, 1 + 2j} <= set(found)
    assert any(isinstance(value, float) and math.isnan(value) for value in found)
    assert -math.inf not in held(faults.bad_values(math.inf))
    assert math.inf not in held()


def test_who_selects(tmp_path: Path) -> None:
    fault = faults.truncate_legacy("start", who=lambda job: job.worker.rank > 1 and job.configuration == "b")
    run = Cluster(tmp_path, configurations=["a", "b"], faults=[fault]).run(lambda job: None)
    struck = [(o.job.worker.rank, o.job.configuration) for o in run if o.injected]
    assert struck == [(2, "b"), (3, "b")]
    who = Who(node="node1", configuration="a")
    assert [who(o.job) for o in run] == [False, False, False, False, True, False, True, False]


ALL = [
    (
        faults.truncate_legacy("end", 5, Who(node="node1")),
        "truncate_legacy(who=Who(node='node1'), at='end', to_bytes=5)",
    ),
    (faults.overwrite_legacy("every-open"), "overwrite_legacy(at='every-open')"),
    (faults.sigkill(at_byte=7), "sigkill(at_byte=7)"),
    (faults.sigkill(3), "sigkill(at=3)"),
    (faults.equal_hosts("h"), "equal_hosts(hostname='h')"),
    (faults.stale_files(), "stale_files()"),
    (faults.bad_values(math.inf), "bad_values(values=(inf,))"),
]


@pytest.mark.parametrize(("fault", "text"), ALL)
def test_faults_read_well_and_can_be_pickled(fault: Fault, text: str) -> None:
    assert str(fault) == text
    assert pickle.loads(pickle.dumps(fault)) == fault


def test_wrong_moments() -> None:
    with pytest.raises(ValueError, match="'begin' is not one of start, legacy-written, every-open, end"):
        faults.truncate_legacy("begin")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="either a moment"):
        faults.sigkill()
    with pytest.raises(ValueError, match="either a moment"):
        faults.sigkill("start", at_byte=1)


def test_a_failure_names_the_faults(tmp_path: Path) -> None:
    with pytest.raises(ClusterError, match=r"faults: sigkill\(at='start'\)"):
        one(tmp_path, faults.sigkill("start")).run(lambda job: None)
