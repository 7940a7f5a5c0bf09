"""Writes a new, valid file from a damaged trace. The damaged one is only read; nothing is ever written over."""

from __future__ import annotations

import codecs
import re
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_gputrace.repair.document import Document
from pytest_gputrace.repair.outcome import Ledger, Repaired
from pytest_gputrace.repair.runs import RUN_BYTES
from pytest_gputrace.repair.search import document_in
from pytest_gputrace.repair.window import Window
from pytest_gputrace.traces.blocks import Blocks
from pytest_gputrace.traces.writing import TraceFile

if TYPE_CHECKING:
    import os
    from collections.abc import Callable

__all__ = ["repair"]

_SPACE = re.compile(rb"[ \t\r\n]*")
_GZIP = b"\x1f\x8b"
_MARGIN = 1 << 10


def repair(path: str | os.PathLike[str], out: str | os.PathLike[str], *, document: int = 1) -> Repaired:
    """Write a new file ``out`` with what can be saved of the trace ``path``, compressed where its name ends with ``.gz``.

    What is sound is copied as it is, byte for byte: a clean file wholly, so that a pipeline goes on. Where a file holds
    several traces, ``document`` says which one is kept, counted from 1; they are not mixed, for each is a capture of
    its own. What is valid JSON stays, however odd: negative durations, values of a wrong type.

    Memory is that of a run of events, and of the text around the list of events.

    Raises:
        OSError: ``path`` cannot be read.
        PublishError: ``out`` exists, or cannot be written.
        ValueError: there is no such document number.
    """
    path, out = Path(path), Path(out)
    if document < 1:
        raise ValueError(f"document {document}: they are counted from 1")
    try:
        return _repaired(path, out, document)
    except _Garbled as garbled:
        return _repaired(path, out, document, stop=garbled.byte)


def _repaired(path: Path, out: Path, document: int, *, stop: int | None = None) -> Repaired:
    sink = TraceFile(out)
    try:
        copy = _Copy(path, sink, document, stop)
        copy.run()
        saved = copy.is_worth_keeping()
        if saved:
            sink.publish()
    finally:
        sink.discard()
    return copy.outcome(out if saved else None)


class _Garbled(Exception):  # noqa: N818  # a signal within this module: start again, and stop there
    """The text comes from a damaged gzip stream, and from ``byte`` on it shows."""

    def __init__(self, byte: int) -> None:
        super().__init__(f"from byte {byte} on")
        self.byte = byte


class _Copy:
    """Goes through the documents of a file, of which one is written; no further than to byte ``stop``."""

    def __init__(self, path: Path, sink: TraceFile, document: int, stop: int | None) -> None:
        self._path, self._sink, self._wanted, self._stop = path, sink, document, stop
        self._blocks = Blocks(path, max_bytes=stop)
        self._window = Window(iter(self._blocks), self._doubt)
        self._is_trusted = stop is not None
        self._kept: Document | None = None
        self._found = 0
        self._others: list[Document] = []
        self._outside = Ledger()

    def run(self) -> None:
        """Copy the document that is wanted, and count the others."""
        window = self._window
        lead = self._space()
        if window.data.startswith(codecs.BOM_UTF8, window.at):
            self._outside.change("bom", window.byte, None, "a byte order mark", "nothing")
            window.at += len(codecs.BOM_UTF8)
            lead += self._space()
        while window.fill(1) or window.at < len(window.data):
            if window.data[window.at] in b"[{":
                self._document(lead)
            else:
                self._pass_over()
            lead = self._space()
        if self._kept is not None and not self._others and self._kept.whole:
            self._sink.write(lead)

    def is_worth_keeping(self) -> bool:
        """Whether the new file holds events, or the old one never did."""
        if self._kept is None:
            return False
        ledger = self._kept.ledger
        return bool(ledger.kept) or not (ledger.events_lost or ledger.unknown)

    def outcome(self, out: Path | None) -> Repaired:
        """What came of it."""
        ledger = self._kept.ledger if self._kept else Ledger()
        outside = self._outside
        unknown = self._wrapping() or ledger.unknown
        lost = [*ledger.lost, *outside.lost]
        if self._kept is None:
            lost.append(self._nothing())
        events = ledger.events_lost + sum(other.ledger.begun for other in self._others)
        return Repaired(
            path=self._path,
            out=out,
            events_kept=ledger.kept if out else 0,
            events_lost=None if unknown else events,
            bytes_lost=ledger.bytes_lost + outside.bytes_lost,
            changes=tuple(sorted((*outside.changes, *ledger.changes), key=lambda change: change.byte)),
            lost=tuple(lost),
            documents=self._found,
        )

    def _doubt(self, byte: int) -> None:
        """Something cannot be read: look once whether the gzip stream is damaged, for then all that follows is garbled."""
        if not self._is_trusted and _is_damaged(self._path):
            raise _Garbled(byte)
        self._is_trusted = True

    def _document(self, lead: bytes) -> None:
        document = Document(self._window, lambda: self._choose(document))
        start = self._window.byte
        document.copy(lead)
        if document is not self._kept:
            self._left_out(document, start)

    def _choose(self, document: Document) -> Callable[[bytes], None]:
        self._found += 1
        if self._found != self._wanted:
            return lambda _: None
        self._kept = document
        return self._sink.write

    def _left_out(self, document: Document, start: int) -> None:
        size = self._window.byte - start
        if document.has_list:
            self._others.append(document)
            ledger = document.ledger
            count = f"{ledger.begun:,} event{'' if ledger.begun == 1 else 's'}{' or more' if ledger.unknown else ''}"
            what = f"document {self._found}, byte {start}: another trace, of {count}; it is not mixed in"
        else:
            what = f"{size:,} bytes from byte {start} on: no list of events in them"
        self._outside.lose(what, size=size)

    def _pass_over(self) -> None:
        """Leave out what is no document, up to the next one."""
        window = self._window
        start = window.byte
        while True:
            found = document_in(window.text, window.at)
            if found is not None or not window.more:
                break
            window.at = max(window.at, len(window.data) - _MARGIN)
            window.fill(RUN_BYTES)
        window.at = len(window.data) if found is None else found
        size = window.byte - start
        self._outside.lose(f"{size:,} bytes from byte {start} on, which belong to no document", size=size)

    def _space(self) -> bytes:
        window = self._window
        window.fill(_MARGIN)
        while True:
            match = _SPACE.match(window.data, window.at)
            assert match is not None  # it may be empty
            if match.end() < len(window.data) or not window.fill(2 * len(match[0]) + _MARGIN):
                window.at += len(match[0])
                return match[0]

    def _wrapping(self) -> bool:
        """Note what was wrong around the text; whether events may have been lost by it."""
        lost = False
        for problem in self._blocks.problems:
            if problem.kind == "wrapping":
                self._outside.change("wrapping", 0, None, problem.message, "what the new name says")
            elif problem.kind == "large":
                lost = True
                what = f"everything from byte {self._stop} on: the gzip stream is damaged, and what comes out of it garbled"
                self._outside.lose(what, size=0)
            elif self._kept is not None and self._kept.whole:
                self._outside.change("gzip", problem.byte, None, problem.message, "a stream that is whole")
            else:
                lost = True
                self._outside.lose(problem.message, size=0)
        return lost

    def _nothing(self) -> str:
        if not self._found:
            return "everything: there is no list of events in it"
        return f"everything: there is no document {self._wanted}, only {self._found}"


def _is_damaged(path: Path) -> bool:
    with path.open("rb") as file:
        if file.read(len(_GZIP)) != _GZIP:
            return False
    blocks = Blocks(path)
    for _ in blocks:
        pass
    return any(problem.kind == "gzip" and "damaged" in problem.message for problem in blocks.problems)
