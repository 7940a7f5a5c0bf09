"""Profiles of an engine of several workers: whose files there are, what is in them, and the command that makes them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from contextlib import nullcontext
from typing import TYPE_CHECKING

import pytest

from pytest_gputrace.cli import main
from pytest_gputrace.errors import ControlError
from pytest_gputrace.fakes.engine.faults import Dies
from tests.e2e.profiling import GENEROUS_S, calls, control, engine_of, events, files, need, on_linux, settle_up
from tests.unit.fakes.enginehelp import ask

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pytest_gputrace.fakes import FakeEngine

pytestmark = on_linux

PEERS = ("DP0-TP0", "DP1-TP0")
BOTH = ("PROTON", "VIZTRACER")
TORCH, MEMORY, PROTON, VIZTRACER = "torch.json.gz", "memory.pickle", "proton.chrome_trace", "viztracer.json"
LOAD = """
import sys, urllib.request
body = b'{"requests": 4, "tokens": 8}'
request = urllib.request.Request(sys.argv[1] + "/generate", body, {"Content-Type": "application/json"})
with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request) as answer:
    print("the load:", answer.status)
"""


@pytest.fixture(scope="module")
def peers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FakeEngine]:
    """Two data-parallel peers of one rank each, which nothing tells apart but their coordinates."""
    with engine_of(tmp_path_factory.mktemp("peers"), dp=2, tp=1, prepare=("CPU", *BOTH), vendor="cuda") as engine:
        yield engine


@pytest.fixture
def folder(request: pytest.FixtureRequest) -> str:
    """A name that no other test has."""
    return str(request.node.name)


# Whose files there are.


@pytest.mark.parametrize(
    ("activities", "profilers"),
    [
        (["CPU"], [TORCH]),
        (["GPU"], [TORCH]),
        (["CPU", "GPU"], [TORCH]),
        (["MEM"], [MEMORY]),
        (["CUDA_PROFILER"], []),
        (["CUDA_PROFILER", "MEM"], [MEMORY]),
        (["VIZTRACER"], [VIZTRACER]),
        (["PROTON"], [PROTON]),
        (["CPU", "MEM", "PROTON", "VIZTRACER"], [MEMORY, PROTON, TORCH, VIZTRACER]),
        (["CPU", "GPU", "MEM", "CUDA_PROFILER", "VIZTRACER"], [MEMORY, TORCH, VIZTRACER]),
    ],
    ids="-".join,
)
def test_peers_of_one_rank_each_have_files_of_their_own(
    peers: FakeEngine, folder: str, activities: list[str], profilers: list[str]
) -> None:
    need(*activities, *(["CPU"] if "CUDA_PROFILER" in activities else []))
    assert tuple(peers.tags) == PEERS
    remote = control(peers, folder)
    assert remote.start(activities=activities, profile_id="p").ok
    peers.generate(requests=2)
    found = settle_up(remote)
    assert list(found) == [f"p-{peer}.{profiler}" for peer in PEERS for profiler in profilers]
    traces = [
        content for name, content in found.items() if not name.endswith(".pickle")
    ]  # a fake history is always the same
    assert len({json.dumps(events(content)) for content in traces}) == len(traces)
    assert not any(path.name.startswith(".") for path in remote.folder.iterdir()), "nothing is left"


def test_two_clients_of_the_gpu_are_refused_and_harm_nothing(peers: FakeEngine, folder: str) -> None:
    need("GPU", "PROTON")
    asked = {"activities": ["GPU", "PROTON"], "output_dir": str(peers.folder / folder)}
    status, text = ask(peers, "/start_profile", asked)
    assert (status, json.loads(text)["status"]) == (409, "refused")
    assert "PROTON cannot be recorded together with GPU" in text
    assert peers.generate(requests=2) == dict.fromkeys(PEERS, 9)
    assert not (peers.folder / folder).exists()
    remote = control(peers, folder)
    assert remote.start(activities=["PROTON"], num_steps=3).ok
    peers.generate(requests=2)
    assert [calls(content) for content in settle_up(remote).values()] == [{"prefill": 1, "decode": 2}] * 2
    assert remote.start(activities=["GPU"]).ok
    peers.generate(requests=2)
    assert len(settle_up(remote)) == 2 * 2


# What is in them.


def test_a_window_holds_the_steps_that_were_asked_for(peers: FakeEngine, folder: str) -> None:
    need(*BOTH)
    peers.generate(requests=1, tokens=5)  # by one of the two: each counts its own steps
    steps = max(peers.steps().values())
    remote = control(peers, folder)
    assert remote.start(activities=BOTH, start_step=steps + 2, num_steps=3).status == "armed"
    peers.generate(requests=2, tokens=1)  # not all of it
    peers.generate(requests=6, tokens=9)
    found = settle_up(remote)
    assert [sum(calls(content).values()) for content in found.values()] == [3] * 4


def test_by_stage_each_worker_has_a_file_of_each_with_its_own_count(peers: FakeEngine, folder: str) -> None:
    need(*BOTH)
    remote = control(peers, folder)
    assert remote.start(activities=BOTH, profile_id="p", profile_by_stage=True, num_steps=2).status == "armed"
    peers.generate(requests=6, tokens=5)
    found = {name: calls(content) for name, content in settle_up(remote).items()}
    # No second prefill follows upon the first: its window ends with it.
    stages = {"DECODE": {"decode": 2}, "PREFILL": {"prefill": 1}}
    assert found == {
        f"p-{peer}-{stage}.{profiler}": count
        for peer in PEERS
        for stage, count in stages.items()
        for profiler in (PROTON, VIZTRACER)
    }


def test_by_stage_only_those_that_are_named_are_recorded(peers: FakeEngine, folder: str) -> None:
    need("VIZTRACER", "CPU")
    remote = control(peers, folder)
    assert remote.start(
        activities=["VIZTRACER", "CPU"], profile_id="p", profile_by_stage=True, stages=["decode"], num_steps=100
    ).ok
    peers.generate(requests=2, tokens=4)
    found = settle_up(remote)
    assert list(found) == [f"p-{peer}-DECODE.{profiler}" for peer in PEERS for profiler in (TORCH, VIZTRACER)]
    assert [calls(found[f"p-{peer}-DECODE.{VIZTRACER}"]) for peer in PEERS] == [{"decode": 4}] * 2


# The command.


def words(engine: FakeEngine, folder: Path, *more: str) -> list[str]:
    where = ["--url", engine.url, "--kind", engine.kind, "--dir", str(folder)]
    return ["profile", *where, *more, "--", sys.executable, "-c", LOAD, engine.url]


def run(arguments: list[str]) -> subprocess.CompletedProcess[str]:
    """The command as its user runs it, with nothing of the tests' in its environment."""
    ours = ("COVERAGE_", "GPUTRACE_", "PYTEST_")
    environment = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    command = [sys.executable, "-m", "pytest_gputrace", *arguments]
    return subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=4 * GENEROUS_S, check=False
    )  # fmt: skip


def test_the_command_gives_eight_files_and_a_timeline(tmp_path: Path) -> None:
    need(*BOTH)
    timeline = tmp_path / "timeline.json.gz"
    with engine_of(tmp_path / "engine", activities=BOTH, dp=2, tp=2, node="node0") as engine:
        asked = ["--activities", "PROTON,VIZTRACER", "--expect-ranks", "4", "--merge", str(timeline)]
        result = run(words(engine, engine.folder, *asked))
        found = files(engine.folder)
    assert result.returncode == 0, result.stderr
    assert result.stdout == "the load: 200\n"
    assert "profile: ok" in result.stderr
    assert len(found) == 8
    assert [calls(content) for content in found.values()] == [{"prefill": 2, "decode": 16}] * 8
    merged = events(timeline.read_bytes())
    each = [calls(content) for content in found.values()]
    assert calls(timeline.read_bytes()) == {
        stage: sum(count[stage] for count in each) for stage in ("prefill", "decode")
    }, "all of all is on the timeline"
    named = {event["args"]["name"] for event in merged if event["name"] == "process_name"}
    assert {name.partition(" · ")[0] for name in named} == {f"rank {rank}" for rank in range(4)}


def test_the_command_fails_by_a_rank_that_it_names(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    timeline = tmp_path / "timeline.json"
    with engine_of(tmp_path / "engine", Dies("DP1-TP0", at="stopping"), activities=BOTH, dp=2, tp=1) as engine:
        asked = ["--activities", "PROTON,VIZTRACER", "--expect-ranks", "2", "--merge", str(timeline)]
        code = main(words(engine, engine.folder, *asked))
        found = files(engine.folder)
    out, err = capfd.readouterr()
    assert code == 3, err
    assert out == "the load: 200\n"
    assert "DP1-TP0: dead: killed by signal 9 (SIGKILL); complete on disk: no file" in err
    assert "profile: failed: 1 of 2 ranks are ok; dead: DP1-TP0" in err
    assert len(found) == 2
    assert calls(timeline.read_bytes()) == {"prefill": 2 * 2, "decode": 16 * 2}, "what is there is on the timeline"


@pytest.mark.parametrize(
    ("kind", "asked", "count"),
    [
        ("sglang", ["--activities", "CPU,GPU"], 2),
        ("vllm", [], 3),  # one is its frontend's, of no rank
        ("trtllm", ["--activities", "CPU", "--num-steps", "100"], 2),
        ("tokenspeed", ["--activities", "PROTON,VIZTRACER"], 4),
    ],
)
def test_the_command_knows_other_engines(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], kind: str, asked: list[str], count: int
) -> None:
    with engine_of(tmp_path, kind=kind, tp=2) as engine:
        code = main(words(engine, engine.folder, *asked, "--expect-ranks", "2"))
        found = files(engine.folder)
    out, err = capfd.readouterr()
    assert code == 0, err
    assert out == "the load: 200\n"
    assert "2 of 2 ranks: " in err
    assert len(found) == count
    assert all(events(content) for content in found.values())


@pytest.mark.parametrize(("kind", "missing"), [("sglang", "TP1"), ("vllm", "rank 1"), ("trtllm", "rank 1")])
def test_a_rank_of_another_engine_is_named_as_that_names_it(tmp_path: Path, kind: str, missing: str) -> None:
    with engine_of(tmp_path, Dies("TP1", at="stopping"), kind=kind, tp=2) as engine:
        remote = control(engine)
        remote.start()
        engine.generate()
        # vLLM alone waits for all of its workers, and tells of one that is gone.
        with pytest.raises(ControlError, match="scheduler TP1") if kind == "vllm" else nullcontext():
            remote.stop()
        collection = remote.collect(2, timeout_s=0.5)
    assert not collection.ok
    assert {each.rank: each.verdict for each in collection.ranks if each.verdict != "ok"} == {missing: "missing"}
    assert len(collection.ranks) == 2
