"""The faults of the trace folder: what lies in it when the run begins, whether it can be written, whether it is there."""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import json
import stat
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from pytest_gputrace.errors import ClusterError
from pytest_gputrace.fakes.capabilities import CAP_DAC_OVERRIDE, without_capability
from pytest_gputrace.fakes.events import fake_events
from pytest_gputrace.fakes.faultbase import Fault, trace_dirs
from pytest_gputrace.fakes.files import event_list, kineto_text, trace_dict

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from contextlib import AbstractContextManager
    from pathlib import Path

    from pytest_gputrace.fakes.faultbase import AtWork
    from pytest_gputrace.fakes.job import Job

__all__ = ["STALE_ROUND", "MissingFolder", "ReadOnly", "StaleFiles"]

STALE_ROUND = 999
"""The round that the marks of ``stale_files`` name; no run comes near it."""

_READ_ONLY = 0o555


@dataclass(frozen=True, repr=False)
class StaleFiles(Fault):
    """See ``stale_files``."""

    strikes_at_setup: ClassVar[bool] = True

    def before_start(self, jobs: Sequence[Job]) -> None:
        """Put the files of an earlier run into the trace folders."""
        for index, job in enumerate(jobs):
            capture = dataclasses.replace(job.capture(), round=STALE_ROUND)
            events = fake_events(capture, vendor=job.vendor, seed=job.seed)
            job.legacy_path.parent.mkdir(parents=True, exist_ok=True)
            job.legacy_path.write_text(json.dumps(event_list(events), sort_keys=True), encoding="utf-8")
            # The name that torch's tensorboard_trace_handler gives: host, process and time.
            name = f"{capture.node}_{1000 + capture.rank}.{1_790_000_000_000_000_000 + index}.pt.trace.json"
            trace = trace_dict(events, vendor=job.vendor, trace_name=name)
            (job.trace_dir / name).write_text(kineto_text(trace), encoding="utf-8")


@dataclass(frozen=True, repr=False)
class ReadOnly(Fault):
    """See ``read_only``."""

    strikes_at_setup: ClassVar[bool] = True

    @contextlib.contextmanager
    def around_run(self, jobs: Sequence[Job]) -> Iterator[AtWork]:
        """Take the right to write away from the folders, and give it back however the run ends."""
        with contextlib.ExitStack() as undo:
            for folder in trace_dirs(jobs):
                before = stat.S_IMODE(folder.stat().st_mode)
                try:
                    folder.chmod(_READ_ONLY)
                except OSError as error:
                    raise ClusterError(f"{self}: the mode of {folder} cannot be changed: {error}") from error
                undo.callback(_restore_mode, folder, before)
            yield self

    @contextlib.contextmanager
    def applied(self, job: Job) -> Iterator[None]:
        """Root writes whatever the mode says, so take that from it."""
        with without_capability(CAP_DAC_OVERRIDE):
            yield


def _restore_mode(folder: Path, mode: int) -> None:
    with contextlib.suppress(FileNotFoundError):  # the exporter took it away: nothing is left to restore
        folder.chmod(mode)


@dataclass(frozen=True, repr=False)
class MissingFolder(Fault):
    """See ``missing_folder``."""

    strikes_at_setup: ClassVar[bool] = True

    def around_run(self, jobs: Sequence[Job]) -> AbstractContextManager[AtWork]:
        """Take the folders away, after every other fault that puts something into them."""
        for job in jobs:
            if job.rank_dir.is_relative_to(job.trace_dir):
                raise ClusterError(
                    f"{self}: {job} runs in its trace folder {job.trace_dir}, which therefore must exist; "
                    "give the cluster a shared trace_dir of its own"
                )
        for folder in trace_dirs(jobs):
            self._remove(folder)
        return contextlib.nullcontext(self)

    def _remove(self, folder: Path) -> None:
        try:
            folder.rmdir()
        except FileNotFoundError:  # by another fault of the kind
            pass
        except OSError as error:
            why = "it is not empty" if error.errno in (errno.ENOTEMPTY, errno.EEXIST) else str(error)
            raise ClusterError(
                f"{self}: the trace folder {folder} cannot be taken away: {why}; use it on a first run, without faults "
                "that put files there"
            ) from error
