"""Watches the file events of a process and lets a fault strike at its moment, whatever exporter runs.

Python tells an audit hook of each file event before it happens. A hook cannot be removed, so there is one for the
process and a list of the injections that listen at present.

Not seen: a relative path opened through ``dir_fd`` (Python's event does not carry the folder), and writes themselves.
"""

from __future__ import annotations

import os
import sys
import threading
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

    from typing_extensions import Self

    from pytest_gputrace.fakes.job import Job

__all__ = ["MOMENTS", "Injection", "Moment"]

Moment = Literal["start", "legacy-written", "every-open", "end"]
MOMENTS: tuple[Moment, ...] = ("start", "legacy-written", "every-open", "end")

# Which arguments of an event are paths, and where the folder they are relative to stands. ``os.replace`` is os.rename.
_PATHS: dict[str, tuple[tuple[int, int | None], ...]] = {
    "open": ((0, None),),
    "os.rename": ((0, 2), (1, 3)),
    "os.link": ((0, 2), (1, 3)),
    "os.remove": ((0, 1),),
    "os.truncate": ((0, None),),
}
_listening: list[Injection] = []
_state = threading.local()
_hooked = False


class Injection:
    """One fault at work in one worker: ``strike`` runs at the moment, ``fired`` counts how often it did something.

    Args:
        label: the fault, for people.
        job: the worker; file events below its trace folder count.
        at: a moment, or the number of a file event, from 1.
        strike: does the damage; returns whether there was anything to damage.

    ``on_strike`` is called after each strike that did something.
    """

    def __init__(self, label: str, job: Job, at: Moment | int, strike: Callable[[], bool]) -> None:
        self.label, self.at, self.fired = label, at, 0
        self.on_strike: Callable[[], None] | None = None
        self._strike = strike
        self._roots = {os.path.abspath(job.trace_dir), os.path.realpath(job.trace_dir)}
        self._legacy = {os.path.join(root, job.legacy_name) for root in self._roots}
        self._legacy_file = str(job.legacy_path)
        self._before: tuple[int, ...] | None = None
        self._touched = False
        self._seen = 0

    def __str__(self) -> str:
        return self.label

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
        self.fired += struck
        if struck and self.on_strike is not None:
            self.on_strike()

    def on_event(self, paths: list[str]) -> None:
        """Look at one file event, before it happens."""
        if self.at == "legacy-written":
            if not self._legacy.isdisjoint(paths):
                self._touched = True
            elif not self.fired and self._legacy_is_written():
                self.fire()
        elif any(self._is_below(path) for path in paths):
            self._seen += 1
            if self.at in ("every-open", self._seen):
                self.fire()

    def _is_below(self, path: str) -> bool:
        return any(path.startswith(root + os.sep) for root in self._roots)

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
        paths = [path for position, folder in _PATHS[event] if (path := _path(args, position, folder))]
        for injection in tuple(_listening):
            if paths:
                injection.on_event(paths)
    finally:
        _state.busy = False


# Python traces no audit hook unless it asks for it: coverage and debuggers would be blind here.
vars(_hook)["__cantrace__"] = True


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
