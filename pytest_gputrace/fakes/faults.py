"""What can be done to a run on purpose: each fault is a frozen description, carried out by the cluster.

``str`` of a fault reads as it was written. ``Outcome.injected`` names the faults that really struck in a worker.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import json
import math
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from pytest_gputrace.fakes.events import fake_events
from pytest_gputrace.fakes.files import event_list, kineto_text, trace_dict
from pytest_gputrace.fakes.kills import kill_now, killed_at_byte, refuse_outside_workers
from pytest_gputrace.fakes.moments import MOMENTS, Injection, Moment
from pytest_gputrace.fakes.validate import check_who, one_of, whole

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from contextlib import AbstractContextManager

    from pytest_gputrace.fakes.job import Job
    from pytest_gputrace.model import Capture

__all__ = [
    "STALE_ROUND",
    "Fault",
    "Moment",
    "Who",
    "bad_values",
    "equal_hosts",
    "overwrite_legacy",
    "sigkill",
    "stale_files",
    "truncate_legacy",
]

STALE_ROUND = 999
"""The round that the marks of ``stale_files`` name; no run comes near it."""


@dataclass(frozen=True, repr=False)
class Who:
    """Which workers a fault strikes: those that agree with every field given. Nodes are ``node0``, ``node1``, ..."""

    node: str | None = None
    rank: int | None = None
    configuration: str | None = None

    def __call__(self, job: Job) -> bool:
        """Whether ``job`` is meant."""
        mine = (job.worker.node, job.worker.rank, job.configuration)
        return all(want in (None, have) for want, have in zip(dataclasses.astuple(self), mine, strict=True))

    def __str__(self) -> str:
        given = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        return f"Who({', '.join(f'{name}={_shown(value)}' for name, value in given.items() if value is not None)})"

    __repr__ = __str__


@dataclass(frozen=True, repr=False)
class Fault:
    """Base of all faults; by itself it does nothing.

    ``strikes_at_setup`` says that it is done when the run begins, ``kills`` that its workers die by SIGKILL.
    """

    who: Callable[[Job], bool] | None = dataclasses.field(default=None, kw_only=True)
    strikes_at_setup: ClassVar[bool] = False
    kills: ClassVar[bool] = False

    def __post_init__(self) -> None:
        check_who(self._name(), self.who)

    def selects(self, job: Job) -> bool:
        """Whether this worker is struck."""
        return self.who is None or self.who(job)

    def hostnames(self, names: Sequence[str]) -> list[str]:
        """The host names of the nodes, changed or not."""
        return list(names)

    def before_start(self, jobs: Sequence[Job]) -> None:
        """What happens to the folders before any worker starts; ``jobs`` are those it selects."""

    def applied(self, job: Job) -> AbstractContextManager[Injection | None]:
        """The fault at work in this process, around the call of an exporter."""
        return contextlib.nullcontext()

    def advice(self, jobs: Sequence[Job]) -> str:
        """Why it may have struck none of ``jobs``, and what to do about it."""
        return "what it waits for did not come"

    @classmethod
    def _name(cls) -> str:
        return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in cls.__name__).lstrip("_")

    def __str__(self) -> str:
        given = [
            f"{field.name}={_shown(value)}"
            for field in dataclasses.fields(self)
            if (value := getattr(self, field.name)) != field.default
        ]
        return f"{self._name()}({', '.join(given)})"

    __repr__ = __str__


def _shown(value: Any) -> str:
    """As it was written; a function by its name, for its address is another in each run."""
    if isinstance(value, functools.partial):
        return f"partial({_shown(value.func)})"
    name = getattr(value, "__name__", None)
    if callable(value) and isinstance(name, str):
        return name
    text = repr(value)
    return f"{type(value).__name__}()" if text == object.__repr__(value) else text


def _check(where: str, at: object) -> None:
    one_of(where, "moment", at, MOMENTS)


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
    kills: ClassVar[bool] = True

    def applied(self, job: Job) -> AbstractContextManager[Injection | None]:
        """Let the process die at the moment."""
        refuse_outside_workers()
        if self.at_byte is not None:
            return _without_record(self.at_byte)
        assert self.at is not None
        return Injection(str(self), job, self.at, kill_now)

    def advice(self, jobs: Sequence[Job]) -> str:
        """What a worker did not do."""
        if self.at_byte is not None:
            return f"no file grew past {self.at_byte} bytes; choose a smaller at_byte"
        if self.at == "legacy-written":
            return f"{_legacy_files(jobs)} and no worker wrote it; {_OTHER_NAME}, or choose another moment"
        if self.at == "every-open":
            return f"{_NO_EVENT}; choose another moment"
        return f"no worker came to file event {self.at} below the trace folder; choose an earlier one"


@contextlib.contextmanager
def _without_record(at_byte: int) -> Iterator[None]:
    with killed_at_byte(at_byte):  # who is killed here leaves no result that could hold a record
        yield


@dataclass(frozen=True, repr=False)
class EqualHosts(Fault):
    """See ``equal_hosts``."""

    hostname: str = "localhost"
    strikes_at_setup: ClassVar[bool] = True

    def hostnames(self, names: Sequence[str]) -> list[str]:
        """One name for all nodes."""
        return [self.hostname] * len(names)


@dataclass(frozen=True, repr=False)
class StaleFiles(Fault):
    """See ``stale_files``."""

    strikes_at_setup: ClassVar[bool] = True

    def before_start(self, jobs: Sequence[Job]) -> None:
        """Put the files of an earlier run into the trace folders."""
        for index, job in enumerate(jobs):
            capture = job.capture(STALE_ROUND)
            events = fake_events(capture, vendor=job.vendor, seed=job.seed)
            job.legacy_path.parent.mkdir(parents=True, exist_ok=True)
            job.legacy_path.write_text(json.dumps(event_list(events), sort_keys=True), encoding="utf-8")
            # The name that torch's tensorboard_trace_handler gives: host, process and time.
            name = f"{capture.node}_{1000 + capture.rank}.{1_790_000_000_000_000_000 + index}.pt.trace.json"
            trace = trace_dict(events, vendor=job.vendor, trace_name=name)
            (job.trace_dir / name).write_text(kineto_text(trace), encoding="utf-8")


@dataclass(frozen=True, repr=False)
class BadValues(Fault):
    """See ``bad_values``."""

    values: tuple[complex, ...] = (math.nan, math.inf, -math.inf, 1 + 2j)

    def applied(self, job: Job) -> AbstractContextManager[Injection | None]:
        """Let the profiles of this worker hold the values."""
        return self._with_values(job)

    @contextlib.contextmanager
    def _with_values(self, job: Job) -> Iterator[Injection]:
        injection = Injection(str(self), job, "start", lambda: True)
        before = job.plan.values
        job.plan.values = (*before, *self.values)
        injection.fire()
        try:
            yield injection
        finally:
            job.plan.values = before


def other_capture(job: Job) -> Capture:
    """A capture that is not the worker's: its neighbour's on the node, or another configuration's where it is alone."""
    worker, capture = job.worker, job.capture()
    size = worker.local_world_size or 1
    if size == 1:
        return dataclasses.replace(capture, configuration=f"{capture.configuration}-other")
    return dataclasses.replace(capture, rank=worker.rank - worker.local_rank + (worker.local_rank + 1) % size)


def truncate_legacy(at: Moment, to_bytes: int = 0, who: Callable[[Job], bool] | None = None) -> Fault:
    """Somebody cuts this worker's legacy file to ``to_bytes``.

    ``start`` is before the exporter is called (an empty file is made where there is none), ``legacy-written`` at the
    first file event on another path after this worker's legacy file changed, ``every-open`` at every file event below
    the trace folder, ``end`` after the exporter returned. A file that is no longer than that is left as it is.
    """
    _check("truncate_legacy", at)
    whole("truncate_legacy", "to_bytes", to_bytes, 0)
    return TruncateLegacy(at, to_bytes, who=who)


def overwrite_legacy(at: Moment, who: Callable[[Job], bool] | None = None) -> Fault:
    """Somebody writes another worker's complete capture over this worker's legacy file: same records, other marks.

    Moments are those of ``truncate_legacy``; but for ``start``, nothing is written where there is no such file.
    """
    _check("overwrite_legacy", at)
    return OverwriteLegacy(at, who=who)


def sigkill(
    at: Moment | int | None = None, *, at_byte: int | None = None, who: Callable[[Job], bool] | None = None
) -> Fault:
    """The worker dies by SIGKILL: at a moment, at the nth file event below the trace folder, or in a write.

    With ``at_byte`` the process is killed when any file is about to grow past that many bytes; they are on disk.
    """
    if (at is None) == (at_byte is None):
        raise ValueError("sigkill: give either a moment (or the number of a file event) or at_byte")
    if at_byte is not None:
        whole("sigkill", "at_byte", at_byte, 0)
    elif isinstance(at, int):
        whole("sigkill", "at", at)
    else:
        _check("sigkill", at)
    return Sigkill(at, at_byte, who=who)


def equal_hosts(hostname: str = "localhost") -> Fault:
    """All nodes have one host name. Their process ids are equal in any case."""
    return EqualHosts(hostname)


def stale_files(who: Callable[[Job], bool] | None = None) -> Fault:
    """Complete files of an earlier run lie in the trace folder before the start; their marks name round 999."""
    return StaleFiles(who=who)


def bad_values(*values: complex, who: Callable[[Job], bool] | None = None) -> Fault:
    """Events hold numbers that JSON cannot: NaN, both infinities and a complex one, or the ``values`` given."""
    return BadValues(values, who=who) if values else BadValues(who=who)
