"""The text of a trace file, block by block, inflated where it is compressed. Whatever is wrong with the wrapping is noted.

Bounded memory: one block, however far a gzip stream inflates; and no more text than is asked for.
"""

from __future__ import annotations

import contextlib
import zlib
from typing import TYPE_CHECKING

from pytest_gputrace.traces.scanner import Problem

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path
    from typing import BinaryIO

    from pytest_gputrace.traces.scanner import Kind

__all__ = ["Blocks"]

_GZIP = b"\x1f\x8b"
_BLOCK_BYTES = 1 << 18
# What is left of these after the end of a gzip member is copied, for each member.
_ZIPPED_BYTES = 1 << 14


class Blocks:
    """The blocks of one file; iterate once. Of its text, inflated, no more than ``max_bytes`` are read.

    ``problems`` fills up on the way: places are offsets into the text. ``members`` holds where each gzip member after
    the first begins in it, ``zipped`` is whether the file is compressed. ``progress`` is called with the number of bytes of the file that were read since it was last.
    """

    def __init__(
        self, path: Path, *, max_bytes: int | None = None, progress: Callable[[int], None] | None = None
    ) -> None:
        self.path = path
        self.problems: list[Problem] = []
        self.members: list[int] = []
        self.zipped = False
        self._max_bytes = max_bytes
        self._progress = progress
        self._given = 0

    def __iter__(self) -> Iterator[bytes]:
        with self.path.open("rb") as file:
            first = self._read(file, 2)
            self.zipped, says_zipped = first == _GZIP, self.path.name.endswith(".gz")
            if not first:
                self._note("empty", "an empty file, 0 bytes; was its writer killed, the disk full?")
            elif self.zipped and not says_zipped:
                self._note("wrapping", "compressed by gzip under a plain name; call it .json.gz")
            elif says_zipped and first.startswith(b"\0"):
                self._note("gzip", "zero bytes in place of a gzip stream: a crash of the node or a copy left them")
            elif says_zipped and not self.zipped:
                self._note("wrapping", "not compressed, though the name ends with .gz; call it .json")
            for block in self._inflated(file, first) if self.zipped else self._plain(file, first):
                allowed = block if self._max_bytes is None else block[: self._max_bytes - self._given]
                self._given += len(allowed)
                if allowed:
                    yield allowed
                if len(allowed) < len(block):
                    what = f"more text than the {self._max_bytes} bytes it is limited to; nothing was read after them"
                    self._note("large", what)
                    return

    def _plain(self, file: BinaryIO, data: bytes) -> Iterator[bytes]:
        while data:
            yield data
            data = self._read(file, self._room())

    def _inflated(self, file: BinaryIO, data: bytes) -> Iterator[bytes]:
        stream = zlib.decompressobj(wbits=31)
        while data:
            if stream.eof:
                data = data if data.strip(b"\0") else b""  # padding, which gzip allows
                if data and (data + _GZIP[1:])[:2] != _GZIP:
                    self._note("gzip", f"{len(data)} bytes or more after the end of the gzip stream; two writers?")
                    return
                if data:
                    self.members.append(self._given)
                    stream = zlib.decompressobj(wbits=31)
            if data:
                before = stream.copy()
                try:
                    text = stream.decompress(data, self._room())
                except zlib.error as error:
                    yield _up_to_damage(before, data)
                    what = f"the gzip stream is damaged ({error}); two writers, or a copy that went wrong?"
                    self._note("gzip", what)
                    return
                data = stream.unused_data if stream.eof else stream.unconsumed_tail
                if text:
                    yield text
            data = data or self._read(file, min(_ZIPPED_BYTES, _BLOCK_BYTES))
        if not stream.eof:
            self._note("cut", "the gzip stream ends too early; was its writer killed, the disk full?")

    def _room(self) -> int:
        """How much to take at a time: one byte beyond the limit tells that there is more."""
        return _BLOCK_BYTES if self._max_bytes is None else min(_BLOCK_BYTES, self._max_bytes - self._given + 1)

    def _read(self, file: BinaryIO, size: int) -> bytes:
        data = file.read(size)
        if self._progress is not None and data:
            self._progress(len(data))
        return data

    def _note(self, kind: Kind, message: str) -> None:
        self.problems.append(Problem(kind, message, self._given))


def _up_to_damage(stream: zlib._Decompress, data: bytes) -> bytes:
    """What comes out of ``data`` before the error, which takes the whole call's output with it."""
    text = bytearray()
    with contextlib.suppress(zlib.error):
        for index in range(len(data)):
            text += stream.decompress(data[index : index + 1])
    return bytes(text)
