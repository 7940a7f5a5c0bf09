"""The quick look: everything that a lenient parser passes over is suspected, and ordinary traces are not."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_gputrace.traces import open_trace, strict
from pytest_gputrace.traces.hidden import hidden_places
from pytest_gputrace.traces.scratch import Scratch
from pytest_gputrace.traces.suspicion import Look

if TYPE_CHECKING:
    from pathlib import Path


def may_hide_something(data: bytes) -> bool:
    scratch = Scratch()
    scratch.load(data)
    return bool(hidden_places(data, scratch))


@pytest.mark.parametrize(
    "value",
    [
        b"1e999",
        b"1E+400",
        b"-12.5e308",
        b"[0,1e309]",
        b"9" * 310,
        b"9" * 700,
        b"9" * 290 + b"e99",
        b'"\xff"',
        b'"\\ud800"',
        b'"\\uDFFF"',
        b'"C:\\temp"',
    ],
)
def test_what_a_parser_passes_over_is_suspected(value: bytes) -> None:
    for pad in range(0, 160, 13):
        assert may_hide_something(b'{"args": {"x' + b"y" * pad + b'": ' + value + b"}}")


@pytest.mark.parametrize(
    "value",
    [
        b"1e99",
        b"1.5e-300",
        b"5171577480660.661",
        b'"0x7f3e123456"',
        b'"1e999"',
        b'"\xc3\xa9"',
        b'"\\u00e9 \\n"',
        b'"\\ud83d\\ude00 \\\\ud800"',
        b'"C:\\\\temp Note:\\n"',
        b"[" + b"1," * 400 + b"1]",
    ],
)
def test_what_is_right_is_not(value: bytes) -> None:
    assert not may_hide_something(b'{"ph": "X", "args": {"x": ' + value + b'}, "ts": 5.0}')


@pytest.mark.parametrize("text", [b'{"ph" : "X"}', b'{"ph"\n: "X"}', b"{}", b"5"])
def test_all_is_suspected_where_events_and_keys_cannot_be_told(text: bytes) -> None:
    assert Look().suspects(text, 1) == [(0, 0, len(text), None)]


def suspected(known: list[str], events: list[str], between: str = ",") -> list[int]:
    """Which of ``events`` are suspected, for more than being new, by one who has seen the known ones."""
    look = Look()
    for text in known:
        for suspect in look.suspects(text.encode(), 1):
            assert suspect.pattern is not None
            look.learn(suspect)
    data = between.join(events).encode()
    found = [suspect for suspect in look.suspects(data, len(events)) if suspect.pattern is None]
    for suspect in found:
        whole = len(found) == 1 and (suspect.start, suspect.stop) == (0, len(data))
        assert whole or data[suspect.start : suspect.stop] == events[suspect.event].encode()
    return [suspect.event for suspect in found]


X = '{"ph": "X", "name": "a", "ts": 1}'
META = '{"name": "process_name", "ph": "M", "args": {"name": "python"}}'


class TestKeysThatComeTwice:
    @pytest.mark.parametrize(
        "twice",
        [
            '{"name": "process_name", "ph": "M", "name": {"args": "python"}}',
            '{"name": "process_name", "ph": "M", "args": "python", "name": {}}',
            '{"x": [1, {"y": 1}], "x": 2}',
            '{"x": [{}, {"y": 1}], "x": 2}',
            '{"x": {"y": {"a": 1, "a": 2}}}',
            '{"a key of sixteen bytes": 1, "z": 2, "a key of sixteen bytes": 1}',
            '{"ph": "X", "name": "a", "ts": 1, "args": {"x": 1, "x": 1}}',
            '{"ph": "X", "ph": "X", "name": "a", "ts": 1}',
            '{"": 1, "": 2}',
            '{"#": 1, "b": "},{", "#": 2}',
            '{"k\\"y": 1, "k\\"y": 2}',
            '{"n": "},{\\"ph\\": 1", "ts": 1, "ts": 2}',
            '{"\\u0061": 1, "a": 2}',
            '{"\u00e9": 1, "\u00e9": 2}',
        ],
    )
    def test_are_found_among_others_and_only_they_are(self, twice: str) -> None:
        assert suspected([X], [X, META, twice, META, X]) in ([2], [0])
        assert suspected([X], [X, META, X]) == []

    def test_where_the_same_keys_were_seen_without(self) -> None:
        known = '{"a": 1, "args": {"b": 1}, "c": 2}'
        same_keys = '{"a": 1, "args": {"b": 1, "c": 2}}'
        assert suspected([known], [same_keys, known]) == []
        assert suspected([known, X], [known, '{"a": 1, "args": {"b": 1}, "a": 2}', X]) == [1]
        nested = '{"a": 1, "args": {"a": 1}}'
        assert suspected([], [nested, '{"a": 1, "a": 1, "args": {}}', nested]) == [1]

    @pytest.mark.parametrize("between", [",", ", ", ",\n  ", " ,\r\n\t"])
    def test_events_need_not_begin_alike(self, between: str) -> None:
        events = [
            X,
            META,
            '{"ts": 1, "ph": "s"}',
            '{"args": {"l": [[], {"p": 1}]}, "ph": "{, {"}',
            '{"a": "\\\\", "b": "\\"{"}',
            X,
        ]
        assert suspected([X], events, between) == []

    def test_values_that_are_no_objects_are_left_to_the_strict_reader(self) -> None:
        for events in (
            [X, "5"],
            ["5", X],
            [X, "5", X],
            [X, '"}"', X],
            [X, '[{"a": 1}, {"b": 2}]'],
            ['{"a": [{}, {"b": 1}], "a": 2}', "5"],
        ):
            assert suspected([X], events) == [0]

    def test_a_dense_run_of_odd_events_is_not_judged_as_a_whole(self) -> None:
        broken = '{"ph": "X", "name": "a", "ts": 1e999}'
        assert suspected([X], [X, broken] * 50) == list(range(1, 100, 2))
        assert suspected([X], [X, '{"ph": "X", "name": "C:\\temp", "ts": 1}', X]) == [1]


names = st.sampled_from(["a", "b", "ph", "", "#x", "External id", "Python parent id", "Process Group Name of ranks"])
small = st.integers(0, 9) | st.sampled_from(["", "},{", ':"', "::f", "{", "a"])
objects = st.recursive(
    small.map(json.dumps),
    lambda inner: (
        st.lists(st.tuples(names, inner), max_size=4).map(
            lambda pairs: "{" + ", ".join(f"{json.dumps(key)}: {value}" for key, value in pairs) + "}"
        )
        | st.lists(inner, max_size=3).map(lambda items: "[" + ",".join(items) + "]")
    ),
    max_leaves=6,
)


def has_twice(text: str) -> bool:
    found: list[bool] = []
    json.loads(text, object_pairs_hook=lambda pairs: found.append(len(dict(pairs)) < len(pairs)))
    return any(found)


@settings(max_examples=300)
@given(st.lists(objects.filter(lambda text: text.startswith("{")), min_size=1, max_size=6))
def test_no_event_with_a_key_twice_is_missed(events: list[str]) -> None:
    look = Look()
    data = ",".join(events).encode()
    for _ in range(2):  # a second time, with all that was learned
        found = look.suspects(data, len(events))
        whole = [suspect for suspect in found if suspect.stop - suspect.start == len(data)]
        suspects = {suspect.event for suspect in found}
        assert whole or suspects >= {index for index, text in enumerate(events) if has_twice(text)}
        for suspect in found:
            if not has_twice("[" + data[suspect.start : suspect.stop].decode() + "]"):
                look.learn(suspect)


def test_events_alike_are_looked_at_closely_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What keeps reading fast: of ten thousand events few reach the strict reader."""
    path = tmp_path / "trace.json"
    events = [
        {"ph": "X", "name": f"k{number % 7}", "ts": number, "args": {"correlation": number}} for number in range(10_000)
    ]
    path.write_text(json.dumps({"traceEvents": events}))
    read: list[int] = []

    def parse(text: str) -> Any:
        read.append(len(text))
        return real(text)

    real = strict.parse
    monkeypatch.setattr("pytest_gputrace.traces.judging.parse", parse)
    monkeypatch.setattr("pytest_gputrace.traces.pieces.RUN_BYTES", 20_000)
    monkeypatch.setattr("pytest_gputrace.traces.blocks._BLOCK_BYTES", 20_000)
    assert len(open_trace(path).events) == 10_000
    assert sum(read) < path.stat().st_size / 5
