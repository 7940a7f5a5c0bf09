"""Is a file that a profiler wrote complete, and does it hold anything?

Asked of a file before it gets its final name, and of what other processes left in a folder. Nothing in a file is run, and
a broken one is an answer, never an error. Memory is that of a block, but for a tree of Proton, which is held whole.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from pytest_gputrace.traces.scanner import Problem
    from pytest_gputrace.traces.streaming import EventRun

__all__ = ["Examined", "examine"]

_TRACE_ENDINGS = (".json", ".json.gz", ".chrome_trace", ".chrome_trace.gz", ".hatchet")
_PICKLE, _PACKED_TREE = ".pickle", ".hatchet_msgpack"
_MOST_TREE_BYTES = 1 << 28
# Of Python's pickletools, since protocol 4: a frame, or a long text or bytes outside of one; and how long its length is.
_PROTO, _FRAMED_SINCE, _STOP = b"\x80", b"\x04", b"."
_LENGTHS = {b"\x95": 8, b"X": 4, b"B": 4, b"\x8d": 8, b"\x8e": 8, b"\x96": 8}
# With these the end of what was written is not there.
_CUT = frozenset({"empty", "cut", "gzip"})
# What only looks wrong, and no event is lost by it.
_HARMLESS = frozenset({"path", "wrapping", "bom"})
# Names of things, ends of what has begun, arrows between others.
_NO_WORK = frozenset("MEestfF")
# What torch's profiler says of itself.
_FRAME = frozenset({"Iteration Start: PyTorch Profiler", "Record Window End"})
_FRAME_CATEGORY = "Trace"


@dataclass(frozen=True)
class Examined:
    """What became of a file.

    ``complete`` is whether it was written to its end. ``events`` counts those that tell of work, not names nor what a
    profiler says of itself; None where the file holds none by its kind or cannot be read. ``problem`` is what is wrong, with
    its place, empty where nothing is; a complete file may have one too.
    """

    complete: bool
    events: int | None
    problem: str = ""


def examine(path: Path) -> Examined:
    """Read a file by what its name ends with: a trace strictly, a pickle's outline, of others whether there is anything.

    Raises:
        OSError: it cannot be read.
    """
    if not os.stat(path).st_size:
        return Examined(False, None, "an empty file, 0 bytes")
    if path.name.endswith(_TRACE_ENDINGS):
        return _trace(path)
    if path.name.endswith(_PICKLE):
        return _pickle(path)
    if path.name.endswith(_PACKED_TREE):
        return _packed_tree(path)
    return Examined(True, None)


def _trace(path: Path) -> Examined:
    from pytest_gputrace.traces.streaming import stream_trace  # imports numpy

    work = _Work()
    streamed = stream_trace(path, work.look)
    if streamed.format == "proton-tree":
        return _tree(path)
    events = None if streamed.format == "unknown" else work.events
    about = streamed.metadata.get("viztracer_metadata")
    overflow = isinstance(about, dict) and about.get("overflow") is True
    lost = "VizTracer's buffer was full: the oldest events are lost; record less, or give it more entries"
    return _examined(events, streamed.problems, lost if overflow else "")


def _tree(path: Path) -> Examined:
    from pytest_gputrace.traces.trace import open_trace

    trace = open_trace(path, max_bytes=_MOST_TREE_BYTES)
    return _examined(max(0, len(trace.events) - 1), trace.problems)  # without the root


def _pickle(path: Path) -> Examined:
    """Whether all frames are there and the last byte ends it: that byte alone is in many a text."""
    with path.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        proto, version = file.read(1), file.read(1)
        place = file.tell()
        while proto == _PROTO and version >= _FRAMED_SINCE and place < size:
            file.seek(place)
            bytes_of_length = _LENGTHS.get(file.read(1))
            if bytes_of_length is None:
                break
            length = int.from_bytes(file.read(bytes_of_length), "little")
            place = file.tell() + length
        file.seek(-1, os.SEEK_END)
        whole = place <= size and file.read(1) == _STOP
    return Examined(whole, None, "" if whole else "the pickle ends too early; was its writer killed, the disk full?")


def _packed_tree(path: Path) -> Examined:
    import msgspec

    with path.open("rb") as file:
        packed = file.read(_MOST_TREE_BYTES + 1)
    if len(packed) > _MOST_TREE_BYTES:
        return Examined(True, None, f"more than {_MOST_TREE_BYTES} bytes, which were not looked at")
    try:
        msgspec.msgpack.decode(packed)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        return Examined("truncated" not in str(error), None, f"no whole MessagePack: {error}")
    return Examined(True, None)


def _examined(events: int | None, problems: Sequence[Problem], lost: str = "") -> Examined:
    told = [problem for problem in problems if problem.kind not in _HARMLESS]
    told.sort(key=lambda problem: problem.kind not in _CUT)
    texts = [_placed(problem) for problem in told[:1]] + [lost] * bool(lost)
    return Examined(not any(problem.kind in _CUT for problem in told), events, "; ".join(texts))


def _placed(problem: Problem) -> str:
    where = f", {problem.where}" if problem.where else ""
    return f"{problem.message} (byte {problem.byte:,}{where})"


class _Work:
    """Counts events that tell of work."""

    def __init__(self) -> None:
        self.events = 0

    def look(self, run: EventRun) -> None:
        """Count those of some more events."""
        from pytest_gputrace.traces.vocabulary import chosen

        columns = run.columns
        idle = chosen(columns.phases, columns.phase, _NO_WORK.__contains__)
        idle |= chosen(columns.categories, columns.category, _FRAME_CATEGORY.__eq__)
        idle |= chosen(columns.names, columns.name, _FRAME.__contains__)
        self.events += len(idle) - int(idle.sum())
