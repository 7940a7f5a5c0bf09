from __future__ import annotations

import contextlib
import dataclasses
import functools
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
    from collections.abc import Callable, Iterator, Sequence
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
    run = one(tmp_path, faults.truncate_legacy("legacy-written")).run(
        lambda job: (job.trace_dir / "x").touch(), check=False
    )
    assert run.outcomes[0].injected == ()


def test_a_legacy_file_that_was_only_read_was_not_written(tmp_path: Path) -> None:
    def read_first(job: Job) -> int | None:
        with job.legacy_path.open():
            (job.trace_dir / "mine").touch()
        return size(job.legacy_path)

    cluster = one(tmp_path, faults.stale_files(), faults.truncate_legacy("legacy-written"))
    run = cluster.run(read_first, check=False)
    assert (run.values[0] or 0) > 2
    assert run.outcomes[0].injected == ()


def test_another_workers_writing_is_not_this_workers(tmp_path: Path) -> None:
    def foreign(job: Job) -> int | None:
        # Another process writes the name; this one only goes on to its own file.
        subprocess.run(["sh", "-c", 'printf "[]" > "$0"', job.legacy_path], check=True, timeout=20)
        (job.trace_dir / "mine").touch()
        return size(job.legacy_path)

    assert one(tmp_path, faults.truncate_legacy("legacy-written")).run(foreign, check=False).values == [2]


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

    assert one(tmp_path, faults.sigkill(at_byte=100)).run(export, check=False).values == [b"r" * 5000]


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
    (faults.lockstep(), "lockstep()"),
    (faults.frozen_clock(5.0, who=Who(rank=1)), "frozen_clock(who=Who(rank=1), epoch_s=5.0)"),
    (faults.disk_full(100), "disk_full(at_byte=100)"),
    (faults.read_only(), "read_only()"),
    (faults.refused_names(), "refused_names()"),
    (faults.missing_folder(), "missing_folder()"),
    (faults.empty_profile(), "empty_profile()"),
    (faults.stolen_session(), "stolen_session()"),
    (faults.hostile_names(), "hostile_names()"),
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


def own_name(job: Job) -> None:
    (job.trace_dir / f"mine-{job.worker.node}-{job.worker.rank}.json").write_text("[1, 2, 3]")


IDLE: list[tuple[Fault, str]] = [
    (faults.truncate_legacy("legacy-written"), "it looked for torch-profiler-sb-resnet50-0.json, torch-profiler-sb-"),
    (faults.truncate_legacy("every-open"), "legacy_name="),
    (faults.truncate_legacy("end"), "legacy_name="),
    (faults.overwrite_legacy("legacy-written"), "legacy_name="),
    (faults.overwrite_legacy("every-open"), "legacy_name="),
    (faults.overwrite_legacy("end"), "after the return it was not there"),
    (faults.sigkill("legacy-written"), "legacy_name="),
    (faults.sigkill(99), "no worker came to file event 99"),
    (faults.sigkill(at_byte=10**9), "no file grew past 1000000000 bytes"),
]


@pytest.mark.parametrize(("fault", "why"), IDLE, ids=[str(fault) for fault, _ in IDLE])
def test_a_fault_that_struck_nobody_fails_the_run(tmp_path: Path, fault: Fault, why: str) -> None:
    cluster = Cluster(tmp_path, nodes=1, ranks=2, faults=[fault, faults.equal_hosts()], node_identity="patched")
    with pytest.raises(ClusterError) as caught:
        cluster.run(own_name)
    text = str(caught.value)
    assert "1 of 2 faults struck nobody" in text
    assert f"{fault} never struck any of the 2 it selected: " in text
    assert why in text
    assert "check=False" in text
    run = cluster.run(own_name, check=False)
    assert run.struck == {str(fault): 0, str(faults.equal_hosts()): 2}
    assert list(cluster.trace_dir.glob("torch-*")) == [], "a strike that finds nothing makes nothing"


@pytest.mark.parametrize(
    "make",
    [
        faults.truncate_legacy, faults.overwrite_legacy, faults.sigkill, faults.stale_files, faults.bad_values,
        faults.lockstep, faults.frozen_clock, faults.disk_full, faults.read_only, faults.refused_names,
        faults.missing_folder, faults.empty_profile, faults.stolen_session, faults.hostile_names,
    ],
)  # fmt: skip
def test_a_fault_that_selected_nobody_fails_the_run(tmp_path: Path, make: Any) -> None:
    who = Who(node=0)  # type: ignore[arg-type]
    needs_moment = make in (faults.truncate_legacy, faults.overwrite_legacy, faults.sigkill)
    fault = make("start", who=who) if needs_moment else make(who=who)
    cluster = Cluster(tmp_path, ranks=1, configurations=["c"], faults=[fault], node_identity="patched")
    with pytest.raises(ClusterError) as caught:
        cluster.run(own_name)
    there = "this run has node 'node0', 'node1'; rank 0, 1; configuration 'c'; change who="
    assert f"{fault} selected nobody: {there}" in str(caught.value)
    run = cluster.run(own_name, check=False)
    assert run.selected == run.struck == {str(fault): 0}


def test_struck_counts_workers_also_dead_ones(tmp_path: Path) -> None:
    cut, kill = faults.truncate_legacy("legacy-written"), faults.sigkill("end", who=Who(rank=1))
    given = [faults.equal_hosts(), faults.stale_files(who=Who(rank=0)), cut, kill]
    cluster = Cluster(tmp_path, nodes=1, faults=given, node_identity="patched", shared_trace_dir=False)
    run = cluster.run(steps, check=False)
    assert list(run.struck.values()) == [2, 1, 2, 1]
    assert list(run.selected.values()) == [2, 1, 2, 1]
    assert list(run.struck) == [str(fault) for fault in given]
    assert run.of("node0", 1).signal is signal.SIGKILL
    assert run.of("node0", 1).injected == (str(cut),)


def test_two_faults_of_one_text_are_one_line(tmp_path: Path) -> None:
    given = [faults.truncate_legacy("end", who=lambda job, rank=rank: job.worker.rank == rank) for rank in (0, 1)]  # type: ignore[misc]
    run = Cluster(tmp_path, nodes=1, faults=given, node_identity="patched").run(steps)
    assert run.struck == {"truncate_legacy(who=<lambda>, at='end')": 2}


def test_a_cut_that_shortens_nothing_is_no_strike(tmp_path: Path) -> None:
    cluster = one(tmp_path, faults.truncate_legacy("end", to_bytes=100), node_identity="patched")
    with pytest.raises(ClusterError, match="none that held more than 100 bytes"):
        cluster.run(steps)
    assert size(legacy(cluster)) == 2


def test_a_who_that_raises_reaches_the_test(tmp_path: Path) -> None:
    fault = faults.truncate_legacy("end", who=lambda job: job.rank == 0)  # type: ignore[attr-defined]
    with pytest.raises(ClusterError) as caught:
        one(tmp_path, fault).run(steps, check=False)
    text = str(caught.value)
    assert text.startswith("truncate_legacy(who=<lambda>, at='end'): who= raised for node0 rank 0")
    assert "AttributeError: 'Job' object has no attribute 'rank'" in text
    assert "job.worker.rank" in text
    assert isinstance(caught.value.__cause__, AttributeError)


def test_a_who_that_answers_with_a_selector_is_refused(tmp_path: Path) -> None:
    fault = faults.truncate_legacy("end", who=lambda job: Who(rank=1))  # type: ignore[arg-type,return-value]
    with pytest.raises(ClusterError, match=r"must answer True or False; .* gave Who\(rank=1\)"):
        one(tmp_path, fault).run(steps)


def test_who_is_asked_once_for_each_worker_and_before_the_fork(tmp_path: Path) -> None:
    asked = []

    def who(job: Job) -> bool:
        asked.append(job.worker.rank)
        return True

    Cluster(tmp_path, nodes=1, faults=[faults.stale_files(who=who)], node_identity="patched").run(steps)
    assert asked == [0, 1]


@pytest.mark.parametrize("who", [3, "node0", Who, []])
@pytest.mark.parametrize("name", [name for name in faults.__all__ if name.islower() and name != "equal_hosts"])
def test_what_is_no_selector_is_refused(name: str, who: Any) -> None:
    moment = ["end"] if name in ("truncate_legacy", "overwrite_legacy", "sigkill") else []
    with pytest.raises(TypeError, match=rf"{name}: who=.*give Who\(node=, rank=, configuration=\) or a function"):
        getattr(faults, name)(*moment, who=who)


class Odd:
    def __call__(self, job: Job) -> bool:
        return True


def test_a_faults_text_is_the_same_in_each_run() -> None:
    def first_only(job: Job) -> bool:
        return job.worker.rank == 0

    def text(who: Any) -> str:
        fault = faults.stale_files(who=who)
        assert repr(fault) == str(fault)
        return str(fault)

    assert text(lambda job: True) == "stale_files(who=<lambda>)"
    assert text(first_only) == "stale_files(who=first_only)"
    assert text(functools.partial(first_only)) == "stale_files(who=partial(first_only))"
    assert text(Odd()) == "stale_files(who=Odd())"
    assert text(Who(node="n")) == "stale_files(who=Who(node='n'))"
    who: Any = Who(rank=first_only)  # type: ignore[arg-type]
    assert str(who) == repr(who) == "Who(rank=first_only)"


@pytest.mark.parametrize(
    "make",
    [
        lambda: faults.sigkill(0),
        lambda: faults.sigkill(at_byte=-1),
        lambda: faults.truncate_legacy("end", to_bytes=-1),
        lambda: faults.disk_full(-1),
    ],
)
def test_wrong_numbers(make: Callable[[], Fault]) -> None:
    with pytest.raises(ValueError, match="must be at least"):
        make()


def test_a_legacy_name_of_ones_own(tmp_path: Path) -> None:
    def export(job: Job) -> str:
        job.legacy_path.parent.mkdir(exist_ok=True)
        job.legacy_path.write_text("[1]")
        return str(job.legacy_path.relative_to(job.trace_dir))

    name = "{node}/{configuration}-{model}-{rank:02d}.{local_rank}.json"
    given = [faults.stale_files(), faults.overwrite_legacy("start"), faults.truncate_legacy("end")]
    cluster = Cluster(
        tmp_path, ranks=1, configurations=["c"], model="m", legacy_name=name, faults=given, node_identity="patched"
    )
    run = cluster.run(export)
    assert run.values == ["node0/c-m-00.0.json", "node1/c-m-01.0.json"]
    assert [outcome.job.legacy_name for outcome in run] == run.values
    assert list(run.struck.values()) == [2, 2, 2]
    assert {size(cluster.trace_dir / str(value)) for value in run.values} == {0}


def test_what_a_fault_did_in_the_parent_is_undone_however_the_run_ends(tmp_path: Path) -> None:
    told = []

    @dataclasses.dataclass(frozen=True, repr=False)
    class Around(Fault):
        @contextlib.contextmanager
        def around_run(self, jobs: Sequence[Job]) -> Iterator[Fault]:
            told.append(("begin", os.getpid(), [job.worker.rank for job in jobs]))
            try:
                yield self
            finally:
                told.append(("end", os.getpid(), []))

    expected = [("begin", os.getpid(), [0]), ("end", os.getpid(), [])]
    one(tmp_path, Around()).run(steps, check=False)
    assert told == expected
    told.clear()
    with pytest.raises(ClusterError, match="the deadline passed"):
        Cluster(tmp_path, nodes=1, ranks=1, faults=[Around()], deadline_s=0.3).run(lambda job: signal.pause())
    assert told == expected


def test_moments_do_not_count_folders(tmp_path: Path) -> None:
    def export(job: Job) -> None:
        (job.trace_dir / "sub").mkdir()
        (job.trace_dir / "link").symlink_to("sub")
        (job.trace_dir / "first").touch()
        (job.trace_dir / "second").touch()

    cluster = one(tmp_path, faults.sigkill(2))
    cluster.run(export, check=False)
    assert {path.name for path in cluster.trace_dir.iterdir()} == {"sub", "link", "first"}
