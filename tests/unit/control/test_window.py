"""When recording begins and ends, by steps alone."""

from __future__ import annotations

import pytest

from pytest_gputrace.control.request import ProfileRequest
from pytest_gputrace.control.window import Close, Open, Window

P, D = "PREFILL", "DECODE"


def recorded(window: Window, stages: list[str | None], *, first: int = 0) -> list[str]:
    """Each step with whether it was recorded, and between them what was done."""
    told: list[str] = []
    for number, stage in enumerate(stages, first):
        told.extend(
            "close" if isinstance(action, Close) else f"open {action.stage or ''}".strip()
            for action in window.before_step(number, stage)
        )
        told.append(f"{number}{'*' if window.is_open else ''}")
    return told


def window(**fields: object) -> Window:
    return Window(ProfileRequest(output_dir="profiles", activities=("CPU",), **fields))  # type: ignore[arg-type]


def test_a_window_of_some_steps_closes_before_the_next() -> None:
    assert recorded(window(start_step=1, num_steps=2), [None] * 5) == ["0", "open", "1*", "2*", "close", "3", "4"]


def test_a_start_step_that_has_passed_means_the_next_one() -> None:
    assert recorded(window(start_step=3, num_steps=1), [None] * 2, first=7) == ["open", "7*", "close", "8"]


def test_without_a_number_of_steps_it_stays_open() -> None:
    assert recorded(window(start_step=0), [None, P, D]) == ["open", "0*", "1*", "2*"]


def test_it_begins_at_once_unless_a_step_or_a_stage_is_waited_for() -> None:
    assert window().at_once
    assert window(num_steps=3).at_once
    assert not window(start_step=0).at_once
    assert not window(profile_by_stage=True).at_once


def test_each_stage_has_a_count_and_a_window_of_its_own() -> None:
    stages: list[str | None] = [P, P, P, D, D, D]
    told = recorded(window(profile_by_stage=True, num_steps=2), stages)
    assert told == ["open PREFILL", "0*", "1*", "close", "2", "open DECODE", "3*", "4*", "close", "5"]


def test_a_stage_that_has_no_window_yet_ends_one_that_is_not_full() -> None:
    asked = window(profile_by_stage=True, num_steps=5)
    assert recorded(asked, [P, D]) == ["open PREFILL", "0*", "close", "open DECODE", "1*"]


def test_stages_that_alternate_leave_the_last_window_its_count() -> None:
    asked = window(profile_by_stage=True, num_steps=2)
    told = recorded(asked, [P, D, P, "IDLE", D, D])
    assert told == ["open PREFILL", "0*", "close", "open DECODE", "1*", "2*", "3*", "4*", "close", "5"]
    assert asked.is_done


def test_by_stage_without_a_number_of_steps_each_lasts_until_the_next_stage() -> None:
    asked = window(profile_by_stage=True)
    assert recorded(asked, [P, P, D, D, P]) == [
        "open PREFILL", "0*", "1*", "close", "open DECODE", "2*", "3*", "close", "4",
    ]  # fmt: skip
    assert asked.is_done


def test_a_step_of_no_stage_counts_for_none_and_ends_none() -> None:
    asked = window(profile_by_stage=True, num_steps=2)
    assert recorded(asked, [None, P, None, P, None]) == ["0", "open PREFILL", "1*", "2*", "3*", "close", "4"]
    assert asked.waiting_for == (D,)


def test_stages_that_nobody_asked_for_are_remembered() -> None:
    asked = window(profile_by_stage=True, stages=("decode",))
    assert recorded(asked, ["EXTEND", "IDLE", "decode"]) == ["0", "1", "open DECODE", "2*"]
    assert list(asked.other_stages) == ["EXTEND", "IDLE"]


@pytest.mark.parametrize("steps", [1, 3])
def test_a_window_is_full_at_its_last_step_and_not_before(steps: int) -> None:
    asked = window(start_step=0, num_steps=steps)
    full = []
    for number in range(steps):
        list(asked.before_step(number, None))
        full.append(asked.is_full)
    assert full == [False] * (steps - 1) + [True]


def test_actions_tell_the_stage() -> None:
    assert list(window(profile_by_stage=True).before_step(0, "decode")) == [Open(D)]
