"""One trace file, of any exporter, read for what it proves: is it strict JSON, and whose marks does it hold.

A name is never trusted. Which capture a file holds is told by the marks among its event names. Reading never raises:
whatever is wrong with a file is a finding.
"""

from __future__ import annotations

import hashlib
import itertools
from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pytest_gputrace.checks.text import CODES, UNREADABLE_CODE
from pytest_gputrace.model import Capture, Finding, Mark, Severity
from pytest_gputrace.naming import is_legacy_name
from pytest_gputrace.traces.blocks import Blocks
from pytest_gputrace.traces.search import search
from pytest_gputrace.traces.strict import Document, EventName, Problem, parse

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

__all__ = ["Reading", "find", "read", "read_folder"]

_STEP_BYTES = 1 << 20
# A range that covers GPU work is written twice by torch: the second one lies on the GPU's timeline. And a range may be
# written as a begin and an end.
_COPY_CATEGORY = "gpu_user_annotation"
_ENDS = ("E", "e")


_SHOWN = 8


@dataclass(frozen=True)
class Reading:
    """What one file holds.

    ``name`` is the path as messages show it, ``events`` the number of events, ``marks`` every mark in file order (of
    a broken file: of the part that could be read), ``sha256`` of the file's bytes (empty where it cannot be read),
    ``legacy`` whether its name has the legacy form.
    """

    path: Path
    name: str
    findings: tuple[Finding, ...]
    events: int
    marks: tuple[Mark, ...]
    sha256: str
    legacy: bool

    @property
    def ok(self) -> bool:
        """Whether every reader will read this file, and the same in it."""
        return not any(finding.severity is Severity.ERROR for finding in self.findings)

    @property
    def captures(self) -> list[Capture]:
        """The captures whose marks are here, in order of appearance."""
        return list(dict.fromkeys(mark.capture for mark in self.marks))

    def whole(self, capture: Capture) -> bool:
        """Whether this file is readable, holds each mark of ``capture`` once, and no mark of another one."""
        return self.ok and self.captures == [capture] and not self.broken_marks()

    def broken_marks(self) -> str:
        """In words, what is wrong with the marks of a file that holds those of one capture; empty when nothing is."""
        totals = {mark.total for mark in self.marks}
        if len(totals) > 1:
            return f"marks that disagree on how many there are ({', '.join(map(str, sorted(totals)))})"
        total = totals.pop()
        seen = Counter(mark.index for mark in self.marks)
        inside = sum(index < total for index in seen)
        # A damaged mark may claim any total: name the first that are missing, never make a list of all.
        missing = list(itertools.islice((i for i in range(total) if i not in seen), _SHOWN)) if inside < total else []
        twice = sorted(index for index, count in seen.items() if count > 1)
        beyond = sorted(index for index in seen if index >= total)
        parts = []
        if missing:
            parts.append(f"{inside} of {total} marks (missing: {_numbers(missing, total - inside)})")
        if twice:
            parts.append(f"a mark more than once (number {_numbers(twice, len(twice))})")
        if beyond:
            parts.append(f"a mark beyond the last (number {_numbers(beyond, len(beyond))} of {total})")
        return " and ".join(parts)


def find(folder: Path) -> list[Path]:
    """Every trace file below ``folder``, sorted; `pytest_gputrace.traces.search.search` says which those are."""
    return [found.path for found in search([folder])[0]] if folder.exists() else []


def read_folder(folder: Path, *, root: Path | None = None) -> list[Reading]:
    """Read every file that `find` finds; messages name each by its path below ``root``, ``folder`` when left out."""
    return [read(path, name=str(path.relative_to(root or folder))) for path in find(folder)]


def read(path: Path, *, name: str | None = None) -> Reading:
    """Read one file; ``name`` is how messages call it, its last part when left out."""
    label = path.name if name is None else name
    legacy = is_legacy_name(path.name)
    try:
        blocks = Blocks(path)
        text = b"".join(blocks)
        sha256 = _sha256(path)
    except OSError as error:
        finding = _finding(Problem("grammar", f"cannot be read: {error.strerror or error}", 0), path, label, [])
        return Reading(path, label, (replace(finding, code=UNREADABLE_CODE),), 0, (), "", legacy)
    document = _parse(text, blocks.problems, blocks.members)
    marks = tuple(_marks(document.names))
    findings = tuple(_finding(problem, path, label, marks) for problem in document.problems)
    return Reading(path, label, findings, document.events, marks, sha256, legacy)


def _sha256(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while data := file.read(_STEP_BYTES):
            digest.update(data)
    return digest.hexdigest()


def _parse(text: bytes, problems: list[Problem], members: list[int]) -> Document:
    """The document in ``text``, its problems joined to those of the compression around it."""
    if problems and not text:
        return Document(problems)
    document = parse(text.decode("utf-8", "surrogateescape"))
    found = []
    for problem in document.problems:
        if problem.kind == "second" and problem.byte in members:
            more = "every member of this gzip file holds a document of its own: did each rank append its stream?"
            found.append(Problem(problem.kind, f"{problem.message}; {more}", problem.byte, None, problem.where))
        elif not (problems and problem.kind == "cut"):  # cut with the stream around it: said once
            found.append(problem)
    places = [problem for problem in document.problems if problem.kind == "cut"]
    for problem in problems:
        event, where = (places[0].event, places[0].where) if places else (None, "")
        found.insert(0, Problem(problem.kind, problem.message, problem.byte, event, where))
    document.problems = found
    return document


def _marks(names: list[EventName]) -> Iterator[Mark]:
    for name, category, phase in names:
        if name is not None and category != _COPY_CATEGORY and phase not in _ENDS and (mark := Mark.parse(name)):
            yield mark


def _finding(problem: Problem, path: Path, label: str, marks: tuple[Mark, ...] | list[Mark]) -> Finding:
    captures = {mark.capture for mark in marks}
    capture = captures.pop() if len(captures) == 1 else None
    owner = "" if capture is None else f" ({capture})"
    place = f"byte {problem.byte}" + (f", {problem.where}" if problem.where else "")
    more = f" ({problem.more} more like it)" if problem.more else ""
    return Finding(
        code=CODES[problem.kind],
        severity=Severity.WARNING if problem.kind == "path" else Severity.ERROR,
        message=f"{label}{owner}: {place}: {problem.message}{more}",
        file=str(path),
        node=None if capture is None else capture.node,
        rank=None if capture is None else capture.rank,
        event=problem.event,
        byte=problem.byte,
    )


def _numbers(numbers: list[int], count: int) -> str:
    shown = ", ".join(map(str, numbers[:_SHOWN]))
    return shown if count <= _SHOWN else f"{shown} and {count - _SHOWN} more"
