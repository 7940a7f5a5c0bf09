"""Copies a list of events: sound ones as they are, damaged ones mended, and what cannot be read is left out."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from pytest_gputrace.repair.outcome import shown
from pytest_gputrace.repair.runs import RUN_BYTES, Runs
from pytest_gputrace.repair.search import KEY, WS, document_in
from pytest_gputrace.repair.single import Singles
from pytest_gputrace.repair.values import Broken, NeedsMore, TooShort, led

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_gputrace.repair.outcome import Ledger
    from pytest_gputrace.repair.window import Window

__all__ = ["Events"]

_AHEAD = 1 << 16
_MARGIN = 1 << 10
_GAP = re.compile(rb"[ \t\r\n,]*")
_NAME = re.compile(r'"name"[ \t\r\n]*:[ \t\r\n]*"((?:[^"\\]|\\.)*)"')
_KEY = re.compile(KEY)
_ITEM = re.compile(r'["\[\-0-9tfnNIT]')
# What may come after a bracket that does not close the list.
_GOES_ON = re.compile(rf"{WS},[ \t\r\n,]*(?=\{{)")
_MEMBER = re.compile(rf"{WS},{WS}{KEY}")


class Events:
    """The events of one document, whose root begins with ``root``: ``{``, ``[``, or nothing, one event a line."""

    def __init__(self, window: Window, write: Callable[[bytes], None], ledger: Ledger, root: str) -> None:
        self._window, self._write, self._ledger, self._root = window, write, ledger, root
        self._runs, self._singles = Runs(), Singles(window, root or "[")
        # After something that could not be read: what comes must prove to be an event, commas count for nothing.
        self._astray = self._dropped = False
        self._last = b""

    def copy(self) -> bool:
        """Copy events up to the end of the list, bracket left out; whether that was there, or can be made up."""
        while True:
            gap = self._gap()
            place = self._window.at + len(gap)
            char = self._window.text[place : place + 1]
            if not char and not self._root:
                return True
            if not char or self._singles.landmarks.is_document(self._window.text, place, gap):
                self._window.at = place
                self._end_early(self._after(), self._window.byte)
                return False
            if char == "{":
                if not (self._run(gap) or self._single(gap)):
                    return False
            elif (closed := self._close(gap, char)) is not None:
                return closed

    def _gap(self) -> str:
        """Space and commas before the next event."""
        window = self._window
        window.fill(_AHEAD)
        while True:
            match = _GAP.match(window.data, window.at)
            assert match is not None  # it may be empty
            if match.end() < len(window.data) or not window.fill(2 * len(match[0]) + _AHEAD):
                return match[0].decode()

    def _run(self, gap: str) -> bool:
        """Copy many sound events; whether there are any."""
        window = self._window
        if self._astray or window.byte + len(gap) < self._runs.until:
            return False
        window.fill(len(gap) + RUN_BYTES)
        place = window.at + len(gap)
        run = self._runs.next(window, place)
        if run is None:
            return False
        self._singles.learn_at(place)
        window.mended_from = None
        self._emit(gap, *run)
        window.at = place + len(run[0])
        return True

    def _single(self, gap: str) -> bool:
        """Copy one event; False where the document ends before its list does."""
        try:
            event = self._singles.read(len(gap))
        except Broken as broken:
            if isinstance(broken, TooShort) and broken.intact:
                self._cut(gap)
                return False
            return self._pass_over(gap, 1)
        if self._astray and not self._singles.is_usual(event.keys):  # a part of what cannot be read
            return self._pass_over(gap, 1, events=0)
        self._astray = False
        if event.timeless:
            self._drop(gap, event.end, f"its {event.timeless} is no finite number")
            return True
        if not event.notes:
            self._window.mended_from = None
        elif self._window.mended_from is None:
            self._window.mended_from = self._window.byte + len(gap)
        for note in event.notes:
            byte = self._window.start + note.place
            self._ledger.change(note.kind, byte, self._ledger.begun, note.found, note.wrote)
        self._emit(gap, event.text.encode("latin-1"), 1)
        self._window.at = event.end
        return True

    def _emit(self, gap: str, text: bytes, count: int) -> None:
        ledger = self._ledger
        if not self._dropped:
            self._commas(gap, 1 if ledger.begun else 0)
        self._write(led(gap, 1 if ledger.kept else 0).encode() + text)
        ledger.kept += count
        ledger.begun += count
        self._dropped, self._last = False, text

    def _commas(self, gap: str, wanted: int) -> None:
        """Note the commas between two events that are too many or too few."""
        byte, count = self._window.byte, gap.count(",")
        if count > wanted:
            self._ledger.change("comma", byte + gap.rindex(","), None, "a comma too many", "nothing")
        elif count < wanted and self._root:
            self._ledger.change("no comma", byte, None, "no comma between two events", '","')

    def _close(self, gap: str, char: str) -> bool | None:
        """What comes instead of an event: whether the list is closed there, None where it goes on."""
        window = self._window
        window.fill(len(gap) + _AHEAD)
        place = window.at + len(gap)
        text, end = window.text, place + 1
        after = _GOES_ON.match(text, end)
        if char in "]}" and after and self._singles.landmarks.is_event(text, after.end()):
            self._ledger.change("bracket", window.start + place, None, f'a "{char}" between two events', "nothing")
            window.at = end
            return None
        in_root = self._root == "{"
        if in_root and (char == "}" or (char == '"' and _KEY.match(text, place))):
            self._ledger.change("bracket", window.start + place, None, 'no "]" at the end of the events', '"]"')
            if char == '"':
                gap, end = "", window.at
            elif not _MEMBER.match(text, end):
                end = place
        elif char != "]":
            return None if self._item(gap, place) or self._pass_over(gap, 0) else False
        if not self._dropped:
            self._commas(gap, 0)
        self._write(led(gap, 0).encode())
        window.at = end
        return True

    def _item(self, gap: str, place: int) -> bool:
        """Leave out an item of the list that is no event; whether that is what comes."""
        if not _ITEM.match(self._window.text, place):
            return False
        try:
            _, end = self._singles.values().value(place)
        except (Broken, NeedsMore):
            return False
        self._drop(gap, end, "it is no object")
        return True

    def _drop(self, gap: str, end: int, why: str) -> None:
        """Leave out one event that can be read, but not used."""
        window, ledger = self._window, self._ledger
        place = window.at + len(gap)
        words = f"event {ledger.begun}{self._called(window.text[place:end])}, byte {window.start + place}: {why}"
        ledger.lose(words, size=end - place, events=1)
        ledger.begun += 1
        window.at = end
        self._dropped = True

    def _pass_over(self, gap: str, least: int, *, events: int = 1) -> bool:
        """Go on at what can be read again, ``least`` bytes ahead; False where the document ends before that."""
        window, ledger = self._window, self._ledger
        window.at += len(gap)
        start, begun = window.byte, window.text[window.at : window.at + _AHEAD]
        window.distrust(start)
        holes = False
        search = window.at + least
        while True:
            mark = self._singles.landmarks.next(window.text, search)
            end = len(window.data) if mark is None else mark.place
            if not window.more or end <= len(window.data) - _MARGIN:
                break
            keep = max(search, len(window.data) - 2 * _MARGIN)
            holes |= b"\0" in window.data[window.at : keep]
            window.at = keep
            window.fill(RUN_BYTES)
            search = window.at
        holes |= b"\0" in window.data[window.at : end]
        window.at = end
        self._astray = self._dropped = True
        name, size = self._called(begun[: window.byte - start]), window.byte - start
        if mark is None or mark.kind == "document":
            ledger.bytes_lost += size
            self._end_early(f"in event {ledger.begun}{name}, which cannot be read", start)
            return False
        ledger.unknown |= holes  # nobody knows how many events stood in a hole
        what = f"event {ledger.begun}{name}, byte {start}" if events else f"byte {start}, still of what was before"
        ledger.lose(f"{what}: {size:,} bytes that cannot be read", size=size, events=events)
        ledger.begun += events
        return True

    def _cut(self, gap: str) -> None:
        """The text ends within the event after ``gap``, or another document begins there, where a value was to come."""
        window, ledger = self._window, self._ledger
        window.at += len(gap)
        start = window.byte
        end = document_in(window.text, window.at) or len(window.data)
        text = window.text[window.at : end]
        ledger.bytes_lost += len(text)
        window.at = end
        self._end_early(f"in event {ledger.begun}{self._called(text)}", start)

    def _end_early(self, where: str, byte: int) -> None:
        self._ledger.unknown = True
        self._ledger.cut = f"everything from byte {byte} on: the events end too early, {where}"

    def _called(self, text: str) -> str:
        """The name of the event whose text this is, or of the one before it."""
        name = _NAME.search(text)
        if name:
            return f" ({_readable(name[1])})"
        return f", {self._after()}" if self._last else ""

    def _after(self) -> str:
        names = _NAME.findall(self._last.decode("latin-1"))
        return f"after {_readable(names[-1])}" if names else "before any event"


def _readable(name: str) -> str:
    return shown(name.encode("latin-1").decode("utf-8", "replace"))
