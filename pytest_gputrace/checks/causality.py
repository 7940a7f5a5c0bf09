"""GT306: a kernel cannot begin before the call that launched it. Where many do, the GPU's clock is off."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from pytest_gputrace.checks.rule import Hit, Looked
from pytest_gputrace.checks.words import us
from pytest_gputrace.traces import vocabulary

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from pytest_gputrace.checks.rule import Settings
    from pytest_gputrace.checks.view import View

__all__ = ["PROTON_FLOW", "kernel_before_launch", "launch_gaps"]

PROTON_FLOW = "launch->kernel"
"""The name of Proton's arrows from a launch to its kernels."""
# A clock that is off shifts every kernel alike, whatever the time a kernel waits in its queue.
_MANY = 0.9
_FEWEST_FOR_DRIFT = 6
_FEWEST_FOR_SHIFT = 4


def launch_gaps(view: View) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
    """The rows of work whose launch is known, and how long after it began each began (microseconds)."""
    columns = view.columns
    if view.trace.format == "proton":
        return _proton_gaps(view)
    paired = view.launched_by >= 0
    rows = view.work[paired]
    gaps = columns.ts_us[rows] - columns.ts_us[view.launched_by[paired]]
    known = ~np.isnan(gaps) & (columns.ts_us[rows] > 0)  # at 0 stands what has no time at all
    return rows[known], gaps[known]


def _proton_gaps(view: View) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
    """Proton has no correlation ids: an arrow leads from each launch to its kernel, one id a launch."""
    columns = view.columns
    arrows = vocabulary.named(columns, lambda name: name == PROTON_FLOW)
    begins = np.flatnonzero(arrows & vocabulary.of_phase(columns, "s"))
    ends = np.flatnonzero(arrows & vocabulary.of_phase(columns, "f"))
    if not len(begins) or not len(ends):
        return ends[:0], columns.ts_us[:0]
    ids, place = np.unique(columns.flow[begins], return_index=True)
    at = np.minimum(np.searchsorted(ids, columns.flow[ends]), len(ids) - 1)
    paired = ids[at] == columns.flow[ends]
    ends = ends[paired]
    return _kernels_at(view, ends), columns.ts_us[ends] - columns.ts_us[begins[place[at[paired]]]]


def _kernels_at(view: View, ends: NDArray[np.intp]) -> NDArray[np.intp]:
    """The kernel at the end of each arrow, which lies where it begins; the arrow itself where there is none."""
    columns, work = view.columns, view.work
    if not len(work):
        return ends
    order = work[np.lexsort((columns.ts_us[work], columns.tid[work]))]
    _, lane = np.unique(np.concatenate([columns.tid[order], columns.tid[ends]]), return_inverse=True)
    times = np.concatenate([columns.ts_us[order], columns.ts_us[ends]])
    keys = np.rec.fromarrays([lane.reshape(-1), times])
    at = np.minimum(np.searchsorted(keys[: len(order)], keys[len(order) :]), len(order) - 1)
    found = order[at]
    same = (columns.tid[found] == columns.tid[ends]) & (columns.ts_us[found] == columns.ts_us[ends])
    return np.where(same, found, ends)


def kernel_before_launch(view: View, settings: Settings) -> Looked:
    """Say which kernels, how far at most and in the middle, and whether all are shifted alike."""
    rows, gaps = launch_gaps(view)
    looked = Looked(len(rows))
    early = gaps < -settings.causality_tolerance_us
    if not early.any():
        return looked
    first = rows[early][0]
    largest, median = -float(gaps[early].min()), -float(np.median(gaps[early]))
    what = f"{view.name(first)} begins {us(-float(gaps[early][0]))} before its launch; {int(early.sum())} of {len(rows)} do"
    size = f"largest {us(largest)}, median {us(median)}"
    looked.hits.append(Hit(f"{what} ({size}): {_cause(view.columns.ts_us[rows], gaps, early)}", int(first)))
    return looked


def _cause(times: NDArray[np.float64], gaps: NDArray[np.float64], early: NDArray[np.bool_]) -> str:
    if len(gaps) >= _FEWEST_FOR_DRIFT and (slope := _drift(times, gaps)):
        return f"the GPU's clock drifts against the host's, {abs(slope) * 1e6:.3g} us in a second"
    if len(gaps) >= _FEWEST_FOR_SHIFT and early.mean() >= _MANY:
        return "the GPU's clock is behind the host's by a constant"
    return "times of these kernels cannot be right"


def _drift(times: NDArray[np.float64], gaps: NDArray[np.float64]) -> float:
    """By how much the gaps grow with time, 0 where that is little beside their spread: medians, so that no outlier rules."""
    order = np.argsort(times)
    times, gaps = times[order], gaps[order]
    third = len(gaps) // 3
    apart = float(np.median(times[-third:]) - np.median(times[:third]))
    if apart <= 0:
        return 0.0
    slope = float(np.median(gaps[-third:]) - np.median(gaps[:third])) / apart
    rest = gaps - slope * (times - times[0])
    spread = float(np.median(np.abs(rest - np.median(rest))))
    grown = abs(slope) * float(np.ptp(times))
    return slope if grown > 4 * spread and grown > 1 else 0.0
