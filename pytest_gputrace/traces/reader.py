"""Reads the text of a trace, piece by piece: its records go into columns, and what is wrong with it is noted, once a kind.

The strict reader judges what the quick look suspects; it gets one run at a time, and what it says is told of the file.
"""

from __future__ import annotations

import bisect
import json
import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from pytest_gputrace.traces.arguments import Runs
from pytest_gputrace.traces.compiled import Scanned
from pytest_gputrace.traces.judging import judge, stop_of
from pytest_gputrace.traces.mending import items, lenient
from pytest_gputrace.traces.pieces import NoEvents, Pieces, Unreadable
from pytest_gputrace.traces.scanner import Problem
from pytest_gputrace.traces.skim import item_ends
from pytest_gputrace.traces.suspicion import Look
from pytest_gputrace.traces.tally import COUNTED, tally

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pytest_gputrace.traces.compiled import Scan
    from pytest_gputrace.traces.pieces import Run
    from pytest_gputrace.traces.records import Odd, Records
    from pytest_gputrace.traces.scanner import Kind

__all__ = ["Problems", "Reader"]

_WHERE = re.compile(r"event (?P<event>\d+)(?:, after event (?P<after>\d+))?|after event (?P<last>\d+)")
_SHOWN = 80
# After so many more of one kind they are counted only.
_MANY = 100
_ESCAPE = re.compile(r"\\(.)")
_SPELLED = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}


def _is_nameless(record: Any) -> bool:
    """Whether it may have neither a name nor a phase."""
    if isinstance(record, msgspec.Struct):
        return not getattr(record, "name", "") and not getattr(record, "ph", "")
    texts = (record.get("name"), record.get("ph")) if isinstance(record, dict) else ()
    return not any(isinstance(text, str) for text in texts)


class _Named(NamedTuple):
    """An event with a name: its row, and the name."""

    row: int
    name: str


_NOBODY = _Named(0, "")


class Problems:
    """Problems of one text, the first of each kind, with how many more there are like it."""

    def __init__(self) -> None:
        self._first: dict[Kind, Problem] = {}

    def __contains__(self, kind: Kind) -> bool:
        return kind in self._first

    def __iter__(self) -> Iterator[Problem]:
        return iter(sorted(self._first.values(), key=lambda problem: problem.byte))

    def add(self, problems: Iterable[Problem]) -> None:
        """Note what was found."""
        for problem in problems:
            first = self._first.setdefault(problem.kind, problem)
            if first is not problem:
                more = first.more + problem.more + 1
                self._first[problem.kind] = replace(min(first, problem, key=lambda one: one.byte), more=more)

    def count(self, text: bytes) -> bool:
        """Count what is wrong with some events, where it is known well enough; false where it is not."""
        many = {kind for kind in COUNTED & self._first.keys() if self._first[kind].more >= _MANY}
        found = tally(text) if many else None
        if found is None or not found.keys() <= many:
            return False
        for kind, count in found.items():
            self._first[kind] = replace(self._first[kind], more=self._first[kind].more + count)
        return True

    def pop(self, kind: Kind) -> Problem | None:
        """Take back what was noted of one kind."""
        return self._first.pop(kind, None)


class Reader:
    """Puts a trace together from its pieces, and judges each."""

    def __init__(self, pieces: Pieces, records: Records, scan: Scan | None = None) -> None:
        self.problems = Problems()
        self.metadata: dict[str, Any] = {}
        self.runs = Runs()
        self._pieces = pieces
        self.records = records
        self._look = Look()
        self._scan = scan
        self._named = _NOBODY

    @property
    def _count(self) -> int:
        return self.records.builder.count

    def read(self) -> None:
        """Read the events and what stands around them.

        Raises:
            NoEvents: what stands before the list of events is broken.
        """
        head = self._pieces.head
        if not self._pieces.is_list and stop_of(judge(head + b"[]}")) is not None:
            raise NoEvents(head)
        try:
            for run in self._pieces.runs(self.records.decode, self._scan):
                self._take(run)
            self._surroundings()
            return
        except Unreadable as broken:
            self._break(broken.text, broken.byte)
        if not self._pieces.is_list:
            self.problems.add(judge(head + b"[]}"))
            self._keep(head + b"[]}")

    def _take(self, run: Run) -> None:
        """Judge a run and add it to the columns.

        Raises:
            Unreadable: its grammar is broken.
        """
        records = run.records
        if isinstance(records, Scanned):  # there is nothing to judge
            if (named := records.last_named()) is not None:
                self._named = _Named(self._count + named[0], named[1])
            self.runs.add(self._count, run.byte, records.size)
            self.records.builder.add_scanned(records)
            return
        if records is None and self.problems.count(run.text):
            records = items(run.text)
        elif records is None:
            found = self._strictly(run.text)
            if stop_of(found) is not None:
                raise self._pieces.unreadable()
            records = items(run.text)
            self._note([_deep(one, run.text, records, self._ghosts) for one in found], run.byte)
        else:
            self._judge(run, records)
        self._add(records, run.text, run.byte)

    def _judge(self, run: Run, records: list[Any]) -> None:
        if any(map(_is_nameless, records)):  # what is no event is told by the strict reader alone
            if not self.problems.count(run.text):
                self._note(self._strictly(run.text), run.byte)
            return
        suspects = self._look.suspects(run.text, len(records))
        if len(suspects) > _MANY and self.problems.count(run.text):
            return
        for suspect in suspects:
            named = self._last_named(records[: suspect.event])
            found = self._strictly(run.text[suspect.start : suspect.stop], named, ghost=self._count + suspect.event > 0)
            if found:
                self._note(found, run.byte + suspect.start, suspect.event, named)
            else:
                self._look.learn(suspect)

    def _break(self, text: bytes, byte: int) -> None:
        """Note where the grammar breaks or the text ends within ``text``, and keep the events before."""
        found = self._strictly(text, end=b"")
        self._note(found, byte)
        stop = stop_of(found)
        until = len(text) if stop is None else stop
        self._add(items(text, until), text[:until], byte)

    def _strictly(
        self, text: bytes, named: _Named | None = None, *, ghost: bool | None = None, end: bytes | None = None
    ) -> list[Problem]:
        """What the strict reader finds in ``text``, some events, at bytes of it; ``named`` is the last before with a name."""
        there = bool(self._count) if ghost is None else ghost
        before = b"[" if self._pieces.is_list else b'{"traceEvents": ['
        before += _ghost(named or self._named) + b"," if there else b""
        after = (b"]" if self._pieces.is_list else b"]}") if end is None else end
        return [replace(one, byte=one.byte - len(before)) for one in judge(before + text + after)]

    @property
    def _ghosts(self) -> int:
        return 1 if self._count else 0

    def _note(self, found: list[Problem], byte: int, ahead: int = 0, named: _Named | None = None) -> None:
        """Note what was found in a text at ``byte``, ``ahead`` events after those in the columns, as told of the whole file."""
        shift = max(0, self._count + ahead - 1)
        self.problems.add(
            replace(
                problem,
                byte=problem.byte + byte,
                event=None if problem.event is None else problem.event + shift,
                where=_shifted(problem.where, shift, (named or self._named).row),
            )
            for problem in found
        )

    def _last_named(self, records: list[Any]) -> _Named:
        """The last event with a name, of some that follow those in the columns, or else of these."""
        for row in range(len(records) - 1, -1, -1):
            if name := _name(records[row]):
                return _Named(self._count + row, name)
        return self._named

    def _add(self, records: list[Any], text: bytes, byte: int) -> None:
        first, named = self._count, self._last_named(records)
        odd = self.records.add(records)
        if odd:
            self._note_types(odd, records, text, byte, first)
        if records:
            self.runs.add(first, byte, len(text))
            self._named = named

    def _note_types(self, odd: list[Odd], records: list[Any], text: bytes, byte: int, first: int) -> None:
        row, what = odd[0]
        index = row - first
        ends = item_ends(text)[0]
        start = ends[index - 1] + 1 if index else 0
        start += len(text) - start - len(text[start:].lstrip())
        where = _event(row, records[index])
        self.problems.add([Problem("type", what, byte + start, row, where, len(odd) - 1)])

    def _surroundings(self) -> None:
        """Judge and keep what stands around the list of events."""
        pieces = self._pieces
        ghost = _ghost(self._named) if self._count else b""
        before = pieces.head + b"[" + ghost + (b"]" if pieces.closed else b"")
        text = before + pieces.tail
        found = judge(text)
        shift = max(0, self._count - 1)
        self.problems.add(
            replace(
                one, byte=one.byte + pieces.tail_byte - len(before), where=_shifted(one.where, shift, self._named.row)
            )
            if one.byte >= len(before)
            else one
            for one in found
        )
        if not pieces.is_list:
            self._keep(text, pieces.head + b"[]}")

    def _keep(self, *texts: bytes) -> None:
        """Keep the root without its events, from the first text that can be read."""
        for text in texts:
            try:
                self.metadata = lenient(text)
            except (ValueError, RecursionError):
                continue
            del self.metadata["traceEvents"]
            return


def _deep(problem: Problem, text: bytes, records: list[Any], ghosts: int) -> Problem:
    """A problem with its event: of what is nested too deep the strict reader tells the place alone."""
    if problem.kind != "deep":
        return problem
    index = bisect.bisect_right(item_ends(text)[0], problem.byte)
    return replace(problem, event=ghosts + index, where=_event(ghosts + index, records[index]))


def _event(number: int, record: Any) -> str:
    name = record.get("name") if isinstance(record, dict) else None
    return f"event {number} ({json.dumps(name[:_SHOWN])})" if isinstance(name, str) else f"event {number}"


def _name(record: Any) -> str:
    name = record.get("name") if isinstance(record, dict) else getattr(record, "name", "")
    return name if isinstance(name, str) else ""


def _ghost(named: _Named) -> bytes:
    """What the strict reader gets in place of the events before: one, with the name of the last that has one."""
    if named is _NOBODY:
        return b'{"ph": ""}'
    text = json.dumps({"name": named.name})
    # Spelled so that it looks like no Windows path, which that event was judged for.
    return _ESCAPE.sub(lambda m: f"\\u{ord(_SPELLED[m[1]]):04x}" if m[1] in _SPELLED else m[0], text).encode()


def _shifted(where: str, shift: int, ghost: int) -> str:
    """``where``, which begins with numbers of events, with these moved on; 0 is the event ``ghost``."""
    match = _WHERE.match(where)
    if match is None or not shift:
        return where
    text = re.sub(r"\d+", lambda digits: str(int(digits[0]) + shift if int(digits[0]) else ghost), match[0])
    return text + where[match.end() :]
