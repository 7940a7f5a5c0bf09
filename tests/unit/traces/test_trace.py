"""`open_trace` against Python's own parser for what it reads, and against the strict reader for what it refuses."""

from __future__ import annotations

import contextlib
import gzip
import json
import math
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

from pytest_gputrace.traces import Trace, judging, open_trace, pieces
from pytest_gputrace.traces.strict import parse

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_gputrace.traces.scanner import Problem

REAL = Path(os.environ.get("GPUTRACE_TRACES", Path(__file__).parents[4] / "shared" / "traces"))
REAL_TRACES = sorted(path for path in REAL.glob("*") if ".json" in path.name or path.suffix == ".chrome_trace")


@contextlib.contextmanager
def runs_of(size: int) -> Iterator[None]:
    """Read and decode no more than about ``size`` bytes at a time."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pieces, "RUN_BYTES", size)
        patch.setattr("pytest_gputrace.traces.blocks._BLOCK_BYTES", size)
        yield


def present(time: float) -> float | None:
    return None if math.isnan(time) else float(time)


def events_of(trace: Trace) -> list[dict[str, Any]]:
    """What the columns say of each event, as the file would have it."""
    columns = trace.events
    result = []
    for row in range(len(columns)):
        arguments = {
            key: columns.text_of(int(getattr(columns, key)[row])) for key in ("correlation", "device", "stream")
        }
        event = {
            "ph": columns.phases[columns.phase[row]],
            "cat": columns.categories[columns.category[row]],
            "name": columns.names[columns.name[row]],
            "ts": present(columns.ts_us[row]),
            "dur": present(columns.dur_us[row]),
            "pid": columns.text_of(int(columns.pid[row])),
            "tid": columns.text_of(int(columns.tid[row])),
            "id": columns.text_of(int(columns.flow[row])),
            **arguments,
        }
        result.append(event)
    return result


def expected(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The same, from what Python's parser gives."""
    result = []
    for event in events:
        arguments = event.get("args") or {}
        result.append(
            {key: event.get(key, "") for key in ("ph", "cat", "name")}
            | {key: present(event.get(key, math.nan)) for key in ("ts", "dur")}
            | {key: None if event.get(key) == -1 else event.get(key) for key in ("pid", "tid", "id")}
            | {
                key: None if arguments.get(key) == -1 else arguments.get(key)
                for key in ("correlation", "device", "stream")
            }
        )
    return result


@pytest.mark.skipif(not REAL_TRACES, reason="needs traces: a folder of real ones, named by GPUTRACE_TRACES")
@pytest.mark.parametrize("path", REAL_TRACES, ids=lambda path: path.name)
def test_a_real_trace_is_read_as_it_is(path: Path) -> None:
    trace = open_trace(path)
    data = path.read_bytes()
    document = json.loads(gzip.decompress(data) if path.suffix == ".gz" else data)
    assert trace.problems == ()
    assert len(trace.events) == len(document["traceEvents"]) > 0
    assert events_of(trace) == expected(document.pop("traceEvents"))
    assert trace.metadata == document
    assert trace.base_time_ns == document.get("baseTimeNanoseconds")


texts = st.text(st.characters(codec="utf-8"), max_size=6) | st.sampled_from(
    ["}, {", '"traceEvents": [', "a\\b", '":', "]}"]
)
numbers = st.integers(0, 2**53) | st.floats(0, 1e16, allow_nan=False).map(lambda value: round(value, 3))
ids = st.integers(0, 2**62) | texts
values = st.recursive(
    st.none() | st.booleans() | numbers | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=5,
)
events = st.fixed_dictionaries(
    {"ph": st.sampled_from("XMsfi"), "name": texts},
    optional={
        "cat": texts, "ts": numbers, "dur": numbers, "pid": ids, "tid": ids, "id": ids,
        "args": st.dictionaries(texts, values, max_size=3).flatmap(
            lambda rest: st.fixed_dictionaries({}, optional={"correlation": st.integers(0, 2**40), "stream": st.integers(0, 9)}).map(
                lambda known: {**{key: value for key, value in rest.items() if key not in ("correlation", "device", "stream")}, **known}
            )
        ),
    },
)  # fmt: skip
documents = st.tuples(
    st.dictionaries(texts.filter(lambda key: key != "traceEvents"), values, max_size=2),
    st.lists(events, max_size=6),
    st.dictionaries(texts.filter(lambda key: key != "traceEvents"), values, max_size=2),
).map(lambda parts: {**parts[0], "traceEvents": parts[1], **{k: v for k, v in parts[2].items() if k not in parts[0]}})
sizes = st.sampled_from([40, 300, 1 << 18])
layouts = st.sampled_from(
    [{}, {"indent": 2}, {"separators": (",", ":")}, {"ensure_ascii": False}, {"separators": (" , ", " : ")}]
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(document=documents, layout=layouts, size=sizes)
def test_any_trace_is_read_as_pythons_parser_reads_it(document: Any, layout: Any, size: int, tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    path.write_text(json.dumps(document, **layout), encoding="utf-8")
    with runs_of(size):
        trace = open_trace(path)
    assert [problem for problem in trace.problems if problem.kind != "path"] == []
    assert events_of(trace) == expected(document["traceEvents"])
    assert trace.metadata == {key: value for key, value in document.items() if key != "traceEvents"}


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    document=documents,
    layout=layouts,
    at=st.floats(0, 1),
    damage=st.sampled_from(
        [
            b"",
            b'"',
            b"}",
            b"]",
            b",",
            b"\xff",
            b"NaN",
            b"1e999",
            b"\\ud800",
            b"\n",
            b"\x00",
            b"[",
            b'"ph": "X", ',
            b"9" * 310,
        ]
    ),
    lost=st.integers(0, 9),
    size=sizes,
)
def test_damage_is_found_where_the_strict_reader_finds_it(
    document: Any, layout: Any, at: float, damage: bytes, lost: int, size: int, tmp_path: Path
) -> None:
    text = json.dumps(document, **layout).encode()
    place = int(at * len(text))
    text = text[:place] + damage + text[place + lost :]
    path = tmp_path / "trace.json"
    path.write_bytes(text)
    with runs_of(size):
        problems = open_trace(path).problems
    # Of a value's type the strict reader knows nothing.
    ours = [problem for problem in problems if problem.kind != "type"]
    theirs = parse(text.decode("utf-8", "surrogateescape")).problems
    assert bool(ours) == bool(theirs or not text)
    if text and theirs:
        first, right = ours[0], min(theirs, key=lambda problem: problem.byte)
        assert (first.kind, first.byte, first.event) == (right.kind, right.byte, right.event)
        if '("")' not in right.where:  # an empty name counts as none
            assert first.where == right.where
        assert first.more == right.more
        assert {problem.kind for problem in ours} == {problem.kind for problem in theirs}


def test_columns_are_arrays(tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    path.write_text('{"traceEvents": [{"ph": "X", "name": "a", "ts": 1.5, "dur": 2, "pid": "Spans", "tid": -7}]}')
    events = open_trace(path).events
    assert events.ts_us.dtype == np.float64
    assert events.ts_us.tolist() == [1.5]
    assert events.text_of(int(events.pid[0])) == "Spans"
    assert events.text_of(int(events.tid[0])) == "-7"


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ('"ts": "1.5"', "'ts' is str '1.5'"),
        ('"dur": true', "'dur' is bool True"),
        ('"pid": 1.5', "'pid' is float 1.5"),
        ('"name": 7', "'name' is int 7"),
        ('"args": [1]', "'args' is a list"),
    ],
)
def test_a_value_of_the_wrong_type_is_said_and_left_out(value: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    path.write_text(
        '{"traceEvents": [{"ph": "X", "ts": 1}, {"ph": "X", "tid": 3, ' + value + '}, {"ph": "X", "ts": 3}]}'
    )
    trace = open_trace(path)
    [problem] = trace.problems
    assert (problem.kind, problem.message, problem.event) == ("type", message, 1)
    assert problem.byte == path.read_bytes().index(b'{"ph": "X", "tid": 3')
    assert trace.events.tid.tolist() == [-1, 3, -1]
    assert len(trace.events) == 3


def written(folder: Path, text: str | bytes, name: str = "trace.json") -> Path:
    path = folder / name
    data = text if isinstance(text, bytes) else text.encode()
    path.write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    return path


def many(count: int) -> list[str]:
    return [
        json.dumps({"ph": "X", "name": f"e{index}", "ts": index, "args": {"n": index, "x": {}}})
        for index in range(count)
    ]


@pytest.mark.parametrize("open_", ['{"traceEvents": [', "["])
@pytest.mark.parametrize("end", ['{"ph": "X", "name": "e40", "args": {"a', '{"ph": "X", "name": "un"quoted"}]'])
def test_events_before_a_break_are_kept(open_: str, end: str, tmp_path: Path) -> None:
    path = written(tmp_path, open_ + ", ".join([*many(40), end]))
    with runs_of(300):
        trace = open_trace(path)
    assert trace.events.ts_us.tolist() == list(range(40))
    [problem] = trace.problems
    assert problem.event == 40
    assert not trace.whole


@pytest.mark.parametrize(
    "bad", ["NaN", "-inf", "1e999", "9" * 400, '"\\x"', '"\\ud800"', '"\t"', "[" * 3000 + "]" * 3000]
)
@pytest.mark.parametrize("size", [300, 1 << 18])
def test_reading_goes_on_after_a_value_that_cannot_be(bad: str, size: int, tmp_path: Path) -> None:
    events = many(40)
    events[20] = '{"ph": "X", "name": "bad", "ts": 20, "args": {"correlation": 7, "v": ' + bad + "}}"
    path = written(tmp_path, '{"schemaVersion": 1, "traceEvents": [' + ",".join(events) + '], "traceName": "t"}')
    with runs_of(size):
        trace = open_trace(path)
    [problem] = trace.problems
    assert (problem.event, problem.where) == (20, 'event 20 ("bad")')
    assert trace.events.ts_us.tolist() == list(range(40))
    assert trace.events.correlation[20] == 7
    assert trace.metadata == {"schemaVersion": 1, "traceName": "t"}
    assert trace.whole
    with runs_of(size):
        assert [row for row, _ in trace.arguments([19, 20, 21])] == [19, 20, 21]
        assert dict(trace.arguments([21]))[21] == {"n": 21, "x": {}}


def test_problems_of_one_kind_are_told_once_and_counted(tmp_path: Path) -> None:
    events = ['{"ph": "X", "name": "a", "ts": NaN}'] * 30
    with runs_of(200):
        [problem] = open_trace(written(tmp_path, "[" + ",".join(events) + "]")).problems
    assert (problem.kind, problem.event, problem.more) == ("number", 0, 29)


def test_a_problem_after_the_events_is_told_of_the_last_one(tmp_path: Path) -> None:
    path = written(tmp_path, '{"traceEvents": [' + ",".join(many(40)) + '], "a": NaN, "rank": 3}')
    with runs_of(300):
        trace = open_trace(path)
    [problem] = trace.problems
    assert problem.where == 'after event 39 ("e39")'
    assert problem.byte == path.read_bytes().index(b"NaN")
    assert trace.metadata == {"a": None, "rank": 3}


def test_arguments_are_those_of_the_events(tmp_path: Path) -> None:
    path = written(tmp_path, '{"traceEvents": [' + ",".join(many(100)) + "]}", "trace.json.gz")
    with runs_of(300):
        trace = open_trace(path)
        assert list(trace.arguments([99, 3, 50, 3])) == [(row, {"n": row, "x": {}}) for row in (3, 50, 99)]
        assert list(trace.arguments([])) == []
        with pytest.raises(IndexError):
            trace.arguments([100])


def test_arguments_of_a_file_that_has_changed_are_refused(tmp_path: Path) -> None:
    path = written(tmp_path, "[" + ",".join(many(3)) + "]")
    trace = open_trace(path)
    path.write_text("[" + ",".join(many(4)) + "]")
    with pytest.raises(ValueError, match="not as it was when it was opened"):
        trace.arguments([0])


@pytest.mark.parametrize("text", ["[", "[" + ",".join(["{}", *many(9)]) + "]", '[{"name": "other"}]'])
def test_a_change_that_the_clock_does_not_tell_is_found(text: str, tmp_path: Path) -> None:
    path = written(tmp_path, "[" + ",".join(many(9)) + "]")
    trace, before = open_trace(path), path.stat()
    path.write_text(text.ljust(before.st_size)[: before.st_size])
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    with pytest.raises(ValueError, match="not as it was when it was opened"):
        list(trace.arguments([8]))


def test_gzip_members_that_each_hold_a_document_are_told(tmp_path: Path) -> None:
    document = b'{"traceEvents": [{"ph": "X", "name": "a", "ts": 1}]}\n'
    path = tmp_path / "trace.json.gz"
    path.write_bytes(gzip.compress(document) * 3)
    trace = open_trace(path)
    [problem] = trace.problems
    assert (problem.kind, problem.byte) == ("second", len(document))
    assert "every member of this gzip file holds a document of its own" in problem.message
    assert len(trace.events) == 1
    assert not trace.whole


def test_one_document_in_many_gzip_members_is_fine(tmp_path: Path) -> None:
    path = tmp_path / "trace.json.gz"
    path.write_bytes(gzip.compress(b'{"traceEvents": [') + gzip.compress(b'{"ph": "X", "name": "a"}]}'))
    trace = open_trace(path)
    assert trace.problems == ()
    assert trace.whole


def test_a_cut_gzip_stream_is_told_once_with_the_event_it_was_cut_in(tmp_path: Path) -> None:
    path = tmp_path / "trace.json.gz"
    text = "[" + ",".join(many(3)) + ', {"ph": "X", "name": "long", "args": {"v": "' + os.urandom(4000).hex() + '"}}]'
    path.write_bytes(gzip.compress(text.encode())[:-1000])
    trace = open_trace(path)
    [problem] = trace.problems
    assert (problem.kind, problem.event, problem.where) == ("cut", 3, 'event 3 ("long")')
    assert "gzip stream ends too early" in problem.message
    assert trace.events.ts_us.tolist() == [0, 1, 2]
    assert trace.size_bytes == problem.byte < len(text)


def test_text_beyond_the_limit_is_told_once(tmp_path: Path) -> None:
    path = written(tmp_path, "[" + ",".join(many(100)) + "]")
    with runs_of(300):
        trace = open_trace(path, max_bytes=1000)
    [problem] = trace.problems
    assert (problem.kind, problem.byte, trace.size_bytes) == ("large", 1000, 1000)
    assert 10 < len(trace.events) < 20
    assert not trace.whole


def test_progress_adds_up_to_the_file(tmp_path: Path) -> None:
    path = written(tmp_path, "[" + ",".join(many(100)) + "]")
    read: list[int] = []
    with runs_of(300):
        open_trace(path, progress=read.append)
    assert sum(read) == path.stat().st_size
    assert len(read) > 3


def test_what_follows_the_document_is_not_held(tmp_path: Path) -> None:
    document = '{"traceEvents": [{"ph": "X", "name": "a"}]}'
    path = written(tmp_path, document + "\n" + document * 1000)
    held: list[int] = []

    def judge(text: bytes) -> list[Problem]:
        held.append(len(text))
        return judging.judge(text)

    with runs_of(300), pytest.MonkeyPatch.context() as patch:
        patch.setattr(pieces, "judge", judge)
        trace = open_trace(path)
    assert [problem.kind for problem in trace.problems] == ["second"]
    assert trace.size_bytes == path.stat().st_size
    assert 0 < max(held) < 3000


def test_metadata_of_a_cut_file_is_what_stands_before_the_events(tmp_path: Path) -> None:
    path = written(tmp_path, '{"distributedInfo": {"rank": 3, "world_size": 8}, "traceEvents": [{"ph": "X", "na')
    trace = open_trace(path)
    assert (trace.rank, trace.world_size, trace.format) == (3, 8, "kineto")
    assert len(trace.events) == 0


def test_an_unreadable_value_before_the_events_hides_none_of_them(tmp_path: Path) -> None:
    trace = open_trace(written(tmp_path, '{"a": NaN, "traceEvents": [' + ",".join(many(5)) + "]}"))
    assert [problem.kind for problem in trace.problems] == ["number"]
    assert len(trace.events) == 5


def test_numbers_of_the_root_given_as_texts_are_told_not_taken(tmp_path: Path) -> None:
    text = '{"traceEvents": [], "baseTimeNanoseconds": "1700", "distributedInfo": {"rank": "secret", "world_size": 2}}'
    trace = open_trace(written(tmp_path, text))
    assert (trace.base_time_ns, trace.rank, trace.world_size) == (None, None, 2)
    [problem] = trace.problems
    assert (problem.kind, problem.more, problem.byte) == ("type", 1, text.index('"baseTime'))
    assert problem.message == "'baseTimeNanoseconds' is str, not a whole number; it counts as missing"


def test_the_name_before_is_judged_once(tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    path.write_text(r'[{"ph": "X", "name": "C:\temp\new.py", "ts": 1}]')
    assert [(problem.kind, problem.more) for problem in open_trace(path).problems] == [("path", 0)]


def test_what_stands_around_a_byte_order_mark_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    path.write_bytes(b'\xef\xbb\xbf{"baseTimeNanoseconds": 7, "traceEvents": [], "distributedInfo": {"rank": 3}}')
    trace = open_trace(path)
    assert [problem.kind for problem in trace.problems] == ["bom"]
    assert (trace.base_time_ns, trace.rank) == (7, 3)


@pytest.mark.parametrize("size", [40, 1 << 18])
def test_a_comma_before_the_end_of_the_list_is_found_there(size: int, tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    text = b'{"traceEvents": [{"ph": "X", "name": "a"}, {"ph": "X", "name": "b"},\n], "traceName": "x"}'
    path.write_bytes(text)
    with runs_of(size):
        trace = open_trace(path)
    assert [(problem.kind, problem.byte, problem.event) for problem in trace.problems] == [
        ("grammar", text.index(b"],"), None)
    ]
    assert trace.events.names == ["a", "b"]
