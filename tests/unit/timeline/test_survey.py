"""What is known of one file after the first pass."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from pytest_gputrace.fakes import FakeTrace
from pytest_gputrace.timeline.eventids import all_ids
from pytest_gputrace.timeline.exact import earliest_ns
from pytest_gputrace.timeline.names import Names
from pytest_gputrace.timeline.plan import Flows
from pytest_gputrace.timeline.survey import survey
from pytest_gputrace.traces.vocabulary import ANYWHERE, FLOW_END, ON_GPU, ON_HOST

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(params=["compiled", "python"])
def either(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPUTRACE_PURE", "1" if request.param == "python" else "0")


def file(path: Path, *events: dict[str, Any], **root: Any) -> Path:
    path.write_text(json.dumps({**root, "traceEvents": list(events)}))
    return path


def x(**keys: Any) -> dict[str, Any]:
    return {"ph": "X", "cat": "cpu_op", "name": "op", "pid": 4, "tid": 5, "ts": 1.0, "dur": 2.0, **keys}


@pytest.mark.usefixtures("either")
def test_a_trace_of_kineto(tmp_path: Path) -> None:
    trace = FakeTrace(rank=1, world_size=2)
    found = survey(trace.write(tmp_path / "trace.json"), collectives=100)
    events = [row for row in trace.events if row["ph"] != "M"]
    assert (found.format, found.rank, found.world_size, found.problems) == ("kineto", 1, 2, ())
    assert found.base_time_ns == trace.document["baseTimeNanoseconds"]
    assert (found.events, found.metadata) == (len(events), len(trace.events) - len(events))
    assert found.first_ns == round(min(row["ts"] for row in events) * 1000)
    assert found.flows == Flows(*(sum(row["ph"] == phase for row in events) for phase in "stf"))
    flows = [row["id"] for row in events if row["ph"] in "sf"]
    assert found.ids == (min(flows), max(flows))
    assert found.tracks == {
        (1, 7, ON_GPU), (1, 7, FLOW_END), (4001, 4001, ON_HOST), (4001, 4001, FLOW_END), (4001, 4001, ANYWHERE),
        (4001, 4002, ON_HOST), (4001, 4002, ANYWHERE), ("Spans", "PyTorch Profiler", ON_HOST),
        ("Traces", "Trace PyTorch Profiler", ANYWHERE), ("", "", ANYWHERE),
    }  # fmt: skip
    assert found.names.processes[4001] == "python"
    assert found.names.threads[1, 7] == ["stream 7 "]
    assert found.collectives is not None
    nccl = [row for row in events if row["name"].startswith("nccl") and row["cat"] == "kernel"]
    assert found.collectives.end_ns == pytest.approx([(row["ts"] + row["dur"]) * 1000 for row in nccl], abs=2)
    assert found.collectives.sorts == [("0", nccl[0]["name"])]
    other = FakeTrace(rank=0, world_size=3).write(tmp_path / "other.json")
    assert found.groups.keys() == {"0"}
    assert found.groups != survey(other, collectives=1).groups  # a group of that name, of other ranks


def test_of_many_collectives_the_first_are_kept(tmp_path: Path) -> None:
    path = FakeTrace(world_size=2, steps=50).write(tmp_path / "trace.json")
    few, every = (survey(path, collectives=most).collectives for most in (7, 1000))
    assert few is not None
    assert every is not None
    assert few.end_ns.tolist() == every.end_ns[:7].tolist()
    assert len(every.end_ns) == 50


@pytest.mark.usefixtures("either")
def test_the_earliest_time_is_exact_where_doubles_are_not(tmp_path: Path) -> None:
    """At a million seconds a microsecond's double holds no nanosecond; the decimal text does."""
    times = ["9007199254740.9931", "9007199254740.993"]  # either is, as a double, that of 992 ns
    assert len(set(map(float, times))) == 1
    text = ",".join(f'{{"ph": "X", "name": "a", "pid": 1, "tid": 1, "ts": {time}, "dur": 1}}' for time in times)
    path = tmp_path / "trace.json"
    path.write_text(f'{{"traceEvents": [{text}]}}')
    assert survey(path).first_ns == 9007199254740993
    assert earliest_ns(b'{"ph": "X", "ts": 1.5}, {"ph": "M", "ts": -3}, {"ph": "i"}', 1.5) == 1500
    assert earliest_ns(b'{"ph": "X", "ts": -0.0005}, {"ph": 3, "ts": "late"}', -0.0005) == -1


@pytest.mark.usefixtures("either")
def test_events_without_a_time_are_counted(tmp_path: Path) -> None:
    timed, untimed = x(ts=7), {"ph": "i", "name": "now", "pid": 4, "tid": 5}
    found = survey(file(tmp_path / "trace.json", timed, untimed, untimed))
    assert (found.events, found.untimed, found.first_ns, found.last_ns) == (3, 2, 7000, 9000)
    nothing = survey(file(tmp_path / "other.json", untimed))
    assert (nothing.untimed, nothing.first_ns, nothing.last_ns) == (1, None, None)


@pytest.mark.usefixtures("either")
@pytest.mark.parametrize(
    ("event", "ids"),
    [
        ({"ph": "s", "id": 7}, (7, 7)),
        ({"ph": "b", "id": "0x1f"}, (31, 31)),
        ({"ph": "n", "id": "odd"}, None),
        ({"ph": "f", "id": 2**64 - 1}, (-1, -1)),
        ({"ph": "X", "id": 9}, None),
        ({"ph": "X", "bind_id": "0x9"}, (9, 9)),
        ({"ph": "b", "id2": {"local": "0x3", "global": 5}}, (-1, 5)),
        ({"ph": "e", "id2": {"global": 5.0}}, (-1, 5)),
    ],
)
def test_the_numbers_that_tie_events(event: dict[str, Any], ids: tuple[int, int] | None, tmp_path: Path) -> None:
    """Minus one, which an event without an id counts as, only ever widens what is kept free."""
    found = survey(file(tmp_path / "trace.json", {"cat": "a", "name": "n", "pid": 1, "tid": 1, "ts": 0, **event}))
    assert found.ids == ids
    assert found.problems == ()
    every = all_ids(found.source)
    assert isinstance(every, np.ndarray)
    assert set(every.tolist()) <= set(range(ids[0], ids[1] + 1) if ids else ())


@pytest.mark.usefixtures("either")
def test_a_process_may_be_a_text_or_beyond_every_column(tmp_path: Path) -> None:
    rows = [x(pid="Spans", tid="7"), x(pid=2**70, tid=-5), {**x(), "pid": None}]
    found = survey(file(tmp_path / "trace.json", *rows[:2]))
    assert {("Spans", "7", ON_HOST), (2**70, -5, ON_HOST)} <= found.tracks
    missing = survey(file(tmp_path / "other.json", {"ph": "X", "name": "n", "ts": 1, "dur": 1}))
    assert (None, None, ON_HOST) in missing.tracks


@pytest.mark.usefixtures("either")
def test_what_cannot_be_merged_is_a_problem(tmp_path: Path) -> None:
    cut = tmp_path / "cut.json"
    cut.write_bytes(FakeTrace().text().encode()[:-40])
    assert [problem.kind for problem in survey(cut).problems] == ["cut"]
    tree = survey(FakeTrace.proton_tree().write(tmp_path / "tree.hatchet"))
    assert (tree.format, tree.events) == ("proton-tree", 0)
    events = survey(FakeTrace.event_list().write(tmp_path / "events.json"))
    assert (events.format, events.events) == ("superbench", 0)


def test_the_later_of_two_names_counts_and_a_lane_keeps_all() -> None:
    names = Names()
    rows = [
        {"ph": "M", "name": "process_name", "pid": 1, "args": {"name": "first"}},
        {"ph": "M", "name": "process_name", "pid": 1.0, "args": {"name": "second"}},
        {"ph": "M", "name": "thread_name", "pid": 0, "tid": 0, "args": {"name": "stream 0 0"}},
        {"ph": "M", "name": "thread_name", "pid": 0, "tid": 0, "args": {"name": "thread 0 (tqdm)"}},
        {"ph": "M", "name": "num_cpus", "pid": 1, "tid": 2, "args": {"number": 8}},
        {"ph": "X", "name": "process_name", "pid": 1, "args": {"name": "no metadata"}},
        {"ph": "M", "name": "process_name", "pid": 2, "args": {"name": 7}},
    ]
    names.read(json.dumps(rows).encode()[1:-1])
    assert names.processes == {1: "second"}
    assert names.threads == {(0, 0): ["stream 0 0", "thread 0 (tqdm)"]}
    assert [(other.name, other.pid, other.tid) for other in names.others] == [("num_cpus", 1, 2)]


def test_the_memory_of_a_survey_does_not_grow_with_the_words_of_a_file(tmp_path: Path) -> None:
    """Names that hold addresses: there are more of them than a table is kept for."""
    rows = (f'{{"ph":"X","cat":"c","name":"f{n}","pid":{n % 3},"tid":1,"ts":{n},"dur":1}}' for n in range(70_000))
    path = tmp_path / "trace.json"
    path.write_text('{"traceEvents": [' + ",".join(rows) + "]}")
    found = survey(path)
    assert (found.events, found.first_ns, found.last_ns) == (70_000, 0, 70_000_000)
    assert {pid for pid, _, _ in found.tracks} == {0, 1, 2}
