"""What a check of files says: a report of each file, what the set of them shows, and what was passed over."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pytest_gputrace.model import Finding, Severity

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pytest_gputrace.traces.search import Ignored

__all__ = ["FileReport", "Progress", "Report"]


@dataclass(frozen=True)
class FileReport:
    """One file: what it is, and what was found in it.

    ``format`` is one of `pytest_gputrace.traces.Format`; ``rank`` and ``node`` are None where nothing tells them.
    ``looked_at`` says of each rule that ran at how many things it looked, ``not_checked`` which found none.
    """

    path: str
    format: str
    events: int
    gpu_events: int
    size_bytes: int
    rank: int | None = None
    node: str | None = None
    findings: tuple[Finding, ...] = ()
    looked_at: Mapping[str, int] = field(default_factory=dict)

    @property
    def not_checked(self) -> tuple[str, ...]:
        """The codes of the rules that found nothing to look at."""
        return tuple(code for code, count in self.looked_at.items() if not count)


@dataclass(frozen=True)
class Report:
    """All files, in the order they were found; ``findings`` are those of the files as a set."""

    files: tuple[FileReport, ...]
    findings: tuple[Finding, ...] = ()
    looked_at: Mapping[str, int] = field(default_factory=dict)
    ignored: tuple[Ignored, ...] = ()

    @property
    def not_checked(self) -> tuple[str, ...]:
        """The codes of the rules about sets that found nothing to look at."""
        return tuple(code for code, count in self.looked_at.items() if not count)

    @property
    def all_findings(self) -> list[Finding]:
        """Those of every file, then those of the set."""
        return [finding for file in self.files for finding in file.findings] + list(self.findings)

    def count(self, severity: Severity) -> int:
        """How many findings weigh that much."""
        return Counter(finding.severity for finding in self.all_findings)[severity]

    @property
    def ok(self) -> bool:
        """Whether every file was looked at and no error was found; warnings are allowed."""
        return bool(self.files) and not self.unseen and not self.count(Severity.ERROR)

    @property
    def unseen(self) -> list[FileReport]:
        """The files that no rule looked at, of those that were asked for."""
        if any(self.looked_at.values()):  # as a set they were
            return []
        return [file for file in self.files if not any(file.looked_at.values())]


@dataclass(frozen=True)
class Progress:
    """How far a check is: files and bytes on disk, and the file that is being read."""

    done_files: int
    files: int
    done_bytes: int
    bytes: int
    name: str
