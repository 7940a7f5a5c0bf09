"""Every kind of damage, in a small trace: which events are in the new file, and what is said to be changed or lost."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

HEAD = '{"schemaVersion": 1, "deviceProperties": [{"id": 0, "name": "NVIDIA"}], "traceEvents": ['
TAIL = '], "displayTimeUnit": "ms", "baseTimeNanoseconds": 17}'


def event(name: str, ts: str = "5.0", args: str = '{"a": [1, 2]}') -> str:
    return f'{{"ph": "X", "cat": "c", "name": "{name}", "pid": 1, "tid": 2, "ts": {ts}, "dur": 1.5, "args": {args}}}'


A, B, C = event("a"), event("b"), event("c")


def trace(*events: str) -> str:
    return HEAD + ", ".join(events) + TAIL


FULL = trace(A, B, C)
CUTS = {
    "in an event": (HEAD + A + ", " + B[:40], ["a"], 40),
    "in a text": (HEAD + A + ", " + B[: B.index('"b"') + 1], ["a"], B.index('"b"') + 1),
    "in a number": (HEAD + A + ", " + B[: B.index("5.0") + 1], ["a"], B.index("5.0") + 1),
    "in an escape": (HEAD + A + ", " + event("b\\u00e9")[:38], ["a"], 38),
    "after an event": (HEAD + A + ", " + B, ["a", "b"], 0),
    "after a comma": (HEAD + A + ", " + B + ",\n", ["a", "b"], 0),
    "in a list": (f"[{A}, {B}, {C[:30]}", ["a", "b"], 30),
    "in a line": (f"{A}\n{B}\n{C[:30]}", ["a", "b"], 30),
}


@pytest.mark.parametrize(("text", "names", "lost"), CUTS.values(), ids=CUTS)
def test_of_a_cut_file_the_whole_events_are_kept(mended: Callable[..., Any], text: str, names: str, lost: int) -> None:
    result = mended(text)
    assert result.names == names
    assert result.repaired.events_lost is None, "nobody knows"
    assert result.repaired.bytes_lost == lost
    assert f"everything from byte {len(text) - lost} on: the events end too early" in result.repaired.lost[-1]


@pytest.mark.parametrize(
    ("missing", "metadata"),
    [
        (len(TAIL) - 1, {}),
        (30, {}),
        (24, {"displayTimeUnit": "ms"}),
        (2, {"displayTimeUnit": "ms"}),  # a number may have had more digits
        (1, {"displayTimeUnit": "ms"}),
    ],
)
def test_of_a_cut_tail_the_whole_members_are_kept(mended: Callable[..., Any], missing: int, metadata: Any) -> None:
    result = mended(FULL[:-missing])
    assert result.names == ["a", "b", "c"]
    assert {key: result.root[key] for key in list(result.root)[3:]} == metadata
    assert result.repaired.events_lost == 0
    assert "what stood after the events" in result.repaired.lost[0]
    assert "the text ends too early" in result.repaired.lost[0]


NOTHING = {
    "in the head": HEAD[:50],
    "in the first event": HEAD + A[:40],
    "no text": "",
    "space": " \n",
    "no list": '{"a": [1, 2]}',
    "a text": '"traceEvents"',
    "numbers": "[1, 2]",
    "no JSON": "Traceback (most recent call last):",
}


@pytest.mark.parametrize("text", NOTHING.values(), ids=NOTHING)
def test_nothing_can_be_saved(mended: Callable[..., Any], text: str) -> None:
    repaired = mended(text).repaired
    assert (repaired.out, repaired.events_kept) == (None, 0)
    assert repaired.lost


# What is in the text, which events are in the new file, what is said to have been found and written.
CHANGES: dict[str, tuple[str | bytes, list[str], list[tuple[str, str]]]] = {
    "quotes": (trace(A, event('q "x" y'), B), ["a", 'q "x" y', "b"], [("a quote that is not escaped", '\\"')] * 2),
    "control": (trace(event("a\nb\x01"), B), ["a\nb\x01", "b"], [("control character 0x0a as it is", "\\n"), ("control character 0x01 as it is", "\\u0001")]),
    "not UTF-8": (HEAD.encode() + event("b\xff").encode("latin-1") + b"," + event("é").encode() + TAIL.encode(), ["b\ufffd", "é"], [("byte 0xff, not UTF-8", "U+FFFD")]),
    "half a pair": (trace(event("a\\ud800"), event("\\ud83d\\ude00")), ["a\ufffd", "😀"], [("\\ud800, half a surrogate pair", "U+FFFD")]),
    "bad escape": (trace(event("C:\\Users\\xa")), ["C:\\Users\\xa"], [("\\U, which is no escape", "the backslash twice"), ("\\x, which is no escape", "the backslash twice")]),
    "comma": (trace("", A, "", B, ""), ["a", "b"], [("a comma too many", "nothing")] * 3),
    "no comma": (trace(A + B), ["a", "b"], [("no comma between two events", '","')]),
    "brace": (trace(A[:-1], B), ["a", "b"], [('no "}" at the end of an object', '"}"')]),
    "two braces": (trace(A[:-2], B), ["a", "b"], [('no "}" at the end of an object', '"}"')] * 2),
    "last brace": (trace(A, B[:-1]), ["a", "b"], [('no "}" at the end of an object', '"}"')]),
    "bracket": (trace(event("a", args='{"a": [1, 2}'), B), ["a", "b"], [('no "]" at the end of a list', '"]"')]),
    "bracket, key": (trace(event("a", args='{"a": [1, 2, "b": 3}'), B), ["a", "b"], [('no "]" at the end of a list', '"]"')]),
    "list": (HEAD + A + TAIL[1:], ["a"], [('no "]" at the end of the events', '"]"')]),
    "list, root": (HEAD + A + "}", ["a"], [('no "]" at the end of the events', '"]"')]),
    "brace too many": (trace(A + "}", B), ["a", "b"], [('a "}" between two events', "nothing")]),
    "bracket too many": (trace(A + "]", B), ["a", "b"], [('a "]" between two events', "nothing")]),
    "byte order mark": ("\ufeff" + FULL, ["a", "b", "c"], [("a byte order mark", "nothing")]),
    "key twice": (trace(A.replace('"tid"', '"tid": 7, "tid"'), B), ["a", "b"], [("a key that stood there before", "the last of its values")]),
    "lines": (f"{A}\n{B}\n", ["a", "b"], [("events with no list around them", "a list")]),
    "head": (FULL.replace('"NVIDIA"', '"NV"IDIA"'), ["a", "b", "c"], [("a quote that is not escaped", '\\"')]),
    "tail": (FULL.replace('"ms"', '"m"s"'), ["a", "b", "c"], [("a quote that is not escaped", '\\"')]),
    "key twice, head": (FULL.replace('"schema', '"schemaVersion": 2, "schema'), ["a", "b", "c"], [("a key that stood there before", "the last of its values")]),
}  # fmt: skip


@pytest.mark.parametrize(("text", "names", "changes"), CHANGES.values(), ids=CHANGES)
def test_what_can_be_mended_is(mended: Callable[..., Any], text: str, names: list[str], changes: Any) -> None:
    result = mended(text)
    assert result.names == names
    assert result.changes == changes
    assert (result.repaired.events_lost, result.repaired.lost) == (0, ())


def test_numbers_and_words_that_json_has_not(mended: Callable[..., Any]) -> None:
    result = mended(trace(event("a", args='{"a": [NaN, -Infinity, 1e999, inf, N/A, None, True, False]}'), B))
    assert result.events[0]["args"] == {"a": [None] * 6 + [True, False]}
    assert result.changes[2] == ("a number that no double holds", "null")
    assert result.changes[4:] == [("N/A", "null"), ("None", "null"), ("True", "true"), ("False", "false")]


def test_an_event_without_a_finite_time_is_dropped(mended: Callable[..., Any]) -> None:
    result = mended(trace(A, event("b", ts="NaN"), C))
    assert result.names == ["a", "c"]
    place = len(HEAD + A + ", ")
    assert result.repaired.lost == (f'event 1 ("b"), byte {place}: its ts is no finite number',)
    assert (result.repaired.events_lost, result.changes) == (1, [])


def test_the_last_value_of_a_key_that_stands_twice_is_kept(mended: Callable[..., Any]) -> None:
    result = mended(trace(A.replace('"tid"', '"tid": 7, "tid"'), B))
    assert result.events[0] == {**result.events[1], "name": "a"}


def test_a_key_that_stands_before_the_events_and_behind_them_has_its_first_value(mended: Callable[..., Any]) -> None:
    result = mended(FULL.replace('"displayTimeUnit": "ms"', '"schemaVersion": 3'))
    assert result.root["schemaVersion"] == 1
    assert result.changes[0][1].startswith("the first of its values")


def test_an_event_that_cannot_be_read_is_named_and_left_out(mended: Callable[..., Any]) -> None:
    broken = B.replace('"pid": 1', '"pid": x?')
    result = mended(trace(A, broken, C))
    assert result.names == ["a", "c"]
    assert result.root["baseTimeNanoseconds"] == 17
    place, size = len(HEAD + A + ", "), len(broken + ", ")
    assert result.repaired.lost == (f'event 1 ("b"), byte {place}: {size} bytes that cannot be read',)
    assert (result.repaired.events_lost, result.repaired.bytes_lost) == (1, size)


def test_what_stands_behind_a_broken_last_event_is_kept(mended: Callable[..., Any]) -> None:
    result = mended(trace(A, B.replace('"pid": 1', '"pid": x?')))
    assert result.names == ["a"]
    assert result.root["baseTimeNanoseconds"] == 17
    assert result.repaired.events_lost == 1


def test_nobody_knows_how_many_events_stood_in_a_hole(mended: Callable[..., Any]) -> None:
    result = mended(trace(A, B[:30] + "\0" * 100 + C[30:], C))
    assert result.names == ["a", "c"]
    assert result.repaired.events_lost is None


def test_items_that_are_no_objects_are_dropped(mended: Callable[..., Any]) -> None:
    result = mended(trace(A, "5", '"x"', "[1]", "null", B))
    assert result.names == ["a", "b"]
    assert result.repaired.events_lost == 4
    assert all(words.endswith("it is no object") for words in result.repaired.lost)


def test_an_event_nested_too_deep_is_dropped(mended: Callable[..., Any]) -> None:
    result = mended(trace(A, event("deep", args="[" * 3000 + "]" * 3000), C))
    assert result.names == ["a", "c"]
    assert result.repaired.events_lost == 1


def test_a_part_of_the_head_that_cannot_be_read_is_left_out(mended: Callable[..., Any]) -> None:
    result = mended(FULL.replace('"NVIDIA"', '"NVIDIA" ? ?'))
    assert result.names == ["a", "b", "c"]
    assert {**result.root, "traceEvents": 0} == {
        "schemaVersion": 1, "traceEvents": 0, "displayTimeUnit": "ms", "baseTimeNanoseconds": 17
    }  # fmt: skip
    assert "bytes around the events" in result.repaired.lost[0]


def test_nothing_of_what_stands_around_the_events_is_told(mended: Callable[..., Any]) -> None:
    secret = '{"token": "hunter2", "path": "C:\\hunter2", "y": "a"hunter2", '
    for more in ("", '"x": [hunter2], '):
        repaired = mended(FULL.replace("{", secret + more, 1)).repaired
        assert repaired.changes
        assert bool(repaired.lost) == bool(more)
        assert "hunter" not in f"{repaired.changes} {repaired.lost}"


def test_valid_json_stays_however_odd(mended: Callable[..., Any]) -> None:
    odd = trace(A.replace("1.5", "-1"), '{"ph": "E", "ts": "late"}', "{}")
    result = mended(odd)
    assert result.text.decode() == odd
    assert result.repaired.clean


def test_changes_of_one_kind_are_counted_not_listed_without_end(mended: Callable[..., Any]) -> None:
    result = mended(trace(*[event('"x"')] * 50, *[event("y", ts="NaN")] * 50))
    assert len(result.repaired.changes) == 20
    assert result.repaired.changes[-1].more == 80
    assert len(result.repaired.lost) == 21
    assert result.repaired.lost[-1] == "30 more like these"
    assert result.repaired.events_lost == 50


def test_a_change_has_its_byte_and_event(mended: Callable[..., Any]) -> None:
    text = trace(A, event("b\t"), C)
    change = mended(text).repaired.changes[0]
    assert (change.byte, change.event) == (text.index("\t"), 1)


def test_a_value_beyond_all_bounds_is_left_out(mended: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pytest_gputrace.traces.blocks._BLOCK_BYTES", 1000)
    for module in ("single", "document"):
        monkeypatch.setattr(f"pytest_gputrace.repair.{module}.LARGEST", 200_000)
    huge = '{"a": [' + "1, " * 200_000 + "1]}"
    result = mended(trace(A, event("huge", args=huge), C))
    assert result.names == ["a", "c"]
    assert result.repaired.events_lost == 1
    assert mended(FULL.replace('"NVIDIA"', huge)).repaired.out is None


def test_a_key_that_is_spelled_two_ways_stands_twice(mended: Callable[..., Any]) -> None:
    result = mended(trace(A, B.replace('"tid"', '"t\\u0069d": 7, "tid"'), C))
    assert result.events[1] == {**result.events[0], "name": "b"}
    assert [found for found, _ in result.changes] == ["a key that stood there before"]


def test_a_plus_sign(mended: Callable[..., Any]) -> None:
    result = mended(trace(A, event("b", ts="+5.0")))
    assert result.events[1]["ts"] == 5
    assert result.changes == [("a plus sign before a number", "the number")]


def test_of_an_event_that_ends_in_another_no_half_is_kept(mended: Callable[..., Any]) -> None:
    result = mended(trace(A, B[: B.index('"dur"')] + C, C))
    assert result.names == ["a", "c", "c"]
    assert result.repaired.events_lost == 1
