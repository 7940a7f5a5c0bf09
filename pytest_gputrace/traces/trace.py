"""One trace file, read strictly: its events as columns, its metadata, and everything that is wrong with its text."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from pytest_gputrace.traces.blocks import Blocks
from pytest_gputrace.traces.columns import Columns, Event, EventBuilder, from_any
from pytest_gputrace.traces.pieces import NoEvents, Pieces, Unreadable
from pytest_gputrace.traces.scanner import Problem
from pytest_gputrace.traces.strict import parse
from pytest_gputrace.traces.suspicion import KeyPatterns, may_hide_something

if TYPE_CHECKING:
    import os

__all__ = ["Trace", "open_trace"]

_DECODER = msgspec.json.Decoder(list[Event])


@dataclass(frozen=True)
class Trace:
    """What one file holds.

    ``metadata`` is the root without its events (empty for a list), ``base_time_ns`` what times count from, None where
    the file does not say. ``problems`` are those of the text, each with its byte and event; events that stand before
    the first one that cannot be read are in ``events`` all the same.
    """

    path: Path
    metadata: dict[str, Any]
    base_time_ns: int | None
    events: Columns
    problems: tuple[Problem, ...]


def open_trace(path: str | os.PathLike[str]) -> Trace:
    """Read a Chrome trace (Kineto, Proton, VizTracer), plain or compressed by gzip; the content decides.

    Memory is that of the columns, of one run of events as text, and of the text around the list of events.

    Raises:
        OSError: the file cannot be read.
    """
    path = Path(path)
    blocks = Blocks(path)
    reader = _Reader()
    reader.read(Pieces(iter(blocks), _DECODER))
    problems = sorted([*blocks.problems, *reader.problems], key=lambda problem: problem.byte)
    base = reader.metadata.get("baseTimeNanoseconds")
    return Trace(
        path=path,
        metadata=reader.metadata,
        base_time_ns=base if type(base) is int else None,
        events=reader.builder.columns(),
        problems=tuple(problems),
    )


class _Reader:
    """Puts a trace together from its pieces, and judges each."""

    def __init__(self) -> None:
        self.builder = EventBuilder()
        self.metadata: dict[str, Any] = {}
        self.problems: list[Problem] = []
        self._patterns = KeyPatterns()

    def read(self, pieces: Pieces) -> None:
        try:
            for text, byte, events in pieces.runs():
                self._judge(pieces, text, byte, len(events))
                self._add(events, byte)
        except NoEvents as whole:
            self.problems += parse(_decoded(whole.text)).problems
        except Unreadable as broken:
            if pieces.head:
                self.problems += parse(_decoded(pieces.head + b"[]}")).problems
            self._note(pieces, broken.text, broken.byte, end=b"")
        else:
            self._surroundings(pieces)

    def _judge(self, pieces: Pieces, text: bytes, byte: int, count: int) -> None:
        patterns = self._patterns.new(text, count) if count else set()
        if patterns is None or may_hide_something(text):
            self._note(pieces, text, byte)
        elif patterns and self._note(pieces, text, byte):
            self._patterns.learn(patterns)

    def _note(self, pieces: Pieces, text: bytes, byte: int, end: bytes | None = None) -> bool:
        """Note what the strict reader finds in some events, where it stands in the file; whether that is nothing."""
        before, after = (b'{"traceEvents": [', b"]}") if pieces.head else (b"[", b"]")
        found = parse(_decoded(before + text + (after if end is None else end))).problems
        first = self.builder.count
        self.problems += [
            replace(
                problem,
                byte=problem.byte - len(before) + byte,
                event=None if problem.event is None else problem.event + first,
            )
            for problem in found
        ]
        return not found

    def _add(self, events: list[Any], byte: int) -> None:
        if events and not isinstance(events[0], Event):
            read = [from_any(event) for event in events]
            for index, (_, odd) in enumerate(read, self.builder.count):
                self.problems += [Problem("type", f"event {index}: {what}", byte, index) for what in odd]
            events = [event for event, _ in read]
        self.builder.add(events)

    def _surroundings(self, pieces: Pieces) -> None:
        """Judge and keep what stands around the list of events."""
        text = pieces.head + (b"[]" if pieces.closed else b"[")
        split, text = len(text), text + pieces.tail
        document = parse(_decoded(text))
        self.problems += [
            replace(problem, byte=problem.byte + pieces.tail_byte - split) if problem.byte >= split else problem
            for problem in document.problems
        ]
        if not document.problems and pieces.head:
            self.metadata = json.loads(text)
            del self.metadata["traceEvents"]


def _decoded(text: bytes) -> str:
    return text.decode("utf-8", "surrogateescape")
