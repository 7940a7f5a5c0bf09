"""What one test ran and expected, and its conversion to builtins: the one place where either becomes the other.

Judges folders when asked. Knows no pytest object; where evidence is kept and how it travels is not its business.
"""

from __future__ import annotations

import contextlib
import json
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_gputrace.checks.captures import LegacyWrite, judge, legacy, read_folder
from pytest_gputrace.model import Capture, Severity

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pytest_gputrace.checks.reading import Reading
    from pytest_gputrace.fakes import ClusterRun
    from pytest_gputrace.report.captures import CaptureData, ClusterRecord, ItemRecord

__all__ = [
    "MANIFEST",
    "Entry",
    "Evidence",
    "encodable",
    "read_all",
    "read_manifest",
    "writes_of_results",
    "writes_of_run",
]

MANIFEST = "gputrace-test.json"


@dataclass
class Entry:
    """One cluster, or one folder that was checked for completeness.

    ``folders`` hold the traces; ``writes`` is ``None`` while nobody told who wrote the legacy files.
    """

    label: str
    folders: tuple[Path, ...]
    expected: tuple[Capture, ...]
    faults: tuple[str, ...] = ()
    writes: list[LegacyWrite] | None = None
    failed: list[str] = field(default_factory=list)
    workers: int = 0
    node_identity: str = ""
    judged: ClusterRecord | None = None

    def judge(self, readings: Sequence[Reading] | None = None) -> ClusterRecord:
        """Say what was kept, by ``readings`` or by the folders as they are now."""
        if readings is None:
            readings = read_all(self.folders)
        verdict = judge(readings, self.expected)
        copies = legacy(readings, self.writes)
        # A folder without legacy files is no fault of anybody; a summary says "not checked" and that is all.
        findings = [*verdict.findings, *(copies.findings if copies.looked_at else ())]
        self.judged = {
            "label": self.label,
            "folder": str(_common(self.folders)),
            "expected": [_capture_data(capture) for capture in self.expected],
            "kept": len(verdict.kept),
            "lost": [str(capture) for capture in verdict.lost],
            "findings": [
                {"code": finding.code, "message": finding.message}
                for finding in findings
                if finding.severity is not Severity.INFO and finding.code != "GT100"
            ],
            "unchecked": [check.name for check in verdict.checks if not check.looked_at],
            "legacy": {
                "there": sum(reading.legacy for reading in readings),
                "looked_at": copies.looked_at,
                "equal": copies.equal,
                "proved": copies.proved,
            },
            "faults": list(self.faults),
            "failed": list(self.failed),
            "workers": self.workers,
            "node_identity": self.node_identity,
        }
        return self.judged


@dataclass
class Evidence:
    """What one test left to be judged.

    ``worker`` is the xdist worker that runs it, empty without xdist; ``kept`` whether anybody will ask; ``folder`` the
    test's own, where there is one.
    """

    test: str
    worker: str = ""
    kept: bool = True
    folder: Path | None = None
    entries: list[Entry] = field(default_factory=list)

    def begin(self, entry: Entry) -> None:
        """Note a cluster before it runs, on disk as well: who is killed in the middle leaves what was expected."""
        self.entries.append(entry)
        if self.kept and self.folder is not None:
            _write_manifest(self.folder, self)

    def checked(
        self,
        folders: Sequence[Path],
        expected: Sequence[Capture],
        readings: Sequence[Reading],
        writes: list[LegacyWrite] | None,
    ) -> None:
        """Note a check for completeness, with what it saw; a cluster that is known already is not told twice."""
        wanted = set(expected)
        known = any(
            set(entry.folders) == set(folders) and entry.workers and wanted <= set(entry.expected)
            for entry in self.entries
        )
        if self.kept and not known:
            entry = Entry("", tuple(folders), tuple(dict.fromkeys(expected)), writes=writes)
            entry.judge(readings)
            self.entries.append(entry)

    def told(self, folders: Sequence[Path], readings: Sequence[Reading], writes: list[LegacyWrite] | None) -> None:
        """Note who wrote the legacy files of folders that were checked for completeness before."""
        for entry in self.entries:
            if set(entry.folders) == set(folders) and not entry.workers:
                entry.writes = writes
                entry.judge(readings)

    def judge(self) -> None:
        """Judge every cluster; a folder that was checked keeps what the check saw."""
        for entry in self.entries:
            if entry.judged is None or entry.workers:
                entry.judge()

    def record(self, lost: str = "") -> ItemRecord:
        """Everything as builtins, for a report that may cross to another process."""
        record: ItemRecord = {
            "test": self.test,
            "folder": "" if self.folder is None else str(self.folder),
            "lost": lost,
            "clusters": [entry.judged or entry.judge() for entry in self.entries],
        }
        plain: ItemRecord = encodable(record)
        return plain


def read_all(folders: Sequence[Path]) -> list[Reading]:
    """Read the files of several folders; each file once, named by its path below what the folders share."""
    if len(folders) == 1:
        return read_folder(folders[0])
    root = _common(folders)
    readings = {reading.path: reading for folder in folders for reading in read_folder(folder, root=root)}
    return list(readings.values())


def writes_of_run(run: ClusterRun[Any]) -> list[LegacyWrite] | None:
    """Who wrote which legacy file, from what the workers of a run returned; ``None`` where nothing tells."""
    writes: list[LegacyWrite] = []
    for outcome in run.outcomes:
        # An export that failed in part carries its result on the exception.
        value = outcome.value if outcome.ok else getattr(outcome.exception, "result", None)
        told = writes_of_results(value if isinstance(value, list | tuple) else [value])
        last = {write.path: write for write in told}  # of one process, in order: only its last write can be the last
        writes += [
            LegacyWrite(path, write.digest, outcome.started_ns, outcome.ended_ns) for path, write in last.items()
        ]
        if outcome.ok or outcome.job.legacy_path in last:
            continue
        for number in range(outcome.job.rounds):
            capture = outcome.job.capture(number)
            writes.append(LegacyWrite(outcome.job.legacy_path, None, outcome.started_ns, None, capture))
    return writes if any(write.digest is not None for write in writes) else None


def writes_of_results(results: Iterable[Any]) -> list[LegacyWrite]:
    """The writes that export results (anything with ``legacy`` and ``legacy_digest``) tell of; others are passed over."""
    writes = []
    for result in results:
        if isinstance(result, LegacyWrite):
            writes.append(result)
            continue
        path, digest = getattr(result, "legacy", None), getattr(result, "legacy_digest", None)
        if path is not None and digest is not None:
            writes.append(LegacyWrite(Path(path), digest))
    return writes


# --- the manifest ----------------------------------------------------------------------------------------------------


def _write_manifest(folder: Path, evidence: Evidence) -> None:
    clusters = [
        {
            "label": entry.label,
            "folders": [str(path) for path in entry.folders],
            "expected": [_capture_data(capture) for capture in entry.expected],
            "faults": list(entry.faults),
            "workers": entry.workers,
        }
        for entry in evidence.entries
    ]
    text = json.dumps({"test": evidence.test, "worker": evidence.worker, "clusters": clusters}, indent=1)
    beside = folder / f"{MANIFEST}.tmp"
    beside.write_text(text, encoding="utf-8")
    os.replace(beside, folder / MANIFEST)


def read_manifest(path: Path) -> Evidence | None:
    """The evidence of a test that left nothing but its manifest; ``None`` where that cannot be read."""
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
        data = json.loads(path.read_text(encoding="utf-8"))
        entries = [
            Entry(
                label=cluster["label"],
                folders=tuple(Path(folder) for folder in cluster["folders"]),
                expected=tuple(Capture(*capture) for capture in cluster["expected"]),
                faults=tuple(cluster["faults"]),
                workers=cluster["workers"],
            )
            for cluster in data["clusters"]
        ]
        return Evidence(data["test"], data["worker"], folder=path.parent, entries=entries)
    return None


def encodable(value: Any) -> Any:
    """``value`` with every text such that UTF-8 can hold it.

    A file name that the system could not decode has lone surrogates; neither execnet nor a terminal takes them, and
    one would cost the whole record.
    """
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode("utf-8")
    if isinstance(value, dict):
        return {key: encodable(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(encodable(item) for item in value)
    return value


def _capture_data(capture: Capture) -> CaptureData:
    return capture.node, capture.rank, capture.configuration, capture.round


def _common(folders: Sequence[Path]) -> Path:
    return folders[0] if len(folders) == 1 else Path(os.path.commonpath([str(folder) for folder in folders]))
