"""The compiled reader against the other: the same trace, whatever the file holds, or it leaves it alone."""

from __future__ import annotations

import dataclasses
import json
import os
import struct
from pathlib import Path
from typing import TYPE_CHECKING, Any

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings

from pytest_gputrace.traces import compiled, open_trace, pieces

if TYPE_CHECKING:
    from pytest_gputrace.traces import Trace

REAL = Path(os.environ.get("GPUTRACE_TRACES", Path(__file__).parents[4] / "shared" / "traces"))
REAL_TRACES = sorted(path for path in REAL.glob("*") if ".json" in path.name or path.suffix == ".chrome_trace")

pytestmark = pytest.mark.skipif(
    not compiled.is_available(), reason="needs compiled: the reader that is built where there is a C compiler"
)


@pytest.fixture(autouse=True)
def wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GPUTRACE_PURE", raising=False)


shared = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])


def written(folder: Path, text: str | bytes) -> Path:
    path = folder / "trace.json"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def both(path: Path, size: int) -> tuple[Trace, Trace]:
    """The trace as it is read here, about ``size`` bytes at a time, and as Python alone reads it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pieces, "RUN_BYTES", size)
        patch.setattr("pytest_gputrace.traces.blocks._BLOCK_BYTES", size)
        quick = open_trace(path)
        patch.setenv("GPUTRACE_PURE", "1")
        return quick, open_trace(path)


def content(trace: Trace) -> dict[str, Any]:
    """All of it; of arrays, the bytes."""
    columns = {field.name: getattr(trace.events, field.name) for field in dataclasses.fields(trace.events)}
    events = {
        key: (value.dtype, value.tobytes()) if isinstance(value, np.ndarray) else value
        for key, value in columns.items()
    }
    keys = ("format", "metadata", "base_time_ns", "problems", "whole", "size_bytes")
    # repr: what is not a number equals nothing.
    return {key: repr(getattr(trace, key)) for key in keys} | events | {"runs": trace._source.runs}


def assert_same(path: Path, size: int = 1 << 18) -> Trace:
    quick, right = both(path, size)
    assert content(quick) == content(right)
    return quick


def scan_of() -> compiled.Scan:
    scan = compiled.scan()
    assert scan is not None
    return scan


def takes(text: str | bytes) -> bool:
    """Whether the compiled reader takes these events for clean."""
    data = text if isinstance(text, bytes) else text.encode()
    return scan_of().events(data + b"]", is_last=True) is not None


@pytest.mark.skipif(not REAL_TRACES, reason="needs traces: a folder of real ones, named by GPUTRACE_TRACES")
@pytest.mark.parametrize("path", REAL_TRACES, ids=lambda path: path.name)
@pytest.mark.parametrize("size", [3000, 1 << 18])
def test_a_real_trace_is_the_same(path: Path, size: int) -> None:
    assert_same(path, size)


texts = st.text(st.characters(codec="utf-8"), max_size=6) | st.sampled_from(
    ["}, {", "},", "a\\b", '":', "]}", "é", "C:\temp"]
)
numbers = st.integers(-(2**70), 2**70) | st.integers(0, 99) | st.floats(-1e16, 1e16).map(lambda value: round(value, 3))
values = st.recursive(
    st.none() | st.booleans() | numbers | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=5,
)
ids = st.integers(0, 2**62) | texts
arguments = st.fixed_dictionaries(
    {}, optional={"correlation": ids, "stream": values, "bytes": numbers, "x": values, "y": values}
)
events = st.fixed_dictionaries(
    {"ph": st.sampled_from("XMsf"), "name": texts},
    optional={
        "cat": texts,
        "ts": numbers,
        "dur": numbers,
        "pid": ids,
        "tid": ids,
        "id": ids,
        "args": arguments,
        "z": values,
    },
)
surroundings = st.dictionaries(texts, values, max_size=2)
documents = st.tuples(surroundings, st.lists(events, max_size=6), surroundings).map(
    lambda parts: {**parts[0], "traceEvents": parts[1], **parts[2]}
)
sizes = st.sampled_from([40, 300, 1 << 18])
layouts = st.sampled_from(
    [{}, {"indent": 2}, {"separators": (",", ":")}, {"ensure_ascii": False}, {"separators": (" , ", " : ")}]
)


@shared
@given(document=documents, layout=layouts, size=sizes)
def test_any_trace_is_the_same(document: Any, layout: Any, size: int, tmp_path: Path) -> None:
    assert_same(written(tmp_path, json.dumps(document, **layout)), size)


scraps = st.sampled_from([
    '"', "}", "]", ",", "[", "{", ":", "NaN", "1e999", "\\ud800", "\\ud83d\\ude00", "\n", "\0", '"ph": "X", ', '"name": 7,',
    '"args": {"a": 1, "a": 2}', "9" * 310, "1e-30", "-0", "-7", "1.5", "null", "true", "\\u0061", "C:\\temp", "é", "\udcff",
    "\ud83d", " ", '"pid": 18446744073709551616,', '"ts": 1700000000000000.123,', "}, {", "},", "} ,",
]).map(lambda text: text.encode("utf-8", "surrogatepass") if text == "\ud83d" else text.encode("utf-8", "surrogateescape"))  # fmt: skip


@shared
@given(
    document=documents,
    layout=layouts,
    damages=st.lists(st.tuples(st.floats(0, 1), scraps, st.integers(0, 9)), min_size=1, max_size=3),
    size=sizes,
)
def test_any_damage_is_the_same(document: Any, layout: Any, damages: Any, size: int, tmp_path: Path) -> None:
    text = json.dumps(document, **layout).encode()
    for at, scrap, lost in damages:
        place = int(at * len(text))
        text = text[:place] + scrap + text[place + lost :]
    assert_same(written(tmp_path, text), size)


scalars = st.sampled_from(
    ["0", "-0", "-1", "-2", "7", "1.5", "-1.5", "1e3", "1E-3", "0.1", "9223372036854775807", "9223372036854775808",
    "-9223372036854775808", "1" * 30, "null", "true", '"7"', '"-5"', '"a"', '"\\u0061"', '""', "[1]", "{}", "01"]
)  # fmt: skip
odd_events = st.dictionaries(
    st.sampled_from(["ph", "cat", "name", "ts", "dur", "pid", "tid", "id", "bytes", "n\\u0061me", "é"]), scalars
)
odd_arguments = st.dictionaries(
    st.sampled_from(["correlation", "device", "stream", "bytes", "Process Group Name", "ph", "ts"]), scalars
)


def spelled(pairs: dict[str, str]) -> str:
    return "{" + ",".join(f'"{key}":{value}' for key, value in pairs.items()) + "}"


@shared
@given(
    events=st.lists(st.tuples(odd_events, st.none() | odd_arguments, st.sampled_from([",", " ,", ",\n"])), max_size=12),
    end=st.sampled_from(["]", "", '], "x": {}, "y": 1', '], "x": [{}, 1]']),
    size=st.sampled_from([60, 200, 1 << 18]),
)
def test_any_value_is_the_same(events: Any, end: str, size: int, tmp_path: Path) -> None:
    texts = [
        (spelled({"ph": '"X"', **event} if arguments is None else {"ph": '"X"', **event, "args": spelled(arguments)}), parting)
        for event, arguments, parting in events
    ]  # fmt: skip
    text = "".join(part for pair in texts for part in pair)[: -len(texts[-1][1]) if texts else None]
    assert_same(written(tmp_path, '{"traceEvents":[' + text + end + "}"), size)


@given(st.floats(allow_nan=False, allow_infinity=False), st.sampled_from(["%r", "%.3f", "%.17g", "%.18e", "%.6f"]))
@example(9007199254740993.0, "%.3f")
def test_times_are_those_that_python_reads(value: float, format_: str) -> None:
    text = format_ % value
    read = scan_of().events(f'{{"ph":"X","ts":{text}}}]'.encode(), is_last=True)
    if read is not None:
        assert struct.pack("d", float(read.times[0][0])) == struct.pack("d", float(json.loads(text)))


@given(st.integers(0, 10**19 - 1), st.integers(-22, 22), st.booleans())
@example(9007199254740993, 0, False)  # half way between two doubles
@example(9007199254740995, 0, False)
@example(9007199254740992500, -3, True)
@example(9007199254740993001, -3, False)
@example(10**19 - 1, 19, False)
def test_times_of_up_to_19_digits_are_read_here(digits: int, scale: int, is_negative: bool) -> None:
    text = f"{'-' * is_negative}{digits}e{scale}"
    read = scan_of().events(f'{{"ph":"X","ts":{text}}}]'.encode(), is_last=True)
    if digits <= 2**53 or abs(scale) <= 19:
        assert read is not None
    if read is not None:
        assert struct.pack("d", float(read.times[0][0])) == struct.pack("d", float(text))


def test_ordinary_events_are_taken() -> None:
    event = {
        "ph": "X", "cat": "kernel", "name": "void é<\n\\>", "pid": 0, "tid": "stream 7", "ts": 1700000000000000.123,
        "dur": 1.5, "args": {"device": 0, "grid": [1, [2, -3e5]], "x": {"x": {}}, "y": [], "z": None, "b": True},
    }  # fmt: skip
    assert takes(json.dumps(event))
    assert takes(json.dumps([event] * 3, indent=1)[1:-1])
    assert takes(r'{"ph":"X","name":"C:\\temp\\new \ud83d\ude00 \u00e9 \/"}')
    assert takes('{"name":"a","args":null}')


@pytest.mark.parametrize(
    "value",
    ["01", "1.", ".5", "+1", "1e", "1e+", "--1", "-", "1e100", "9" * 201, "NaN", "Infinity", "-inf", "tru", "True", "truex",
    '"\t"', '"\\x"', '"\\u12g4"', '"\\ud800"', '"\\ud800\\n"', '"\\udc00"', '"\\ud800\\ud800"', '"C:\\temp"',
    '{"a":1,"a":2}', '{"a":1,"b":2,"a":3}', '{"\\u0061":1}', "{,}", "[,]", "[1,]", '{"a":1,}', '{"a"}', '{"a":}', "{1:2}",
    "[" * 70 + "]" * 70, "1 2", "[1 2]", '"a" "b"', "'a'", "", "{", "[}", "// 1"],
)  # fmt: skip
def test_what_is_not_clean_is_left_alone(value: str) -> None:
    assert not takes('{"ph":"X","args":{"v":' + value + "}}")
    assert not takes('{"ph":"X","v":' + value + "}")


@pytest.mark.parametrize(
    "raw",
    [b"\xff", b"\x80", b"\xc0\x80", b"\xc1\xbf", b"\xe0\x80\x80", b"\xed\xa0\x80", b"\xf0\x80\x80\x80", b"\xf4\x90\x80\x80",
    b"\xf5\x80\x80\x80", b"\xc3", b"\xe2\x82", b"\xf0\x9f\x98", b"\xc3(", b"\x00", b"\x1f"],
)  # fmt: skip
@pytest.mark.parametrize("before", range(9))
def test_bytes_that_are_no_text_are_left_alone_wherever_they_are(raw: bytes, before: int) -> None:
    for text in (b"a" * before + raw, b"a" * before + raw + b"b" * 9):
        assert not takes(b'{"ph":"X","name":"' + text + b'"}')
        assert not takes(b'{"ph":"X","' + text + b'":1}')


@given(st.text(st.characters(codec="utf-8"), max_size=20))
def test_any_character_is_taken(text: str) -> None:
    assert takes(json.dumps({"name": "a", "args": {"v": text}}, ensure_ascii=False)) or ":\\" in json.dumps(text)


@pytest.mark.parametrize(
    "event", ["{}", '{"cat":"a"}', "1", "[]", '"a"', '{"ph":null}', '{"name":7}', '{"ph":"X","ts":"1"}']
)
def test_what_is_no_event_is_left_alone(event: str) -> None:
    assert not takes(event)
    assert not takes('{"ph":"X"},' + event)


def test_an_object_of_very_many_keys_is_left_alone_and_many_kinds_of_objects_are_not(tmp_path: Path) -> None:
    assert not takes(json.dumps({"name": "a", **{f"k{n}": n for n in range(500)}}))
    events = [{"name": f"n{n}", "args": {f"k{n}": n, f"l{n}": n}} for n in range(100_000)]
    trace = assert_same(written(tmp_path, json.dumps(events)))
    assert len(trace.events.names) == 100_000


def test_a_text_has_one_number_however_it_is_spelled_and_whoever_reads_it(tmp_path: Path) -> None:
    names = ['"a"', '"\\u0061"', '"b"', '"a","dur":null', '"c","dur":null', '"\\u0063"', '"d"']
    path = written(tmp_path, "[" + ",".join(f'{{"ph":"X","pid":"p","name":{name}}}' for name in names) + "]")
    trace = assert_same(path, 40)
    assert [trace.events.names[number] for number in trace.events.name] == ["a", "a", "b", "a", "c", "c", "d"]
    assert trace.events.names == ["a", "b", "c", "d"]


def test_it_is_left_out_where_it_is_not_wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    assert compiled.scan() is not None
    monkeypatch.setenv("GPUTRACE_PURE", "1")
    assert compiled.scan() is None


def test_a_library_that_cannot_be_loaded_is_none(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(compiled, "LIBRARY", tmp_path / "scan.so")
    assert compiled._library.__wrapped__() is None
    (tmp_path / "scan.so").write_bytes(b"\x7fELF")
    assert compiled._library.__wrapped__() is None
