"""A node's clock that is wrong: what it would have written instead of the times of a trace."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["NodeClock"]


class NodeClock(NamedTuple):
    """How far a clock is ahead, and how many microseconds it gains in a second."""

    offset_ns: int = 0
    drift_ppm: float = 0.0

    def tells(self, events: Iterable[dict[str, Any]], *, since_ns: int) -> list[dict[str, Any]]:
        """The events with the times that this clock has for them; it was ahead by ``offset_ns`` at ``since_ns``.

        Both ends of a range are moved, so that it lasts as long as the clock says. Times are whole nanoseconds.
        """
        told = []
        for event in events:
            if not self.is_right and "ts" in event:
                start_ns = round(event["ts"] * 1000)
                event = {**event, "ts": self._at(start_ns, since_ns) / 1000}
                if "dur" in event:
                    end_ns = start_ns + round(event["dur"] * 1000)
                    event["dur"] = (self._at(end_ns, since_ns) - self._at(start_ns, since_ns)) / 1000
            told.append(event)
        return told

    @property
    def is_right(self) -> bool:
        """Whether it tells the time as it is."""
        return not self.offset_ns and not self.drift_ppm

    def _at(self, time_ns: int, since_ns: int) -> int:
        return time_ns + self.offset_ns + round((time_ns - since_ns) * self.drift_ppm / 1e6)
