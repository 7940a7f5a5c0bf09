"""The oracle: is there one valid, finite, whole file for every expected capture, and for nothing else?

It looks at the marks inside files and at bytes, never at names. Files with a legacy name are copies that the next
writer replaces: a capture counts as kept by one only in a folder that holds nothing else (an exporter that writes
nothing else). Each check says how many things it looked at; to have looked at nothing is an error of its own.

=====  =====================================================================================
GT100  nothing was looked at, so nothing was checked
GT2xx  not strict JSON, or not a trace, or a number that no double holds
GT103  no event, or no mark among the events: whose file is it?
GT104  marks of several captures in one file
GT105  half a capture in a file, or a mark twice
GT106  an expected capture that no file holds
GT107  one capture in several files
GT108  a capture that was not expected: a file of an earlier run?
GT109  a legacy file that is not the copy of the last capture written
=====  =====================================================================================
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_gputrace.checks.legacy import LegacyCheck, LegacyWrite, legacy
from pytest_gputrace.checks.reading import Reading, find, read, read_folder
from pytest_gputrace.checks.verdict import Check, Verdict, error, listed, nothing_looked_at

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pytest_gputrace.model import Capture, Finding

__all__ = [
    "Check",
    "LegacyCheck",
    "LegacyWrite",
    "Reading",
    "Verdict",
    "complete",
    "distinct",
    "find",
    "finite",
    "judge",
    "kept",
    "legacy",
    "read",
    "read_folder",
    "valid",
]


def judge(readings: Sequence[Reading], expected: Sequence[Capture] | None = None) -> Verdict:
    """Run every check; `complete` only where it is known what to expect."""
    checks = [valid(readings), finite(readings), distinct(readings)]
    there = kept(readings)
    if expected is None:
        return Verdict(tuple(checks), tuple(there), ())
    checks.append(complete(readings, expected))
    unique = dict.fromkeys(expected)
    return Verdict(
        tuple(checks),
        kept=tuple(capture for capture in unique if capture in there),
        lost=tuple(capture for capture in unique if capture not in there),
    )


def valid(readings: Sequence[Reading]) -> Check:
    """GT2xx: every file is JSON that all readers read, and the same in it."""
    counted = _counted(readings)
    return _check("valid", len(counted), "files", [finding for reading in counted for finding in reading.findings])


def finite(readings: Sequence[Reading]) -> Check:
    """GT204: every number is one that a double holds."""
    counted = _counted(readings)
    findings = [finding for reading in counted for finding in reading.findings if finding.code == "GT204"]
    return _check("finite", len(counted), "files", findings)


def distinct(readings: Sequence[Reading]) -> Check:
    """GT104, GT105, GT107: a file with marks holds one capture, whole, and no other file holds that too."""
    counted = [reading for reading in _counted(readings) if reading.marks]
    findings = [*_shared(counted), *_halves(counted)]
    for capture, holders in _holders(counted).items():
        if len(holders) > 1:
            names = listed(reading.name for reading in holders)
            what = (
                f"{capture} is in {len(holders)} files: {names}; was it exported twice, or an earlier run left there?"
            )
            findings.append(error("GT107", what, capture, holders[0]))
    return _check("distinct", len(counted), "files with marks", findings)


def complete(readings: Sequence[Reading], expected: Sequence[Capture], *, others: bool = False) -> Check:
    """GT103 to GT106, GT108: every expected capture is kept by a file of its own, and nothing else is there.

    Args:
        readings: the files of a folder.
        expected: what must be there. None expected is an error: nothing would be checked.
        others: allow files without marks and captures that are not expected, such as those of an earlier run.
    """
    counted = _counted(readings)
    there = set(kept(readings))
    findings = [*_shared(counted), *_halves(counted)]
    findings += [
        error("GT106", f"no file holds {capture}: {_trace_of(capture, readings)}", capture)
        for capture in dict.fromkeys(expected)
        if capture not in there
    ]
    if not others:
        findings += [finding for reading in counted for finding in _unknown(reading, set(expected))]
    return _check("complete", len(set(expected)), "expected captures", findings)


def kept(readings: Sequence[Reading]) -> list[Capture]:
    """The captures that a file of their own holds whole, valid and finite; in the order of the files."""
    counted = _counted(readings)
    found = [reading.captures[0] for reading in counted if reading.marks and reading.whole(reading.captures[0])]
    return list(dict.fromkeys(found))


def _check(name: str, looked_at: int, things: str, findings: list[Finding]) -> Check:
    if looked_at == 0:
        findings = [nothing_looked_at(name, things), *findings]
    return Check(name, looked_at, tuple(findings))


def _counted(readings: Sequence[Reading]) -> list[Reading]:
    """The files that can keep a capture: all but legacy copies, or all where there is nothing else."""
    own = [reading for reading in readings if not reading.legacy]
    return own or list(readings)


def _holders(readings: Iterable[Reading]) -> dict[Capture, list[Reading]]:
    holders: dict[Capture, list[Reading]] = {}
    for reading in readings:
        for capture in reading.captures:
            holders.setdefault(capture, []).append(reading)
    return holders


def _shared(readings: Iterable[Reading]) -> list[Finding]:
    return [
        error(
            "GT104",
            f"{reading.name} holds marks of {len(reading.captures)} captures ({listed(map(str, reading.captures))}); "
            "did two workers write one file?",
            None,
            reading,
        )
        for reading in readings
        if len(reading.captures) > 1
    ]


def _halves(readings: Iterable[Reading]) -> list[Finding]:
    """Files that are broken are passed over: that half of the capture is missing there is no wonder."""
    return [
        error(
            "GT105",
            f"{reading.name} holds {broken} of {reading.captures[0]}; was it cut and mended, or written twice?",
            reading.captures[0],
            reading,
        )
        for reading in readings
        if reading.ok and len(reading.captures) == 1 and (broken := reading.broken_marks())
    ]


def _unknown(reading: Reading, expected: set[Capture]) -> list[Finding]:
    if not reading.marks:
        if not reading.ok:
            return []  # why is said by the finding about the file
        what = f"none of its {reading.events} events is a mark" if reading.events else "it has no event"
        message = f"{reading.name}: {what}, so nothing proves which capture it holds"
        return [error("GT103", message, None, reading)]
    return [
        error(
            "GT108",
            f"{reading.name} holds {capture}, which was not expected; is it a file of an earlier run?",
            capture,
            reading,
        )
        for capture in reading.captures
        if capture not in expected
    ]


def _trace_of(capture: Capture, readings: Sequence[Reading]) -> str:
    """What is left of a lost capture."""
    holders = _holders(readings).get(capture)
    if not holders:
        return "none of its marks is anywhere; it was never written, or another capture took its place"
    broken = [reading for reading in holders if not reading.ok and not reading.legacy]
    own = [reading for reading in holders if not reading.legacy]
    if broken:
        return f"{listed(reading.name for reading in broken)} does not, being broken"
    if own:
        return f"{listed(reading.name for reading in own)} has it in part, or together with another one"
    return f"only the legacy file {listed(reading.name for reading in holders)} has it, which the next writer replaces"
