"""The compiled rewriting of ordinary events, where it is there: it only ever makes a merge faster.

`splice.c` takes runs of events in which everything is ordinary; all others are rewritten by Python.
"""

from __future__ import annotations

import ctypes
import json
import threading
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from pytest_gputrace.traces.compiled import library
from pytest_gputrace.traces.vocabulary import GPU_LANES, LAUNCH_FLOWS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from numpy.typing import NDArray

__all__ = ["Numbers", "Spliced", "Splicer", "Track", "splicer"]

_LARGEST = 2**63 - 1
# Runs of the shortest of events grow more than this, and are left to Python.
_GROWTH = 2
_SPARE_BYTES = 1 << 12
_MOST_KEPT_BYTES = 1 << 22


class Track(NamedTuple):
    """A process and a thread of the file, a sort of lane, and their new numbers."""

    pid: int | str | None
    tid: int | str | None
    lane: int
    new_pid: int
    new_tid: int


class Numbers(NamedTuple):
    """How times and ids change; see `Clock` and `IdMap` of `pytest_gputrace.timeline.plan`."""

    delta_ns: int
    drift_ppt: int
    about_ns: int
    add: int
    known: NDArray[np.int64] | None


class Spliced(NamedTuple):
    """The new text, how many events are in it, how many metadata events were left out, and the ends of arrows in it."""

    text: bytes
    events: int
    metadata: int
    flows: tuple[int, int, int]


class _Span(ctypes.Structure):
    _fields_ = [("at", ctypes.c_char_p), ("size", ctypes.c_int64)]


class _Track(ctypes.Structure):
    _fields_ = [("pid", _Span), ("tid", _Span), ("new_pid", _Span), ("new_tid", _Span), ("lane", ctypes.c_int64)]


class _Plan(ctypes.Structure):
    _fields_ = [
        ("delta_ns", ctypes.c_int64),
        ("drift_ppt", ctypes.c_int64),
        ("about_ns", ctypes.c_int64),
        ("add", ctypes.c_int64),
        ("known", ctypes.c_void_p),
        ("known_count", ctypes.c_int64),
        ("prefix", _Span),
        ("gpu_lanes", ctypes.POINTER(_Span)),
        ("launch_flows", ctypes.POINTER(_Span)),
        ("gpu_lanes_count", ctypes.c_int64),
        ("launch_flows_count", ctypes.c_int64),
        ("id_phases", _Span),
        ("tracks", ctypes.POINTER(_Track)),
        ("tracks_count", ctypes.c_int64),
        ("slots", ctypes.c_void_p),
        ("slots_count", ctypes.c_int64),
    ]


class _Written(ctypes.Structure):
    _fields_ = [(name, ctypes.c_int64) for name in ("size", "events", "metadata", "starts", "steps", "ends")]


class _Room(threading.local):
    """Where new text is written, one for each thread: fresh memory for each run would cost as much time as the rewriting."""

    def __init__(self) -> None:
        self._bytes = np.empty(0, np.uint8)

    def of(self, size: int) -> NDArray[np.uint8]:
        """Room for ``size`` bytes, which hold anything."""
        if size > _MOST_KEPT_BYTES:
            return np.empty(size, np.uint8)
        if len(self._bytes) < size:
            self._bytes = np.empty(size, np.uint8)
        return self._bytes


_ROOM = _Room()


class Splicer:
    """Rewrites the ordinary events of one file; several threads may use it at once."""

    def __init__(
        self, compiled: ctypes.CDLL, numbers: Numbers, tracks: Iterable[Track], prefix: str, id_phases: str
    ) -> None:
        self._library = compiled
        spelled = list(_spelled(tracks))
        lanes, flows = (_spans(words) for words in (GPU_LANES, LAUNCH_FLOWS))
        self._slots = np.zeros(2 << (len(spelled) + 1).bit_length(), np.int32)
        self._known = None if numbers.known is None else np.ascontiguousarray(numbers.known, np.int64)
        self._plan = _Plan(
            delta_ns=numbers.delta_ns,
            drift_ppt=numbers.drift_ppt,
            about_ns=numbers.about_ns,
            add=numbers.add,
            known=None if self._known is None else self._known.ctypes.data,
            known_count=0 if self._known is None else len(self._known),
            prefix=_span(json.dumps(prefix, ensure_ascii=False)[1:-1].encode()),
            gpu_lanes=lanes,
            gpu_lanes_count=len(lanes),
            launch_flows=flows,
            launch_flows_count=len(flows),
            id_phases=_span(id_phases.encode()),
            tracks=(_Track * len(spelled))(*spelled),
            tracks_count=len(spelled),
            slots=self._slots.ctypes.data,
            slots_count=len(self._slots),
        )
        self.is_ready = not compiled.gputrace_splice_ready(ctypes.byref(self._plan))

    def run(self, text: bytes, *, is_raw: bool) -> Spliced | None:
        r"""Whole events, parted by commas, rewritten; None where anything in them is not ordinary.

        Any ``\uXXXX`` is not, unless the text ``is_raw``: none of them stands for a character that could be spelled itself.
        """
        written = _Written()
        room = _ROOM.of(_GROWTH * len(text) + _SPARE_BYTES)
        if self._library.gputrace_splice(
            ctypes.byref(self._plan), text, len(text), is_raw, room.ctypes.data, len(room), ctypes.byref(written)
        ):
            return None
        flows = written.starts, written.steps, written.ends
        return Spliced(room[: written.size].tobytes(), written.events, written.metadata, flows)


def splicer(numbers: Numbers, tracks: Iterable[Track], prefix: str, id_phases: str) -> Splicer | None:
    """A splicer for one file; None where there is none, it is not wanted, or the numbers are too large for it."""
    compiled = library()
    if compiled is None or any(abs(number) > _LARGEST for number in numbers[:-1] if isinstance(number, int)):
        return None
    ready = Splicer(compiled, numbers, tracks, prefix, id_phases)
    return ready if ready.is_ready else None


def _spelled(tracks: Iterable[Track]) -> Iterator[_Track]:
    """Tracks as files spell them; one that a file spells in another way is left to Python."""
    for track in tracks:
        new = (_span(str(number).encode()) for number in (track.new_pid, track.new_tid))
        yield _Track(_literal(track.pid), _literal(track.tid), *new, track.lane)


def _literal(name: int | str | None) -> _Span:
    # Half a character has no bytes of its own: these are in no file.
    return _span(b"" if name is None else json.dumps(name, ensure_ascii=False).encode(errors="surrogatepass"))


def _span(text: bytes) -> _Span:
    return _Span(text, len(text))


def _spans(words: Iterable[str]) -> ctypes.Array[_Span]:
    spans = [_span(word.encode()) for word in words]
    return (_Span * len(spans))(*spans)
