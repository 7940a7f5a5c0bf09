"""Each fault of a set of files is really in it, by hand arithmetic; no near miss has one."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

from pytest_gputrace.fakes import TraceFault, trace_faults

if TYPE_CHECKING:
    from pathlib import Path

SETS = [one for one in trace_faults.values() if one.family == "set"]


def read(path: Path) -> dict[str, Any]:
    found = {}
    for file in sorted(each for each in path.rglob("*.json*")):
        data = gzip.decompress(file.read_bytes()) if file.suffix == ".gz" else file.read_bytes()
        found[str(file.relative_to(path))] = json.loads(data)
    return found


def bad_and_good(name: str, folder: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    one = trace_faults[name]
    return read(one.write(folder / "bad")), read(one.near_miss(folder / "good"))


def rank(trace: Any) -> int:
    return int(trace["distributedInfo"]["rank"])


def ranks(traces: dict[str, Any]) -> list[int]:
    return [rank(trace) for trace in traces.values()]


def work(trace: Any) -> list[tuple[int, int]]:
    """Begin and end of what ran on the GPU, in nanoseconds from the epoch."""
    return spans(trace, "kernel", "gpu_memcpy")


def spans(trace: Any, *categories: str, word: str = "") -> list[tuple[int, int]]:
    base = trace["baseTimeNanoseconds"]
    found = []
    for row in trace["traceEvents"]:
        if row.get("cat") in categories and word in row["name"]:
            start = base + round(row["ts"] * 1000)
            found.append((start, start + round(row["dur"] * 1000)))
    return sorted(found)


def window(trace: Any) -> tuple[int, int]:
    steps = spans(trace, "user_annotation", word="ProfilerStep")
    return steps[0][0], steps[-1][1]


def apart(first: Any, second: Any) -> bool:
    (begin, end), (other, last) = window(first), window(second)
    return end < other or last < begin


def waits(traces: dict[str, Any]) -> list[int]:
    """Of each collective: how long after its first end its last begin is; negative where all meet."""
    rows = zip(*(spans(trace, "kernel", word="nccl") for trace in traces.values()), strict=True)
    return [max(start for start, _ in row) - min(end for _, end in row) for row in rows]


@pytest.mark.parametrize("one", SETS, ids=str)
def test_the_near_miss_is_a_good_set(one: TraceFault, tmp_path: Path) -> None:
    traces = read(one.near_miss(tmp_path / "run"))
    sizes = {trace["distributedInfo"].get("world_size") for trace in traces.values()} - {None}
    assert len(sizes) == 1
    assert sorted(set(ranks(traces))) == list(range(*sizes))
    assert len(set(Counter(ranks(traces)).values())) == 1
    by_window = {
        rank: [trace for trace in traces.values() if trace["distributedInfo"]["rank"] == rank] for rank in (0, 1)
    }
    for first, second in zip(*by_window.values(), strict=True):
        assert not apart(first, second)
        assert len(work(first)) == len(work(second))
        assert max(waits({"a": first, "b": second})) < 0


def test_ranks_that_are_missing_or_double(tmp_path: Path) -> None:
    missing, _ = bad_and_good("missing_rank", tmp_path / "1")
    assert ranks(missing) == [0, 2]
    double, windows = bad_and_good("double_rank", tmp_path / "2")
    assert ranks(double) == [0, 1, 0]
    first, _, again = double.values()
    assert not apart(first, again)
    assert ranks(windows) == [0, 0, 1, 1]
    first, later, *_ = windows.values()
    assert apart(first, later)
    outside, _ = bad_and_good("rank_outside_world", tmp_path / "3")
    assert outside["rank5.json"]["distributedInfo"]["world_size"] == 2
    assert ranks(outside) == [0, 1, 5]


def test_ranks_that_disagree_with_their_names(tmp_path: Path) -> None:
    folders, nodes = bad_and_good("rank_folder_disagrees", tmp_path / "1")
    assert {name: rank(trace) for name, trace in folders.items()} == {"rank0/trace.json": 1, "rank1/trace.json": 0}
    assert rank(nodes["nodes/node1/benchmarks/gpt/rank0/trace.json"]) == 2
    names, _ = bad_and_good("rank_name_disagrees", tmp_path / "2")
    assert {name: rank(trace) for name, trace in names.items()} == {"rank0.json": 0, "rank1.json": 2, "rank2.json": 1}


def test_one_capture_twice(tmp_path: Path) -> None:
    twice, containers = bad_and_good("same_capture", tmp_path)
    assert twice["copy-of-rank1.json.gz"] == twice["rank1.json"] != twice["rank0.json"]
    pids = [{row["pid"] for row in trace["traceEvents"]} for trace in containers.values()]
    assert pids[0] == pids[1]
    assert work(containers["rank0.json"]) != work(containers["rank1.json"])


def test_ranks_with_less_than_others(tmp_path: Path) -> None:
    empty, _ = bad_and_good("empty_rank", tmp_path / "1")
    assert [len(work(trace)) for trace in empty.values()] == [5, 0, 5]
    assert spans(empty["rank1.json"], "cpu_op", "cuda_runtime") == []
    thin, _ = bad_and_good("rank_without_kernels", tmp_path / "2")
    assert [len(work(trace)) for trace in thin.values()] == [5, 0, 5]
    assert spans(thin["rank1.json"], "cuda_runtime", word="Launch")
    steps, _ = bad_and_good("uneven_steps", tmp_path / "3")
    assert [len(spans(trace, "gpu_user_annotation")) for trace in steps.values()] == [3, 2, 3]
    uneven, even = bad_and_good("uneven_completeness", tmp_path / "4")
    assert [len(spans(trace, "kernel")) for trace in uneven.values()] == [8, 4]
    assert [len(spans(trace, "kernel")) for trace in even.values()] == [6, 6]
    assert all(len(spans(trace, "cuda_runtime", "cuda_driver", word="Launch")) == 8 for trace in uneven.values())


def test_clocks_that_cannot_be_true(tmp_path: Path) -> None:
    skewed, late = bad_and_good("clock_skew", tmp_path)
    assert waits(skewed) == [72_500, 72_500]
    assert not apart(skewed["rank0.json"], skewed["rank1.json"])
    assert max(waits(late)) == -8_750


def test_files_of_other_times(tmp_path: Path) -> None:
    quarter, made_up = bad_and_good("quarter_year_apart", tmp_path / "1")
    first, second, _ = (window(trace)[0] for trace in quarter.values())
    assert second - first - 1_250 == 7_889_238 * 10**9
    bases = {trace["baseTimeNanoseconds"] for trace in made_up.values()}
    assert max(bases) - min(bases) == 7_889_238 * 10**9
    runs, _ = bad_and_good("ranks_of_two_runs", tmp_path / "2")
    first, second, _ = (window(trace)[0] for trace in runs.values())
    assert second - first == 2 * 3600 * 10**9 + 1_250


def test_files_of_other_jobs(tmp_path: Path) -> None:
    mixed, unsaid = bad_and_good("mixed_worlds", tmp_path)
    assert [trace["distributedInfo"]["world_size"] for trace in mixed.values()] == [2, 4]
    assert unsaid["rank1.json"]["distributedInfo"] == {"rank": 1}


def test_a_rank_that_is_cut(tmp_path: Path) -> None:
    one = trace_faults["cut_rank"]
    path = one.write(tmp_path / "run")
    with pytest.raises(json.JSONDecodeError):
        json.loads((path / str(one.place.file)).read_bytes())
    assert json.loads((path / "rank0.json").read_bytes())


@pytest.mark.parametrize("one", SETS, ids=str)
def test_the_file_named_is_of_the_rank_named(one: TraceFault, tmp_path: Path) -> None:
    path = one.write(tmp_path / "run")
    if one.place.file is None or one.name == "cut_rank":
        return
    data = (path / one.place.file).read_bytes()
    trace = json.loads(gzip.decompress(data) if one.place.file.endswith(".gz") else data)
    assert rank(trace) == one.place.rank
