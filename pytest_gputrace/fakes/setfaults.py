"""Faults of many files as one: ranks that are missing, double, empty, out of step, or not of one job."""

from __future__ import annotations

import gzip
from typing import TYPE_CHECKING, Any

from pytest_gputrace.fakes.gpufaults import bare
from pytest_gputrace.fakes.traceedit import drop_gpu_work, gpu_rows
from pytest_gputrace.fakes.tracefault import Case, fault, of_set
from pytest_gputrace.fakes.traces import FakeTrace

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["QUARTER_YEAR_S", "files_of", "from_base", "rank_files", "rank_trace"]

QUARTER_YEAR_S = 7_889_238
"""Kineto's base is the time floored to a multiple of this."""
_SECONDS_INTO_IT = 60.0


def rank_trace(rank: int, world_size: int = 2, **more: Any) -> FakeTrace:
    """One rank of a small job."""
    return FakeTrace(rank=rank, world_size=world_size, **{"steps": 2, "kernels_per_step": 2, **more})


def files_of(traces: Mapping[str, FakeTrace]) -> dict[str, Any]:
    """The content of each file, by its path."""
    return {name: trace.text().encode() for name, trace in traces.items()}


def rank_files(*traces: FakeTrace) -> dict[str, Any]:
    """One file a rank, named after the rank inside."""
    return files_of({f"rank{trace.document['distributedInfo']['rank']}.json": trace for trace in traces})


def _moved(trace: FakeTrace, by_us: float) -> FakeTrace:
    for row in trace.events:
        row["ts"] = round(row["ts"] + by_us, 3)
    return trace


def from_base(trace: FakeTrace, base_ns: int, first_us: float) -> FakeTrace:
    """The trace with another base, whose first operation begins so long after it."""
    trace.document["baseTimeNanoseconds"] = base_ns
    return _moved(trace, first_us - trace.events[trace.index(cat="user_annotation")]["ts"])


@fault("set", near="all three", filename="run")
def missing_rank() -> Case:
    """Of a world of three, ranks 0 and 2 are there."""
    ranks = rank_files(*(rank_trace(rank, 3) for rank in range(3)))
    return of_set({name: ranks[name] for name in ("rank0.json", "rank2.json")}, ranks, rank=1)


@fault("set", near="two windows of each rank, one after the other", filename="run")
def double_rank() -> Case:
    """Two files are of rank 0, and their times overlap; names tell the process only."""
    bad = {_windowed(0, 0): rank_trace(0), _windowed(1, 0): rank_trace(1), _windowed(2, 1): rank_trace(0, first_step=1)}
    windows = {_windowed(rank, first): rank_trace(rank, first_step=first) for rank in (0, 1) for first in (0, 2)}
    return of_set(files_of(bad), files_of(windows), rank=0, file=_windowed(2, 1))


def _windowed(process: int, step: int) -> str:
    """A name as torch's handler for TensorBoard gives it: of a process and a millisecond, and of no rank."""
    return f"node0_{4000 + process}.{1_796_028_603_480 + step}.pt.trace.json"


@fault("set", near="the folders of two nodes, in which ranks 2 and 3 are local ranks 0 and 1", filename="run")
def rank_folder_disagrees() -> Case:
    """The folder of rank 0 holds rank 1's file, and the other way round."""
    bad = {"rank0/trace.json": rank_trace(1), "rank1/trace.json": rank_trace(0)}
    good = {f"nodes/node{rank // 2}/benchmarks/gpt/rank{rank % 2}/trace.json": rank_trace(rank, 4) for rank in range(4)}
    return of_set(files_of(bad), files_of(good), rank=1, file="rank0/trace.json")


@fault("set", near="names with a number that is not the rank: a local one, a step", filename="run")
def rank_name_disagrees() -> Case:
    """The file named after rank 1 holds rank 2, and the other way round."""
    bad = {"rank0.json": rank_trace(0, 3), "rank1.json": rank_trace(2, 3), "rank2.json": rank_trace(1, 3)}
    good = {f"node{rank}/torch-profiler-sb-gpt2-0.step{8 + rank}.json": rank_trace(rank, 3) for rank in range(3)}
    return of_set(files_of(bad), files_of(good), rank=2, file="rank1.json")


@fault("set", near="two ranks in containers: same process id, same device, same steps", filename="run")
def same_capture() -> Case:
    """One capture is there twice, once compressed under another name."""
    bad = rank_files(rank_trace(0), rank_trace(1))
    copy = "copy-of-rank1.json.gz"
    other = rank_trace(1)
    first = rank_trace(0).events
    for row, twin in zip(other.events, first, strict=True):
        row |= {"pid": twin["pid"], "tid": twin["tid"]}
        row.get("args", {}).update({key: twin["args"][key] for key in ("device",) if key in row.get("args", {})})
    other.document["deviceProperties"][0]["id"] = 0
    bad[copy] = gzip.compress(bad["rank1.json"], mtime=0)
    return of_set(bad, rank_files(rank_trace(0), other), rank=1, file=copy)


@fault("set", near="no rank is empty", filename="run")
def empty_rank() -> Case:
    """Rank 1 recorded nothing, the others are full."""
    full = [rank_trace(rank, 3) for rank in range(3)]
    return of_set(rank_files(full[0], bare(rank_trace(1, 3)), full[2]), rank_files(*full), rank=1, file="rank1.json")


@fault("set", near="all have both", filename="run")
def rank_without_kernels() -> Case:
    """Rank 1 has launches and no kernel, the others have both."""
    full, lost = [rank_trace(rank, 3) for rank in range(3)], rank_trace(1, 3)
    drop_gpu_work(lost, gpu_rows(lost))
    return of_set(rank_files(full[0], lost, full[2]), rank_files(*full), rank=1, file="rank1.json")


@fault("set", near="the same number of other kernels in each", filename="run")
def uneven_steps() -> Case:
    """Ranks 0 and 2 have three steps with kernels, rank 1 has two."""
    full = [rank_trace(rank, 3, steps=3) for rank in range(3)]
    bad = rank_files(full[0], rank_trace(1, 3, steps=2), full[2])
    for row in gpu_rows(full[1]):
        row["name"] = row["name"].replace("sm90_xmma", "sm90_other")
    return of_set(bad, rank_files(*full), rank=1, file="rank1.json")


@fault("set", near="two are missing on each", filename="run")
def uneven_completeness() -> Case:
    """Rank 0 has a kernel for each of eight launches, rank 1 for four."""
    full, thin = rank_trace(0, kernels_per_step=4), rank_trace(1, kernels_per_step=4)
    both = [rank_trace(rank, kernels_per_step=4) for rank in range(2)]
    drop_gpu_work(thin, _in_the_middle(thin, (1, 2)))
    for trace in both:
        drop_gpu_work(trace, _in_the_middle(trace, (1,)))
    return of_set(rank_files(full, thin), rank_files(*both), rank=1, file="rank1.json")


def _in_the_middle(trace: FakeTrace, places: tuple[int, ...]) -> list[dict[str, Any]]:
    """The kernels at these places of both steps, of four kernels each."""
    kernels = [row for row in gpu_rows(trace) if row["cat"] == "kernel"]
    return [kernels[step * 4 + place] for step in range(2) for place in places]


@fault("set", near="it comes 20 us later, and they still meet", filename="run")
def clock_skew() -> Case:
    """Rank 1's clock is 100 us behind: it has left each collective 72.5 us before the others come."""
    early, late = (_moved(rank_trace(1, 3), by_us) for by_us in (-100.0, 20.0))
    first, last = rank_trace(0, 3), rank_trace(2, 3)
    return of_set(rank_files(first, early, last), rank_files(first, late, last), rank=1, file="rank1.json")


@fault("set", near="the bases differ as much, and the times in the files make up for it", filename="run")
def quarter_year_apart() -> Case:
    """Rank 1's base is one step of Kineto's base later, a quarter of a year, with the same times in the file."""
    step_ns = QUARTER_YEAR_S * 1_000_000_000
    bad = [rank_trace(rank, 3) for rank in range(3)]
    base_ns = bad[1].document["baseTimeNanoseconds"]
    bad[1].document["baseTimeNanoseconds"] = base_ns + step_ns
    into_us = _SECONDS_INTO_IT * 1e6
    before_us = QUARTER_YEAR_S * 1e6
    good = [from_base(rank_trace(rank, 3), base_ns, before_us + into_us) for rank in range(3)]
    good[1] = from_base(rank_trace(1, 3), base_ns + step_ns, into_us)
    return of_set(rank_files(*bad), rank_files(*good), rank=1, file="rank1.json")


@fault("set", near="of one", filename="run")
def ranks_of_two_runs() -> Case:
    """Rank 1's file is of a run two hours later."""
    good = [rank_trace(rank, 3) for rank in range(3)]
    late = _moved(rank_trace(1, 3), 7_200e6)
    return of_set(rank_files(good[0], late, good[2]), rank_files(*good), rank=1, file="rank1.json")


@fault("set", near="one file does not say how large its world is", filename="run")
def mixed_worlds() -> Case:
    """Rank 0 is of a world of two, rank 1 of a world of four."""
    unsaid = rank_trace(1)
    unsaid.document["distributedInfo"] = {"rank": 1}
    return of_set(
        rank_files(rank_trace(0), rank_trace(1, 4)), rank_files(rank_trace(0), unsaid), rank=1, file="rank1.json"
    )


@fault("set", near="no such file", filename="run")
def rank_outside_world() -> Case:
    """A file says that it is rank 5 of a world of two."""
    ranks, stranger = rank_files(rank_trace(0), rank_trace(1)), rank_trace(5, 6)
    stranger.document["distributedInfo"]["world_size"] = 2
    return of_set({**ranks, **rank_files(stranger)}, ranks, rank=5, file="rank5.json")


@fault("set", near="whole", filename="run")
def cut_rank() -> Case:
    """Rank 1's file is cut in the middle; the others are whole."""
    ranks = rank_files(*(rank_trace(rank, 3) for rank in range(3)))
    half = ranks["rank1.json"][: len(ranks["rank1.json"]) // 2]
    return of_set({**ranks, "rank1.json": half}, ranks, rank=1, file="rank1.json")
