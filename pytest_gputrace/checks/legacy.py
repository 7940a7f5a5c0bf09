"""The legacy file: is it, byte for byte, what the last writer put there?

Several workers share its name and write at the same time, so "the last one" is a set: every write that could have
come last. Which writes there were is told by the exporters' results; without them only equality with a kept file can
be seen, and that is said.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_gputrace.checks.verdict import Check, error, listed, nothing_looked_at
from pytest_gputrace.model import Finding, Severity

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from pytest_gputrace.checks.reading import Reading
    from pytest_gputrace.model import Capture

__all__ = ["LegacyCheck", "LegacyWrite", "legacy"]


@dataclass(frozen=True)
class LegacyWrite:
    """One write of a legacy file, by one process.

    ``started_ns`` and ``ended_ns`` lie around it, on a clock all writers share; ``None`` where nobody knows. A writer
    that died may have written or not: its ``digest`` is ``None`` and ``capture`` says what it would have written.
    """

    path: Path
    digest: str | None
    started_ns: int | None = None
    ended_ns: int | None = None
    capture: Capture | None = None


@dataclass(frozen=True)
class LegacyCheck(Check):
    """``equal`` legacy files are the copy of a capture; ``proved``: of one that can have been written last."""

    equal: int = 0
    proved: bool = False


def legacy(readings: Sequence[Reading], writes: Sequence[LegacyWrite] | None = None) -> LegacyCheck:
    """GT109: each legacy file is the copy of the last capture that was written to it.

    Args:
        readings: the files of a folder, legacy ones and others.
        writes: every write there was, in any order. Without them, a legacy file must equal one of the other files.
    """
    files = [reading for reading in readings if reading.legacy]
    if writes:
        return _by_writes(files, writes)
    # An empty or broken copy of an empty or broken file is nobody's capture.
    own = {reading.sha256 for reading in readings if not reading.legacy and _is_whole(reading)}
    if not files:
        return LegacyCheck("legacy", 0, (nothing_looked_at("legacy", "legacy files"),))
    if not own:
        finding = nothing_looked_at("legacy", "other files to compare with", "pass the exporters' results")
        return LegacyCheck("legacy", 0, (finding,))
    advice = "no other file has its bytes; pass the exporters' results to see who wrote last"
    findings = tuple(_differs(reading, advice) for reading in files if reading.sha256 not in own)
    return LegacyCheck("legacy", len(files), findings, equal=len(files) - len(findings))


def _is_whole(reading: Reading) -> bool:
    return len(reading.captures) == 1 and reading.whole(reading.captures[0])


def _by_writes(files: Sequence[Reading], writes: Sequence[LegacyWrite]) -> LegacyCheck:
    by_path: dict[str, list[LegacyWrite]] = {}
    for write in writes:
        by_path.setdefault(os.path.realpath(write.path), []).append(write)
    there = {os.path.realpath(reading.path): reading for reading in files}
    findings = []
    for path, of_path in by_path.items():
        reading = there.get(path)
        if reading is not None:
            if not any(_left(reading, write) for write in _last(of_path)):
                findings.append(_differs(reading, _who(reading, of_path)))
        elif any(write.digest is not None for write in of_path):
            message = f"{os.path.basename(path)} was written {len(of_path)} times and is not there; who removed it?"
            findings.append(Finding("GT109", Severity.ERROR, message, file=path))
    unknown = "no export of this run wrote it; is it a file of an earlier run?"
    findings += [_differs(there[path], unknown) for path in sorted(there.keys() - by_path.keys())]
    looked_at = len(there.keys() | {path for path, some in by_path.items() if any(write.digest for write in some)})
    if looked_at == 0:
        return LegacyCheck("legacy", 0, (nothing_looked_at("legacy", "legacy files"),))
    return LegacyCheck("legacy", looked_at, tuple(findings), equal=looked_at - len(findings), proved=True)


def _last(writes: Sequence[LegacyWrite]) -> list[LegacyWrite]:
    """The writes that can have been the last: none is known to have begun after they ended."""
    starts = [write.started_ns for write in writes if write.digest is not None and write.started_ns is not None]
    latest = max(starts, default=0)
    return [write for write in writes if write.ended_ns is None or write.ended_ns >= latest]


def _left(reading: Reading, write: LegacyWrite) -> bool:
    """Whether ``write`` can have left this file."""
    if write.digest is not None:
        return write.digest == reading.sha256
    # The old format holds NaN as it is, so that alone says nothing against a copy.
    readable = all(finding.code == "GT204" or finding.severity is not Severity.ERROR for finding in reading.findings)
    return readable and reading.captures == [write.capture] and not reading.broken_marks()


def _who(reading: Reading, writes: Sequence[LegacyWrite]) -> str:
    if any(write.digest == reading.sha256 for write in writes):
        return "it has the bytes of a write that was not the last; did a later one fail to replace it?"
    if not reading.ok:
        return "it is broken; who else writes it?"
    if reading.captures:
        return f"it holds marks of {listed(map(str, reading.captures))}, but not the bytes any export wrote"
    return "it has the bytes of no export of this run; who else writes it?"


def _differs(reading: Reading, why: str) -> Finding:
    capture = reading.captures[0] if len(reading.captures) == 1 else None
    message = f"{reading.name} is not the copy of the last capture written: {why}"
    return error("GT109", message, capture, reading)
