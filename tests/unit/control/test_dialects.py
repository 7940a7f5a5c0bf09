"""What each kind of engine is told: exactly the fields that are given, under its names, or a refusal that says what to do."""

from __future__ import annotations

import os
from dataclasses import fields
from typing import TYPE_CHECKING, Any

import pytest

from pytest_gputrace.control.dialects import DIALECTS, KINDS
from pytest_gputrace.control.request import ACTIVITIES, ProfileRequest
from pytest_gputrace.errors import RequestError

if TYPE_CHECKING:
    from pathlib import Path

FIELDS = [each.name for each in fields(ProfileRequest)]
VALUES: dict[str, Any] = {
    "output_dir": "/profiles/run",
    "profile_id": "run",
    "activities": ["CPU"],
    "start_step": 5,
    "num_steps": 3,
    "profile_by_stage": True,
    "stages": ["DECODE"],
    "with_stack": False,
    "record_shapes": True,
    "deadline_s": 60,
}
TAKEN = {
    "sglang": {"output_dir", "start_step", "num_steps", "activities", "profile_by_stage", "stages", "with_stack", "record_shapes"},
    "vllm": set(),
    "tokenspeed": {
        "output_dir", "start_step", "num_steps", "activities", "profile_by_stage", "with_stack", "record_shapes", "profile_id",
    },
    "trtllm": {"output_dir", "num_steps", "start_step", "activities"},
    "gputrace": set(FIELDS),
}  # fmt: skip


def test_there_are_five_kinds() -> None:
    assert set(KINDS) == set(TAKEN)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", FIELDS)
def test_a_field_is_told_or_refused_with_what_to_do(kind: str, name: str) -> None:
    dialect = DIALECTS[kind]
    given = {name: VALUES[name]}
    if name in ("stages", "profile_by_stage"):
        given = {"profile_by_stage": True, "num_steps": 3, **given}
    if name in TAKEN[kind]:
        body = dialect.body(given)
        assert body is not None
        assert set(body) == {"profile_stages" if (kind, each) == ("sglang", "stages") else each for each in given}
    else:
        with pytest.raises(RequestError, match=f"{name} cannot be told to {dialect.title}; ") as caught:
            dialect.body(given)
        assert all(len(reason.partition("; ")[2]) > 10 for reason in caught.value.reasons)


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_none_is_not_told(kind: str) -> None:
    assert DIALECTS[kind].body(dict.fromkeys(FIELDS)) == (None if kind == "vllm" else {})


def test_values_are_told_as_they_are_given() -> None:
    body = DIALECTS["tokenspeed"].body(
        {
            "output_dir": "/p",
            "activities": ("viztracer", "PROTON", "proton"),
            "with_stack": False,
            "profile_id": "run 1",
        }
    )
    assert body == {
        "output_dir": "/p",
        "activities": ["VIZTRACER", "PROTON"],
        "with_stack": False,
        "profile_id": "run 1",
    }


def test_a_relative_folder_is_made_absolute_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert DIALECTS["trtllm"].body({"output_dir": "run"}) == {"output_dir": os.path.join(os.getcwd(), "run")}


def test_stages_are_written_as_the_engine_does() -> None:
    given = {"profile_by_stage": True, "num_steps": 2, "stages": ["Decode"]}
    assert DIALECTS["sglang"].body(given) == {"profile_by_stage": True, "num_steps": 2, "profile_stages": ["decode"]}
    assert DIALECTS["gputrace"].body(given) == {**given, "stages": ["DECODE"]}


@pytest.mark.parametrize(
    ("kind", "known", "unknown"),
    [
        ("sglang", ["CPU", "GPU", "MEM", "RPD", "CUDA_PROFILER"], ["PROTON", "VIZTRACER", "XPU"]),
        ("tokenspeed", ["CPU", "MEM", "VIZTRACER", "PROTON"], ["RPD"]),
        ("trtllm", ["CPU", "GPU", "CUDA_PROFILER"], ["MEM", "PROTON"]),
        ("gputrace", [word for word in ACTIVITIES if word != "PROTON"], ["RPD"]),
    ],
)
def test_words_are_held_to_what_the_engine_has(kind: str, known: list[str], unknown: list[str]) -> None:
    dialect = DIALECTS[kind]
    body = dialect.body({"activities": [word.lower() for word in known]})
    assert body == {"activities": known}
    for word in unknown:
        with pytest.raises(RequestError, match=f"{dialect.title} has no activity {word}; give some of CPU, "):
            dialect.body({"activities": ["CPU", word]})


@pytest.mark.parametrize("words", [[], (), "CPU", "CPU,GPU", 3, {"CPU": 1}, [None], [["CPU"]]])
@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "vllm"])
def test_what_is_no_list_of_words_is_refused(kind: str, words: Any) -> None:
    with pytest.raises(RequestError, match="activit"):
        DIALECTS[kind].body({"activities": words})


@pytest.mark.parametrize("word", ["GPU", "CUDA_PROFILER"])
@pytest.mark.parametrize("kind", ["tokenspeed", "gputrace"])
def test_two_clients_of_the_gpu_are_refused_before_the_engine_is_asked(kind: str, word: str) -> None:
    with pytest.raises(RequestError, match=f"PROTON excludes {word}: a process has one client"):
        DIALECTS[kind].body({"activities": [word.lower(), "proton"]})


@pytest.mark.parametrize("kind", ["sglang", "tokenspeed"])
def test_a_profile_that_kills_the_scheduler_is_never_asked_for(kind: str) -> None:
    with pytest.raises(RequestError, match="needs num_steps: without, its scheduler dies at the next batch"):
        DIALECTS[kind].body({"profile_by_stage": True})
    with pytest.raises(RequestError, match="passes over start_step"):
        DIALECTS[kind].body({"profile_by_stage": True, "num_steps": 1, "start_step": 4})
    assert DIALECTS[kind].body({"profile_by_stage": False}) == {"profile_by_stage": False}
    assert DIALECTS["gputrace"].body({"profile_by_stage": True}) == {"profile_by_stage": True}


def test_every_reason_is_told_at_once() -> None:
    given = {"num_steps": 0, "deadline_s": 5, "activities": ["MEM"], "steps": 3, "output_dir": ""}
    with pytest.raises(RequestError) as caught:
        DIALECTS["trtllm"].body(given)
    reasons = "\n".join(caught.value.reasons)
    for part in (
        "num_steps is 0",
        "deadline_s cannot be told",
        "no activity MEM",
        "no field 'steps'",
        "output_dir is ''",
    ):
        assert part in reasons
