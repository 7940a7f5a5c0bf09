"""Which files are ranks of one recording, in layouts as they are found, and what is said of each recording."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pytest_gputrace.checks.check import check
from pytest_gputrace.fakes import FakeTrace
from pytest_gputrace.model import Severity

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

SETS = ["GT5"]
DAY_NS = 86_400 * 10**9
BASE_NS = 1_790_857_026 * 10**9


def write(folder: Path, name: str, *, rank: int, world: int = 4, day: int = 0, told: bool = True) -> Path:
    trace = FakeTrace(rank=rank, world_size=world, base_time_ns=BASE_NS + day * DAY_NS)
    if not told:
        del trace.document["distributedInfo"]
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    return trace.write(path)


def found(*paths: Path, **options: int) -> list[tuple[str, int | None]]:
    report = check(paths, select=SETS, **options)  # type: ignore[arg-type] # numbers of ranks
    return [(one.code, one.rank) for one in report.all_findings if one.severity is not Severity.INFO]


LAYOUTS: dict[str, Callable[[int], str]] = {
    "words": lambda rank: f"trace-rank{rank}.json",
    "one is compressed": lambda rank: f"trace-rank{rank}.json" + (".gz" if rank == 2 else ""),
    "dimensions": lambda rank: f"ID-DP{rank // 2}-TP{rank % 2}.trace.json.gz",
    "torch's handler": lambda rank: f"ip-10-0-0-{rank}_{300 + rank}.179600000000000{rank}.pt.trace.json",
    "pods": lambda rank: f"job-worker-{rank}-{'abcd'[rank] * 3}_1.17960000000{rank}.pt.trace.json",
    "bare numbers": lambda rank: f"trace_{rank}.json",
    "folders of numbers": lambda rank: f"{rank}/trace.json",
    "hosts and local ranks": lambda rank: f"host{'ab'[rank // 2]}/rank{rank % 2}/trace.json",
    "nodes of the executor": lambda rank: f"nodes/n{rank // 2}/benchmarks/gpt/rank{rank % 2}/trace.json",
}


@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS.keys())
def test_all_ranks_are_one_recording(layout: Callable[[int], str], tmp_path: Path) -> None:
    for rank in range(4):
        write(tmp_path, layout(rank), rank=rank)
    assert found(tmp_path, expect_ranks=4) == []


@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS.keys())
def test_the_rank_that_is_missing_is_named_once(layout: Callable[[int], str], tmp_path: Path) -> None:
    for rank in (0, 2, 3):
        write(tmp_path, layout(rank), rank=rank)
    assert found(tmp_path, expect_ranks=4) == [("GT501", 1)]


@pytest.mark.parametrize(
    "name", ["day{day}/rank{rank}.json", "2026110{day}/rank{rank}.json", "h_{rank}.17960{day}000{rank}.pt.trace.json"]
)
def test_each_night_must_have_all_ranks(name: str, tmp_path: Path) -> None:
    for day in range(2):
        for rank in range(4):
            if (day, rank) != (1, 2):
                write(tmp_path, name.format(day=day, rank=rank), rank=rank, day=day)
    assert found(tmp_path, expect_ranks=4) == [("GT501", 2)]


def test_a_merged_file_beside_all_ranks_is_no_recording_of_one(tmp_path: Path) -> None:
    for rank in range(4):
        write(tmp_path, f"rank{rank}.json", rank=rank)
    trace = FakeTrace.viztracer()
    trace.write(tmp_path / "viz-rank0.json")
    assert found(tmp_path, expect_ranks=4) == []


def test_engines_of_one_rank_each_are_no_double_rank(tmp_path: Path) -> None:
    for number in range(2):
        trace = FakeTrace(world_size=1)
        trace.document["distributedInfo"] = {"rank": 0, "world_size": 1}
        trace.events[trace.index(ph="X", cat="kernel")]["dur"] += number
        trace.write(tmp_path / f"engine_pid{100 + number}.json")
    assert found(tmp_path) == []


def test_without_a_time_nobody_is_double(tmp_path: Path) -> None:
    for name in ("run1", "run2"):
        (tmp_path / name).mkdir()
        trace = FakeTrace.event_list()
        trace.events[0]["cpu_time"] += len(name) + (name == "run2")
        trace.write(tmp_path / name / "rank0.json")
    assert found(tmp_path / "run1", tmp_path / "run2") == []


def test_a_link_is_no_second_capture(tmp_path: Path) -> None:
    path = write(tmp_path, "rank0.json", rank=0)
    (tmp_path / "latest.json").symlink_to(path)
    assert found(tmp_path) == []


def test_a_copy_of_legacy_files_is_seen_beside_other_folders(tmp_path: Path) -> None:
    for rank in range(2):
        write(tmp_path, f"a/benchmarks/bert/rank{rank}/torch-profiler-sb-bert-{rank}.json", rank=0, told=False)
    write(tmp_path, "b/x.json", rank=1)
    assert [code for code, _ in found(tmp_path)] == ["GT504"]


def test_a_world_of_any_size_takes_no_memory(tmp_path: Path) -> None:
    for rank in range(2):
        trace = FakeTrace(rank=rank, world_size=2)
        trace.document["distributedInfo"]["world_size"] = 2_000_000_000
        trace.write(tmp_path / f"rank{rank}.json")
    [info] = check([tmp_path], select=["GT501"]).all_findings
    assert "1999999998 of 2000000000 ranks have no file: 2, 3, 4, 5, 6, 7, 8, 9 and 1999999990 more" in info.message


def test_a_negative_rank_is_outside_its_world(tmp_path: Path) -> None:
    trace = FakeTrace(rank=1, world_size=2)
    trace.document["distributedInfo"]["rank"] = -3
    trace.write(tmp_path / "a.json")
    assert [code for code, _ in found(tmp_path)] == ["GT510"]


def test_the_order_of_files_changes_nothing(tmp_path: Path) -> None:
    paths = [write(tmp_path, f"rank{rank}.json", rank=rank, world=4 + 4 * (rank % 2)) for rank in range(4)]
    write(tmp_path, "copy.json", rank=0)
    paths.append(tmp_path / "copy.json")
    first = check(paths, select=SETS).findings
    assert {one.code for one in first} == {"GT504", "GT510"}
    assert check(paths[::-1], select=SETS).findings == first


def test_workers_that_only_coordinates_tell_apart_are_counted(tmp_path: Path) -> None:
    paths = [
        write(tmp_path, f"id-DP{dp}-TP{tp}.torch.json", rank=2 * dp + tp, told=False)
        for dp in range(2) for tp in range(2)
    ]  # fmt: skip
    assert found(tmp_path, expect_ranks=4) == []
    paths[3].unlink()
    [missing] = check([tmp_path], select=["GT501"], expect_ranks=4).all_findings
    assert "3 of 4 ranks have a file: DP0-TP0, DP0-TP1, DP1-TP0" in missing.message


def test_a_rank_inside_of_a_smaller_world_contradicts_no_session(tmp_path: Path) -> None:
    for rank in range(4):  # two engines of two ranks each
        name = f"id-DP{rank // 2}-TP{rank % 2}-node=n-rank{rank}.torch.json"
        write(tmp_path, name, rank=rank % 2, world=2)
    report = check([tmp_path], select=["GT501", "GT502", "GT503"], expect_ranks=4)
    assert [one.message for one in report.all_findings] == []


def test_a_rank_inside_of_the_same_world_contradicts_a_session(tmp_path: Path) -> None:
    write(tmp_path, "id-TP1-node=n-rank1.torch.json", rank=2)
    assert ("GT503", 2) in found(tmp_path)
