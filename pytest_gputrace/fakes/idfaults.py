"""Ids, phases and bases that do not fit: what a trace's parts have to hold together by."""

from __future__ import annotations

from typing import Any

from pytest_gputrace.fakes.textedit import small
from pytest_gputrace.fakes.traceedit import add, flow_end, flow_start, gpu_rows, launch, pair, place_work
from pytest_gputrace.fakes.tracefault import Case, fault
from pytest_gputrace.fakes.traces import FakeTrace

__all__: list[str] = []

_PID_LIMIT, _EXACT_LIMIT = 2**31, 2**53


def _host_row(trace: FakeTrace, ph: str, name: str, after_us: float, **more: Any) -> dict[str, Any]:
    """A row on the main thread, some time after the first operation."""
    op = trace.events[trace.index(cat="cpu_op")]
    return {
        "ph": ph,
        "cat": "cpu_op",
        "name": name,
        "pid": op["pid"],
        "tid": op["tid"],
        "ts": op["ts"] + after_us,
        **more,
    }


@fault("numbers", near="it has one, behind the events")
def missing_base() -> Case:
    """A VizTracer report of the command: its times count from the machine's start, and no base says when that was."""
    bad, good = FakeTrace.viztracer(), FakeTrace.viztracer()
    del bad.document["viztracer_metadata"]["baseTimeNanoseconds"]
    for row in bad.events:
        row |= {"cat": "fee"} if "cat" in row else {}
    return pair(bad, good)


@fault("numbers", near="a Kineto trace without one, whose times are microseconds from the epoch")
def proton_without_base() -> Case:
    """A trace of Proton 3.8: its times count from its first event, and no base says when that was."""
    bad, good = FakeTrace.proton(), small()
    del bad.document["baseTimeNanoseconds"]
    base_us = good.document.pop("baseTimeNanoseconds") // 1000
    for row in good.events:
        row["ts"] = round(base_us + row["ts"], 3)
    return pair(bad, good)


@fault("numbers", near="one flow with several ends, and its id in another category")
def repeated_flow_start() -> Case:
    """Two flows of one category begin with one id."""
    bad, good = FakeTrace(steps=1), FakeTrace(steps=1)
    first, second = gpu_rows(bad)[:2]
    event = bad.events.index(flow_start(bad, second))
    for row in (flow_start(bad, second), flow_end(bad, second)):
        row["id"] = first["args"]["correlation"]
    first, second = gpu_rows(good)[:2]
    for row in (flow_start(good, second), launch(good, second)):
        good.events.remove(row)
    launch(good, first)["name"] = "cudaGraphLaunch"  # one launch starts both kernels
    flow_end(good, second)["id"] = first["args"]["correlation"]
    second["args"]["correlation"] = first["args"]["correlation"]
    for index in good.indices(cat="fwdbwd"):
        good.events[index]["id"] = first["args"]["correlation"]
    return pair(bad, good, event)


@fault("numbers", near="its device is not among deviceProperties, whose only one has no name, as ROCm writes it")
def device_differs() -> Case:
    """A kernel's process is 3, its device 0."""
    bad, good = small(), FakeTrace("rocm", steps=1)
    event = bad.index(cat="kernel")
    place_work(bad, bad.events[event], pid=3)
    good.document["deviceProperties"][0]["name"] = ""
    for row in gpu_rows(good):
        place_work(good, row, pid=2)
        row["args"]["device"] = 2
    for index in good.indices(cat="gpu_user_annotation"):
        good.events[index]["pid"] = 2
    return pair(bad, good, event)


@fault("numbers", near="rows that belong to no stream or device: an event's wait, an overhead")
def stream_differs() -> Case:
    """A kernel's thread is 9, its stream 7."""
    bad, good = small(), small()
    event = bad.index(cat="kernel")
    place_work(bad, bad.events[event], tid=9)
    after = _host_row(good, "X", "Event Sync", 70.0, dur=1.5)
    args = {
        "External id": 1,
        "cuda_sync_kind": "Event Sync",
        "stream": -1,
        "correlation": 190,
        "device": 0,
        "context": 1,
    }
    overhead = {**after, "cat": "overhead", "name": "Activity Buffer Request", "pid": -1, "tid": 0}
    add(good, {**after, "cat": "cuda_sync", "pid": 0, "tid": -1, "args": args}, overhead)
    return pair(bad, good, event)


def _flow_id(bad_id: object, good_id: object) -> Case:
    traces = small(), small()
    event = traces[0].index(ph="s", cat="fwdbwd")
    for trace, identity in zip(traces, (bad_id, good_id), strict=True):
        for index in trace.indices(cat="fwdbwd"):
            trace.events[index]["id"] = identity
    return pair(*traces, event)


@fault("numbers", near="one in hexadecimal digits")
def text_flow_id() -> Case:
    """A flow's id is a word: viewers refuse it."""
    return _flow_id("backward", "0x1f")


@fault("numbers", near="2^53")
def large_flow_id() -> Case:
    """A flow's id is 2^53 + 1, which a double cannot tell from 2^53."""
    return _flow_id(_EXACT_LIMIT + 1, _EXACT_LIMIT)


@fault("numbers", near="2^31 - 1, and the texts that torch has as processes")
def large_pid() -> Case:
    """A process id is 2^31."""
    traces = small(), small()
    event = traces[0].index(cat="cpu_op", name="aten::copy_")
    for trace, pid in zip(traces, (_PID_LIMIT, _PID_LIMIT - 1), strict=True):
        trace.events[event]["pid"] = pid
    return pair(*traces, event)


@fault("numbers", near="a counter, an asynchronous range, an instant of old, a mark")
def unknown_phase() -> Case:
    """An event has the phase Q, which does not exist: viewers drop it."""
    bad, good = small(), small()
    event = add(bad, _host_row(bad, "Q", "queue", 1.0))
    rows = [_host_row(good, "C", "memory", 1.0, args={"bytes": 512})]
    rows += [_host_row(good, phase, "request", 2.0 + number, id=7) for number, phase in enumerate("bne")]
    rows += [_host_row(good, "I", "instant", 6.0, s="t"), _host_row(good, "R", "mark", 7.0)]
    add(good, *rows)
    return pair(bad, good, event)


@fault("numbers", near="two ranges, one in the other, that end")
def open_range() -> Case:
    """A range begins (`B`) and never ends."""
    bad, good = small(), small()
    event = add(bad, _host_row(bad, "B", "outer", 26.0))
    outer = [_host_row(good, "B", "outer", 26.0), _host_row(good, "E", "outer", 38.0)]
    inner = [_host_row(good, "B", "inner", 28.0), _host_row(good, "E", "inner", 33.0)]
    add(good, outer[0], *inner, outer[1])
    return pair(bad, good, event)
