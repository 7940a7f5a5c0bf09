"""Counts what is wrong with some events, without its place: for files of which every event is wrong in the same way.

Python's decoder with hooks, which is many times faster than the strict reader.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from typing import TYPE_CHECKING, Any

from pytest_gputrace.traces.scanner import ESCAPE, PATH, UNDECODABLE

if TYPE_CHECKING:
    from pytest_gputrace.traces.scanner import Kind

__all__ = ["COUNTED", "tally"]

COUNTED: frozenset[Kind] = frozenset({"number", "duplicate", "event"})
"""The kinds that it counts."""

# Python reads no number of thousands of digits; the strict reader does.
_LONGEST_NUMBER = 4000


def tally(text: bytes) -> Counter[Kind] | None:
    """How many problems of each kind the strict reader would find in some events; None where only it can tell."""
    shown = text.decode("utf-8", "surrogateescape")
    if (not shown.isascii() and UNDECODABLE.search(shown)) or (":\\" in shown and PATH.search(shown)):
        return None
    if "\\ud" in shown.lower() and any(match["lone"] for match in ESCAPE.finditer(shown)):
        return None
    hooks = _Hooks()
    try:
        events = hooks.decoder.decode(f"[{shown}]")
    except (ValueError, RecursionError):
        return None
    found = hooks.found
    for event in events:
        if not isinstance(event, dict):
            found["event"] += 1
        elif not (isinstance(event.get("name"), str) or isinstance(event.get("ph"), str)):
            if found["duplicate"]:  # one of the values that are gone may have been its name
                return None
            found["event"] += 1
    return +found


class _Hooks:
    """What the decoder calls, and what was found by it."""

    def __init__(self) -> None:
        self.found: Counter[Kind] = Counter()
        self.decoder = json.JSONDecoder(
            object_pairs_hook=self._object, parse_constant=self._constant, parse_float=self._float, parse_int=self._int
        )

    def _object(self, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        value = dict(pairs)
        self.found["duplicate"] += len(pairs) - len(value)
        return value

    def _constant(self, _: str) -> None:
        self.found["number"] += 1

    def _float(self, digits: str) -> None:
        self.found["number"] += math.isinf(float(digits))

    def _int(self, digits: str) -> None:
        if len(digits) > _LONGEST_NUMBER:
            raise ValueError("too long")
        self.found["number"] += math.isinf(float(digits))
