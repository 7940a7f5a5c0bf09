"""Copies one document: what stands around its list of events, and the events."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from pytest_gputrace.repair.attempts import attempts
from pytest_gputrace.repair.events import Events
from pytest_gputrace.repair.outcome import Ledger
from pytest_gputrace.repair.root import Root
from pytest_gputrace.repair.search import Landmarks
from pytest_gputrace.repair.single import LARGEST
from pytest_gputrace.repair.values import Broken, NeedsMore, TooShort, Values

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from pytest_gputrace.repair.window import Window

__all__ = ["MARK", "Document"]

MARK = "gputrace_repaired"
"""The root's member that says what a repair kept, lost and changed."""

_AHEAD = 1 << 16
_EVENT = {"ph", "name"}
_LANDMARKS = Landmarks(frozenset(), "{")


class Document:
    """The document that begins where the window is; ``choose`` is asked where it goes once a list of events is found.

    ``has_list`` is whether there is one, and ``whole`` whether nothing is missing at the document's end.
    """

    def __init__(self, window: Window, choose: Callable[[], Callable[[bytes], None]]) -> None:
        self.ledger = Ledger()
        self.has_list = self.whole = False
        self._window, self._choose = window, choose

    def copy(self, lead: bytes) -> None:
        """Copy the document, with ``lead`` before it."""
        window = self._window
        if window.data.startswith(b"[", window.at):
            window.at += 1
            self._events(lead + b"[", "[")
            return
        head = self._root(window.at + 1)
        if head.has_list:
            self._settle(head)
            write = self._events(lead + b"{" + head.text.encode("latin-1"), "{")
            self._tail(write, head.members.keys())
        elif head.closed and head.members.keys() >= _EVENT:
            self.ledger.change("bracket", window.byte, None, "events with no list around them", "a list")
            self._events(lead + b"[", "")
        else:
            window.at = self._behind(head)

    def _events(self, before: bytes, root: str) -> Callable[[bytes], None]:
        self.has_list = True
        write = self._choose()
        write(before)
        self.whole = Events(self._window, write, self.ledger, root).copy()
        write(b"]")
        return write

    def _tail(self, write: Callable[[bytes], None], before: Collection[str]) -> None:
        if not self.whole:
            write(self._mark(before) + b"}")
            if "baseTimeNanoseconds" not in before:
                self.ledger.cut += "; what stood after them went too, such as the base that times count from"
            return
        start = self._window.byte
        tail = self._root(self._window.at, behind=before)
        stop = self._window.start + tail.end
        self._settle(tail)
        text = tail.text.encode("latin-1")
        end = text.rfind(b"}")
        write(text[:end] + self._mark({*before, *tail.members}) + text[end:])
        self.whole = not tail.cut
        if tail.cut and not tail.gone:
            size = self._window.byte - stop
            maybe = "" if size else ", if anything,"
            what = f"what stood after the events{maybe} from byte {max(start, stop)} on: the text ends too early"
            self.ledger.lose(what, size=size)

    def _mark(self, members: Collection[str]) -> bytes:
        """A member of the root that says what the repair did, so that nobody looks for what is missing elsewhere."""
        ledger = self.ledger
        lost = None if ledger.unknown or not self.whole else ledger.events_lost
        changes = sum(1 + change.more for change in ledger.changes)
        if MARK in members or (lost == 0 and not changes and not ledger.lost):
            return b""
        account = {"events_kept": ledger.kept, "events_lost": lost, "changes": changes}
        return f', "{MARK}": {json.dumps(account)}'.encode()

    def _root(self, place: int, behind: Collection[str] | None = None) -> Root:
        """The members of the root from ``place`` in the window on."""
        window = self._window
        ahead = place - window.at
        size = _AHEAD
        while True:
            window.fill(size)
            place = window.at + ahead
            try:
                return self._read(place, behind)
            except NeedsMore:
                size = 2 * (len(window.data) - window.at)
                if size > 2 * LARGEST:
                    root = Root(self._values([]), behind=behind)
                    root.cut, root.end = True, len(window.data)
                    root.gone = [(place, root.end)]
                    return root

    def _read(self, place: int, behind: Collection[str] | None) -> Root:
        tried: list[Root] = []

        def read(values: Values) -> Root:
            tried.append(Root(values, behind=behind))
            return tried[-1].read(place)

        try:
            return attempts(self._values, read)
        except TooShort as short:
            if short.intact:
                return tried[0].cut_short()
        except Broken:
            pass
        return Root(self._values([]), behind=behind).read(place, skipping=True)

    def _values(self, skips: list[int]) -> Values:
        window = self._window
        return Values(window.text, whole=not window.more, skips=skips, landmarks=_LANDMARKS, in_list=False)

    def _settle(self, root: Root) -> None:
        """Note what was changed and lost in a part of the root, and go on behind it."""
        window, ledger = self._window, self.ledger
        for note in root.values.notes:
            ledger.change(note.kind, window.start + note.place, None, note.found, note.wrote)
        for start, end in root.gone:
            window.distrust(window.start + start)
            what = f"{end - start:,} bytes around the events, from byte {window.start + start} on, that cannot be read"
            ledger.lose(what, size=end - start)
        for start, end in root.second_lists:
            ledger.unknown = True
            ledger.lose(
                f"a second list of events at byte {window.start + start}, {end - start:,} bytes", size=end - start
            )
        window.at = self._behind(root)

    def _behind(self, root: Root) -> int:
        return len(self._window.data) if root.cut and not root.gone else root.end
