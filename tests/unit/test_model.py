"""The data model: identities that cannot be wrong, and marks that are read back exactly."""

from __future__ import annotations

import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_gputrace.model import Capture, Mark, WorkerId


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"node": ""}, "node is empty"),
        ({"rank": 4}, "rank 4 is not in a world of 4"),
        ({"rank": -1}, "rank -1 is not in a world of 4"),
        ({"local_rank": -1}, "must not be negative"),
        ({"restart": -1}, "must not be negative"),
        ({"local_rank": 2, "local_world_size": 2}, "local_rank 2 is not in a node of 2"),
    ],
)
def test_an_impossible_worker_is_refused(fields: dict[str, object], message: str) -> None:
    possible = {"node": "n", "rank": 0, "local_rank": 0, "world_size": 4}
    with pytest.raises(ValueError, match=message):
        WorkerId(**{**possible, **fields})  # type: ignore[arg-type]  # wrong on purpose


def test_the_tag_names_only_the_coordinates_that_exist() -> None:
    worker = WorkerId("n", 0, 0, 1, coordinates={"DP": 1, "CP": 0, "TP": 2})
    assert worker.tag == "DP1-CP0-TP2"
    assert WorkerId("n", 0, 0, 1).tag == ""


def test_a_worker_is_a_value() -> None:
    worker = WorkerId("n", 0, 0, 1, coordinates={"DP": 1})
    assert pickle.loads(pickle.dumps(worker)) == worker
    assert len({worker, WorkerId("n", 0, 0, 1, coordinates={"DP": 1})}) == 1
    assert worker != WorkerId("n", 0, 0, 1)


def test_a_capture_reads_as_what_it_is() -> None:
    assert str(Capture("node0", 3, "a:b/fp16")) == "a:b/fp16 on node0 rank 3"
    assert str(Capture("node0", 3, "", 2)) == "(no configuration) on node0 rank 3 round 2"


TEXT = st.text(st.characters())


NUMBERS = st.integers(0, 10**18 - 1)


@given(TEXT.filter(bool), NUMBERS, TEXT, NUMBERS, NUMBERS, NUMBERS)
def test_a_mark_is_read_back_exactly_and_safe_in_any_profiler(
    node: str, rank: int, configuration: str, round_: int, index: int, total: int
) -> None:
    capture = Capture(node, rank, configuration, round_)
    text = capture.mark(index, total)
    assert Mark.parse(text) == Mark(capture, index, total)
    assert text.isascii()
    assert text.isprintable()
    assert not set(text) & set('"\\ ')


@pytest.mark.parametrize(
    "text",
    [
        "aten::mm",
        "gputrace-mark/a/1/b/0/0-of-",
        "xgputrace-mark/a/1/b/0/0-of-1",
        "",
        "gputrace-mark/%FF/1/b/0/0-of-1",
        "gputrace-mark/a/\u0663/b/0/0-of-1",
        f"gputrace-mark/a/{'9' * 5000}/b/0/0-of-1",
    ],
)
def test_any_other_name_is_no_mark(text: str) -> None:
    assert Mark.parse(text) is None
