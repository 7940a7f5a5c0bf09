"""A quick look over some events: may anything in them be what a lenient parser lets pass?

What decodes the events (msgspec) refuses broken grammar everywhere, but reads on over a number that no double holds, bytes
that are not UTF-8, and a key that comes twice, where it does not need the value. Whoever is suspected here is read by
the strict reader; who is not is clean.
"""

from __future__ import annotations

import bisect
from typing import NamedTuple

from pytest_gputrace.traces.borders import starts_of
from pytest_gputrace.traces.hidden import hidden_places
from pytest_gputrace.traces.keys import Patterns
from pytest_gputrace.traces.scratch import Scratch

__all__ = ["Look", "Suspect"]

_BETWEEN = b", \t\r\n"


class Suspect(NamedTuple):
    """Some text to be read strictly, from ``start`` to ``stop``.

    ``event`` is the first event in it, of those that were looked at. ``pattern`` is the new combination of keys that it
    was chosen for, None where it was chosen for something else.
    """

    event: int
    start: int
    stop: int
    pattern: int | None = None


class Look:
    """Looks over the events of one file, some at a time.

    This is all that the reader asks of it. What `compiled` has found clean does not come here.
    """

    def __init__(self) -> None:
        self._patterns = Patterns()
        self._scratch = Scratch()

    def suspects(self, data: bytes, count: int) -> list[Suspect]:
        """Which of the ``count`` events of ``data``, the inside of a list, are suspected; all where they cannot be told apart."""
        if not count:
            return []
        self._scratch.load(data)
        starts = starts_of(data, self._scratch, count)
        keys = None if starts is None else self._patterns.look(data, self._scratch, starts)
        if starts is None or keys is None:
            return [Suspect(0, 0, len(data))]
        places = hidden_places(data, self._scratch)
        if not (keys.new or keys.repeating or places):
            return []
        begins = starts.tolist()
        stops = [*begins[1:], len(data)]
        rows: dict[int, int | None] = {row: pattern for pattern, row in keys.new.items()}
        rows |= dict.fromkeys([*keys.repeating, *(bisect.bisect_right(begins, place) - 1 for place in places)])
        return [
            Suspect(row, begins[row], begins[row] + len(data[begins[row] : stops[row]].rstrip(_BETWEEN)), rows[row])
            for row in sorted(rows)
        ]

    def learn(self, suspect: Suspect) -> None:
        """The strict reader found nothing in it: events with these keys are not suspected for them again."""
        if suspect.pattern is not None:
            self._patterns.learn([suspect.pattern])
