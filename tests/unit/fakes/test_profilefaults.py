from __future__ import annotations

import enum
import json
import math
import sys
from typing import TYPE_CHECKING, Any

import pytest

from pytest_gputrace.errors import ClusterError
from pytest_gputrace.fakes import Cluster, Job, fake_events, faults
from pytest_gputrace.fakes.files import event_list
from pytest_gputrace.fakes.profilefaults import HOSTILE_NAMES
from pytest_gputrace.fakes.profiler import profile_class
from pytest_gputrace.model import Capture, Mark, WorkerId

if TYPE_CHECKING:
    from pathlib import Path

    from pytest_gputrace.fakes import FakeProfile
    from pytest_gputrace.fakes.faults import Fault

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs Linux: simulated nodes")


def one(tmp_path: Path, *given: Fault) -> Cluster:
    return Cluster(tmp_path, nodes=1, ranks=1, configurations=["c"], faults=given, deadline_s=30)


def profiled(job: Job) -> tuple[list[str], str | None]:
    """The names of the events, and what an export said."""
    with job.profiler() as profile:
        pass
    said = None
    try:
        profile.export_chrome_trace(str(job.trace_dir / "trace.json"))
    except RuntimeError as error:
        said = str(error)
    return [event.name for event in profile.events()], said


def rows(cluster: Cluster) -> list[dict[str, Any]]:
    text = (cluster.trace_dir / "trace.json").read_bytes().decode()
    found: list[dict[str, Any]] = json.loads(text)["traceEvents"]
    return found


def test_an_empty_profile_holds_nothing(tmp_path: Path) -> None:
    cluster = one(tmp_path, faults.empty_profile())
    run = cluster.run(profiled)
    assert run.values == [([], None)]
    assert run.struck == {"empty_profile()": 1}
    # As torch's own: the process, and the frame of the profile itself.
    assert {row.get("cat") for row in rows(cluster)} <= {None, "Trace"}
    assert not [row for row in rows(cluster) if Mark.parse(row["name"])]


def test_a_stolen_session_has_no_events_and_cannot_be_exported(tmp_path: Path) -> None:
    cluster = one(tmp_path, faults.stolen_session())
    run = cluster.run(profiled)
    assert run.values
    names, said = run.values[0] or ([], None)
    assert names == []
    assert "the session was lost to another profile" in (said or "")
    assert run.struck == {"stolen_session()": 1}
    assert list(cluster.trace_dir.iterdir()) == []


def test_a_stolen_session_tells_no_start(tmp_path: Path) -> None:
    job = Job("m", "c", WorkerId("node0", 0, 0, 1), tmp_path, tmp_path)
    with faults.stolen_session().applied(job), job.profiler() as profile:
        pass
    assert profile.profiler.kineto_results.trace_start_ns() == 0
    with job.profiler() as later:
        pass
    assert later.profiler.kineto_results.trace_start_ns() > 0, "the fault is over"
    assert later.events()


def test_hostile_names_are_in_the_profile_and_in_its_export(tmp_path: Path) -> None:
    cluster = one(tmp_path, faults.hostile_names())
    names, said = cluster.run(profiled).values[0] or ([], None)
    assert said is None
    assert set(HOSTILE_NAMES) <= set(names)
    assert {mark.capture for name in names if (mark := Mark.parse(name))} == {Capture("node0", 0, "c")}
    # The export has them as Kineto of torch 2.14 does: a reader takes them, and cannot tell all of them apart.
    written = {row["name"] for row in rows(cluster) if row["ph"] == "X"}
    assert {"unknown", "NaN", "</script><!-- ]]> & 'quoted'", "x" * 100_000} <= written
    assert not [name for name in written if '"' in name or "\\" in name or not name.isascii()]


def test_the_hostile_names_hold_what_breaks_writers() -> None:
    text = "".join(HOSTILE_NAMES)
    assert set(map(chr, range(32))) <= set(text)
    assert {'"', "\\", "\x7f", "\x85", "\u2028", "\u2029", "\ud800", "\U0001f525", "\u202e", "\ufeff"} <= set(text)
    assert {"NaN", " "} <= set(HOSTILE_NAMES)
    assert "</script>" in text
    assert "C:\\new\\table" in text
    assert max(map(len, HOSTILE_NAMES)) == 100_000
    assert len(set(HOSTILE_NAMES)) == len(HOSTILE_NAMES)


def test_names_of_ones_own(tmp_path: Path) -> None:
    fault = faults.hostile_names("one", 'two"')
    names, _ = one(tmp_path, fault).run(profiled).values[0] or ([], None)
    assert {"one", 'two"'} <= set(names)
    assert not set(HOSTILE_NAMES) & set(names)
    assert str(fault) == "hostile_names(names=('one', 'two\"'))"
    assert len(str(faults.hostile_names("x" * 10_000))) < 400
    with pytest.raises(TypeError, match="hostile_names: 3 must be a text, not a int"):
        faults.hostile_names(3)  # type: ignore[arg-type]


def test_only_the_selected_workers_profile_is_changed(tmp_path: Path) -> None:
    given = [faults.empty_profile(who=faults.Who(rank=1)), faults.hostile_names("h", who=faults.Who(rank=0))]
    run = Cluster(tmp_path, nodes=1, faults=given, shared_trace_dir=False).run(lambda job: profiled(job)[0])
    first, second = run.values
    assert "h" in (first or [])
    assert second == []
    assert [outcome.injected for outcome in run] == [(str(given[1]),), (str(given[0]),)]


@pytest.mark.parametrize("make", [faults.bad_values, faults.empty_profile, faults.stolen_session, faults.hostile_names])
def test_where_nothing_is_profiled_the_run_fails(tmp_path: Path, make: Any) -> None:
    with pytest.raises(ClusterError, match=r"no fake profile was stopped; use job\.profiler\(\)"):
        one(tmp_path, make()).run(lambda job: None)


def test_values_strike_when_a_profile_is_stopped(tmp_path: Path) -> None:
    fault = faults.bad_values()
    cluster = Cluster(tmp_path, nodes=1, ranks=2, faults=[fault], shared_trace_dir=False)
    run = cluster.run(lambda job: profiled(job) if job.worker.rank else None)
    assert run.struck == {str(fault): 1}
    assert [outcome.injected for outcome in run] == [(), (str(fault),)]


class Action(enum.Enum):
    NONE, WARMUP, RECORD, RECORD_AND_SAVE = range(4)


def cycles(job: Job) -> list[list[Any]]:
    """The names and inputs that each of two cycles of a schedule holds."""
    held: list[list[Any]] = []

    def keep(profile: FakeProfile) -> None:
        events = profile.events()
        held.append([event.name for event in events] + [value for event in events for value in event.concrete_inputs])

    actions = [Action.NONE, Action.RECORD_AND_SAVE]
    kind = profile_class(job.plan)
    with kind(record_shapes=True, on_trace_ready=keep, schedule=lambda step: actions[step % 2]) as profile:
        for _ in range(4):
            profile.step()
    return held


def test_a_fault_strikes_each_cycle_of_a_schedule(tmp_path: Path) -> None:
    run = one(tmp_path, faults.hostile_names("h"), faults.bad_values(math.inf)).run(cycles)
    held = run.values[0] or []
    assert len(held) == 2
    assert all("h" in each and math.inf in each for each in held)
    for fault in (faults.empty_profile(), faults.stolen_session()):
        assert one(tmp_path, fault).run(cycles).values == [[[], []]]


def test_a_schedule_that_never_records_is_not_struck(tmp_path: Path) -> None:
    def wait(job: Job) -> None:
        with profile_class(job.plan)(schedule=lambda step: Action.NONE) as profile:
            profile.step()

    with pytest.raises(ClusterError, match="no fake profile was stopped"):
        one(tmp_path, faults.bad_values()).run(wait)


def test_further_names_change_no_other_event() -> None:
    capture = Capture("node0", 0, "c")
    plain, more = fake_events(capture), fake_events(capture, names=["x", "y"])
    assert [event.name for event in more if event.name not in ("x", "y")] == [event.name for event in plain]
    assert [record["name"] for record in event_list(more)].count("x") == 1
