"""Writes a trace file: compressed where its name says so, the same bytes for the same text, its name that of a whole file or none.

A compressed file is one gzip member, which every reader takes. It is made of blocks that are compressed each by itself, so
that threads can compress at once what one of them writes in order.
"""

from __future__ import annotations

import struct
import zlib
from typing import TYPE_CHECKING

from pytest_gputrace.publish import ForcedFile, NewFile

if TYPE_CHECKING:
    from pathlib import Path

    from pytest_gputrace.publish import PrivateFile

__all__ = ["TraceFile"]

_BLOCK_BYTES = 1 << 18
# Of the levels that cost hardly more than the fastest, the one that makes the smallest files of traces.
_LEVEL = 3
# No name, no time, no system: nothing that differs from one run or machine to the next.
_HEADER = b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff"
_LAST_BLOCK = b"\x03\x00"


class TraceFile:
    """A new trace file: compressed or not, as its name says; same bytes for the same writes.

    Its final name only ever holds a complete file. Without ``force`` a file that exists is never replaced.

    Raises:
        PublishError: from every method but `pack`; the private file is gone then.
    """

    def __init__(self, out: Path, *, force: bool = False) -> None:
        self._file: PrivateFile = ForcedFile(out) if force else NewFile(out)
        self._compressed = out.name.endswith(".gz")
        self._held = bytearray()
        self._crc = self._length = self._size = 0
        if self._compressed:
            self._put(_HEADER)

    def pack(self, data: bytes) -> bytes:
        """What ``data`` becomes on disk, whatever stands before it; may be called from any thread."""
        if not self._compressed:
            return data
        block = zlib.compressobj(_LEVEL, wbits=-zlib.MAX_WBITS)
        return block.compress(data) + block.flush(zlib.Z_FULL_FLUSH)

    def append(self, data: bytes, packed: bytes) -> None:
        """Write ``packed``, which `pack` made of ``data``, after all that was written so far."""
        self._flush()
        self._append(data, packed)

    def write(self, data: bytes) -> None:
        """Write ``data``, however little: it is gathered. Where it is cut into several writes changes nothing."""
        view = memoryview(data)
        while view:
            part = view[: _BLOCK_BYTES - len(self._held)]
            self._held += part
            view = view[len(part) :]
            if len(self._held) == _BLOCK_BYTES:
                self._flush()

    def publish(self) -> int:
        """Give the complete file its name; its size on disk."""
        self._flush()
        if self._compressed:
            self._put(_LAST_BLOCK + struct.pack("<LL", self._crc, self._length & 0xFFFFFFFF))
        self._file.publish()
        return self._size

    def discard(self) -> None:
        """Leave nothing; harmless when it was published or discarded before."""
        self._file.discard()

    def _flush(self) -> None:
        if self._held:
            data = bytes(self._held)
            self._held.clear()
            self._append(data, self.pack(data))

    def _append(self, data: bytes, packed: bytes) -> None:
        if self._compressed:
            self._crc = zlib.crc32(data, self._crc)
            self._length += len(data)
        self._put(packed)

    def _put(self, data: bytes) -> None:
        self._file.write(data)
        self._size += len(data)
