"""The fake engine as other engines answer and write."""

from __future__ import annotations

import gzip
import json
import re
import sys
from typing import TYPE_CHECKING, Any

import pytest

from pytest_gputrace.fakes import FakeEngine
from tests.unit.fakes.enginehelp import ask, names, until

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs Linux: processes that die with their parent")
_TEXT = ("Start profiling.\n", "Stop profiling. This will take some time.\n")


@pytest.mark.parametrize(
    ("kind", "asked", "replies", "first", "all_names"),
    [
        (
            "sglang",
            {"activities": ["CPU", "GPU"], "profile_id": "passed over"},
            _TEXT,
            [r"[0-9.]+-TP-0-DP-0\.trace\.json\.gz"],
            [rf"[0-9.]+-TP-{tp}-DP-{dp}\.trace\.json\.gz" for tp in (0, 1) for dp in (0, 1)],
        ),
        (
            "tokenspeed",
            {"activities": ["VIZTRACER", "PROTON"], "profile_id": "p"},
            _TEXT,
            [r"p-DP0-TP0\.proton\.chrome_trace", r"p-DP0-TP0\.viztracer\.json"],
            [
                rf"p-DP{dp}-TP{tp}\.{rest}"
                for dp in (0, 1)
                for tp in (0, 1)
                for rest in (r"proton\.chrome_trace", r"viztracer\.json")
            ],
        ),
        (
            "trtllm",
            {"activities": ["CPU"]},
            ('{"status": "success"}', '{"status": "success"}'),
            [r"trace_[0-9.]+-rank-0\.json"],
            [rf"trace_[0-9.]+-rank-{rank}\.json" for rank in range(4)],
        ),
    ],
)
def test_all_write_once_a_stop_is_answered(
    tmp_path: Path,
    kind: Any,
    asked: dict[str, Any],
    replies: tuple[str, str],
    first: list[str],
    all_names: list[str],
) -> None:
    with FakeEngine(tmp_path, dp=2, tp=2, kind=kind, prepare=()) as engine:
        assert ask(engine, "/start_profile", asked) == (200, replies[0])
        engine.generate(requests=2, tokens=2)
        assert ask(engine, "/stop_profile") == (200, replies[1])
        assert match(names(engine.folder)[: len(first)], first), "the first worker has written"
        assert until(lambda: len(names(engine.folder)) >= len(all_names))
        assert match(names(engine.folder), all_names)
        assert ask(engine, "/stop_profile")[0] == 500, "there is no profile any more"


def match(found: list[str], patterns: list[str]) -> bool:
    return len(found) == len(patterns) and all(map(re.fullmatch, patterns, found))


def test_vllm_takes_no_body_waits_for_its_workers_and_has_a_file_of_its_own(tmp_path: Path) -> None:
    with FakeEngine(tmp_path, tp=2, kind="vllm", prepare=()) as engine:
        assert ask(engine, "/start_profile", {"output_dir": str(tmp_path / "elsewhere")}) == (200, "")
        assert ask(engine, "/start_profile") == (200, ""), "passed over"
        engine.generate()
        assert ask(engine, "/stop_profile") == (200, "")
        patterns = [rf"dp0_pp0_tp{tp}_dcp0_ep0_rank{tp}\.[0-9]+\.pt\.trace\.json\.gz" for tp in (0, 1)]
        assert match(names(engine.folder), [*patterns, r"node0_[0-9]+\.async_llm\.[0-9]+\.pt\.trace\.json\.gz"])
        assert not (tmp_path / "elsewhere").exists()


def test_files_are_whole_traces_that_know_their_rank(tmp_path: Path) -> None:
    with FakeEngine(tmp_path, tp=2, kind="sglang", prepare=()) as engine:
        ask(engine, "/start_profile", {"output_dir": str(tmp_path / "chosen")})
        engine.generate(tokens=2)
        ask(engine, "/stop_profile")
        assert until(lambda: len(names(tmp_path / "chosen")) == 2)
    for rank, name in enumerate(names(tmp_path / "chosen")):
        document = json.loads(gzip.decompress((tmp_path / "chosen" / name).read_bytes()))
        assert document["distributedInfo"]["rank"] == rank
        assert sum(event.get("name", "").startswith("ProfilerStep#") for event in document["traceEvents"]) >= 3


def test_a_number_of_steps_ends_a_profile_and_a_stop_after_it_is_an_error(tmp_path: Path) -> None:
    with FakeEngine(tmp_path, tp=1, kind="sglang", prepare=()) as engine:
        assert ask(engine, "/start_profile", {"start_step": 2, "num_steps": 3})[0] == 200
        assert ask(engine, "/start_profile")[0] == 500, "one is under way"
        engine.generate(tokens=2)
        assert names(engine.folder) == [], "not full"
        engine.generate(tokens=2)
        assert len(names(engine.folder)) == 1
        status, text = ask(engine, "/stop_profile")
        assert status == 500
        assert "not in progress" in text


def test_by_stage_there_is_a_file_for_each(tmp_path: Path) -> None:
    with FakeEngine(tmp_path, tp=1, kind="tokenspeed", prepare=()) as engine:
        asked = {"profile_id": "p", "profile_by_stage": True, "num_steps": 2, "activities": ["CPU", "VIZTRACER"]}
        assert ask(engine, "/start_profile", asked)[0] == 200
        engine.generate(requests=2, tokens=3)
        assert names(engine.folder) == [
            "p-TP0-DECODE.trace.json.gz",
            "p-TP0-DECODE.viztracer.json",
            "p-TP0-EXTEND.trace.json.gz",
            "p-TP0-EXTEND.viztracer.json",
        ]


def test_tokenspeed_refuses_two_clients_of_the_gpu(tmp_path: Path) -> None:
    with FakeEngine(tmp_path, tp=1, kind="tokenspeed", prepare=()) as engine:
        status, text = ask(engine, "/start_profile", {"activities": ["GPU", "PROTON"]})
        assert status == 400
        assert "cannot be combined" in text


def test_what_is_no_request_is_refused(tmp_path: Path) -> None:
    with FakeEngine(tmp_path, tp=1, kind="sglang", prepare=()) as engine:
        assert ask(engine, "/start_profile", [1])[0] == 422
        assert ask(engine, "/start_profile", method="GET")[0] == 405
        assert ask(engine, "/profile_status", method="GET")[0] == 404


@pytest.mark.parametrize("activities", [["CPU"], ["PROTON", "VIZTRACER"]])
def test_no_two_files_are_alike(tmp_path: Path, activities: list[str]) -> None:
    with FakeEngine(tmp_path, tp=2, kind="tokenspeed", prepare=()) as engine:
        for number in range(2):
            ask(engine, "/start_profile", {"profile_id": f"p{number}", "activities": activities})
            engine.generate(tokens=1)
            ask(engine, "/stop_profile")
            assert until(lambda: len(names(engine.folder)) == (number + 1) * 2 * len(activities))  # noqa: B023  # called at once
    contents = [json.dumps(events(path)) for path in engine.folder.iterdir()]
    assert len(set(contents)) == len(contents) == 4 * len(activities)


def events(path: Path) -> Any:
    """What is in a trace, whatever its file says of itself."""
    data = path.read_bytes()
    document = json.loads(gzip.decompress(data) if path.suffix == ".gz" else data)
    base = document.get("viztracer_metadata", document).get("baseTimeNanoseconds")
    return base, document["traceEvents"]
