"""Exporters that change the legacy file, or let it reach into the capture's own."""

from __future__ import annotations

import json
import os
import secrets
from pathlib import Path
from typing import TYPE_CHECKING

from tests.e2e.exporters.good import Exporter, clean, record

if TYPE_CHECKING:
    from pytest_gputrace.fakes import FakeEvent, FakeProfile, Job


class NoLegacyFile(Exporter):
    """The new file is better, so the old one is not written any more."""

    def legacy(self, job: Job, events: list[FakeEvent]) -> None:
        pass


class LegacyFileRenamed(Exporter):
    """The old file has a new name, which no consumer asks for."""

    def legacy(self, job: Job, events: list[FakeEvent]) -> None:
        path = job.trace_dir / f"{job.legacy_name.removesuffix('.json')}.trace"
        path.write_bytes(self.legacy_content(events))


class LegacyFileByGlobalRank(Exporter):
    """The old file is named by the global rank now; on the first node that is the same."""

    def legacy(self, job: Job, events: list[FakeEvent]) -> None:
        path = job.trace_dir / f"torch-profiler-sb-{job.model}-{job.worker.rank}.json"
        private = path.with_name(f".{secrets.token_hex(8)}.tmp")
        try:
            private.write_bytes(self.legacy_content(events))
            os.replace(private, path)
        finally:
            private.unlink(missing_ok=True)


class LegacyFileOfTheFirst(Exporter):
    """Whoever comes first writes the old file, the others see that it is there."""

    def legacy(self, job: Job, events: list[FakeEvent]) -> None:
        if not job.legacy_path.exists():
            super().legacy(job, events)


class LegacyFileUnsorted(Exporter):
    """The same records with their keys in another order."""

    def legacy_content(self, events: list[FakeEvent]) -> bytes:
        return json.dumps([record(event) for event in events if event.device_type.name == "CPU"], default=str).encode()


class LegacyFileCleaned(Exporter):
    """NaN becomes null in the old file as well."""

    def legacy_content(self, events: list[FakeEvent]) -> bytes:
        records = [record(event) for event in events if event.device_type.name == "CPU"]
        return json.dumps(clean(records), sort_keys=True, default=str).encode()


class LegacyTimesRounded(Exporter):
    """Whole microseconds will do."""

    def legacy_content(self, events: list[FakeEvent]) -> bytes:
        records = json.loads(super().legacy_content(events))
        for each in records:
            each["cpu_time"] = round(each["cpu_time"]) if each["cpu_time"] == each["cpu_time"] else each["cpu_time"]
        return json.dumps(records, sort_keys=True).encode()


class LegacyFileAppendedTo(Exporter):
    """Opened to append, as a log is: the second capture comes after the first."""

    def legacy(self, job: Job, events: list[FakeEvent]) -> None:
        with job.legacy_path.open("ab") as file:
            file.write(self.legacy_content(events))


class LegacyFileEmptiedThenAppendedTo(Exporter):
    """Emptied first, then appended to: right as long as nobody else does so at the same time."""

    def legacy(self, job: Job, events: list[FakeEvent]) -> None:
        if job.legacy_path.exists():
            os.truncate(job.legacy_path, 0)
        with job.legacy_path.open("ab") as file:
            file.write(self.legacy_content(events))


class LegacyFileInTheRankFolder(Exporter):
    """Into the working directory, as a path without a folder goes."""

    def legacy(self, job: Job, events: list[FakeEvent]) -> None:
        Path(job.legacy_name).write_bytes(self.legacy_content(events))


class CopyOfTheLegacyFile(Exporter):
    """The old file is written as ever, and then copied under the new name: whatever it holds by then."""

    def export(self, job: Job, profile: FakeProfile) -> None:
        events = profile.events()
        self.refuse(profile, events)
        self.make_folder(job.trace_dir)
        self.legacy(job, events)
        if job.configuration:
            self.keep(job, job.legacy_path.read_bytes())


class QualifiedOutsideTheLayout(Exporter):
    """No configuration is one as well: ``default``."""

    def export(self, job: Job, profile: FakeProfile) -> None:
        super().export(job, profile)
        if not job.configuration:
            self.keep(job, self.content(job, profile.events()))


class AnyFolderCalledRank(Exporter):
    """A folder whose name begins with ``rank`` is taken for a rank folder, wherever it lies."""

    def export(self, job: Job, profile: FakeProfile) -> None:
        super().export(job, profile)
        if not job.configuration and Path.cwd().name.startswith("rank"):
            self.keep(job, self.content(job, profile.events()))
