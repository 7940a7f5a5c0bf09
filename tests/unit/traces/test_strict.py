"""The strict reader of JSON text against an independent oracle: Python's own parser, walked for what it lets pass."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_gputrace.traces.scanner import Scanner
from pytest_gputrace.traces.strict import parse

LOOSE = ("root", "event", "deep", "path")


def refuse(token: str) -> Any:
    raise ValueError(token)


def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len(dict(pairs)) != len(pairs):
        raise ValueError("duplicate")
    return dict(pairs)


def is_clean(value: Any) -> bool:
    if isinstance(value, str):
        return not any(0xD800 <= ord(char) <= 0xDFFF for char in value)
    if isinstance(value, float):
        return math.isfinite(value)
    if isinstance(value, int):
        return abs(value) < 2**1024
    if isinstance(value, dict):
        return all(is_clean(key) and is_clean(item) for key, item in value.items())
    return not isinstance(value, list) or all(map(is_clean, value))


def python_accepts(text: str) -> bool:
    try:
        return is_clean(json.loads(text, parse_constant=refuse, object_pairs_hook=unique))
    except ValueError:
        return False


SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | st.just(10**400)
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner, max_size=4)
)
EVENTS = st.lists(st.dictionaries(st.sampled_from(["name", "args", "ts", "cat"]), VALUES, max_size=4), max_size=4)
EDITS = st.lists(
    st.tuples(st.integers(0, 10_000), st.integers(0, 2), st.sampled_from(list('"\\,:[]{}09e.-+ntuNd8\x01 ')))
)


@settings(max_examples=250, deadline=None)
@given(EVENTS | VALUES, EDITS, st.booleans())
def test_scanner_and_quick_way_agree_with_python(
    value: Any, edits: list[tuple[int, int, str]], ascii_only: bool
) -> None:
    text = json.dumps(value, ensure_ascii=ascii_only)
    for place, width, char in edits:
        place %= len(text) + 1
        text = text[:place] + char + text[place + width :]
    accepted = python_accepts(text)
    for document in (Scanner(text).scan(), parse(text)):
        problems = [problem for problem in document.problems if problem.kind not in LOOSE]
        assert (problems == []) == accepted, (text, problems)


@settings(max_examples=100, deadline=None)
@given(EVENTS)
def test_scanner_and_quick_way_see_the_same_events(value: list[dict[str, Any]]) -> None:
    text = json.dumps({"traceEvents": value}, allow_nan=True)
    scanned, quick = Scanner(text).scan(), parse(text)
    assert (scanned.events, scanned.names) == (quick.events, quick.names)
    assert scanned.events == len(value)


@pytest.mark.parametrize("open_", ["[", '{"a":'])
def test_nesting_beyond_pythons_limit_is_a_problem(open_: str) -> None:
    close = "]" if open_ == "[" else "}"
    depth = 100_000
    text = f'[{{"name": "x", "args": {open_ * depth}1{close * depth}}}]'
    [problem] = parse(text).problems
    assert problem.kind == "deep"
    assert f"values nested {depth + 2} deep" in problem.message
