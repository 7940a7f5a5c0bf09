"""Columns: what becomes of values that are not as a trace has them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from pytest_gputrace.traces import open_trace

if TYPE_CHECKING:
    from pathlib import Path


def written(path: Path, *arguments: Any) -> Path:
    events = [{"ph": "X", "name": "k", "ts": 1, "args": value} for value in arguments]
    path.write_text(json.dumps({"traceEvents": events}))
    return path


@pytest.mark.parametrize("key", ["correlation", "device", "stream", "bytes"])
class TestNumbersOfTheArguments:
    @pytest.mark.parametrize("value", [1.5, True, None, [1], {"a": 1}])
    def test_what_is_neither_a_number_nor_a_text_is_none(self, key: str, value: Any, tmp_path: Path) -> None:
        trace = open_trace(written(tmp_path / "a.json", {}, {key: value}, {key: 7}))
        column = getattr(trace.events, "size" if key == "bytes" else key)
        assert [trace.events.text_of(int(number)) for number in column] == [None, None, 7]
        assert trace.problems == ()

    @pytest.mark.parametrize("value", ["7", "a", -5, 2**63, 10**30])
    def test_what_no_column_holds_is_kept_as_a_text(self, key: str, value: Any, tmp_path: Path) -> None:
        trace = open_trace(written(tmp_path / "a.json", {key: value}, {key: 7}))
        column = getattr(trace.events, "size" if key == "bytes" else key)
        assert [trace.events.text_of(int(number)) for number in column] == [str(value), 7]

    def test_events_of_odd_types_beside_it_change_nothing(self, key: str, tmp_path: Path) -> None:
        path = tmp_path / "a.json"
        known = {"ph": "X", "name": "k", "args": {key: 7}}
        path.write_text(json.dumps({"traceEvents": [{**known, "ts": "odd"}, known, {**known, "args": {key: "t"}}]}))
        events = open_trace(path).events
        column = getattr(events, "size" if key == "bytes" else key)
        assert [events.text_of(int(number)) for number in column] == [7, 7, "t"]


def test_arguments_that_are_null_are_none(tmp_path: Path) -> None:
    events = open_trace(written(tmp_path / "a.json", None, {"bytes": 4096})).events
    assert events.size.tolist() == [-1, 4096]
    assert (events.gpu_us, events.calls) == (None, None)
