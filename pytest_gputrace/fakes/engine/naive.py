"""An honest model of the profile sessions that engines have today: in place, under a plain name, "stopped" too early.

Broken on purpose in the ways of family B, by what is overridden. It records nothing: its files are made up, and valid.
"""

from __future__ import annotations

import contextlib
import os
import signal
from typing import TYPE_CHECKING, Any

from pytest_gputrace.control.reply import Reply

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from contextlib import AbstractContextManager
    from pathlib import Path

    from pytest_gputrace.control.reply import Status
    from pytest_gputrace.fakes.engine.session import NaiveFiles, Place

__all__ = ["CutShortSession", "GrowingSession", "NaiveSession", "SilentSession"]

_CHUNK = 4096
_STAGES = 2


class NaiveSession:
    """Counts steps between a start and a stop, and then writes what ``files`` has.

    By stage it has a window for each, up to the next step of another stage. Where a number of steps is asked for it
    stops itself, in the step after the last.

    Args:
        tag: of the worker.
        place: the scheduler it is in.
        files: what it writes.
        late_s: how long after its reply it begins to write.
    """

    def __init__(self, tag: str, place: Place, files: NaiveFiles, *, late_s: float = 0.0) -> None:
        self.tag = tag
        self.place = place
        self._files = files
        self._late_s = late_s
        self._request: Mapping[str, Any] | None = None
        self._last: Reply | None = None
        self._steps = 0
        self._windows: dict[str | None, int] = {}
        self._written: set[str | None] = set()

    def start(self, request: Mapping[str, Any]) -> Reply:
        """Begin to count; a second start before the stop is refused."""
        if self._request is not None:
            return self._reply("refused", "Profiling is already in progress. Call /stop_profile first.")
        self._files.folder(request).mkdir(parents=True, exist_ok=True)
        self._request, self._windows, self._written = request, {}, set()
        if not request.get("profile_by_stage"):
            self._windows[None] = 0
        return self._reply("recording", "Succeeded")

    def stop(self) -> Reply:
        """Say that it is done; the files come when they come."""
        if self._request is None:
            return self._reply("refused", "Profiling is not in progress. Call /start_profile first.")
        for stage in [*self._windows]:
            self._flush(self._request, stage)
        self._last = self._reply("stopped", "Succeeded")
        self._request = None
        return self._last

    def cancel(self) -> Reply:
        """Engines of today know no such thing: a stop."""
        return self.stop()

    def status(self) -> Reply:
        """Whether it records."""
        if self._request is not None:
            return self._reply("recording", "Profiling is in progress.")
        return self._last or self._reply("idle", "Profiling is not in progress.")

    def step(self, stage: str | None = None) -> AbstractContextManager[object]:
        """Count."""
        number, self._steps = self._steps, self._steps + 1
        if self._request is not None and number >= (self._request.get("start_step") or 0):
            self._count(self._request, stage if self._request.get("profile_by_stage") else None)
        return contextlib.nullcontext()

    def write(self, path: Path, data: bytes) -> None:
        """Write in place, as ``open(path, "w")`` does; where the folder is gone nobody hears of it, as in Kineto."""
        if not path.parent.is_dir():
            print(f"Failed to open '{path}'", flush=True)  # noqa: T201  # the engine's log
            return
        with open(path, "wb") as stream:
            for start in range(0, len(data), _CHUNK):
                stream.write(data[start : start + _CHUNK])
                stream.flush()

    def write_all(self, files: Sequence[tuple[Path, bytes]]) -> None:
        """Write the files of a window."""
        for path, data in files:
            self.write(path, data)

    def _count(self, request: Mapping[str, Any], stage: str | None) -> None:
        for other in [*self._windows]:
            if other != stage:
                self._flush(request, other)
        if stage in self._written:
            return
        steps, limit = self._windows.get(stage, 0), request.get("num_steps")
        if limit is None or steps < limit:
            self._windows[stage] = steps + 1
            return
        self._flush(request, stage)
        if stage is None or len(self._written) == _STAGES:
            self.stop()

    def _flush(self, request: Mapping[str, Any], stage: str | None) -> None:
        """Write the window of a stage, now or later, if that was not done."""
        if stage in self._written:
            return
        self._written.add(stage)
        steps = self._windows[stage]

        def write() -> None:
            self.write_all(self._files.contents(request, steps, stage))

        if self._late_s:
            self.place.later(self._late_s, write)
        else:
            write()

    def _reply(self, status: Status, message: str) -> Reply:
        ok = status not in ("refused", "failed")
        profile_id = (self._request or {}).get("profile_id")
        return Reply(ok, status, message, self.tag, profile_id, self._steps, reasons=() if ok else (message,))


class SilentSession(NaiveSession):
    """Writes nothing."""

    def _flush(self, request: Mapping[str, Any], stage: str | None) -> None:
        self._written.add(stage)


class GrowingSession(NaiveSession):
    """Writes the first half, and then a little more every ``every_s`` seconds, for ever: white space, which JSON allows there."""

    def __init__(self, tag: str, place: Place, files: NaiveFiles, *, every_s: float) -> None:
        super().__init__(tag, place, files)
        self._every_s = every_s

    def write(self, path: Path, data: bytes) -> None:
        """Begin."""
        super().write(path, data[: len(data) // 2])
        self._grow(path)

    def _grow(self, path: Path) -> None:
        with open(path, "ab") as stream:
            stream.write(b" " * 64)
        self.place.later(self._every_s, lambda: self._grow(path))


class CutShortSession(NaiveSession):
    """Writes half of each file, and is killed."""

    def write(self, path: Path, data: bytes) -> None:
        """Write half of it."""
        super().write(path, data[: len(data) // 2])

    def write_all(self, files: Sequence[tuple[Path, bytes]]) -> None:
        """Write them, and die."""
        super().write_all(files)
        os.kill(os.getpid(), signal.SIGKILL)
