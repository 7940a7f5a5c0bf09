"""Cuts the text of a trace as it is read: what stands before the list of events, runs of whole events, what stands after.

No more is held than one run of events, or what a single event or the text around the list of events need.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec

from pytest_gputrace.traces.formats import of_no_trace
from pytest_gputrace.traces.judging import judge, stop_of
from pytest_gputrace.traces.skim import item_ends, list_of_events

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pytest_gputrace.traces.compiled import Scan, Scanned

__all__ = ["NoEvents", "Pieces", "Run", "Unreadable"]

RUN_BYTES = 1 << 18
"""About how much text of events is decoded at a time: what the processor's cache holds beside its numpy columns."""

_SPACE = b" \t\r\n"
_CLOSE = ord("]")
_BOM = b"\xef\xbb\xbf"
_LIST = re.compile(rb'"traceEvents"[ \t\r\n]*:[ \t\r\n]*\[')
# What msgspec says of broken text, and where; it says no place where the text ends too early.
_PLACE = re.compile(r"(?P<trailing>trailing characters )?\(byte (?P<byte>\d+)\)")
_TRIES = 8
# More than any word or number that can be cut, and than what a message shows.
_MARGIN = 512


class NoEvents(Exception):  # noqa: N818  # a signal: the text is to be judged by the strict reader
    """The text has no list of events where one is looked for; ``text`` is all of it, or enough to tell why."""

    def __init__(self, text: bytes, what: str = "") -> None:
        super().__init__("no list of events")
        self.text, self.what = text, what


class Unreadable(Exception):  # noqa: N818  # a signal: the text is to be judged by the strict reader
    """The grammar is broken, or the text ends, after byte ``byte``; ``text`` is what stands there, as far as needed."""

    def __init__(self, text: bytes, byte: int) -> None:
        super().__init__(f"events from byte {byte} on")
        self.text, self.byte = text, byte


@dataclass(frozen=True)
class Run:
    """Some whole events: their text without the list's brackets, where it begins, and the records in it.

    ``records`` is None where they cannot be decoded as they are, `Scanned` where the text is clean and they are columns
    already.
    """

    text: bytes
    byte: int
    records: list[Any] | Scanned | None


class Pieces:
    """The pieces of one text, in order.

    ``head`` and ``tail`` are what stands before and after the events, brackets of the list left out: the head once
    `find_list` has returned, the tail once `runs` is through. ``tail_byte`` is where the tail begins, ``closed`` whether
    the list ended before the text did. Of a tail that something follows which does not belong there, no more is kept than
    tells so. ``size_bytes`` is how much text was read.
    """

    def __init__(self, blocks: Iterator[bytes]) -> None:
        self._blocks = blocks
        self._buffer = b""
        self._byte = 0
        self._more = True
        self.head = self.tail = b""
        self.tail_byte = self.size_bytes = 0
        self.is_list = self.closed = False

    def find_list(self) -> bytes:
        """Read up to the list of events, the root itself or a member of it; how the list begins.

        Raises:
            NoEvents: there is no list of events.
        """
        self._fill(RUN_BYTES)
        start = self._buffer.removeprefix(_BOM).lstrip(_SPACE)
        self.is_list = start.startswith(b"[")
        if what := of_no_trace(self._buffer):
            raise NoEvents(self._buffer, what)
        at = self._buffer.index(b"[") if self.is_list else self._opening()
        self.head = self._buffer[:at]
        self._drop(at + 1)
        self._fill(RUN_BYTES)
        return self._buffer

    def byte_of(self, *keys: str) -> int:
        """Where a key stands around the events: the last of ``keys``, after those of the objects it is in."""
        for text, start in ((self.head, 0), (self.tail, self.tail_byte)):
            at = 0
            for key in keys:
                at = text.find(f'"{key}"'.encode(), at) if at >= 0 else at
            if at >= 0:
                return start + at
        return 0

    def whole(self) -> bytes:
        """All of the text, where it is to be read at once."""
        text = b"".join([self.head, b"[" if self.is_list else b"", self._buffer, *self._blocks])
        self.size_bytes = len(text)
        return text

    def runs(self, decode: Callable[[bytes], list[Any]], scan: Scan | None = None) -> Iterator[Run]:
        """The events, some at a time; ``decode`` gives the records of a JSON list, as far as msgspec can.

        What ``scan`` takes is not decoded; it cuts the text as is done here.

        Raises:
            Unreadable: the grammar is broken, or the text ends in the middle of an event.
        """
        between = False
        while True:
            self._fill(RUN_BYTES)
            if self._ends_here():
                if between:
                    raise self.unreadable()
                break
            scanned = scan.events(self._buffer, is_last=not self._more) if scan else None
            if scanned:
                run, ended = Run(self._buffer[: scanned.size], self._byte, scanned), scanned.ended
            else:
                run, ended = self._run(decode)
            yield run
            self._drop(len(run.text))
            if ended or not self._buffer:
                break
            self._drop(self._buffer.index(b",") + 1)  # what parts two events
            between = True
        self.closed = self._ends_here()
        self._drop(self._buffer.index(b"]") + 1 if self.closed else 0)
        self.tail_byte = self._byte
        self._read_tail()

    def _opening(self) -> int:
        searched = 0
        while True:
            found = _LIST.search(self._buffer, searched)
            if found is not None and _is_member(self._buffer[: found.end()]):
                return found.end() - 1
            if found is not None and (at := list_of_events(self._buffer)) is not None:
                return at
            if not searched and self._more and _stops_within(self._buffer):  # as all that is no JSON does
                raise NoEvents(self._buffer)
            searched = max(1, len(self._buffer) - 64)
            if not self._fill(max(2 * len(self._buffer), RUN_BYTES)):
                raise NoEvents(self._buffer)

    def _read_tail(self) -> None:
        """Read to the end of the text; what does not belong to the document need not be kept."""
        head = self.head + (b"[]" if self.closed else b"[")
        while self._more:
            self._fill(max(2 * len(self._buffer), RUN_BYTES))
            if self._more and _stops_within(head + self._buffer):
                break
        self.tail = self._buffer
        for block in self._blocks if self._more else ():
            self.size_bytes += len(block)

    def _run(self, decode: Callable[[bytes], list[Any]]) -> tuple[Run, bool]:
        """The next run of events, and whether the list ends after it."""
        while True:
            found, is_malformed = self._decoded(decode)
            if found is not None:
                return found
            ends, end = item_ends(self._buffer)
            if ends:
                if not self._buffer[: ends[-1]].strip(_SPACE) or (end is not None and self._buffer[end] != _CLOSE):
                    raise self.unreadable()  # nothing where an event must be, or a brace where the list may end
                return Run(self._buffer[: ends[-1]], self._byte, None), end is not None
            if is_malformed and _stops_within(b"[" + self._buffer):
                raise Unreadable(self._buffer, self._byte)
            if not self._fill(2 * len(self._buffer)):
                raise Unreadable(self._buffer, self._byte)

    def _decoded(self, decode: Callable[[bytes], list[Any]]) -> tuple[tuple[Run, bool] | None, bool]:
        """The longest run that can be decoded, and whether the list ends after it; whether something in it cannot be."""
        for text in self._candidates():
            data = b"[" + text + b"]"
            try:
                return (Run(text, self._byte, decode(data)), False), False
            except RecursionError:
                return None, False
            except msgspec.DecodeError as error:
                place = _PLACE.search(str(error))
                if place and place["trailing"]:  # the list's own bracket came before ours
                    text = text[: data.rindex(b"]", 0, int(place["byte"]) - 1) - 1]
                    return (Run(text, self._byte, decode(b"[" + text + b"]")), True), False
                if place and int(place["byte"]) < len(text):
                    return None, True
        return None, False

    def _candidates(self) -> Iterator[bytes]:
        """Texts that may be whole events, the longest first.

        A text that ends within an event cannot be decoded, whatever it ends in; so it is tried.
        """
        if not self._more:
            yield self._buffer
        end = len(self._buffer)
        for _ in range(_TRIES):
            end = self._buffer.rfind(b"},", 0, end)
            if end < 0:
                break
            yield self._buffer[: end + 1]

    def unreadable(self) -> Unreadable:
        """What stands from here on, as far as tells where the grammar breaks, whatever was read of it so far."""
        while not _stops_within(b"[" + self._buffer) and self._fill(2 * len(self._buffer)):
            pass
        return Unreadable(self._buffer, self._byte)

    def _ends_here(self) -> bool:
        return self._buffer.lstrip(_SPACE)[:1] == b"]"

    def _fill(self, size: int) -> bool:
        """Hold at least ``size`` bytes where there are as many; whether any were read."""
        parts = [self._buffer]
        held = before = len(self._buffer)
        while self._more and held < size:
            block = next(self._blocks, b"")
            self._more = bool(block)
            parts.append(block)
            held += len(block)
        self.size_bytes += held - before
        self._buffer = b"".join(parts)
        return held > before

    def _drop(self, count: int) -> None:
        self._buffer = self._buffer[count:]
        self._byte += count


def _is_member(head: bytes) -> bool:
    """Whether ``head``, which ends where a list opens, is the begin of an object that the list is a member of."""
    try:
        msgspec.json.decode(head + b"]}", type=dict[str, msgspec.Raw])
    except (msgspec.DecodeError, RecursionError):
        return False
    return True


def _stops_within(text: bytes) -> bool:
    """Whether the strict reader stops so far from the end of ``text`` that more of it would change nothing."""
    stop = stop_of(judge(text))
    return stop is not None and stop < len(text) - _MARGIN
