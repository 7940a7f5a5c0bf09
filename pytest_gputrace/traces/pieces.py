"""Cuts the text of a trace as it is read: what stands before the list of events, runs of whole events, what stands after.

No more is held than one run of events, or what a single event or the text around the list of events need.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["NoEvents", "Pieces", "Unreadable"]

RUN_BYTES = 1 << 18
"""About how much text of events is decoded at a time: what the processor's cache holds beside its numpy columns."""

_LIST = re.compile(rb'"traceEvents"[ \t\r\n]*:[ \t\r\n]*\[')
# What msgspec says of broken text, and where; it says no place where the text ends too early.
_PLACE = re.compile(r"(?P<trailing>trailing characters )?\(byte (?P<byte>\d+)\)")
_TRIES = 8


class NoEvents(Exception):  # noqa: N818  # a signal: the text is to be judged by the strict reader
    """The text has no list of events where one is looked for; ``text`` is all of it."""

    def __init__(self, text: bytes) -> None:
        super().__init__("no list of events")
        self.text = text


class Unreadable(Exception):  # noqa: N818  # a signal: the text is to be judged by the strict reader
    """Some event from byte ``byte`` on cannot be decoded; ``text`` is what stands there, as far as it was read."""

    def __init__(self, text: bytes, byte: int) -> None:
        super().__init__(f"events from byte {byte} on")
        self.text, self.byte = text, byte


class Pieces:
    """The pieces of one text, in order.

    ``head`` and ``tail`` are what stands before and after the events, brackets of the list left out, whole once `runs`
    is through; ``tail_byte`` is where the tail begins, and ``closed`` whether the list ended before the text did.
    """

    def __init__(self, blocks: Iterator[bytes], decoder: msgspec.json.Decoder[Any]) -> None:
        self._blocks = blocks
        self._decoder = decoder
        self._buffer = b""
        self._byte = 0
        self._more = True
        self.head = self.tail = b""
        self.tail_byte = 0
        self.closed = False

    def runs(self) -> Iterator[tuple[bytes, int, list[Any]]]:
        """Runs of whole events: their text without the list's brackets, where it begins, and the events decoded.

        Raises:
            NoEvents: there is no list of events.
            Unreadable: the grammar is broken, or the text ends in the middle of an event.
        """
        self._find_list()
        while True:
            self._fill(RUN_BYTES)
            if self._ends_here():
                break
            text, events, ended = self._run()
            yield text, self._byte, events
            self._drop(len(text))
            if ended or not self._buffer:
                break
            self._drop(self._buffer.index(b",") + 1)  # what parts two events
        self.closed = b"]" in self._buffer
        self._drop(self._buffer.find(b"]") + 1)
        self.tail_byte = self._byte
        self.tail = self._buffer + b"".join(self._blocks)

    def _find_list(self) -> None:
        """Read up to the list of events: the root itself, or a member of it."""
        self._fill(RUN_BYTES)
        start = self._buffer.lstrip(b" \t\r\n")
        if start[:1] == b"[":
            self._drop(self._buffer.index(b"[") + 1)
            return
        searched = 0
        while True:
            found = _LIST.search(self._buffer, searched)
            if found is None:
                searched = max(0, len(self._buffer) - 64)
                if not self._fill(2 * len(self._buffer)):
                    raise NoEvents(self._buffer)
            elif _is_json(self._buffer[: found.end()] + b"]}"):
                self.head = self._buffer[: found.end() - 1]
                self._drop(found.end())
                return
            else:  # within a text, or deeper down
                searched = found.end()

    def _run(self) -> tuple[bytes, list[Any], bool]:
        """The next run of events, and whether the list ends after it."""
        for text in self._candidates():
            data = b"[" + text + b"]"
            try:
                return text, self._decode(data), False
            except msgspec.DecodeError as error:
                place = _PLACE.search(str(error))
                if place and place["trailing"]:  # the list's own bracket came before ours
                    text = text[: data.rindex(b"]", 0, int(place["byte"]) - 1) - 1]
                    return text, self._decode(b"[" + text + b"]"), True
                if place and int(place["byte"]) < len(text):
                    break
        raise Unreadable(self._buffer, self._byte)

    def _candidates(self) -> Iterator[bytes]:
        """Texts that may be whole events, the longest first.

        A text that ends within an event cannot be decoded, whatever it ends in; so it is tried.
        """
        at_the_end = False
        while not at_the_end:
            at_the_end = not self._more
            if at_the_end:
                yield self._buffer
            end = len(self._buffer)
            for _ in range(_TRIES):
                end = self._buffer.rfind(b"},", 0, end)
                if end < 0:
                    break
                yield self._buffer[: end + 1]
            self._fill(2 * len(self._buffer))

    def _decode(self, data: bytes) -> list[Any]:
        try:
            events: list[Any] = self._decoder.decode(data)
        except msgspec.ValidationError:  # a value of another type than is usual
            events = msgspec.json.decode(data, type=list[Any])
        return events

    def _ends_here(self) -> bool:
        return self._buffer.lstrip(b" \t\r\n")[:1] == b"]"

    def _fill(self, size: int) -> bool:
        """Hold at least ``size`` bytes where there are as many; whether any were read."""
        parts = [self._buffer]
        held = len(self._buffer)
        while self._more and held < size:
            block = next(self._blocks, b"")
            self._more = bool(block)
            parts.append(block)
            held += len(block)
        grown = held > len(self._buffer)
        self._buffer = b"".join(parts)
        return grown

    def _drop(self, count: int) -> None:
        self._buffer = self._buffer[count:]
        self._byte += count


def _is_json(text: bytes) -> bool:
    try:
        msgspec.json.decode(text, type=dict[str, msgspec.Raw])
    except msgspec.DecodeError:
        return False
    return True
