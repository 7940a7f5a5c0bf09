"""One trace file read strictly, run by run, each handed on as columns and text; nothing of the events is kept.

For what looks at every event of many large files once. Memory is that of one run, of the words in use of late, and of the
text around the list of events.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from pytest_gputrace.traces.arguments import Source
from pytest_gputrace.traces.blocks import Blocks
from pytest_gputrace.traces.columns import Columns, EventBuilder
from pytest_gputrace.traces.compiled import Scanned, scan
from pytest_gputrace.traces.opening import Opening
from pytest_gputrace.traces.reader import Reader
from pytest_gputrace.traces.records import ChromeRecords

if TYPE_CHECKING:
    import os
    from collections.abc import Callable

    from numpy.typing import NDArray

    from pytest_gputrace.traces.compiled import Scan
    from pytest_gputrace.traces.formats import Format
    from pytest_gputrace.traces.pieces import Pieces, Run
    from pytest_gputrace.traces.scanner import Problem

__all__ = ["EventRun", "Streamed", "stream_trace"]

# After so many different texts they are forgotten: names that hold addresses or numbers never end.
_MOST_TEXTS = 1 << 15
_OTHER_IDS = (b"id2", b"bind_id", b"\\u")  # a key may be spelled by escapes
# What tells a format by words other than categories is among the first of them.
_WORDS_KEPT = 1000


class EventRun(NamedTuple):
    """Some whole events: their columns, which hold until the next run, and their text without the list's brackets.

    ``has_other_ids`` is whether any of them may have ``id2`` or ``bind_id``, which are in no column.
    """

    columns: Columns
    text: bytes
    has_other_ids: bool


@dataclass(frozen=True)
class Streamed:
    """What one file holds beside its events; see `pytest_gputrace.traces.Trace`. ``source`` leads back to the runs."""

    path: Path
    format: Format
    metadata: dict[str, Any]
    problems: tuple[Problem, ...]
    events: int
    source: Source


def stream_trace(
    path: str | os.PathLike[str], look: Callable[[EventRun], None], *, progress: Callable[[int], None] | None = None
) -> Streamed:
    """Read a Chrome trace and hand each run of its events to ``look``.

    Of a Proton tree or a SuperBench event list it reads no more than tells so.

    Raises:
        OSError: the file cannot be read.
    """
    path = Path(path)
    stamp = Source.stamp_of(path.stat())
    opening = _Streaming(Blocks(path, progress=progress), look)
    opening.read()
    return Streamed(
        path, opening.format, opening.metadata, tuple(opening.problems), opening.events,
        Source(path, stamp, opening.runs, None),
    )  # fmt: skip


class _Streaming(Opening):
    """Has the events handed on where others keep them."""

    def __init__(self, blocks: Blocks, look: Callable[[EventRun], None]) -> None:
        super().__init__(blocks)
        self._handed = look
        self._passing: _PassingRecords | None = None
        self.events = 0

    def _tree(self) -> None:
        self.format = "proton-tree"

    def _list(self, known: Format | None) -> None:
        if known == "superbench":
            self.format = known
        else:
            super()._list(known)

    def _reader(self, known: Format | None) -> Reader:
        self._passing = _PassingRecords()
        return _PassingReader(self._pieces, self._passing, _FreshScan.new(), self._handed)

    def _wrapped(self) -> None:
        if self._passing is not None:
            self.events = self._passing.builder.count
        super()._wrapped()


class _PassingReader(Reader):
    def __init__(
        self, pieces: Pieces, records: _PassingRecords, scan: _FreshScan | None, look: Callable[[EventRun], None]
    ) -> None:
        super().__init__(pieces, records, scan)  # type: ignore[arg-type] # all of a Scan that a reader needs
        self._passing = records.builder
        self._handed = look

    def _take(self, run: Run) -> None:
        super()._take(run)
        if isinstance(run.records, Scanned):
            has_other_ids = run.records.scan.has_other_ids()
        else:
            has_other_ids = any(key in run.text for key in _OTHER_IDS)
        self._handed(EventRun(self._passing.take(), run.text, has_other_ids))


class _PassingRecords(ChromeRecords):
    def __init__(self) -> None:
        self.builder: _PassingBuilder = _PassingBuilder()

    def columns(self) -> Columns:
        """No events, but the words that tell the format."""
        return self.builder.words()


class _PassingBuilder(EventBuilder):
    """Gives the columns of one run, and starts the next in their place."""

    def __init__(self) -> None:
        super().__init__()
        self._scan: Scan | None = None
        self._lists: list[list[Any]] = []
        self._forget()
        self._words: tuple[dict[str, None], ...] = {}, {}, {}  # categories, names and ids
        self._noted: list[int] = []
        self._run: list[NDArray[Any]] = []

    def add_scanned(self, scanned: Scanned) -> None:
        if scanned.scan is not self._scan:  # the codes of another scan mean other texts
            self._scan = scanned.scan
            self._number_anew()
        self.count += scanned.count
        self._run = self._arrays(scanned)  # as they are: there is one run at a time

    def take(self) -> Columns:
        """The events since this was last called."""
        for table, texts in zip((*self._tables, self._ids), self._lists, strict=True):
            texts += islice(table, len(texts), None)
        arrays = self._run or [column.values() for column in self._columns.values()]
        columns = Columns(*arrays, *self._lists)  # type: ignore[arg-type] # in the order of its fields
        self._run = []
        for column in self._columns.values():
            column.clear()
        self._note_words()
        if max(map(len, self._lists)) > _MOST_TEXTS:
            self._forget()
        return columns

    def words(self) -> Columns:
        """No events: the categories there were, and the first names and ids."""
        categories, names, ids = map(list, self._words)
        return replace(EventBuilder().columns(), categories=categories, names=names, ids=ids)

    def _note_words(self) -> None:
        _, *lists = self._lists
        lengths = list(map(len, lists))
        if lengths == self._noted:  # as it is for most runs
            return
        self._noted = lengths
        for kept, texts in zip(self._words, lists, strict=True):
            if len(kept) < _WORDS_KEPT:
                kept.update(dict.fromkeys(texts[:_WORDS_KEPT]))

    def _forget(self) -> None:
        self._new_tables()
        self._lists = [[] for _ in (*self._tables, self._ids)]


class _FreshScan:
    """A `Scan` that is another one when it holds many texts."""

    def __init__(self, first: Scan) -> None:
        self._scan = first

    @classmethod
    def new(cls) -> _FreshScan | None:
        first = scan()
        return None if first is None else cls(first)

    def events(self, text: bytes, *, is_last: bool) -> Scanned | None:
        """As `Scan.events`."""
        if self._scan.count() > _MOST_TEXTS:
            self._scan = scan() or self._scan
        return self._scan.events(text, is_last=is_last)
