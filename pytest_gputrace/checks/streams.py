"""GT308: work that overlaps on one stream, and what that looks like.

A stream runs one thing after another, with one exception: programmatic dependent launch lets a kernel begin while the
one before it drains. Such overlaps are short and reach the next event alone; a duration that was corrupted reaches far.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from pytest_gputrace.checks.rule import Hit, Looked
from pytest_gputrace.checks.words import number, us

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from pytest_gputrace.checks.rule import Settings
    from pytest_gputrace.checks.view import View

__all__ = ["stream_overlap"]

# Times of 5e12 us hold a nanosecond only just, and begin and duration are rounded each.
_ROUNDING_US = 0.01
# On a B200 up to 3.7 us were seen.
_DRAINING_US = 10.0
_LARGE_SHARE = 0.5


@dataclass
class _Overlaps:
    """The overlaps of one sort: rows, how far each runs into what follows, and over how many events."""

    rows: list[NDArray[np.intp]] = field(default_factory=list)
    by_us: list[NDArray[np.float64]] = field(default_factory=list)
    reach: list[NDArray[np.intp]] = field(default_factory=list)

    def add(self, chosen: NDArray[np.bool_], rows: Any, by_us: Any, reach: Any) -> None:
        self.rows.append(rows[chosen])
        self.by_us.append(by_us[chosen])
        self.reach.append(reach[chosen])

    def worst(self) -> tuple[int, int, float, int] | None:
        """How many, and row, depth and reach of the deepest."""
        by_us = np.concatenate([*self.by_us, np.empty(0)])
        if not len(by_us):
            return None
        place = int(np.argmax(by_us))
        return (
            len(by_us),
            int(np.concatenate(self.rows)[place]),
            float(by_us[place]),
            int(np.concatenate(self.reach)[place]),
        )


def stream_overlap(view: View, settings: Settings) -> Looked:
    """Say how many events begin before the one ahead of them on their stream has ended, and by how much."""
    columns = view.columns
    rows = view.work[~np.isnan(columns.ts_us[view.work]) & (columns.dur_us[view.work] > 0)]
    rows = rows[columns.dur_us[rows] <= settings.max_duration_us]  # others are told by the rule about durations
    looked = Looked(len(rows))
    short, far = _Overlaps(), _Overlaps()
    for stream in _streams(view, rows):
        begins, durations = columns.ts_us[stream], columns.dur_us[stream]
        ends = begins + durations
        rounding = np.maximum(_ROUNDING_US, 4 * np.spacing(begins))
        reach = np.searchsorted(begins, ends - rounding) - np.arange(len(stream)) - 1
        into_next = ends - np.append(begins[1:], np.inf)
        draining = (reach == 1) & (into_next <= _DRAINING_US) & (into_next <= _LARGE_SHARE * durations)
        short.add(draining, stream, into_next, reach)
        far.add((reach > 0) & ~draining, stream, into_next, reach)
    if worst := far.worst():
        count, row, by_us, reached = worst
        what = f"{view.name(row)} runs {us(by_us)} into what follows on its stream, over {number(reached, 'event')}"
        others = f"; {count - 1} more reach far" if count > 1 else ""
        looked.hits.append(Hit(f"{what}{others}: looks like a corrupt duration, or streams written as one", row))
    if worst := short.worst():
        count, row, by_us, _ = worst
        what = f"{count} of {len(rows)} GPU events overlap the next on their stream, and it alone, by up to {us(by_us)}"
        looked.hits.append(Hit(f"{what}: looks like programmatic dependent launch; longest: {view.name(row)}", row))
    return looked


def _streams(view: View, rows: NDArray[np.intp]) -> Iterator[NDArray[np.intp]]:
    """The rows of each stream of each device, in order of time."""
    columns = view.columns
    order = np.lexsort((columns.ts_us[rows], columns.tid[rows], columns.pid[rows]))
    rows = rows[order]
    changes = np.flatnonzero((np.diff(columns.pid[rows]) != 0) | (np.diff(columns.tid[rows]) != 0)) + 1
    yield from np.split(rows, changes)
