"""What all workers answer together: there and back, and in lines for people."""

from __future__ import annotations

import json

import pytest

from pytest_gputrace.control.answer import Answer
from pytest_gputrace.control.verdict import RankVerdict, natural, shown

ANSWER = Answer(
    False,
    "failed",
    "1 of 3 ranks: 2 files in /p",
    "id",
    "/p",
    (
        RankVerdict("TP0", "ok", files=("/p/id-TP0.torch.json",)),
        RankVerdict("TP1", "dead", "killed by signal 9 (SIGKILL)", ("/p/id-TP1.torch.json",)),
        RankVerdict("TP2", "missing", "no file of it is there"),
    ),
    ("TP2: missing: no file of it is there", "the disk is full"),
)


def test_an_answer_crosses_http_unchanged() -> None:
    assert Answer.from_json(json.loads(json.dumps(ANSWER.as_json()))) == ANSWER


def test_of_an_answer_without_ranks_too() -> None:
    refused = Answer(False, "refused", "no")
    assert Answer.from_json(refused.as_json()) == refused
    assert Answer.from_json({"ok": True, "status": "idle", "message": "m"}) == Answer(True, "idle", "m")


@pytest.mark.parametrize(
    "given", [{}, {"ok": True}, {**ANSWER.as_json(), "more": 1}, {**ANSWER.as_json(), "ranks": [{}]}]
)
def test_what_is_no_answer_is_a_type_error(given: dict[str, object]) -> None:
    with pytest.raises(TypeError):
        Answer.from_json(given)


def test_it_is_described_by_the_ranks_that_are_not_ok_and_says_nothing_twice() -> None:
    assert ANSWER.describe().splitlines() == [
        "TP1: dead: killed by signal 9 (SIGKILL) (files: id-TP1.torch.json)",
        "TP2: missing: no file of it is there",
        "the disk is full",
        "1 of 3 ranks: 2 files in /p",
    ]


def test_ranks_are_sorted_as_people_do() -> None:
    assert sorted(["TP10", "TP2", "rank 11", "rank 9"], key=natural) == ["TP2", "TP10", "rank 9", "rank 11"]


def test_a_name_in_a_message_is_printable_and_short() -> None:
    assert shown("a\nb\udcff") == "a\\nb\\udcff"
    assert len(shown("x" * 5000)) < 400


def test_what_an_engine_says_breaks_no_line() -> None:
    rank = RankVerdict("TP0\n", "failed", "a\x1b[2Jb\nc")
    told = Answer(False, "failed", "one\ntwo", ranks=(rank,), reasons=("three\rfour",)).describe()
    assert told.splitlines() == ["TP0\\n: failed: a\\x1b[2Jb\\nc", "three\\rfour", "one\\ntwo"]
