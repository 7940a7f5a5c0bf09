"""Four workers, killed once their profile was stopped: their files are one timeline, and Perfetto finds all of it there."""

from __future__ import annotations

import os
import signal
from collections import Counter
from typing import TYPE_CHECKING

import pytest

from pytest_gputrace import check, merge
from pytest_gputrace.model import Severity
from tests.e2e.profiling import calls, control, engine_of, events, files, on_linux
from tests.perfetto.contents import amounts, rank_of, slices
from tests.perfetto.processor import TraceProcessor, need_perfetto
from tests.unit.fakes.enginehelp import running, until

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = on_linux

ACTIVITIES = ("VIZTRACER", "PROTON")
PROFILERS = ("proton.chrome_trace", "viztracer.json")
WORKERS = ("DP0-TP0", "DP0-TP1", "DP1-TP0", "DP1-TP1")
DECODED = (10, 10, 5, 5)


@pytest.fixture(scope="module")
def profile(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, bytes]]:
    """A profile of which every process was killed right after the answer to its stop: its folder, and its files before."""
    root = tmp_path_factory.mktemp("engine")
    with engine_of(root, activities=ACTIVITIES, dp=2, tp=2, node="node0") as engine:
        remote = control(engine, "profile")
        assert remote.start(activities=ACTIVITIES, profile_id="p").ok
        engine.generate(requests=3, tokens=5)  # two of the first group's, one of the second's
        answer = remote.stop()
        for pid in (*engine.pids.values(), engine.pid):
            os.kill(pid, signal.SIGSTOP)
        before = files(remote.folder)
        for pid in (*engine.pids.values(), engine.pid):
            os.kill(pid, signal.SIGKILL)
        assert until(lambda: not any(running(pid) for pid in engine.pids.values()))
    assert answer.ok, answer.describe()
    told = sorted(path for each in answer.ranks for path in each.files)
    assert told == [str(remote.folder / name) for name in before]
    return remote.folder, before


def test_eight_complete_files_are_left(profile: tuple[Path, dict[str, bytes]]) -> None:
    folder, before = profile
    found = files(folder)
    assert found == before, "byte by byte"
    assert list(found) == [
        f"p-{worker}-node=node0-rank{rank}.{profiler}" for rank, worker in enumerate(WORKERS) for profiler in PROFILERS
    ]
    assert [calls(content)["decode"] for content in found.values()] == [steps for steps in DECODED for _ in PROFILERS]
    report = check(folder, expect_ranks=4)
    assert (len(report.files), report.count(Severity.ERROR)) == (8, 0)
    assert [path.name for path in folder.iterdir() if path.name not in found] == []


def test_perfetto_finds_on_one_timeline_what_is_in_the_files(
    profile: tuple[Path, dict[str, bytes]], tmp_path: Path
) -> None:
    need_perfetto()
    result = merge(profile[0], tmp_path / "timeline.json.gz", expect_ranks=4)
    assert (len(result.inputs), result.missing_ranks, result.left_out) == (8, (), ())
    with TraceProcessor() as perfetto:
        perfetto.load(result.path)
        assert perfetto.errors() == {}
        on_timeline = Counter((rank_of(process), amount.slices) for process, amount in amounts(perfetto))
        assert on_timeline == Counter((each.rank, _slices(each.path)) for each in result.inputs)
        assert perfetto.one("select count(*) from slice") == sum(_slices(each.path) for each in result.inputs)
        frames, scopes = slices(perfetto, "decode_batch (%"), slices(perfetto, "decode_batch")
    for rank, count in enumerate(DECODED):
        of_rank = [[each for each in found if rank_of(each.process) == rank] for found in (frames, scopes)]
        assert [len(each) for each in of_rank] == [count, count]
        for frame, scope in zip(*of_rank, strict=True):
            assert frame.start_ns <= scope.start_ns <= scope.end_ns <= frame.end_ns, (frame, scope)


def _slices(path: Path) -> int:
    return sum(event["ph"] == "X" for event in events(path.read_bytes()))
