"""When the collectives of a file ended: what `pytest_gputrace.timeline.alignment` compares between ranks."""

from __future__ import annotations

import re
from array import array
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from pytest_gputrace.traces import vocabulary
from pytest_gputrace.traces.columns import NO_ID

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from pytest_gputrace.traces.columns import Columns

__all__ = ["CollectiveEnds", "Gathered"]

# In these no rank is done before all have come, so that they end together; ROCm names none of its own.
_END_TOGETHER = re.compile(r"all_?(?:reduce|gather|to_?all)|reduce_?scatter|Generic", re.IGNORECASE)
_COLLECTIVE = re.compile(r"(?:nccl|rccl|msccl|mscclpp)", re.IGNORECASE)


class Gathered(NamedTuple):
    """Process group and kernel of each sort, which of these each collective is, and its end by the file's own times."""

    sorts: list[tuple[str, str]]
    sort: NDArray[np.int32]
    end_ns: NDArray[np.int64]


class CollectiveEnds:
    """Gathers the first of them, ``most`` at the most, run by run."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._sorts: dict[tuple[str, str], int] = {}
        self._sort = array("i")
        self._end_ns = array("q")
        self._known = np.empty(0, np.bool_)

    def look(self, columns: Columns) -> None:
        """Look at some more events."""
        names = columns.names
        if len(names) < len(self._known):  # the reader began its tables anew
            self._known = np.empty(0, np.bool_)
        more = [bool(_COLLECTIVE.match(name) and _END_TOGETHER.search(name)) for name in names[len(self._known) :]]
        self._known = np.append(self._known, np.array(more, np.bool_))
        if not self._known.any():
            return
        rows = np.flatnonzero(self._known[columns.name] & vocabulary.kernels(columns))
        ends = columns.ts_us[rows] + columns.dur_us[rows]
        for row, end_us in zip(rows.tolist(), ends.tolist(), strict=True):
            group = columns.group[row]
            if group != NO_ID and end_us == end_us:
                key = (str(columns.text_of(int(group))), names[columns.name[row]])
                self._sort.append(self._sorts.setdefault(key, len(self._sorts)))
                self._end_ns.append(int(end_us * 1000))
        if len(self._sort) > 2 * self._most:
            first = self.gathered()
            self._sort, self._end_ns = array("i", first.sort.tobytes()), array("q", first.end_ns.tobytes())

    def gathered(self) -> Gathered:
        """The first of them, in order of their ends."""
        ends = np.array(self._end_ns, np.int64)
        order = np.argsort(ends, kind="stable")[: self._most]
        return Gathered(list(self._sorts), np.array(self._sort, np.int32)[order], ends[order])
