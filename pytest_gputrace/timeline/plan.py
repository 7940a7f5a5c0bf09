"""What is changed about the events of one input so that they stand among those of all others."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

__all__ = ["HEX_BIND_ID", "HEX_ID", "Clock", "Flows", "Id", "IdMap", "Plan", "Where", "signed"]

Id: TypeAlias = "int | str | None"
"""A process or thread as it stands in a file; None where an event names none."""

HEX_ID = re.compile(r"0[xX][0-9a-fA-F]{1,16}")
"""A text that viewers read as a number."""
HEX_BIND_ID = re.compile(r"(?:0[xX])?[0-9a-fA-F]{1,16}")
"""The same, of a ``bind_id``."""
_PART_PER_TRILLION = 10**12


def signed(number: int) -> int:
    """An id as the 64 bits with a sign that viewers keep of it."""
    return (number + 2**63) % 2**64 - 2**63


class Clock(NamedTuple):
    """How a file's own times, in ns, become those of the timeline: moved, and stretched about ``about_ns``.

    All are whole numbers; ``drift_ppt`` is in parts per trillion. Without drift a time keeps whatever digits it has
    below the nanosecond; with it, times and the ends of ranges are floored to the ns first, so that they keep their order.
    """

    delta_ns: int
    drift_ppt: int = 0
    about_ns: int = 0

    def at(self, time_ns: int) -> int:
        """The time on the timeline."""
        return time_ns + self.delta_ns + (time_ns - self.about_ns) * self.drift_ppt // _PART_PER_TRILLION


class Where(NamedTuple):
    """A process and thread of the timeline."""

    pid: int
    tid: int


@dataclass(frozen=True)
class IdMap:
    """New numbers for the ids of arrows, asynchronous ranges and objects, so that no two inputs share one.

    Numbers are moved by ``add``, or, where ids are far apart, numbered by their place in ``known`` (sorted), from ``add`` on.
    A text of hexadecimal digits stands for its number, as viewers read it; any other is kept apart by ``prefix``.
    """

    add: int
    prefix: str
    known: NDArray[np.int64] | None = None

    def number(self, old: int) -> int:
        """The new number."""
        old = signed(old)
        return old + self.add if self.known is None else int(np.searchsorted(self.known, old)) + self.add

    def of(self, old: int | str, *, binds: bool = False) -> int | str:
        """The new id, a text where it was one. Of one that ``binds`` (``bind_id``) every text of digits is hexadecimal."""
        if isinstance(old, int):
            return self.number(old)
        is_number = (HEX_BIND_ID if binds else HEX_ID).fullmatch(old)
        return hex(self.number(int(old, 16))) if is_number else f"{self.prefix}{old}"


@dataclass(frozen=True)
class Plan:
    """All of it for one input.

    ``tracks`` leads from a process, a thread and the sort of lane
    (`pytest_gputrace.traces.vocabulary.lane_of`) to where it goes.
    """

    clock: Clock
    ids: IdMap
    tracks: Mapping[tuple[Id, Id, int], Where]


class Flows(NamedTuple):
    """How many ends of arrows there are: where they start (``s``), pass (``t``) and end (``f``)."""

    starts: int = 0
    steps: int = 0
    ends: int = 0

    def plus(self, other: Flows) -> Flows:
        """Both together."""
        return Flows(*(one + two for one, two in zip(self, other, strict=True)))
