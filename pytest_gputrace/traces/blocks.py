"""The text of a trace file, block by block, inflated where it is compressed. Whatever is wrong with the wrapping is noted.

Bounded memory: one block, however far a gzip stream inflates.
"""

from __future__ import annotations

import contextlib
import zlib
from typing import TYPE_CHECKING

from pytest_gputrace.traces.scanner import Problem

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pytest_gputrace.traces.scanner import Kind

__all__ = ["Blocks"]

_GZIP = b"\x1f\x8b"
_BLOCK_BYTES = 1 << 18


class Blocks:
    """The blocks of one file; iterate once.

    ``problems`` fills up on the way: places are offsets into the text. ``members`` holds where each gzip member after
    the first begins in it.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.problems: list[Problem] = []
        self.members: list[int] = []
        self._given = 0

    def __iter__(self) -> Iterator[bytes]:
        with self.path.open("rb") as file:
            first = file.read(_BLOCK_BYTES)
            zipped, says_zipped = first.startswith(_GZIP), self.path.name.endswith(".gz")
            if not first:
                self._note("empty", "an empty file, 0 bytes; was its writer killed, the disk full?")
            elif zipped and not says_zipped:
                self._note("wrapping", "compressed by gzip under a plain name; call it .json.gz")
            elif says_zipped and not zipped:
                self._note("wrapping", "not compressed, though the name ends with .gz; call it .json")
            raw = _from(first, iter(lambda: file.read(_BLOCK_BYTES), b""))
            for block in self._inflated(raw) if zipped else raw:
                self._given += len(block)
                yield block

    def _inflated(self, raw: Iterator[bytes]) -> Iterator[bytes]:
        stream = zlib.decompressobj(wbits=31)
        for data in raw:
            while data:
                if stream.eof:
                    if not data.strip(b"\0"):  # padding, which gzip allows
                        break
                    if (data + _GZIP[1:])[:2] != _GZIP:
                        self._note("gzip", f"{len(data)} bytes or more after the end of the gzip stream; two writers?")
                        return
                    self.members.append(self._given)
                    stream = zlib.decompressobj(wbits=31)
                before = stream.copy()
                try:
                    text = stream.decompress(data, _BLOCK_BYTES)
                except zlib.error as error:
                    yield _up_to_damage(before, data)
                    what = f"the gzip stream is damaged ({error}); two writers, or a copy that went wrong?"
                    self._note("gzip", what)
                    return
                data = stream.unused_data if stream.eof else stream.unconsumed_tail
                if text:
                    yield text
        if not stream.eof:
            self._note("cut", "the gzip stream ends too early; was its writer killed, the disk full?")

    def _note(self, kind: Kind, message: str) -> None:
        self.problems.append(Problem(kind, message, self._given))


def _from(first: bytes, rest: Iterator[bytes]) -> Iterator[bytes]:
    if first:
        yield first
    yield from rest


def _up_to_damage(stream: zlib._Decompress, data: bytes) -> bytes:
    """What comes out of ``data`` before the error, which takes the whole call's output with it."""
    text = bytearray()
    with contextlib.suppress(zlib.error):
        for index in range(len(data)):
            text += stream.decompress(data[index : index + 1])
    return bytes(text)
