"""What stands around a list of events: the members of the root before it or after it, mended where that is needed."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from pytest_gputrace.repair.search import LIST, WS, document_in, member_in
from pytest_gputrace.repair.values import Broken, TooShort, led

if TYPE_CHECKING:
    from collections.abc import Collection

    from pytest_gputrace.repair.values import Values

__all__ = ["Root"]

_LIST_KEY = "traceEvents"
_DONE = re.compile(rf"{WS}(?:\Z|[\[{{\xef])")
_MARGIN = 1 << 10


class Root:
    """The members from a place on: up to the list of events, or, where that is ``behind``, up to the end.

    ``end`` is where reading stopped, ``has_list`` whether at the list, ``closed`` whether at the root's bracket.
    ``gone`` are the parts that were left out because they cannot be read, ``cut`` whether the end of the text is missing.
    """

    def __init__(self, values: Values, *, behind: Collection[str] | None = None) -> None:
        self.has_list = self.closed = self.cut = False
        self.end = 0
        self.gone: list[tuple[int, int]] = []
        self.second_lists: list[tuple[int, int]] = []
        self.values = values
        self.members: dict[str, tuple[str, str]] = {}
        self._behind = behind
        self._last = ""

    @property
    def text(self) -> str:
        """The members as they are to be written, with what comes after them: the begin of the list, or the bracket."""
        parts = [
            led(lead, 1 if index or self._behind is not None else 0) + written
            for index, (lead, written) in enumerate(self.members.values())
        ]
        lead, last = self._last[: -len(self._last.lstrip(" \t\r\n,")) or None], self._last.lstrip(" \t\r\n,")
        return "".join(parts) + (led(lead, 1 if parts and self.has_list else 0) + last if last else "}")

    def read(self, place: int, *, skipping: bool = False) -> Root:
        """Read on from ``place``; ``skipping`` passes over what cannot be read."""
        at, skipped = place, False
        while not self.has_list and not self.closed:
            self.end = at
            try:
                at = self._next(at, skipped=skipped, last=skipping)
                skipped = False
            except TooShort:
                if not skipping:
                    raise
                return self.cut_short()
            except Broken:
                if not skipping:
                    raise
                at, skipped = self._skip(at), True
                if self.cut:
                    return self
        self.end = at
        return self

    def cut_short(self) -> Root:
        """Stop where reading stopped: the text ends there, or another document begins where a value was to come."""
        self.cut = True
        document = document_in(self.values.text, self.end)
        if document is not None:
            self.gone.append((self.end, document))
            self.end = document
        return self

    def _next(self, at: int, *, skipped: bool, last: bool) -> int:
        values = self.values
        gap, place, char = values.gap(at)
        wanted = 1 if self.members or self._behind is not None else 0
        if char == "}":
            if not last:
                self._must_be_the_end(place + 1)
            if not skipped:
                values.commas(gap, at, 0)
            self.closed, self._last = True, gap + "}"
            return place + 1
        if char != '"':
            raise Broken(place)
        if not skipped:
            values.commas(gap, at, wanted)
        match = LIST.match(values.text, place)
        if match and self._behind is None:
            if self.members.pop(_LIST_KEY, None):
                values.repeated(place)
            self.has_list, self._last = True, gap + match[0]
            return match.end()
        key, written, _, end = values.member(place)
        self._keep(key, gap, written, place, end)
        return end

    def _keep(self, key: str, gap: str, written: str, place: int, end: int) -> None:
        if self._behind is not None and key == _LIST_KEY:
            self.second_lists.append((place, end))
        elif self._behind is not None and key in self._behind:
            self.values.repeated(place, "the first of its values, which is written by then")
        else:
            if key in self.members:
                self.values.repeated(place)
            self.members[key] = self.members.get(key, (gap,))[0], written

    def _must_be_the_end(self, place: int) -> None:
        """A bracket after which text goes on may be one inside a text, whose quotes are not escaped."""
        if not self.values.whole and len(self.values.text) - place < _MARGIN:
            self.values.short()
        if not _DONE.match(self.values.text, place):
            raise Broken(place)

    def _skip(self, place: int) -> int:
        """Where a member begins after ``place`` that is known to stand there; else where the document ends."""
        text = self.values.text
        found = member_in(text, place + 1)
        if found is None:
            document = document_in(text, place + 1)
            if document is None and not self.values.whole:
                self.values.short(intact=False)
            self.cut = True
            found = len(text) if document is None else document
            self.end = found
        self.gone.append((place, found))
        return found
