"""Every figure against a computation one event at a time, from what Python's own parser gives."""

from __future__ import annotations

import gzip
import itertools
import json
import os
import random
import re
import statistics
from collections import Counter, defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_gputrace.overview import look
from pytest_gputrace.traces import open_trace

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_gputrace.overview.figures import Moves, Overview, Ranking
    from pytest_gputrace.traces import Trace

    Opened = Callable[..., Trace]

REAL = Path(os.environ.get("GPUTRACE_TRACES", Path(__file__).parents[4] / "shared" / "traces"))
REAL_TRACES = sorted(REAL.glob("*.json.gz"))

LAUNCH = re.compile(r"(?:cuda|cu|hip)\w*Launch\w*")
WAIT = re.compile(r"(?:cuda|cu|hip)\w*Synchronize\w*")


GPU = {"kernel", "gpu_memcpy", "gpu_memset"}
Interval = tuple[float, float]


def of_category(events: list[dict[str, Any]], *categories: str) -> list[dict[str, Any]]:
    return [event for event in events if event["ph"] == "X" and event.get("cat") in categories]


def by_name(events: list[dict[str, Any]]) -> dict[str, tuple[int, float, float, float, float]]:
    """Calls, total, smallest, median, largest."""
    found = defaultdict(list)
    for event in events:
        found[event["name"]].append(event["dur"])
    return {
        name: (len(times), sum(times), min(times), statistics.median(times), max(times))
        for name, times in found.items()
    }


def union(intervals: list[Interval]) -> list[Interval]:
    merged: list[Interval] = []
    for start, end in sorted(intervals):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return merged


def length(intervals: list[Interval]) -> float:
    return sum(end - start for start, end in union(intervals))


def intervals(events: list[dict[str, Any]]) -> list[Interval]:
    return [(event["ts"], event["ts"] + event["dur"]) for event in events]


def by_device(events: list[dict[str, Any]]) -> dict[int, list[dict[str, Any]]]:
    found = defaultdict(list)
    for event in of_category(events, *GPU):
        found[event["args"]["device"]].append(event)
    return found


def is_collective(event: dict[str, Any]) -> bool:
    return bool(event["name"].startswith("nccl")) and event["cat"] == "kernel"


def exposed_us(events: list[dict[str, Any]]) -> float:
    """Time of collectives in which no other kernel ran on their device."""
    total = 0.0
    for here in by_device(events).values():
        kernels = of_category(here, "kernel")
        other = intervals([event for event in kernels if not is_collective(event)])
        total += length(intervals(kernels)) - length(other)
    return total


def unmatched(events: list[dict[str, Any]], others: list[dict[str, Any]]) -> int:
    there = {event["args"]["correlation"] for event in others if "correlation" in event.get("args", {})}
    return sum(1 for event in events if event["args"].get("correlation") not in there)


def span(events: list[dict[str, Any]]) -> float:
    dated = [event for event in events if "ts" in event and event["ph"] != "M"]
    return float(max(event["ts"] + event.get("dur", 0) for event in dated) - min(event["ts"] for event in dated))


def random_events(seed: int) -> list[dict[str, Any]]:
    """Two devices of two streams that overlap, with launches, some of which have no kernel and the reverse."""
    draw = random.Random(seed)
    events: list[dict[str, Any]] = []
    for number in range(120):
        device, stream = draw.randrange(2), draw.randrange(2)
        category, name = draw.choice(
            [
                ("kernel", "gemm"),
                ("kernel", "void add<float>(int)"),
                ("kernel", "ncclDevKernel_AllReduce_Sum_f32_RING_LL(x)"),
                ("gpu_memcpy", "Memcpy HtoD (Pageable -> Device)"),
                ("gpu_memcpy", "CopyDeviceToHost"),
                ("gpu_memset", "Memset (Device)"),
            ]
        )
        arguments: dict[str, Any] = {"device": device, "stream": stream, "correlation": number}
        if category != "kernel" and draw.random() < 0.7:
            arguments["bytes"] = draw.randrange(10**9)
        if name.startswith("nccl") and draw.random() < 0.7:
            arguments |= {"Collective name": "allreduce", "dtype": "Half", "Group size": 2, "In msg nelems": number}
        start = 1000 + draw.randrange(2000) / 4
        if draw.random() < 0.9:
            event = {"ph": "X", "cat": category, "name": name, "pid": device, "tid": stream, "args": arguments}
            events.append({**event, "ts": start + 5, "dur": draw.randrange(80) / 4})
        if draw.random() < 0.9:
            call = draw.choice(["cudaLaunchKernel", "hipLaunchKernel", "cudaStreamSynchronize"])
            event = {"ph": "X", "cat": "cuda_runtime", "name": call, "pid": 77, "tid": 77}
            events.append({**event, "ts": start, "dur": draw.randrange(20) / 4, "args": {"correlation": number}})
        event = {"ph": "X", "cat": "cpu_op", "name": f"aten::op{number % 3}", "pid": 77, "tid": 77}
        events.append({**event, "ts": start - 1, "dur": draw.randrange(40) / 4})
    for step in range(3):
        event = {"ph": "X", "cat": "user_annotation", "name": f"ProfilerStep#{step + 5}", "pid": 77, "tid": 77}
        events.append({**event, "ts": 1000 + 100 * step, "dur": draw.randrange(400) / 4})
    draw.shuffle(events)
    return events


def assert_ranked(ranking: Ranking, events: list[dict[str, Any]]) -> None:
    expected = by_name(events)
    total = sum(event["dur"] for event in events)
    assert (ranking.calls, ranking.names) == (len(events), len(expected))
    assert ranking.total_us == (pytest.approx(total) if events else None)
    for row in ranking.top:
        figures = (row.calls, row.total_us, row.min_us, row.median_us, row.max_us)
        assert figures == pytest.approx(expected[row.name])
        assert row.share_percent == (pytest.approx(100 * expected[row.name][1] / total) if total else None)
    times = [row.total_us or 0 for row in ranking.top]
    assert times == sorted(times, reverse=True)
    assert {row.name for row in ranking.top} == set(expected)


def assert_moves(moves: tuple[Moves, ...], events: list[dict[str, Any]]) -> None:
    assert {move.name for move in moves} == {event["name"] for event in events}
    for move in moves:
        of_name = [event for event in events if event["name"] == move.name]
        told = [event["args"]["bytes"] for event in of_name if "bytes" in event["args"]]
        assert (move.count, move.bytes_told_by) == (len(of_name), len(told))
        assert move.bytes == (sum(told) if told else None)
        assert move.total_us == pytest.approx(sum(event["dur"] for event in of_name))


def assert_overview(overview: Overview, events: list[dict[str, Any]]) -> None:
    work = of_category(events, *GPU)
    kernels = of_category(events, "kernel")
    calls = of_category(events, "cuda_runtime", "cuda_driver")
    launches = [call for call in calls if LAUNCH.fullmatch(call["name"])]
    assert overview.events == len(events)
    assert overview.gpu_events == len(work)
    assert overview.span_us == pytest.approx(span(events))
    assert_ranked(overview.kernels, kernels)
    assert_ranked(overview.launches.ranking, launches)
    assert_ranked(overview.synchronisations, [call for call in calls if WAIT.fullmatch(call["name"])])
    assert overview.launches.without_gpu_work == (unmatched(launches, work) if launches else None)
    assert overview.launches.kernels_without_call == unmatched(kernels, calls)
    assert overview.host.ranking.calls == len(of_category(events, "cpu_op"))
    assert_moves(overview.copies, of_category(events, "gpu_memcpy"))
    assert_moves(overview.sets, of_category(events, "gpu_memset"))
    assert_devices(overview, events)
    assert_communication(overview, events)


def assert_devices(overview: Overview, events: list[dict[str, Any]]) -> None:
    expected = by_device(events)
    assert [use.device for use in overview.gpus] == sorted(expected)
    for use in overview.gpus:
        assert isinstance(use.device, int)
        here = expected[use.device]
        pieces = union(intervals(here))
        assert use.events == len(here)
        assert use.busy_us == pytest.approx(length(pieces), abs=0.01)
        assert use.span_us == pytest.approx(pieces[-1][1] - pieces[0][0])
        assert {stream.stream: stream.events for stream in use.streams} == Counter(
            event["args"]["stream"] for event in here
        )
        gaps = sorted((after[0] - before[1] for before, after in itertools.pairwise(pieces)), reverse=True)
        assert [gap.dur_us for gap in use.gaps] == pytest.approx(gaps[:3])


def assert_communication(overview: Overview, events: list[dict[str, Any]]) -> None:
    found = [event for event in of_category(events, "kernel") if is_collective(event)]
    if not found:
        assert overview.communication is None
        return
    assert overview.communication is not None
    assert overview.communication.count == len(found)
    assert overview.communication.total_us == pytest.approx(sum(event["dur"] for event in found))
    assert overview.communication.exposed_us == pytest.approx(exposed_us(events), abs=0.01)
    assert sum(kind.count for kind in overview.communication.kinds) == len(found)
    told = Counter(
        (event["args"].get("Collective name"), event["args"].get("dtype"), event["args"].get("Group size"))
        for event in found
        if "Collective name" in event["args"]
    )
    assert {
        (kind.name, kind.dtype, kind.group_size): kind.count for kind in overview.communication.kinds if kind.dtype
    } == told


@pytest.mark.parametrize("seed", range(5))
def test_every_figure_is_what_one_event_at_a_time_gives(seed: int, opened: Opened) -> None:
    events = random_events(seed)
    assert_overview(look(opened(events), top=100), events)


@pytest.mark.skipif(not REAL_TRACES, reason=f"needs traces: none in {REAL}")
@pytest.mark.parametrize("path", REAL_TRACES, ids=lambda path: path.name)
def test_figures_of_real_traces(path: Path) -> None:
    with gzip.open(path) as file:
        events = json.load(file)["traceEvents"]
    overview = look(open_trace(path), top=1000)
    assert_overview(overview, events)
    assert not overview.broken
