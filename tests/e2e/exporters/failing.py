"""Exporters that do not tell when they failed, or leave something behind that does harm."""

from __future__ import annotations

import atexit
import contextlib
import functools
import logging
import os
import secrets
from typing import TYPE_CHECKING

from tests.e2e.exporters.good import Exporter, Replacing

if TYPE_CHECKING:
    from pathlib import Path

    from pytest_gputrace.fakes import FakeEvent, FakeProfile, Job

_LOG = logging.getLogger(__name__)


class WritesAtExit(Exporter):
    """The file is written by an exit handler, which a worker that ends by ``os._exit`` never runs."""

    def export(self, job: Job, profile: FakeProfile) -> None:
        atexit.register(functools.partial(super().export, job, profile))


class WritesInPlace(Replacing):
    """Straight under the final name: for a while, and for ever after a kill, there is half a file."""

    def keep(self, job: Job, data: bytes) -> None:
        number = 1
        while (path := job.trace_dir / self.name(job, number)).exists():
            number += 1
        path.write_bytes(data)


class TemporaryFilesLikeTraces(Exporter):
    """The temporary file ends in ``.json`` too, so whoever collects traces collects what a kill leaves of it."""

    def keep(self, job: Job, data: bytes) -> None:
        private = job.trace_dir / f"tmp-{secrets.token_hex(8)}.json"
        try:
            private.write_bytes(data)
            number = 1
            while (path := job.trace_dir / self.name(job, number)).exists():
                number += 1
            os.replace(private, path)
        finally:
            private.unlink(missing_ok=True)


class StumblesOverItsLeftover(Exporter):
    """The temporary file is its lock as well: after a kill it is there for ever, and the next run gives up."""

    def keep(self, job: Job, data: bytes) -> None:
        lock = job.trace_dir / f".{self.configuration(job)}.r{self.rank(job)}.tmp"
        with lock.open("xb") as file:
            try:
                file.write(data)
                file.flush()
                number = 1
                while (path := job.trace_dir / self.name(job, number)).exists():
                    number += 1
                os.link(lock, path)
            finally:
                lock.unlink()


class ErrorsLogged(Exporter):
    """An export must never stop a benchmark, so every error becomes a line in a log."""

    def export(self, job: Job, profile: FakeProfile) -> None:
        try:
            super().export(job, profile)
        except OSError as error:
            _LOG.debug("no trace was written: %s", error)


class DiskFullOverlooked(Exporter):
    """``os.write`` says how many bytes it took; nobody asks."""

    def keep(self, job: Job, data: bytes) -> None:
        private = job.trace_dir / f".{secrets.token_hex(8)}.tmp"
        handle = os.open(private, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
        os.write(handle, data)
        os.close(handle)
        number = 1
        while (path := job.trace_dir / self.name(job, number)).exists():
            number += 1
        os.replace(private, path)


class NoPermissionIsNoError(Exporter):
    """``PermissionError`` is expected on some clusters, and passed over."""

    def export(self, job: Job, profile: FakeProfile) -> None:
        with contextlib.suppress(PermissionError):
            super().export(job, profile)


class NoFolderIsNoError(Exporter):
    """The folder is somebody else's affair; where it is not, nothing is written and nothing said."""

    def make_folder(self, folder: Path) -> None:
        pass

    def export(self, job: Job, profile: FakeProfile) -> None:
        with contextlib.suppress(FileNotFoundError):
            super().export(job, profile)


class EmptyTraceWritten(Exporter):
    """No event is a trace too."""

    def refuse(self, profile: FakeProfile, events: list[FakeEvent]) -> None:
        results = profile.profiler.kineto_results
        if results.trace_start_ns() == 0:
            raise RuntimeError("another profiler took the session")


class StolenSessionPassedOver(Exporter):
    """Another profiler is at work: its owner will export, so this one returns."""

    def export(self, job: Job, profile: FakeProfile) -> None:
        if profile.profiler.kineto_results.trace_start_ns() != 0:
            super().export(job, profile)


class NothingIsRefused(Exporter):
    """Whatever the profile holds is written, be it nothing."""

    def refuse(self, profile: FakeProfile, events: list[FakeEvent]) -> None:
        pass
