"""Which names took the most time, among some events."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from pytest_gputrace.overview.figures import Named, Ranking
from pytest_gputrace.traces.columns import NO_ID

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from pytest_gputrace.traces.columns import Columns

__all__ = ["dated", "plausible", "rank", "spread", "timed"]

_LONGEST_US = 1e15
_LATEST_US = 1e17
"""Far beyond any clock in microseconds; larger numbers are a broken file's, and sums of them would overflow."""


def timed(columns: Columns) -> NDArray[np.bool_]:
    """Which events say how long they took; a negative time is no answer, nor is one of many years."""
    return plausible(columns.dur_us)


def dated(columns: Columns) -> NDArray[np.bool_]:
    """Which events say when they began."""
    return np.abs(columns.ts_us) <= _LATEST_US  # false for NaN


def plausible(durations: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Which of these are times that something can have taken."""
    return (durations >= 0) & (durations <= _LONGEST_US)


def spread(durations: NDArray[np.float64]) -> tuple[float | None, float | None, float | None]:
    """The smallest, the median and the largest, of those that are known."""
    known = durations[np.isfinite(durations)]
    if not len(known):
        return None, None, None
    return float(known.min()), float(np.median(known)), float(known.max())


def rank(columns: Columns, rows: NDArray[np.intp], top: int, *, nested: bool = False) -> Ranking:
    """The names of ``rows`` by total time; those that take none by how often they are there.

    Events that are ``nested`` hold each other's time, which cannot be added up.
    """
    names = columns.name[rows]
    known = timed(columns)[rows]
    durations = np.where(known, columns.dur_us[rows], np.nan)
    counts, single = _calls(columns, rows)
    calls = np.bincount(names, counts, len(columns.names))
    totals = np.bincount(names[known], durations[known], len(columns.names))
    seen = np.flatnonzero(calls)
    whole = float(totals.sum()) if known.any() and not nested else None
    first = seen[np.lexsort((-calls[seen], -totals[seen]))[:top]]
    return Ranking(
        calls=int(calls.sum()),
        names=len(seen),
        total_us=whole,
        top=tuple(
            _named(columns.names[number], calls[number], whole, durations[names == number], single)
            for number in first.tolist()
        ),
    )


def _calls(columns: Columns, rows: NDArray[np.intp]) -> tuple[NDArray[Any], bool]:
    """How many calls each event stands for, and whether that is one each."""
    if columns.calls is None:
        return np.ones(len(rows)), True
    calls = columns.calls[rows]
    return np.where(calls == NO_ID, 1, calls).astype(np.float64), False


def _named(name: str, calls: float, whole: float | None, durations: NDArray[np.float64], single: bool) -> Named:
    known = durations[np.isfinite(durations)]
    total = float(known.sum()) if len(known) else None
    # A node of a tree holds the time of many calls: none of them can be told from it.
    low, middle, high = spread(durations) if single else (None, None, None)
    share = 100 * total / whole if total is not None and whole else None
    return Named(name, int(calls), total, share, low, middle, high)
