"""Quotes that torch up to 2.13 does not escape: names of operators, of compiled files, of process groups."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

NAMES = [
    'say "hi"',
    '"',
    '""',
    'end"',
    '"begin',
    '", "',
    'f({"a": 1, "b": 2})',
    '{"a": "x", "b": 2}',
    '[{"a": "x"}, {"b": 2}]',
    'g({"name": "x", "id": "y"})',
    '{"id": "x", "ts": "y"}',
    'x["a"]["b"]',
    '"}, {"',
    'a:"b", "c":',
    '<dict {"a": {"b": "c"}}>',
    'backslash \\\\ and "quote"',
]


def kineto(name: str) -> str:
    """An event as Kineto lays it out."""
    return f"""  {{
    "ph": "X",
    "cat": "user_annotation",
    "name": "{name}",
    "pid": 27650,
    "tid": 27650,
    "ts": 5218185378742.148,
    "dur": 1952.501
    ,
    "args": {{
      "External id": 1,"Concrete Inputs": ["[3, 3]", "", "False"], "Input type": ["ScalarList", ""], "Ev Idx": 0
    }}
  }}"""


def document(*events: str) -> str:
    return (
        '{\n    "schemaVersion": 1,\n    "traceEvents": [\n' + ",\n".join(events) + '\n  ],"traceName": "/tmp/t.json" }'
    )


@pytest.mark.parametrize("name", NAMES)
def test_the_name_is_read_as_it_was_meant(mended: Callable[..., Any], name: str) -> None:
    result = mended(document(kineto("before"), kineto(name), kineto("after")))
    good = json.loads(document(*[kineto("before")] * 3))
    meant = json.loads(f'"{name}"') if "\\" in name and '"' not in name else name.replace("\\\\", "\\")
    for event, expected in zip(good["traceEvents"], ["before", meant, "after"], strict=True):
        event["name"] = expected
    assert result.root == good
    assert result.repaired.events_lost == 0


@pytest.mark.parametrize("name", ['say "hi"', 'f({"a": 1, "b": 2})', '{"a": "x", "b": 2}', '"'])
def test_every_name_may_be_broken(mended: Callable[..., Any], name: str) -> None:
    assert mended(document(*[kineto(name)] * 3)).names == [name] * 3


def test_other_texts_may_be_broken(mended: Callable[..., Any]) -> None:
    thread = '{"name": "thread_name", "ph": "M", "ts": 0, "pid": 1, "tid": 2, "args": {"name": "thread 2 (a"b)"}}'
    inputs = kineto("a").replace('"[3, 3]"', '"["x"]", "y"z"')
    result = mended(document(kineto("before"), thread, inputs))
    assert result.events[1]["args"] == {"name": 'thread 2 (a"b)'}
    assert result.events[2]["args"]["Concrete Inputs"] == ['["x"]', 'y"z', "", "False"]


def test_metadata_may_be_broken(mended: Callable[..., Any]) -> None:
    groups = '"distributedInfo": {"rank": 1, "pg_config": [{"pg_desc": "my "group"", "ranks": [0, 1]}]}'
    note = '"note": "{"a": "x", "b": 2}"'
    result = mended(document(kineto("a")).replace('"schemaVersion": 1', f'"schemaVersion": 1, {groups}, {note}'))
    assert result.root["distributedInfo"] == {"rank": 1, "pg_config": [{"pg_desc": 'my "group"', "ranks": [0, 1]}]}
    assert result.root["note"] == '{"a": "x", "b": 2}'


def test_a_name_that_looks_like_events_costs_no_more_than_its_event(mended: Callable[..., Any]) -> None:
    result = mended(document(kineto("before"), kineto('{"ph": "X"}, {"ph": "y"}'), kineto("after")))
    assert result.names == ["before", "after"]
    assert result.repaired.lost


def test_a_quote_that_is_missing_costs_no_more_than_its_event(mended: Callable[..., Any]) -> None:
    events = [kineto("before"), kineto("lost").replace('lost"', "lost"), kineto("after")]
    result = mended(document(*events))
    assert result.names == ["before", "after"]
    assert result.repaired.events_lost == 1
