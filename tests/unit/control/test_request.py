"""What can be asked for: every reason at once, before anything is changed."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

import pytest

from pytest_gputrace.control.request import DEFAULT_STAGES, ProfileRequest, new_profile_id
from pytest_gputrace.errors import RequestError

if TYPE_CHECKING:
    from pathlib import Path


def reasons(**fields: Any) -> str:
    with pytest.raises(RequestError) as raised:
        ProfileRequest(**{"output_dir": "profiles", **fields})
    return " | ".join(raised.value.reasons)


def test_ids_of_one_nanosecond_differ(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.time_ns", lambda: 1_796_028_603_480_660_661)
    ids = {new_profile_id() for _ in range(50)}
    assert len(ids) == 50
    assert all(text.startswith("1796028603480660661-") for text in ids)


def test_a_folder_is_made_absolute_by_who_asks(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    assert ProfileRequest("profiles").output_dir == os.path.join(os.getcwd(), "profiles")


def test_words_may_be_in_any_case_and_double() -> None:
    request = ProfileRequest("p", activities=("cpu", "Proton", "CPU"), profile_by_stage=True, stages=("decode",))
    assert (request.activities, request.stages) == (("CPU", "PROTON"), ("DECODE",))


def test_by_stage_without_stages_means_both() -> None:
    assert ProfileRequest("p", profile_by_stage=True).stages == DEFAULT_STAGES


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"output_dir": ""}, "output_dir is ''; it is the path of a folder"),
        ({"output_dir": "a\0b"}, "output_dir has a character NUL"),
        ({"profile_id": ""}, "profile_id is ''; it is a text of 1 to 200 characters"),
        ({"profile_id": "x" * 201}, "it is a text of 1 to 200 characters"),
        ({"activities": ()}, "activities is empty; give some of CPU, GPU"),
        ({"activities": "CPU"}, "activities is 'CPU'; it is a list of words"),
        ({"activities": ("CPU", "NSYS")}, "no activity is called 'NSYS'; give some of CPU"),
        ({"activities": ("CPU", 7)}, "no activity is called '7'"),
        ({"start_step": -1}, "start_step is -1; it is a whole number from 0"),
        ({"start_step": True}, "start_step is True; it is a whole number from 0"),
        ({"num_steps": 0}, "num_steps is 0; it is a whole number from 1"),
        ({"num_steps": 2.0}, "num_steps is 2.0; it is a whole number from 1"),
        ({"num_steps": 1 << 60}, "it is a whole number from 1"),
        ({"stages": ("DECODE",)}, "stages are named, and profile_by_stage is not set"),
        ({"stages": ("",), "profile_by_stage": True}, "a stage is ''; it is a text of 1 to 64 characters"),
        ({"stages": [f"S{n}" for n in range(33)], "profile_by_stage": True}, "33 stages are named; 32 are the most"),
        ({"profile_by_stage": "yes"}, "profile_by_stage is 'yes'; it is true or false"),
        ({"with_stack": 1}, "with_stack is 1; it is true or false"),
        ({"deadline_s": float("nan")}, "deadline_s is nan; it is a number of seconds"),
        ({"deadline_s": 0}, "deadline_s is 0; it is a number of seconds"),
        ({"deadline_s": "60"}, "deadline_s is '60'; it is a number of seconds"),
    ],
)
def test_what_cannot_be_is_told(fields: dict[str, Any], told: str) -> None:
    assert told in reasons(**fields)


def test_all_reasons_are_told_at_once() -> None:
    told = reasons(activities=("X",), num_steps=-1, deadline_s=-1)
    assert told.count(" | ") == 2


def test_it_survives_json() -> None:
    request = ProfileRequest("p", activities=("PROTON", "VIZTRACER"), num_steps=3, profile_by_stage=True, deadline_s=9)
    assert ProfileRequest.from_json(json.loads(json.dumps(request.as_json()))) == request


def test_null_stands_for_a_field_that_is_not_given() -> None:
    request = ProfileRequest.from_json({"output_dir": "p", "num_steps": None, "activities": None})
    assert (request.num_steps, request.activities) == (None, ("CPU", "GPU"))


def test_a_field_that_there_is_not_is_told() -> None:
    with pytest.raises(RequestError, match="there is no field 'num_step'; the fields are output_dir, profile_id, "):
        ProfileRequest.from_json({"output_dir": "p", "num_step": 3})


def test_the_folder_may_come_from_who_is_asked(tmp_path: Path) -> None:
    assert ProfileRequest.from_json({}, output_dir=str(tmp_path)).output_dir == str(tmp_path)
    with pytest.raises(RequestError, match="output_dir is not given"):
        ProfileRequest.from_json({})
