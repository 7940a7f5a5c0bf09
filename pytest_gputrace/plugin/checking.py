"""What `gputrace_check` gives a test: the checks of the oracle as assertions."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_gputrace.checks import captures
from pytest_gputrace.checks.reading import find
from pytest_gputrace.checks.verdict import Check, nothing_looked_at
from pytest_gputrace.errors import SelectionError
from pytest_gputrace.fakes import Cluster, ClusterRun
from pytest_gputrace.fakes.snapshot import is_new
from pytest_gputrace.model import Severity
from pytest_gputrace.plugin.clusters import RecordedCluster
from pytest_gputrace.plugin.evidence import read_all, writes_of_results, writes_of_run
from pytest_gputrace.traces.search import Found

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pytest_gputrace.checks.captures import LegacyWrite, Reading
    from pytest_gputrace.fakes.snapshot import Snapshot
    from pytest_gputrace.model import Capture, Finding
    from pytest_gputrace.plugin.evidence import Evidence

__all__ = ["CheckFactory", "TraceCheck"]

_SHOWN = 20


class TraceCheck:
    """The files of a folder, read once, and checks of them that raise `AssertionError`; each returns the object.

    ``findings`` collects what the checks found so far, those that do not fail a test included.
    """

    def __init__(
        self,
        folders: Sequence[Path],
        expected: Sequence[Capture] | None,
        writes: list[LegacyWrite] | None,
        evidence: Evidence,
        *,
        before: Snapshot | None = None,
    ) -> None:
        self.folders = tuple(folders)
        self.findings: list[Finding] = []
        self._expected = None if expected is None else list(expected)
        self._writes = writes
        self._evidence = evidence
        self._before = before or {}
        self._readings: list[Reading] | None = None

    @property
    def readings(self) -> list[Reading]:
        """The files, as they were at the first look; of a run, those that it made or changed."""
        if self._readings is None:
            self._readings = [each for each in read_all(self.folders) if is_new(each.path, self._before)]
        return self._readings

    @property
    def kept(self) -> int:
        """How many captures a file of their own keeps: of the expected ones, or of all where none are told."""
        return len(captures.judge(self.readings, self._expected).kept)

    def valid(self) -> TraceCheck:
        """Every file is strict JSON: what one reader reads in it, all do."""
        __tracebackhide__ = True
        return self._hold(captures.valid(self.readings))

    def finite(self) -> TraceCheck:
        """No file holds NaN, an infinity, or a number beyond a double."""
        __tracebackhide__ = True
        return self._hold(captures.finite(self.readings))

    def distinct(self) -> TraceCheck:
        """Every file with marks holds one capture, whole, and no two files hold the same."""
        __tracebackhide__ = True
        return self._hold(captures.distinct(self.readings))

    def complete(self, expected: Sequence[Capture] | None = None, *, others: bool = False) -> TraceCheck:
        """Every expected capture has a file of its own, and nothing else is there.

        Args:
            expected: what must be there; that of the cluster or of `gputrace_check` when left out.
            others: allow files that were not expected too, such as those of an earlier run.
        """
        __tracebackhide__ = True
        wanted = self._expected if expected is None else list(expected)
        if wanted is None:
            raise pytest.UsageError("complete: which captures are expected? Pass expected=[Capture(...), ...]")
        self._evidence.checked(self.folders, wanted, self.readings, self._writes)
        return self._hold(captures.complete(self.readings, wanted, others=others))

    def legacy(self, results: ClusterRun[Any] | Iterable[Any] | None = None) -> TraceCheck:
        """Every legacy file is the copy of the last capture that was written to it.

        Args:
            results: what the exports returned, in any order, or the cluster's run; known already where the check is
                of a run. Without any, each legacy file must equal one of the other files.
        """
        __tracebackhide__ = True
        writes = self._writes
        if isinstance(results, ClusterRun):
            writes = writes_of_run(results)
        elif results is not None:
            writes = writes_of_results(results)
            if not writes:
                raise pytest.UsageError("legacy: none of the results tells a legacy file and its digest")
            self._evidence.told(self.folders, self.readings, writes)
        return self._hold(captures.legacy(self.readings, writes))

    def clean(
        self,
        *,
        select: str | Sequence[str] = (),
        ignore: str | Sequence[str] = (),
        expect_ranks: int | None = None,
        expect_gpu: bool = False,
    ) -> TraceCheck:
        """No rule of `gputrace check` finds an error in a file, or in the files as a set; warnings are allowed.

        Args:
            select: codes of rules, or their beginnings (``GT3``); all when left out.
            ignore: codes to leave out of these.
            expect_ranks: how many ranks each recording must have.
            expect_gpu: a trace without anything of a GPU is an error.
        """
        __tracebackhide__ = True
        from pytest_gputrace.checks.check import chosen_codes, judge  # numpy, which a check of marks does without
        from pytest_gputrace.checks.rule import Settings
        from pytest_gputrace.checks.rules import RULES
        from pytest_gputrace.report.findings import as_text

        try:
            settings = Settings(*chosen_codes(select, ignore), expect_ranks, expect_gpu)
        except SelectionError as error:
            raise pytest.UsageError(f"clean: {error}") from None
        found = [Found(path) for folder in self.folders for path in find(folder) if is_new(path, self._before)]
        if not found:
            return self._hold(Check("clean", 0, (nothing_looked_at("clean", "files"),)))
        report = judge(found, settings)
        self.findings += report.all_findings
        if not report.ok:
            raise AssertionError(f"clean: {report.count(Severity.ERROR)} found\n{as_text(report, RULES)}")
        return self

    def _hold(self, check: Check) -> TraceCheck:
        __tracebackhide__ = True
        self.findings += check.findings
        errors = [finding for finding in check.findings if finding.severity is Severity.ERROR]
        if errors:
            where = ", ".join(map(str, self.folders[:3])) + (", ..." if len(self.folders) > 3 else "")
            lines = [f"{check.name}: {len(errors)} found in {where}"]
            lines += [f"  {finding.code} {finding.message}" for finding in errors[:_SHOWN]]
            if len(errors) > _SHOWN:
                lines.append(f"  and {len(errors) - _SHOWN} more")
            raise AssertionError("\n".join(lines))
        return self


class CheckFactory:
    """Makes a `TraceCheck` of a folder, of a cluster, or of one run of it."""

    def __init__(self, evidence: Evidence) -> None:
        self._evidence = evidence

    def __call__(
        self,
        target: str | os.PathLike[str] | Cluster | ClusterRun[Any],
        expected: Sequence[Capture] | None = None,
    ) -> TraceCheck:
        """Look at ``target``; of a cluster or a run it is known what to expect, of a folder it is ``expected``."""
        if isinstance(target, ClusterRun):
            jobs = [outcome.job for outcome in target.outcomes]
            folders = list(dict.fromkeys(job.trace_dir for job in jobs))
            known = [job.capture(number) for job in jobs for number in range(job.rounds)]
            # A run knows its own files: those of an earlier one prove nothing about it.
            wanted = known if expected is None else expected
            return TraceCheck(folders, wanted, writes_of_run(target), self._evidence, before=target.before)
        if isinstance(target, Cluster):
            folders, known = target.trace_dirs, target.expected
            writes = target.writes if isinstance(target, RecordedCluster) else None
        else:
            return TraceCheck([_folder(target)], expected, None, self._evidence)
        return TraceCheck(folders, known if expected is None else expected, writes, self._evidence)


def _folder(target: object) -> Path:
    if not isinstance(target, str | os.PathLike):
        kind = type(target).__name__
        raise pytest.UsageError(f"gputrace_check: expected a folder, a cluster or its run, got {kind}: {target!r}")
    path = Path(target)
    if path.exists() and not path.is_dir():
        raise pytest.UsageError(f"gputrace_check: {path} is a file; pass the folder that holds the traces")
    return path
