"""Profilers and ranks that really ran, merged: on Perfetto's axis things lie as they happened."""

from __future__ import annotations

import importlib.metadata
import os
import statistics
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pytest_gputrace import merge
from tests.perfetto.contents import Slice, flow_ends, slices
from tests.perfetto.processor import TraceProcessor, need_perfetto

if TYPE_CHECKING:
    from collections.abc import Iterator

RECORDINGS = Path(__file__).with_name("recordings")
DEADLINE_S = 120
STEPS = 9
NEAR_NS = 100_000
MILLISECONDS_NS = 50_000_000
TORCHRUN = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2")


@pytest.fixture
def perfetto() -> Iterator[TraceProcessor]:
    need_perfetto()
    with TraceProcessor() as processor:
        yield processor


def need(thing: str, package: str) -> None:
    try:
        importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError as error:
        pytest.skip(f"needs {thing}: it records what is merged ({error})")


def record(script: str, folder: Path, *launcher: str) -> Path:
    """Run a script of ``recordings`` as its user would, with neither the tests' coverage nor a rank of theirs in it."""
    ours = ("COVERAGE_", "GPUTRACE_", "PYTEST_")
    environment = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    folder.mkdir()
    command = [sys.executable, *launcher, str(RECORDINGS / script), str(folder)]
    run = subprocess.run(
        command,
        env=environment | {"KINETO_LOG_LEVEL": "6", "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
    )
    assert run.returncode == 0, f"{script} ended with {run.returncode}:\n{run.stderr}"
    return folder


def assert_each_holds_one(outer: list[Slice], inner: list[Slice]) -> None:
    """Each outer slice holds its inner one, which starts with it but for what lies between."""
    assert len(outer) == len(inner) == STEPS
    for around, within in zip(outer, inner, strict=True):
        assert around.start_ns <= within.start_ns, (around, within)
        assert within.end_ns <= around.end_ns, (around, within)
    # Of all, since a machine may take a thread off its processor anywhere.
    assert statistics.median(i.start_ns - o.start_ns for o, i in zip(outer, inner, strict=True)) < NEAR_NS


def test_frames_of_viztracer_hold_the_scopes_of_proton(perfetto: TraceProcessor, tmp_path: Path) -> None:
    need("viztracer", "viztracer")
    need("proton", "tokenspeed-proton")
    recorded = record("viztracer_proton.py", tmp_path / "recorded")
    result = merge(recorded, tmp_path / "timeline.json")
    perfetto.load(result.path)
    frames, scopes = slices(perfetto, "step (%"), slices(perfetto, "scope _")
    assert_each_holds_one(frames, scopes)
    assert {frame.thread for frame in frames} == {"MainThread"}
    ((python,), (proton,)) = {frame.process for frame in frames}, {scope.process for scope in scopes}
    assert python is not None
    assert python.startswith("python ")
    assert proton == "Proton"
    assert flow_ends(perfetto) == {(python, proton): STEPS}
    assert (result.links, result.unlinked) == (STEPS, 0)
    assert perfetto.errors() == {}


def test_frames_of_viztracer_hold_the_operators_of_torch(perfetto: TraceProcessor, tmp_path: Path) -> None:
    need("viztracer", "viztracer")
    need("torch", "torch")
    recorded = record("viztracer_kineto.py", tmp_path / "recorded")
    perfetto.load(merge(recorded, tmp_path / "timeline.json").path)
    frames, steps = slices(perfetto, "step (%"), slices(perfetto, "step _")
    assert_each_holds_one(frames, steps)
    # Both call the process by one number, and are two processes on the timeline.
    assert not {frame.pid for frame in frames} & {step.pid for step in steps}
    operators = slices(perfetto, "aten::mm")
    for frame in frames:
        assert sum(frame.start_ns <= each.start_ns <= each.end_ns <= frame.end_ns for each in operators) == 1
    assert perfetto.errors() == {}


def test_collectives_of_two_real_ranks_meet(perfetto: TraceProcessor, tmp_path: Path) -> None:
    need("torch", "torch")
    recorded = record("gloo_ranks.py", tmp_path / "recorded", *TORCHRUN)
    result = merge(recorded, tmp_path / "timeline.json.gz")
    assert (result.expected_ranks, result.missing_ranks) == (2, ())
    assert [each.rank for each in result.inputs] == [0, 1]
    perfetto.load(result.path)
    reduced = slices(perfetto, "gloo:all_reduce")
    of = {rank: [each for each in reduced if (each.process or "").startswith(f"rank {rank} · ")] for rank in (0, 1)}
    assert len(of[0]) == len(of[1]) == len(reduced) / 2 > 1
    for first, second in zip(of[0], of[1], strict=True):
        apart_ns = max(first.start_ns, second.start_ns) - min(first.end_ns, second.end_ns)
        assert apart_ns < MILLISECONDS_NS, (first, second)
    assert perfetto.errors() == {}
