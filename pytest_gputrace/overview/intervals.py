"""Intervals of time: how much of a time line they cover, and where they leave it empty."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Cover", "cover", "covered_us"]


class Cover(NamedTuple):
    """The union of some intervals: where its pieces begin and end, and which interval is the first of each."""

    begins: NDArray[np.float64]
    ends: NDArray[np.float64]
    first: NDArray[np.intp]


def cover(starts: NDArray[np.float64], ends: NDArray[np.float64]) -> Cover:
    """The union of these intervals, in order of time; such as touch are one piece."""
    if not len(starts):
        return Cover(starts, ends, np.empty(0, np.intp))
    order = np.argsort(starts, kind="stable")
    begins, reach = starts[order], np.maximum.accumulate(ends[order])
    opens = np.ones(len(order), np.bool_)
    opens[1:] = begins[1:] > reach[:-1]
    at = np.flatnonzero(opens)
    return Cover(begins[at], reach[np.append(at[1:] - 1, len(order) - 1)], order[at])


def covered_us(starts: NDArray[np.float64], ends: NDArray[np.float64]) -> float:
    """How much time these intervals cover, counting none of it twice."""
    union = cover(starts, ends)
    return float((union.ends - union.begins).sum())
