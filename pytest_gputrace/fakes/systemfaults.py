"""The faults of the system around a worker: its host's name, its clock, its disk, and the names its disk takes."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import signal
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from pytest_gputrace.fakes.faultbase import Fault
from pytest_gputrace.fakes.moments import Record, TraceFolder, listening
from pytest_gputrace.fakes.sizelimit import no_file_beyond

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from contextlib import AbstractContextManager

    from pytest_gputrace.fakes.faultbase import AtWork
    from pytest_gputrace.fakes.job import Job
    from pytest_gputrace.fakes.moments import FileEvent

__all__ = ["DiskFull", "EqualHosts", "FrozenClock", "RefusedNames", "is_refused"]


@dataclass(frozen=True, repr=False)
class EqualHosts(Fault):
    """See ``equal_hosts``."""

    hostname: str = "localhost"
    strikes_at_setup: ClassVar[bool] = True

    def hostnames(self, names: Sequence[str]) -> list[str]:
        """One name for all nodes."""
        return [self.hostname] * len(names)


@dataclass(frozen=True, repr=False)
class FrozenClock(Fault):
    """See ``frozen_clock``."""

    epoch_s: float = 1_800_000_000.0

    def around_run(self, jobs: Sequence[Job]) -> AbstractContextManager[AtWork]:
        """Load the library once, not in each worker."""
        import time_machine  # noqa: F401  # only for who freezes clocks: it loads pytest

        return contextlib.nullcontext(self)

    @contextlib.contextmanager
    def applied(self, job: Job) -> Iterator[Record]:
        """Stop the wall clock of this process."""
        import time_machine  # only for who freezes clocks: it loads pytest

        record = Record(str(self))
        with time_machine.travel(self.epoch_s, tick=False):
            record.struck()
            yield record


@dataclass(frozen=True, repr=False)
class DiskFull(Fault):
    """See ``disk_full``."""

    at_byte: int = 4096

    @contextlib.contextmanager
    def applied(self, job: Job) -> Iterator[Record]:
        """Let no file grow past the limit; the signal that comes with the refusal only notes it."""
        if sys.platform != "linux":
            raise OSError(f"disk_full needs Linux; this is {sys.platform}")
        record = Record(str(self))
        before = signal.signal(signal.SIGXFSZ, lambda number, frame: record.struck())
        try:
            with no_file_beyond(self.at_byte):
                yield record
        finally:
            signal.signal(signal.SIGXFSZ, before)  # a signal that waits is handled first

    def advice(self, jobs: Sequence[Job]) -> str:
        """What was not written."""
        return f"no file grew past {self.at_byte} bytes; choose a smaller at_byte"


# Microsoft's "Naming Files, Paths, and Namespaces". The superscript digits count there, too.
_REFUSED_CHARACTERS = re.compile(r'[<>:"|?*\\\x00-\x1f]')
_DEVICES = frozenset({"CON", "PRN", "AUX", "NUL", *(f"{name}{n}" for name in ("COM", "LPT") for n in "123456789¹²³")})


def is_refused(name: str) -> bool:
    """Whether SMB or NTFS refuses a file or folder of this name."""
    device = name.split(".", 1)[0].rstrip(" ").upper()
    return bool(_REFUSED_CHARACTERS.search(name)) or name.endswith((".", " ")) or device in _DEVICES


@dataclass(frozen=True, repr=False)
class RefusedNames(Fault):
    """See ``refused_names``."""

    may_be_idle: ClassVar[bool] = True

    @contextlib.contextmanager
    def applied(self, job: Job) -> Iterator[Record]:
        """Refuse the names below the trace folder of this worker."""
        refusal = _Refusal(str(self), job)
        with listening(refusal):
            yield refusal


class _Refusal(Record):
    """Raises in place of a file event that would make a refused name."""

    def __init__(self, label: str, job: Job) -> None:
        super().__init__(label)
        self._folder = TraceFolder(job)

    def on_event(self, event: FileEvent) -> None:
        """Look at the name that the event makes, if any."""
        inside = self._folder.below(event.makes)
        if inside is not None and any(is_refused(part) for part in inside.split(os.sep)):
            self.struck()
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL), event.makes)
