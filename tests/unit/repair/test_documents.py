"""Files that hold more than one document: one capture is kept whole, never two mixed."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable


def trace(rank: int, count: int = 2) -> str:
    events = [
        {"ph": "X", "name": f"{rank}.{index}", "pid": 1, "tid": 1, "ts": index, "dur": 1} for index in range(count)
    ]
    return json.dumps({"schemaVersion": 1, "distributedInfo": {"rank": rank}, "traceEvents": events})


@pytest.mark.parametrize("between", ["", "\n", "  \n"])
def test_the_first_document_is_kept_and_the_others_are_counted(mended: Callable[..., Any], between: str) -> None:
    result = mended(between.join([trace(0), trace(1, 3), trace(2, 4)]))
    assert result.text.decode() == trace(0)
    assert (result.repaired.documents, result.repaired.events_lost) == (3, 7)
    second = len(trace(0) + between)
    assert result.repaired.lost[0] == f"document 2, byte {second}: another trace, of 3 events; it is not mixed in"
    assert "of 4 events" in result.repaired.lost[1]


def test_another_document_can_be_chosen(mended: Callable[..., Any]) -> None:
    result = mended(trace(0) + "\n" + trace(1, 3), document=2)
    assert result.root == json.loads(trace(1, 3))
    assert result.repaired.lost[0].startswith("document 1, byte 0: another trace, of 2 events")


def test_a_document_that_is_not_there(mended: Callable[..., Any]) -> None:
    repaired = mended(trace(0), document=2).repaired
    assert repaired.out is None
    assert "there is no document 2, only 1" in repaired.lost[-1]


@pytest.mark.parametrize("document", [0, -1])
def test_documents_are_counted_from_one(mended: Callable[..., Any], document: int) -> None:
    with pytest.raises(ValueError, match="counted from 1"):
        mended(trace(0), document=document)


@pytest.mark.parametrize("document", [1, 2])
def test_no_event_of_a_second_writer_joins_those_of_the_first(mended: Callable[..., Any], document: int) -> None:
    first, second = trace(0, 3), trace(1, 3)
    end = first.index('"0.2"')
    for size in range(first.index('"0.1"'), end):
        result = mended(first[:size] + second, document=document)
        ranks = {name[0] for name in result.names}
        assert ranks == {str(document - 1)}, first[:size]
        assert result.root["distributedInfo"] == {"rank": document - 1}
        if document == 2:
            assert result.text.decode() == second


def test_a_second_list_after_one_that_was_cut(mended: Callable[..., Any]) -> None:
    events = json.loads(trace(0))["traceEvents"]
    text = json.dumps(events)
    result = mended(text[:-20] + text)
    assert result.events == events[:1]
    assert result.repaired.documents == 2


def test_bytes_that_trail(mended: Callable[..., Any]) -> None:
    result = mended(trace(0) + "\nkilled")
    assert result.text.decode() == trace(0)
    assert result.repaired.lost == (f"6 bytes from byte {len(trace(0)) + 1} on, which belong to no document",)
    assert result.repaired.bytes_lost == 6


def test_a_log_before_the_trace(mended: Callable[..., Any]) -> None:
    result = mended('starting {"a": 1}\n' + trace(0))
    assert result.text.decode() == trace(0)
    assert result.repaired.bytes_lost == 18


def test_a_second_list_of_events_in_one_document(mended: Callable[..., Any]) -> None:
    result = mended(trace(0)[:-1] + ', "traceEvents": [{"name": "z"}]}')
    assert result.root == json.loads(trace(0))
    assert "a second list of events" in result.repaired.lost[0]
    assert result.repaired.events_lost is None


def test_the_new_file_says_what_was_done(mended: Callable[..., Any]) -> None:
    cut = mended('{"traceEvents": [{"ph": "X", "name": "a"}, {"ph": "X", "na')
    assert cut.note == {"events_kept": 1, "events_lost": None, "changes": 0}
    changed = mended('{"traceEvents": [{"ph": "X", "name": "a", "args": {"x": NaN}}], "x": 1}')
    assert changed.note == {"events_kept": 1, "events_lost": 0, "changes": 1}
    left_out = mended('{"traceEvents": [{"ph": "X", "name": "a"}, 7], "x": {}}')
    assert left_out.note == {"events_kept": 1, "events_lost": 1, "changes": 0}
    assert mended('{"traceEvents": [{"ph": "X", "name": "a"}]}').note is None


def test_what_was_said_before_is_not_said_twice(mended: Callable[..., Any]) -> None:
    note = '"gputrace_repaired": {"events_kept": 1, "events_lost": 2, "changes": 3}'
    for text in (
        "{" + note + ', "traceEvents": [{"ph": "X", "name": "a"},]}',
        '{"traceEvents": [{"ph": "X", "name": "a"},], ' + note + "}",
    ):
        assert mended(text).text.count(b"gputrace_repaired") == 1
