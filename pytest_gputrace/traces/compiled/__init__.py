"""The compiled reader of ordinary events, where it is there: it only ever makes reading faster.

`scan.c`, built beside this module when the package is, takes runs of events that are clean and ordinary; all others are
read, and judged, by Python. ``GPUTRACE_PURE=1`` leaves it out. The same library holds `splice.c`, for `splicing`.
"""

from __future__ import annotations

import ctypes
import json
import os
import weakref
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Scan", "Scanned", "is_available", "library", "scan"]

LIBRARY = Path(__file__).with_name("scan.so")
# That of scan.c: what was built from another one is not used.
_VERSION = 4
_TEXTS, _TIMES, _IDS = 3, 2, 8
# The shortest event that has a name is longer, so a text has no more events than this tells.
_SHORTEST_EVENT = len('{"ph":""}')
_CLOSE_ENOUGH = 8


class _Rows(ctypes.Structure):
    _fields_ = [
        ("texts", ctypes.c_void_p * _TEXTS),
        ("times", ctypes.c_void_p * _TIMES),
        ("ids", ctypes.c_void_p * _IDS),
        ("room", ctypes.c_int64),
        ("tight_end", ctypes.c_int64),
        ("tight_count", ctypes.c_int64),
        ("comma", ctypes.c_int64),
        ("comma_count", ctypes.c_int64),
        ("close", ctypes.c_int64),
        ("close_count", ctypes.c_int64),
    ]


@dataclass(frozen=True)
class Scanned:
    """Some events in arrays, one for each column, which hold until the next scan.

    A text is its code in the scan; in a column of ``ids`` it is ``-2 - code``. The text of the events, without the
    list's brackets, has ``size`` bytes; ``ended`` is whether the list is closed behind them.
    """

    scan: Scan
    texts: list[NDArray[np.int32]]
    times: list[NDArray[np.float64]]
    ids: list[NDArray[np.int64]]
    size: int
    ended: bool

    @property
    def count(self) -> int:
        """How many events there are."""
        return len(self.times[0])

    def last_named(self) -> tuple[int, str] | None:
        """The last event that has a name: its place among these, and the name."""
        codes = self.texts[-1]
        for place in range(len(codes) - 1, -1, -1):
            if name := self.scan.text(int(codes[place])):
                return place, name
        return None


class Scan:
    """Scans the events of one file, some at a time."""

    def __init__(self, library: ctypes.CDLL) -> None:
        self._library = library
        self._context = library.gputrace_open()
        if not self._context:
            raise MemoryError
        weakref.finalize(self, library.gputrace_close, self._context)
        self._rows = _Rows()
        self._make_room(0)

    def events(self, text: bytes, *, is_last: bool) -> Scanned | None:
        """The run that `Pieces` would take from ``text``, which begins with an event and is the file's last or not.

        None where anything in the text is not clean, or not as most traces have it.
        """
        if len(text) // _SHORTEST_EVENT > self._rows.room:
            self._make_room(len(text) // _SHORTEST_EVENT)
        if self._library.gputrace_scan(self._context, text, len(text), ctypes.byref(self._rows)):
            return None
        rows = self._rows
        if rows.close >= 0 and (is_last or text.find(b"},", rows.close) >= 0):
            return self._scanned(rows.close_count, rows.close, ended=True)
        if is_last:
            return None
        if rows.tight_count and text.count(b"},", rows.tight_end) < _CLOSE_ENOUGH:
            return self._scanned(rows.tight_count, rows.tight_end)
        if rows.close >= 0:
            return self._scanned(rows.close_count, rows.close, ended=True)
        return self._scanned(rows.comma_count, rows.comma) if rows.comma_count else None

    def count(self) -> int:
        """How many texts have a code."""
        return int(self._library.gputrace_texts(self._context))

    def has_other_ids(self) -> bool:
        """Whether any event so far had ``id2`` or ``bind_id``."""
        return bool(self._library.gputrace_other_ids(self._context))

    def text(self, code: int) -> str:
        """The text that has a code."""
        size = ctypes.c_int64()
        place = self._library.gputrace_text(self._context, code, ctypes.byref(size))
        spelled = ctypes.string_at(place, size.value)
        return str(json.loads(b'"%b"' % spelled)) if b"\\" in spelled else spelled.decode()

    def _make_room(self, count: int) -> None:
        self._texts = [np.empty(count, np.int32) for _ in range(_TEXTS)]
        self._times = [np.empty(count, np.float64) for _ in range(_TIMES)]
        self._ids = [np.empty(count, np.int64) for _ in range(_IDS)]
        for name, arrays in (("texts", self._texts), ("times", self._times), ("ids", self._ids)):
            setattr(self._rows, name, type(getattr(self._rows, name))(*(array.ctypes.data for array in arrays)))
        self._rows.room = count

    def _scanned(self, count: int, size: int, *, ended: bool = False) -> Scanned:
        return Scanned(
            self,
            [texts[:count] for texts in self._texts],
            [times[:count] for times in self._times],
            [ids[:count] for ids in self._ids],
            size,
            ended,
        )


def is_available() -> bool:
    """Whether the library is there and was built from the source that is."""
    return _library() is not None


def scan() -> Scan | None:
    """A scan for one file; None where there is none, or it is not wanted."""
    compiled = library()
    return None if compiled is None else Scan(compiled)


def library() -> ctypes.CDLL | None:
    """The library; None where there is none, or it is not wanted."""
    return None if os.environ.get("GPUTRACE_PURE") == "1" else _library()


@cache
def _library() -> ctypes.CDLL | None:
    try:
        library = ctypes.CDLL(str(LIBRARY))
        if library.gputrace_version() != _VERSION:
            return None
    except (OSError, AttributeError):
        return None
    pointer, number = ctypes.c_void_p, ctypes.c_int64
    library.gputrace_open.restype = pointer
    library.gputrace_close.argtypes = [pointer]
    library.gputrace_close.restype = None
    library.gputrace_scan.argtypes = [pointer, ctypes.c_char_p, number, pointer]
    library.gputrace_texts.argtypes = [pointer]
    library.gputrace_other_ids.argtypes = [pointer]
    library.gputrace_text.argtypes = [pointer, ctypes.c_int32, pointer]
    library.gputrace_text.restype = pointer
    library.gputrace_splice_ready.argtypes = [pointer]
    library.gputrace_splice.argtypes = [pointer, ctypes.c_char_p, number, ctypes.c_int32, pointer, number, pointer]
    return library
