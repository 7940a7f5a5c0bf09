"""Changes to a faultless Kineto trace that several faults need: its GPU half, its flows, its times.

Knows of documents only; what is wrong about a change stands where the fault does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytest_gputrace.fakes.tracefault import of_one

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from pytest_gputrace.fakes.tracefault import Case
    from pytest_gputrace.fakes.traces import FakeTrace

__all__ = [
    "add",
    "drop_gpu_work",
    "flow_end",
    "flow_start",
    "gpu_rows",
    "launch",
    "pair",
    "place_work",
    "retime",
    "without",
]

_GPU = ("kernel", "gpu_memcpy", "gpu_memset")


def pair(bad: FakeTrace, good: FakeTrace, event: int | None = None) -> Case:
    """The case of two whole documents."""
    return of_one(bad.text().encode(), good.text().encode(), event=event)


def gpu_rows(trace: FakeTrace) -> list[dict[str, Any]]:
    """What ran on the GPU, in order of time."""
    return sorted((row for row in trace.events if row.get("cat") in _GPU), key=lambda row: float(row["ts"]))


def launch(trace: FakeTrace, row: dict[str, Any]) -> dict[str, Any]:
    """The call that started a row of GPU work."""
    correlation = row["args"]["correlation"]
    calls = (each for each in trace.events if each.get("cat") in ("cuda_runtime", "cuda_driver"))
    return next(each for each in calls if each["ph"] == "X" and each["args"]["correlation"] == correlation)


def flow_start(trace: FakeTrace, row: dict[str, Any]) -> dict[str, Any]:
    """The begin of the flow to a row of GPU work, at its launch."""
    found: dict[str, Any] = trace.events[trace.index(ph="s", cat="ac2g", id=row["args"]["correlation"])]
    return found


def flow_end(trace: FakeTrace, row: dict[str, Any]) -> dict[str, Any]:
    """The end of the flow to a row of GPU work."""
    found: dict[str, Any] = trace.events[trace.index(ph="f", cat="ac2g", id=row["args"]["correlation"])]
    return found


def place_work(trace: FakeTrace, row: dict[str, Any], **fields: Any) -> None:
    """Give a row of GPU work another time, process or thread, and the end of its flow with it."""
    row.update(fields)
    flow_end(trace, row).update({key: value for key, value in fields.items() if key in ("ts", "pid", "tid")})


def retime(trace: FakeTrace, moved: Callable[[float], float]) -> None:
    """Move everything on the GPU's side, ranges too, to other times."""
    for row in gpu_rows(trace):
        place_work(trace, row, ts=round(moved(row["ts"]), 3))
    for index in trace.indices(cat="gpu_user_annotation"):
        row = trace.events[index]
        row["ts"] = round(moved(row["ts"]), 3)


def add(trace: FakeTrace, *rows: dict[str, Any]) -> int:
    """Put rows before those about the profile itself; give the index of the first."""
    at = trace.index(cat="Trace")
    trace.events[at:at] = rows
    return at


def without(trace: FakeTrace, unwanted: Callable[[dict[str, Any]], bool]) -> None:
    """Take rows out."""
    trace.events[:] = [row for row in trace.events if not unwanted(row)]


def drop_gpu_work(trace: FakeTrace, rows: Iterable[dict[str, Any]]) -> None:
    """Take GPU work and the ends of its flows out; its launches stay. A range over no work goes, too."""
    gone = {row["args"]["correlation"] for row in rows}

    def is_gone(row: dict[str, Any]) -> bool:
        if row.get("cat") in _GPU:
            return row["args"]["correlation"] in gone
        return row["ph"] == "f" and row["cat"] == "ac2g" and row["id"] in gone

    without(trace, is_gone)
    left = gpu_rows(trace)

    def covers_nothing(row: dict[str, Any]) -> bool:
        end = row.get("ts", 0.0) + row.get("dur", 0.0)
        return row.get("cat") == "gpu_user_annotation" and not any(row["ts"] <= work["ts"] <= end for work in left)

    without(trace, covers_nothing)
