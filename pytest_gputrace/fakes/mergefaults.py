"""Faults of many files that are to become one timeline.

Most of these files are as their writers make them, and nothing is wrong with any by itself: whoever puts them together
must keep apart, or bring together, what they hold.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from pytest_gputrace.fakes.setfaults import QUARTER_YEAR_S, files_of, from_base, rank_files, rank_trace
from pytest_gputrace.fakes.traceedit import add, pair, without
from pytest_gputrace.fakes.tracefault import Case, fault, of_set
from pytest_gputrace.fakes.traces import FakeTrace

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__: list[str] = []

_CONTAINER_PID = 17


def _first_ns(trace: FakeTrace) -> int:
    """When the first event that has a time begins, since 1970."""
    times: list[int] = [round(row["ts"] * 1000) for row in trace.events if row["ph"] != "M"]
    base_ns: int = _based(trace)["baseTimeNanoseconds"]
    return base_ns + min(times)


def _based(trace: FakeTrace) -> dict[str, Any]:
    """What holds the base of a document."""
    found: dict[str, Any] = trace.document.get("viztracer_metadata", trace.document)
    return found


def _at_once(first: FakeTrace, *others: FakeTrace) -> None:
    """Move the bases of the others so that all begin at one time."""
    for trace in others:
        _based(trace)["baseTimeNanoseconds"] += _first_ns(first) - _first_ns(trace)


def _beside(rank: int, **traces: FakeTrace) -> dict[str, FakeTrace]:
    """The traces of several profilers in the folder of one rank, begun at one time."""
    _at_once(*traces.values())
    return {f"rank{rank}/{name}.json": trace for name, trace in traces.items()}


@fault("merge", near="it was saved in the process", filename="run")
def one_base_missing() -> Case:
    """Of a rank's two traces, the report is of the viztracer command, which leaves the base out."""

    def files() -> dict[str, FakeTrace]:
        return _beside(0, kineto=rank_trace(0, 1), viztracer=FakeTrace.viztracer())

    bad, file = files(), "rank0/viztracer.json"
    del _based(bad[file])["baseTimeNanoseconds"]
    for row in bad[file].events:
        row |= {"cat": "fee"} if "cat" in row else {}
    return of_set(files_of(bad), files_of(files()), rank=0, file=file)


@fault("merge", near="both have one base", filename="run")
def bases_of_two_steps() -> Case:
    """Two processes began before and after a mark to which Kineto rounds its base: bases a quarter of a year apart, one time."""
    base_ns = rank_trace(0).document["baseTimeNanoseconds"]
    since_mark_us = 5_000_000.0
    since_base_us = QUARTER_YEAR_S * 1e6 + since_mark_us
    early, late = (from_base(rank_trace(rank), base_ns, since_base_us) for rank in range(2))
    after = from_base(rank_trace(1), base_ns + QUARTER_YEAR_S * 10**9, since_mark_us)
    return of_set(rank_files(early, after), rank_files(early, late), rank=1, file="rank1.json")


@fault("merge", near="process ids of their own", filename="run")
def equal_pids() -> Case:
    """Two ranks have one process id, as in containers, in Kineto's traces and in VizTracer's reports."""

    def files(*pids: int) -> dict[str, Any]:
        found: dict[str, FakeTrace] = {}
        for rank, pid in enumerate(pids):
            kineto = rank_trace(rank, host=f"node{rank}", pid=pid)
            found |= _beside(rank, kineto=kineto, viztracer=FakeTrace.viztracer(pid=pid))
        return files_of(found)

    return of_set(files(_CONTAINER_PID, _CONTAINER_PID), files(_CONTAINER_PID, 18), rank=1, file="rank1/kineto.json")


@fault("merge", near="devices of their own", filename="run")
def equal_gpus() -> Case:
    """Two ranks run on GPU 0, each of its own node; a GPU's process id is its number."""
    both = [rank_trace(rank, host=f"node{rank}", device=0) for rank in range(2)]
    return of_set(rank_files(*both), rank_files(rank_trace(0), rank_trace(1)), rank=1, file="rank1.json")


@fault("merge", near="a torch that does not write such rows", filename="run")
def equal_text_pids() -> Case:
    """Two ranks have rows of the processes "Spans" and "Traces"; viewers take each for one process."""
    bare = [rank_trace(rank) for rank in range(2)]
    for trace in bare:
        without(trace, lambda row: isinstance(row["pid"], str))
    return of_set(rank_files(rank_trace(0), rank_trace(1)), rank_files(*bare), rank=1, file="rank1.json")


@fault("merge", near="those of the second rank begin at 5000", filename="run")
def equal_flow_ids() -> Case:
    """The flows of two ranks have the same ids, which are correlation ids and begin anew in each process."""
    own = rank_trace(1)
    for row in own.events:
        if "id" in row:
            row["id"] += 5000
        if "correlation" in row.get("args", {}):
            row["args"]["correlation"] += 5000
    bad = rank_files(rank_trace(0), rank_trace(1))
    return of_set(bad, rank_files(rank_trace(0), own), rank=1, file="rank1.json")


@fault("merge", near="numbers of their own", filename="run")
def equal_scope_ids() -> Case:
    """VizTracer's frames of two ranks have arrows to Proton's scopes of the same numbers; each means the one of its rank."""

    def files(*first: int) -> dict[str, Any]:
        found: dict[str, FakeTrace] = {}
        for rank, number in enumerate(first):
            report = FakeTrace.viztracer(pid=4000 + rank, scope_ids=(number, number + 1))
            _based(report)["baseTimeNanoseconds"] += 250 * rank
            found |= _beside(rank, viztracer=report, proton=FakeTrace.proton(first_scope_id=number))
        return files_of(found)

    return of_set(files(1, 1), files(1, 101), rank=1, file="rank1/viztracer.json")


@fault("merge", near="with process ids of their own", filename="run")
def process_names_of_one_pid() -> Case:
    """Two ranks name one process id, each in its own way: the name that comes last would be that of both."""

    def files(*pids: int) -> dict[str, Any]:
        traces = [rank_trace(rank, host=f"node{rank}", pid=pid) for rank, pid in enumerate(pids)]
        for rank, trace in enumerate(traces):
            trace.events[trace.index(name="process_name", pid=pids[rank])]["args"]["name"] = f"trainer {rank}"
        return rank_files(*traces)

    return of_set(files(_CONTAINER_PID, _CONTAINER_PID), files(_CONTAINER_PID, 18), rank=1, file="rank1.json")


@fault("merge", near="without a time, as other writers have them", filename="run")
def timed_metadata() -> Case:
    """Rank 1's rows of names have the time 0, two months before its first event: a timeline would begin there."""
    bad, good = rank_trace(1), rank_trace(1)
    for row in bad.events:
        row |= {"ts": 0.0} if row["ph"] == "M" else {}
    for row in good.events:
        if row["ph"] == "M":
            del row["ts"]
    first = rank_trace(0)
    return of_set(rank_files(first, bad), rank_files(first, good), rank=1, file="rank1.json")


@fault("merge", near="a trace of another program", filename="run")
def merged_among_ranks() -> Case:
    """Beside two ranks lies the timeline that was made of them."""
    ranks = rank_files(rank_trace(0), rank_trace(1))
    own = {"ph": "X", "name": "epoch", "cat": "mine", "pid": 12, "tid": 12, "ts": 5.0, "dur": 90.0}
    other = {"displayTimeUnit": "ms", "traceEvents": [own]}
    timeline = {**_mark("rank0.json", "rank1.json"), "baseTimeNanoseconds": _first_ns(rank_trace(0)), **other}
    bad, good = (json.dumps(document).encode() for document in (timeline, other))
    return of_set({**ranks, "timeline.json": bad}, {**ranks, "timeline.json": good}, file="timeline.json")


def _mark(*names: str) -> dict[str, Any]:
    return {"gputrace_merge": {"version": 1, "inputs": [{"file": name} for name in names]}}


@fault("merge", near="it is one of the process's own threads")
def frames_on_a_gpu() -> Case:
    """Frames of a background thread have the process 0 and the thread 0, which are a GPU and its stream."""

    def trace(pid: int, tid: int) -> FakeTrace:
        made = FakeTrace("rocm")
        first = made.events[made.index(cat="kernel")]["ts"]
        row = {"ph": "X", "cat": "python_function", "name": "tqdm/_monitor.py(84): run", "pid": pid, "tid": tid}
        add(made, {**row, "ts": round(first + 5.5, 3), "dur": 61.0, "args": {"Python id": 1, "Python thread": 1}})
        return made

    bad = trace(0, 0)
    return pair(bad, trace(4000, 4002), bad.index(cat="python_function"))


@fault("merge", near="Kineto's is GPU 1", filename="run")
def proton_on_a_gpu() -> Case:
    """Proton's only process is 0 and its first lane is thread 0; in Kineto's trace of the same rank that is a GPU's stream."""

    def files(device: int) -> dict[str, Any]:
        kineto = FakeTrace("rocm", device=device)
        return files_of(_beside(0, kineto=kineto, proton=FakeTrace.proton(kernels_per_step=0)))

    return of_set(files(0), files(1), rank=0, file="rank0/proton.json")


@fault("merge", near="ids of their own", filename="run")
def equal_async_ids() -> Case:
    """Two ranks have asynchronous ranges of equal ids, as numbers and as `id2`."""

    def files(*first: int) -> dict[str, Any]:
        traces = [rank_trace(rank) for rank in range(len(first))]
        for trace, number in zip(traces, first, strict=True):
            add(trace, *_requests(trace, {"id": number}), *_requests(trace, {"id2": {"global": hex(number)}}))
        return rank_files(*traces)

    return of_set(files(7, 7), files(7, 8), rank=1, file="rank1.json")


def _requests(trace: FakeTrace, identity: dict[str, Any]) -> Iterable[dict[str, Any]]:
    """One range that goes from thread to thread: its begin, a moment within it, its end."""
    step = trace.events[trace.index(cat="user_annotation")]
    for ph, after_us in (("b", 4.0), ("n", 9.5), ("e", 77.25)):
        row = {"ph": ph, "cat": "request", "name": "generate", "pid": step["pid"], "tid": step["tid"], **identity}
        yield {**row, "ts": round(step["ts"] + after_us, 3)}


@fault("merge", near="the clocks agree", filename="run")
def clocks_of_two_nodes() -> Case:
    """The clock of the second node is 1.5 s ahead, and gains 30 us a second."""

    def files(**clock: Any) -> dict[str, Any]:
        job = {"steps": 3, "kernels_per_step": 1, "max_pause_ns": 20_000_000}
        return rank_files(rank_trace(0, **job), rank_trace(1, host="node1", device=0, **job, **clock))

    bad = files(clock_offset_ns=1_500_000_000, clock_drift_ppm=30.0)
    return of_set(bad, files(), rank=1, file="rank1.json")
