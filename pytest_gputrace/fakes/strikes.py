"""The faults that strike at a moment: the legacy file is cut or written over, the worker is killed."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from pytest_gputrace.fakes.events import fake_events
from pytest_gputrace.fakes.faultbase import Fault
from pytest_gputrace.fakes.files import event_list
from pytest_gputrace.fakes.kills import dies_of_the_limit, kill_now, refuse_outside_workers
from pytest_gputrace.fakes.moments import Injection, TraceFolder, listening
from pytest_gputrace.fakes.sizelimit import no_file_beyond

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from contextlib import AbstractContextManager

    from pytest_gputrace.fakes.job import Job
    from pytest_gputrace.fakes.moments import FileEvent, Moment
    from pytest_gputrace.model import Capture

__all__ = ["OverwriteLegacy", "Sigkill", "TruncateLegacy"]


def _legacy_files(jobs: Sequence[Job]) -> str:
    names = list(dict.fromkeys(job.legacy_name for job in jobs))
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return f"it looked for {', '.join(names[:3])}{more} in the trace folder"


_OTHER_NAME = "if the exporter's own file has another name, say so with Cluster(legacy_name=...)"
_NO_EVENT = "no file below the trace folder was opened, renamed, linked, removed or cut"


@dataclass(frozen=True, repr=False)
class TruncateLegacy(Fault):
    """See ``truncate_legacy``."""

    at: Moment = "start"
    to_bytes: int = 0

    def applied(self, job: Job) -> AbstractContextManager[Injection | None]:
        """Cut the worker's legacy file at the moment."""
        path = job.legacy_path

        def strike() -> bool:
            if self.at == "start":
                path.parent.mkdir(parents=True, exist_ok=True)
                path.touch()
            longer = path.exists() and path.stat().st_size > self.to_bytes
            if longer:
                os.truncate(path, self.to_bytes)
            return longer or self.at == "start"

        return Injection(str(self), job, self.at, strike)

    def advice(self, jobs: Sequence[Job]) -> str:
        """Which file was not there to be cut."""
        length = f"held more than {self.to_bytes} bytes"
        why = {
            "start": "and could neither make nor cut it before the start",
            "legacy-written": f"and no worker wrote one that {length}",
            "every-open": f"and at no file event of the workers there was one that {length}",
            "end": f"and after the return there was none that {length}",
        }[self.at]
        return f"{_legacy_files(jobs)} {why}; {_OTHER_NAME}, or choose another moment"


@dataclass(frozen=True, repr=False)
class OverwriteLegacy(Fault):
    """See ``overwrite_legacy``."""

    at: Moment = "start"

    def applied(self, job: Job) -> AbstractContextManager[Injection | None]:
        """Write another worker's file over this worker's legacy file at the moment."""
        path = job.legacy_path
        other = fake_events(other_capture(job), vendor=job.vendor, seed=job.seed)
        content = json.dumps(event_list(other), sort_keys=True)  # now: a strike must not take long

        def strike() -> bool:
            if self.at == "start":
                path.parent.mkdir(parents=True, exist_ok=True)
            elif not path.exists():
                return False
            path.write_text(content, encoding="utf-8")
            return True

        return Injection(str(self), job, self.at, strike)

    def advice(self, jobs: Sequence[Job]) -> str:
        """Which file was not there to be written over."""
        why = {
            "start": "and could not write it before the start",
            "legacy-written": "and no worker wrote it",
            "every-open": "and at no file event of the workers it was there",
            "end": "and after the return it was not there",
        }[self.at]
        return f"{_legacy_files(jobs)} {why}; {_OTHER_NAME}, or choose another moment"


@dataclass(frozen=True, repr=False)
class Sigkill(Fault):
    """See ``sigkill``."""

    at: Moment | int | None = None
    at_byte: int | None = None
    opening: int = 0
    kills: ClassVar[bool] = True

    def applied(self, job: Job) -> AbstractContextManager[Injection | None]:
        """Let the process die at the moment."""
        refuse_outside_workers()
        if self.at_byte is not None:
            return _without_record(self.at_byte, job, self.opening)
        assert self.at is not None
        return Injection(str(self), job, self.at, kill_now)

    def advice(self, jobs: Sequence[Job]) -> str:
        """What a worker did not do."""
        if self.at_byte is not None:
            when = f" after {self.opening} were opened below the trace folder" if self.opening else ""
            return f"no file grew past {self.at_byte} bytes{when}; choose a smaller at_byte"
        if self.at == "legacy-written":
            return f"{_legacy_files(jobs)} and no worker wrote it; {_OTHER_NAME}, or choose another moment"
        if self.at == "every-open":
            return f"{_NO_EVENT}; choose another moment"
        return f"no worker came to file event {self.at} below the trace folder; choose an earlier one"


@contextlib.contextmanager
def _without_record(at_byte: int, job: Job, opening: int) -> Iterator[None]:
    """Who is killed here leaves no result that could hold a record."""
    with dies_of_the_limit(), contextlib.ExitStack() as limits:
        if not opening:
            limits.enter_context(no_file_beyond(at_byte))
            yield
        else:
            with listening(_Opening(job, opening, lambda: limits.enter_context(no_file_beyond(at_byte)))):
                yield


class _Opening:
    """Acts once, when a worker opens its nth file below the trace folder to write it."""

    def __init__(self, job: Job, number: int, act: Callable[[], object]) -> None:
        self._folder, self._act = TraceFolder(job), act
        self._left = number

    def on_event(self, event: FileEvent) -> None:
        """Look whether this is the event."""
        if self._left and event.name == "open" and self._folder.below(event.makes) is not None:
            self._left -= 1
            if not self._left:
                self._act()


def other_capture(job: Job) -> Capture:
    """A capture that is not the worker's: its neighbour's on the node, or another configuration's where it is alone."""
    worker, capture = job.worker, job.capture()
    size = worker.local_world_size or 1
    if size == 1:
        return dataclasses.replace(capture, configuration=f"{capture.configuration}-other")
    return dataclasses.replace(capture, rank=worker.rank - worker.local_rank + (worker.local_rank + 1) % size)
