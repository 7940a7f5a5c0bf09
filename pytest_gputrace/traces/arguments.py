"""The arguments of chosen events, decoded from the file when they are asked for."""

from __future__ import annotations

import bisect
import itertools
from array import array
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import msgspec

from pytest_gputrace.traces.blocks import Blocks
from pytest_gputrace.traces.hatchet import metrics_of
from pytest_gputrace.traces.mending import items

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from pytest_gputrace.traces.columns import Columns
    from pytest_gputrace.traces.records import Records

__all__ = ["Runs", "Source", "arguments", "run_texts"]


def _integers() -> array[int]:
    return array("q")


@dataclass
class Runs:
    """Where the runs of events are: the first event of each, where its text begins, how long it is."""

    rows: array[int] = field(default_factory=_integers)
    starts: array[int] = field(default_factory=_integers)
    sizes: array[int] = field(default_factory=_integers)

    def add(self, row: int, start: int, size: int) -> None:
        """Remember a run."""
        self.rows.append(row)
        self.starts.append(start)
        self.sizes.append(size)


@dataclass(frozen=True)
class Source:
    """Where the events of a file came from, and how the file looked then."""

    path: Path
    stamp: tuple[int, int, int]
    runs: Runs
    records: Records | None

    @staticmethod
    def stamp_of(status: os.stat_result) -> tuple[int, int, int]:
        """What tells that a file is another one, or was written to."""
        return status.st_ino, status.st_size, status.st_mtime_ns

    def changed(self) -> ValueError:
        """The error for a file that is not as it was."""
        return ValueError(f"{self.path}: not as it was when it was opened; was it written to? Open it again")


def arguments(source: Source, columns: Columns, rows: Sequence[int]) -> Iterator[tuple[int, dict[str, Any]]]:
    """The arguments of the events at ``rows``, each once, in the order of the file."""
    wanted = sorted({int(row) for row in rows})
    if wanted and not 0 <= wanted[0] <= wanted[-1] < len(columns):
        raise IndexError(f"rows {wanted[0]} to {wanted[-1]} of {len(columns)} events")
    if source.stamp_of(source.path.stat()) != source.stamp:
        raise source.changed()
    return _of_tree(source, columns, wanted) if source.records is None else _of_runs(source, columns, wanted)


def run_texts(source: Source, *, progress: Callable[[int], None] | None = None) -> Iterator[bytes]:
    """The text of each run of events, again.

    Raises:
        OSError: the file cannot be read.
        ValueError: the file has changed since it was opened.
    """
    if source.stamp_of(source.path.stat()) != source.stamp:
        raise source.changed()
    text = _Text(source, progress)
    for start, size in zip(source.runs.starts, source.runs.sizes, strict=True):
        yield text.part(start, size)


def _of_tree(source: Source, columns: Columns, wanted: list[int]) -> Iterator[tuple[int, dict[str, Any]]]:
    if not wanted:
        return
    metrics = metrics_of(b"".join(Blocks(source.path)))
    if len(metrics) != len(columns):
        raise source.changed()
    for row in wanted:
        yield row, metrics[row]


def _of_runs(source: Source, columns: Columns, wanted: list[int]) -> Iterator[tuple[int, dict[str, Any]]]:
    assert source.records is not None
    runs = source.runs
    text = _Text(source)
    for run, group in itertools.groupby(wanted, lambda row: bisect.bisect_right(runs.rows, row) - 1):
        records = _records(text.part(runs.starts[run], runs.sizes[run]))
        end = runs.rows[run + 1] if run + 1 < len(runs.rows) else len(columns)
        if len(records) < end - runs.rows[run]:
            raise source.changed()
        for row in group:
            record = _value(records[row - runs.rows[run]])
            name = record.get("name", "") if isinstance(record, dict) else ""
            if isinstance(name, str) and name != columns.names[columns.name[row]]:
                raise source.changed()
            yield row, source.records.arguments(record)


class _Text:
    """The text of a file, of which parts are taken from the front to the back."""

    def __init__(self, source: Source, progress: Callable[[int], None] | None = None) -> None:
        self._source = source
        self._blocks = iter(Blocks(source.path, progress=progress))
        self._start, self._held = 0, b""

    def part(self, start: int, size: int) -> bytes:
        """The ``size`` bytes from ``start`` on."""
        while self._start + len(self._held) <= start:
            self._start += len(self._held)
            self._held = self._next()
        parts = [self._held[start - self._start :]]
        held = len(parts[0])
        while held < size:
            self._start += len(self._held)
            self._held = self._next()
            parts.append(self._held)
            held += len(self._held)
        return b"".join(parts)[:size]

    def _next(self) -> bytes:
        block = next(self._blocks, b"")
        if not block:
            raise self._source.changed()
        return block


def _records(text: bytes) -> list[Any]:
    try:
        records: list[Any] = msgspec.json.decode(b"[" + text + b"]", type=list[msgspec.Raw])
    except (msgspec.DecodeError, RecursionError):
        records = items(text, len(text))
    return records


def _value(record: Any) -> Any:
    if not isinstance(record, msgspec.Raw):
        return record
    try:
        return msgspec.json.decode(record)
    except (msgspec.DecodeError, RecursionError):
        return items(bytes(record))[0]
