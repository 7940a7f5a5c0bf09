"""Watches the file events of a process and lets a fault strike at its moment, whatever exporter runs.

Python tells an audit hook of each file event before it happens. A hook cannot be removed, so there is one for the
process and a list of those who listen at present. What a listener raises reaches the exporter in place of the event.

Not seen: a relative path opened through ``dir_fd`` (Python's event does not carry the folder), and writes themselves.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import TracebackType

    from typing_extensions import Self

    from pytest_gputrace.fakes.job import Job

__all__ = ["MOMENTS", "FileEvent", "Injection", "Listener", "Moment", "Record", "TraceFolder", "listening"]

Moment = Literal["start", "legacy-written", "every-open", "end"]
MOMENTS: tuple[Moment, ...] = ("start", "legacy-written", "every-open", "end")

# Which arguments of an event are paths, and where the folder they are relative to stands. ``os.replace`` is os.rename.
_PATHS: dict[str, tuple[tuple[int, int | None], ...]] = {
    "open": ((0, None),),
    "os.rename": ((0, 2), (1, 3)),
    "os.link": ((0, 2), (1, 3)),
    "os.remove": ((0, 1),),
    "os.truncate": ((0, None),),
    "os.mkdir": ((0, 2),),
    "os.symlink": ((1, 2),),
}
# Which of these paths is a name that the event makes; ``open`` makes one only when it writes.
_MADE = {"open": 0, "os.rename": 1, "os.link": 1, "os.mkdir": 0, "os.symlink": 0}
_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
# What the page calls a file event: moments and the numbers of events count these.
_COUNTED = frozenset({"open", "os.rename", "os.link", "os.remove", "os.truncate"})
_listening: list[Listener] = []
_state = threading.local()
_hooked = False


class FileEvent(NamedTuple):
    """One file event, before it happens: its name, its absolute paths, and the one that it will make, if any."""

    name: str
    paths: list[str]
    makes: str


class Listener(Protocol):
    """Who is told of each file event of the process."""

    def on_event(self, event: FileEvent) -> None:
        """Look at one file event, before it happens; what this raises, the exporter gets instead."""


@contextlib.contextmanager
def listening(listener: Listener) -> Iterator[None]:
    """Tell ``listener`` of the file events of this process, until the end of the block."""
    _install()
    _listening.append(listener)
    try:
        yield
    finally:
        _listening.remove(listener)


class TraceFolder:
    """Which paths lie below a worker's trace folder, by the name it was told or by the real one."""

    def __init__(self, job: Job) -> None:
        self.roots = {os.path.abspath(job.trace_dir), os.path.realpath(job.trace_dir)}

    def below(self, path: str) -> str | None:
        """The part of an absolute path after the folder; ``None`` when it lies elsewhere or is the folder itself."""
        return next((path[len(root) + 1 :] for root in self.roots if path.startswith(root + os.sep)), None)

    def holds_any(self, paths: list[str]) -> bool:
        """Whether one of the paths lies below."""
        return any(self.below(path) is not None for path in paths)


class Record:
    """What one fault did in one worker: ``fired`` counts how often, ``on_strike`` is called after each time."""

    def __init__(self, label: str) -> None:
        self.label, self.fired = label, 0
        self.on_strike: Callable[[], None] | None = None

    def __str__(self) -> str:
        return self.label

    def struck(self) -> None:
        """Count a strike and tell of it."""
        self.fired += 1
        if self.on_strike is not None:
            self.on_strike()


class Injection(Record):
    """One fault at work in one worker: ``strike`` runs at the moment, ``fired`` counts how often it did something.

    Args:
        label: the fault, for people.
        job: the worker; file events below its trace folder count.
        at: a moment, or the number of a file event, from 1.
        strike: does the damage; returns whether there was anything to damage.
    """

    def __init__(self, label: str, job: Job, at: Moment | int, strike: Callable[[], bool]) -> None:
        super().__init__(label)
        self.at = at
        self._strike = strike
        self._folder = TraceFolder(job)
        self._legacy = {os.path.join(root, job.legacy_name) for root in self._folder.roots}
        self._legacy_file = str(job.legacy_path)
        self._before: tuple[int, ...] | None = None
        self._touched = False
        self._seen = 0

    def __enter__(self) -> Self:
        _install()
        self._before = self._signature()
        if self.at == "start":
            self.fire()
        _listening.append(self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        _listening.remove(self)
        # An exporter that writes the legacy file last gives no later event: its return is the first moment after.
        late = self.at == "legacy-written" and not self.fired and self._legacy_is_written()
        if self.at == "end" or late:
            self.fire()

    def fire(self) -> None:
        """Strike now. A strike that the system refuses did not happen: the exporter must not see its error."""
        try:
            struck = bool(self._strike())
        except OSError:
            return
        if struck:
            self.struck()

    def on_event(self, event: FileEvent) -> None:
        """Look at one file event, before it happens."""
        if event.name not in _COUNTED:
            return
        if self.at == "legacy-written":
            if not self._legacy.isdisjoint(event.paths):
                self._touched = True
            elif not self.fired and self._legacy_is_written():
                self.fire()
        elif self._folder.holds_any(event.paths):
            self._seen += 1
            if self.at in ("every-open", self._seen):
                self.fire()

    def _legacy_is_written(self) -> bool:
        """Whether this worker named the legacy file and it holds something new.

        Only an event of this process counts: in a shared folder another worker writes the same name.
        """
        now = self._signature()
        return self._touched and now is not None and now != self._before and now[-1] > 0

    def _signature(self) -> tuple[int, ...] | None:
        try:
            status = os.stat(self._legacy_file)
        except OSError:
            return None
        return status.st_ino, status.st_mtime_ns, status.st_size


def _install() -> None:
    global _hooked
    if not _hooked:
        _hooked = True
        sys.addaudithook(_hook)


def _hook(event: str, args: tuple[Any, ...]) -> None:
    if not _listening or event not in _PATHS or getattr(_state, "busy", False):
        return
    _state.busy = True  # what a strike opens is no event of the exporter's
    try:
        found = [_path(args, position, folder) for position, folder in _PATHS[event]]
        told = FileEvent(event, [path for path in found if path], _made(event, args, found))
        for listener in tuple(_listening):
            if told.paths:
                listener.on_event(told)
    finally:
        _state.busy = False


# Python traces no audit hook unless it asks for it: coverage and debuggers would be blind here.
vars(_hook)["__cantrace__"] = True


def _made(event: str, args: tuple[Any, ...], paths: list[str]) -> str:
    """The path that an event makes; empty when it makes none."""
    if event not in _MADE or (event == "open" and not args[2] & _WRITES):
        return ""
    return paths[_MADE[event]]


def _path(args: tuple[Any, ...], position: int, folder: int | None) -> str:
    """The absolute path of an event's argument; empty when it has none."""
    value = args[position]
    try:
        if isinstance(value, int):
            return os.readlink(f"/proc/self/fd/{value}")
        relative = os.fsdecode(value)
        base = args[folder] if folder is not None and folder < len(args) else -1
        if isinstance(base, int) and base >= 0 and not os.path.isabs(relative):
            relative = os.path.join(os.readlink(f"/proc/self/fd/{base}"), relative)
        return os.path.abspath(relative)
    except (OSError, TypeError, ValueError):
        return ""
