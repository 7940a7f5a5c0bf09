"""Numbers that cannot be true: durations, times, and the order of launches and kernels."""

from __future__ import annotations

from pytest_gputrace.fakes.textedit import small
from pytest_gputrace.fakes.traceedit import add, flow_start, gpu_rows, pair, place_work, retime
from pytest_gputrace.fakes.tracefault import Case, fault
from pytest_gputrace.fakes.traces import FakeTrace

__all__: list[str] = []

_HOUR_US = 3_600e6
_QUARTER_YEAR_US = 7_889_238e6


def _first_us(trace: FakeTrace) -> float:
    return float(trace.events[trace.index(cat="user_annotation")]["ts"])


def _frame(trace: FakeTrace, ts: float, dur: float) -> dict[str, object]:
    """A Python frame of a thread in the background."""
    pid = trace.events[trace.index(cat="cpu_op")]["pid"]
    row = {"ph": "X", "cat": "python_function", "name": "monitor.py(7): run", "pid": pid, "tid": pid + 9}
    return {**row, "ts": ts, "dur": dur, "args": {"Python id": 1, "Python parent id": None, "Ev Idx": 90}}


def _kernel_lasts(dur_us: float, near: FakeTrace) -> Case:
    trace = small()
    event = trace.index(cat="kernel")
    trace.events[event]["dur"] = dur_us
    return pair(trace, near, event)


def _long_frame() -> FakeTrace:
    trace = small()
    add(trace, _frame(trace, _first_us(trace) - _HOUR_US, _HOUR_US + 60.0))
    return trace


@fault("numbers", near="kernels of 0 and of 0.001 us")
def negative_duration() -> Case:
    """A kernel lasts -1 us: it was not finished."""
    good = FakeTrace(steps=1, kernels_per_step=2)
    for row, dur in zip(gpu_rows(good), (0.0, 0.001), strict=False):
        row["dur"] = dur
    return _kernel_lasts(-1.0, good)


@fault("numbers", near="it lasts 0 us, and another one crosses the operations of the main thread")
def unfinished_frame() -> Case:
    """A Python frame lasts -1 us."""
    bad, good = small(), small()
    event = add(bad, _frame(bad, _first_us(bad) + 1.0, -1.0))
    crossing = _frame(good, _first_us(good) - 20.0, 45.0)
    add(good, _frame(good, _first_us(good) + 1.0, 0.0), {**crossing, "tid": crossing["pid"]})
    return pair(bad, good, event)


@fault("numbers", near="a Python frame that was open for an hour")
def wrapped_duration_63() -> Case:
    """A kernel lasts 292 years: 2^63 ns, a signed number that went round."""
    return _kernel_lasts(2**63 / 1000, _long_frame())


@fault("numbers", near="a Python frame that was open for an hour")
def wrapped_duration_64() -> Case:
    """A kernel lasts 584 years: 2^64 ns, an unsigned number that went round."""
    return _kernel_lasts(2**64 / 1000, _long_frame())


@fault("numbers", near="a range written as a begin and an end, and an instant")
def no_duration() -> Case:
    """A complete event (`X`) has no duration."""
    bad, good = small(), small()
    event = bad.index(cat="cpu_op")
    del bad.events[event]["dur"]
    row = good.events[good.index(cat="cpu_op", name="aten::copy_")]
    end = {"ph": "E", "name": row["name"], "pid": row["pid"], "tid": row["tid"], "ts": row["ts"] + row["dur"]}
    row["ph"] = "B"
    del row["dur"]
    add(good, end)
    return pair(bad, good, event)


@fault("numbers", near="a metadata row has no time")
def no_time() -> Case:
    """An operation has no time."""
    bad, good = small(), small()
    event = bad.index(cat="cpu_op")
    del bad.events[event]["ts"]
    for index in good.indices(ph="M"):
        del good.events[index]["ts"]
    return pair(bad, good, event)


@fault("numbers", near="a Python frame begins at 0, where Kineto puts what began before the base")
def negative_time() -> Case:
    """An operation begins at -5 us; viewers drop it."""
    bad, good = small(), small()
    event = bad.index(cat="cpu_op")
    bad.events[event]["ts"] = -5.0
    add(good, _frame(good, 0.0, 0.0))
    return pair(bad, good, event)


@fault("numbers", near="a single Python frame at 0, and a kernel of 0 us at its time")
def no_timing_collected() -> Case:
    """Everything on the GPU is at 0 and lasts 0 us, among host events at their times."""
    bad, good = FakeTrace(), FakeTrace()
    retime(bad, lambda ts: 0.0)
    for row in [*gpu_rows(bad), *(bad.events[index] for index in bad.indices(cat="gpu_user_annotation"))]:
        row["dur"] = 0.0
    add(good, _frame(good, 0.0, 0.0))
    good.events[good.index(cat="kernel")]["dur"] = 0.0
    return pair(bad, good, bad.index(cat="kernel"))


@fault("numbers", near="every other kernel lasts 0 us, at its time")
def half_without_timing() -> Case:
    """Every other kernel is at 0 and lasts 0 us."""
    bad, good = FakeTrace(), FakeTrace()
    for row in gpu_rows(bad)[::2]:
        place_work(bad, row, ts=0.0, dur=0.0)
    for row in gpu_rows(good)[::2]:
        row["dur"] = 0.0
    return pair(bad, good, bad.index(cat="kernel", ts=0.0))


@fault("numbers", near="it begins 0.5 us before its launch: less than two clocks can be apart")
def kernel_before_launch() -> Case:
    """One kernel begins 50 us before its launch."""
    bad, good = FakeTrace(), FakeTrace()
    for trace, early in ((bad, 50.0), (good, 0.5)):
        row = gpu_rows(trace)[0]
        place_work(trace, row, ts=round(flow_start(trace, row)["ts"] - early, 3))
    return pair(bad, good, bad.index(cat="kernel"))


@fault("numbers", near="every kernel begins 2 us after its launch, before that call returns")
def gpu_clock_behind() -> Case:
    """Every kernel begins the same 500 us too early: the GPU's clock is behind."""
    bad, good = FakeTrace(), FakeTrace()
    retime(bad, lambda ts: ts - 500.0)
    retime(good, lambda ts: ts - 7.0)
    return pair(bad, good, bad.index(cat="kernel"))


@fault("numbers", near="each waits longer for its turn than the one before")
def gpu_clock_drifts() -> Case:
    """Each kernel begins earlier before its launch than the one before: the GPU's clock is slow."""
    bad, good = FakeTrace(steps=3, kernels_per_step=2), FakeTrace(steps=3, kernels_per_step=2)
    start = gpu_rows(bad)[0]["ts"]
    retime(bad, lambda ts: start + (ts - start) * 0.75)
    retime(good, lambda ts: start + (ts - start) * 1.25)
    late = [row for row in gpu_rows(bad) if row["ts"] < flow_start(bad, row)["ts"] - 1.0]
    return pair(bad, good, bad.events.index(late[0]))


@fault("numbers", near="the last second of the quarter of a year that a base is good for")
def nanoseconds_as_microseconds() -> Case:
    """Times and durations are nanoseconds where microseconds belong: the trace is of the year 2190."""
    bad, good = small(), small()
    shift = _QUARTER_YEAR_US - 1e6 - _first_us(good)
    for row in bad.events:
        row |= {key: row[key] * 1000 for key in ("ts", "dur") if key in row}
    for row in good.events:
        row["ts"] = round(row["ts"] + shift, 3)
    return pair(bad, good, 0)


@fault("numbers", near="microseconds from the epoch, as torch 2.1 writes them")
def epoch_nanoseconds() -> Case:
    """There is no base, and times are nanoseconds from the epoch."""
    traces = small(), small()
    for trace, per_us in zip(traces, (1000, 1), strict=True):
        base_us = trace.document.pop("baseTimeNanoseconds") // 1000
        for row in trace.events:
            row["ts"] = (base_us + round(row["ts"])) * per_us
            if "dur" in row:
                row["dur"] = round(row["dur"]) * per_us
    return pair(*traces, 0)


@fault("numbers", near="one begins at the very end of the other")
def early_start() -> Case:
    """A kernel begins 2.5 us before the one ahead of it on its stream ends, as programmatic dependent launch does."""
    bad, good = FakeTrace(steps=1), FakeTrace(steps=1)
    for trace, early in ((bad, 2.5), (good, 0.0)):
        first, second = gpu_rows(trace)[:2]
        first["dur"] = round(second["ts"] + early - first["ts"], 3)
    return pair(bad, good, bad.index(cat="kernel"))


@fault("numbers", near="it runs as long on a stream of its own")
def runaway_duration() -> Case:
    """A kernel lasts 5 s, far beyond all that follow on its stream."""
    bad, good = FakeTrace(), FakeTrace()
    for trace in (bad, good):
        gpu_rows(trace)[0]["dur"] = 5e6
    row = gpu_rows(good)[0]
    place_work(good, row, tid=20)
    row["args"]["stream"] = 20
    return pair(bad, good, bad.index(cat="kernel"))


@fault("numbers", near="events in no order: in the file every flow ends first; the base comes last")
def flow_ends_first() -> Case:
    """A flow ends 20 us before it begins: viewers do not draw it."""
    bad, good = small(), small()
    event = bad.index(ph="f", cat="fwdbwd")
    bad.events[event]["ts"] = round(bad.events[bad.index(ph="s", cat="fwdbwd")]["ts"] - 20.0, 3)
    good.events.reverse()  # no flow begins before its end in the file, and nothing is sorted
    good.document["baseTimeNanoseconds"] = good.document.pop("baseTimeNanoseconds")
    return pair(bad, good, event)
