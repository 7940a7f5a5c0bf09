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

from pytest_gputrace.traces import Trace, open_trace, pieces
from pytest_gputrace.traces.strict import parse

if TYPE_CHECKING:
    from collections.abc import Iterator

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
    ours = [problem for problem in problems if not problem.message.startswith("event ")]
    theirs = parse(text.decode("utf-8", "surrogateescape")).problems
    assert bool(ours) == bool(theirs or not text)
    if text and theirs:
        first, right = ours[0], min(theirs, key=lambda problem: problem.byte)
        assert (first.kind, first.byte, first.event) == (right.kind, right.byte, right.event)


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
        ('"ts": "1.5"', "event 1: 'ts' is str '1.5'"),
        ('"dur": true', "event 1: 'dur' is bool True"),
        ('"pid": 1.5', "event 1: 'pid' is float 1.5"),
        ('"name": 7', "event 1: 'name' is int 7"),
        ('"args": [1]', "event 1: 'args' is list [1]"),
    ],
)
def test_a_value_of_the_wrong_type_is_said_and_left_out(value: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    path.write_text(
        '{"traceEvents": [{"ph": "X", "ts": 1}, {"ph": "X", "tid": 3, ' + value + '}, {"ph": "X", "ts": 3}]}'
    )
    trace = open_trace(path)
    assert [(problem.message, problem.event) for problem in trace.problems] == [(message, 1)]
    assert trace.events.tid.tolist() == [-1, 3, -1]
    assert len(trace.events) == 3
