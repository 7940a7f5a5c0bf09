"""What a check says: its findings, and at how many things it looked.

Holds the words that all checks of captures share; decides nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_gputrace.model import Capture, Finding, Severity

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pytest_gputrace.checks.reading import Reading

__all__ = ["Check", "Verdict", "error", "listed", "nothing_looked_at"]

_SHOWN = 3


@dataclass(frozen=True)
class Check:
    """What one check found, and at how many things it looked. ``ok`` is never true of a check that saw nothing."""

    name: str
    looked_at: int
    findings: tuple[Finding, ...]

    @property
    def ok(self) -> bool:
        """Whether there is no error."""
        return not any(finding.severity is Severity.ERROR for finding in self.findings)


@dataclass(frozen=True)
class Verdict:
    """All checks of a folder. ``kept`` and ``lost`` part the expected captures; without any, ``kept`` is what is there."""

    checks: tuple[Check, ...]
    kept: tuple[Capture, ...]
    lost: tuple[Capture, ...]

    @property
    def findings(self) -> tuple[Finding, ...]:
        """What the checks found, each thing once."""
        return tuple(dict.fromkeys(finding for check in self.checks for finding in check.findings))

    @property
    def ok(self) -> bool:
        """Whether every check looked at something and found no error."""
        return all(check.ok for check in self.checks)


def nothing_looked_at(name: str, things: str, advice: str = "is this the folder, did the exporter run?") -> Finding:
    """The finding of a check that had nothing to look at."""
    return Finding("GT100", Severity.ERROR, f"{name}: not checked, nothing was looked at: no {things}; {advice}")


def error(code: str, message: str, capture: Capture | None, reading: Reading | None = None) -> Finding:
    """An error about a capture, a file, or both."""
    return Finding(
        code=code,
        severity=Severity.ERROR,
        message=message,
        file=None if reading is None else str(reading.path),
        node=None if capture is None else capture.node,
        rank=None if capture is None else capture.rank,
    )


def listed(texts: Iterable[str]) -> str:
    """The first few of ``texts``, and how many more there are."""
    all_texts = list(texts)
    shown = ", ".join(all_texts[:_SHOWN])
    return shown if len(all_texts) <= _SHOWN else f"{shown} and {len(all_texts) - _SHOWN} more"
