"""Rules about times and durations that cannot be true (family D)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from pytest_gputrace.checks.rule import Hit, Looked
from pytest_gputrace.checks.view import EPOCH_US
from pytest_gputrace.checks.words import more, us
from pytest_gputrace.traces import vocabulary

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from pytest_gputrace.checks.rule import Settings
    from pytest_gputrace.checks.view import View

__all__ = [
    "bad_time",
    "impossible_duration",
    "missing_base",
    "nanoseconds",
    "negative_duration",
    "no_duration",
    "no_timing",
]

_TIMED = "XBEiInsftbePC"
# A base that was added twice lies beyond it too.
_YEAR_2080_US = 3_471_292_800e6
_WITH_BASE = ("kineto", "proton", "viztracer", "merged")
# A process that profiles is older than this when its clock says anything at all.
_A_MINUTE_US = 60e6


def negative_duration(view: View, settings: Settings) -> Looked:
    """GT301: an event ends before it begins."""
    durations = view.columns.dur_us
    rows = np.flatnonzero(durations < 0)
    looked = Looked(int((~np.isnan(durations)).sum()))
    if len(rows):
        worst = rows[np.argmin(durations[rows])]
        advice = "-1 means that it never ended" if (durations[rows] == -1).all() else f"at worst {us(durations[worst])}"
        what = f"{view.name(rows[0])} lasts {us(durations[rows[0]])}; {_count(rows, view)}: {advice}"
        looked.hits.append(Hit(what, int(rows[0])))
    return looked


def impossible_duration(view: View, settings: Settings) -> Looked:
    """GT302: an event lasts longer than any profile."""
    if view.trace.format == "proton-tree":  # sums over all calls of a node
        return Looked(0)
    durations = view.columns.dur_us
    rows = np.flatnonzero(durations > settings.max_duration_us)
    looked = Looked(int((~np.isnan(durations)).sum()))
    if len(rows):
        longest = float(durations[rows].max())
        what = f"{view.name(rows[0])} lasts {us(durations[rows[0]])}; {_count(rows, view)} above a day"
        looked.hits.append(Hit(f"{what}{_wrapped(longest)}", int(rows[0])))
    return looked


def no_duration(view: View, settings: Settings) -> Looked:
    """GT303: a range without a duration, which viewers drop."""
    rows = np.flatnonzero(view.ranges)
    if view.trace.format == "superbench" or view.lost_values:
        return Looked(0)
    return Looked(len(rows), _each(view, rows[np.isnan(view.columns.dur_us[rows])], "a range (ph X) without dur"))


def bad_time(view: View, settings: Settings) -> Looked:
    """GT304: an event that happens at no time, or before its clock began."""
    rows = np.flatnonzero(vocabulary.of_phase(view.columns, _TIMED))
    times = view.columns.ts_us[rows]
    looked = Looked(len(rows))
    if view.trace.format != "superbench" and not view.lost_values:
        looked.hits += _each(view, rows[np.isnan(times)], "no ts, so it happened at no time")
    before = rows[times < 0]
    if len(before):
        earliest = us(float(times[times < 0].min()))
        looked.hits += _each(view, before, f"ts is negative, down to {earliest}; viewers drop such events")
    return looked


def no_timing(view: View, settings: Settings) -> Looked:
    """GT305: events at 0 that last 0, among others at real times: their timing was never collected."""
    columns, rows = view.columns, np.flatnonzero(view.ranges)
    if not view.usual_time_us > _A_MINUTE_US:
        return Looked(0)
    looked = Looked(len(rows))
    nowhere = rows[(columns.ts_us[rows] == 0) & (columns.dur_us[rows] == 0)]
    gpu = vocabulary.of_category(columns, vocabulary.is_gpu) & view.ranges
    on_gpu = nowhere[gpu[nowhere]]
    # One event of the host may be an early one that Kineto clamped to its base.
    for some, what, least in ((on_gpu, "GPU", 1), (np.setdiff1d(nowhere, on_gpu), "host", 2)):
        if len(some) >= least:
            total = int(gpu.sum()) if what == "GPU" else len(rows) - int(gpu.sum())
            message = f"{len(some)} of {total} {what} events are at ts 0 with dur 0, others at {us(view.usual_time_us)}"
            looked.hits.append(
                Hit(f"{message}: their timing was not collected; first: {view.name(some[0])}", int(some[0]))
            )
    return looked


def nanoseconds(view: View, settings: Settings) -> Looked:
    """GT307: times so far ahead that nanoseconds must have been written as microseconds."""
    rows = np.flatnonzero(~np.isnan(view.columns.ts_us))
    looked = Looked(len(rows))
    if len(rows):
        absolute = view.columns.ts_us[rows] + (view.trace.base_time_ns or 0) / 1000
        late = rows[absolute > _YEAR_2080_US]
        if len(late):
            what = f"ts {view.columns.ts_us[late[0]]:.0f} lies beyond the year 2080; {_count(late, view)}"
            advice = (
                "were nanoseconds written as microseconds, or a base added twice?"
                if 2 * len(late) > len(rows)
                else "a broken clock?"
            )
            looked.hits.append(Hit(f"{what}: {advice}", int(late[0])))
    return looked


def missing_base(view: View, settings: Settings) -> Looked:
    """GT309: times count from nowhere, so this file cannot be put on one axis with others."""
    trace = view.trace
    if trace.format not in _WITH_BASE or not view.whole or np.isnan(view.usual_time_us):
        return Looked(0)
    looked = Looked(1)
    if trace.base_time_ns is None and view.usual_time_us < EPOCH_US:
        looked.hits.append(Hit(f"no baseTimeNanoseconds, and times are not since 1970: {_BASES[trace.format]}"))
    return looked


_BASES = {
    "kineto": "torch 2.6 and newer write it; was it trimmed?",
    "proton": "Proton writes it since triton 3.9",
    "viztracer": "write the report by VizTracer.save() in the process; the viztracer command leaves it out",
    "merged": "gputrace merge writes it; was it trimmed?",
}


def _each(view: View, rows: NDArray[np.intp], what: str) -> list[Hit]:
    """One hit for all of them."""
    return [Hit(f"{view.name(rows[0])}: {what}{more(len(rows))}", int(rows[0]))] if len(rows) else []


def _count(rows: NDArray[np.intp], view: View) -> str:
    return f"{len(rows)} of {len(view.columns)} events"


def _wrapped(duration_us: float) -> str:
    for bits in (63, 64):
        if abs(duration_us * 1000 / 2**bits - 1) < 0.02:
            return f", the longest near 2^{bits} ns: a counter that ran below zero?"
    return ""
