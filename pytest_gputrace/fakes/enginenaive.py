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
    from collections.abc import Mapping
    from contextlib import AbstractContextManager
    from pathlib import Path

    from pytest_gputrace.control.reply import Status
    from pytest_gputrace.fakes.enginesession import NaiveFiles, Place

__all__ = ["CutShortSession", "GrowingSession", "NaiveSession", "SilentSession"]

_CHUNK = 4096


class NaiveSession:
    """Counts steps between a start and a stop, and then writes what ``files`` gives.

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
        self._steps = self._recorded = 0

    def start(self, request: Mapping[str, Any]) -> Reply:
        """Begin to count; a second start before the stop is refused."""
        if self._request is not None:
            return self._reply("refused", "Profiling is already in progress. Call /stop_profile first.")
        self._request, self._recorded = request, 0
        return self._reply("recording", "Succeeded")

    def stop(self) -> Reply:
        """Say that it is done; the files come when they come."""
        if self._request is None:
            return self._last or self._reply("refused", "Profiling is not in progress. Call /start_profile first.")
        request, self._request = self._request, None
        reply = self._last = self._reply("stopped", "Succeeded", request)
        if self._late_s:
            self.place.later(self._late_s, lambda: self._write_all(request))
        else:
            self._write_all(request)
        return reply

    def status(self) -> Reply:
        """Whether it records."""
        if self._request is not None:
            return self._reply("recording", "Profiling is in progress.")
        return self._last or self._reply("idle", "Profiling is not in progress.")

    def step(self, stage: str | None = None) -> AbstractContextManager[object]:
        """Count; a profile of a number of steps ends with the step after the last."""
        self._steps += 1
        if self._request is not None:
            limit = self._request.get("num_steps")
            if limit is not None and self._recorded >= limit:
                self.stop()
            else:
                self._recorded += 1
        return contextlib.nullcontext()

    def write(self, path: Path, data: bytes) -> None:
        """Write in place, as ``open(path, "w")`` does."""
        with open(path, "wb") as stream:
            for start in range(0, len(data), _CHUNK):
                stream.write(data[start : start + _CHUNK])
                stream.flush()

    def _write_all(self, request: Mapping[str, Any]) -> None:
        for path, data in self._files(request, self._recorded):
            self.write(path, data)

    def _reply(self, status: Status, message: str, request: Mapping[str, Any] | None = None) -> Reply:
        ok = status not in ("refused", "failed")
        profile_id = (request or self._request or {}).get("profile_id")
        return Reply(ok, status, message, self.tag, profile_id, self._steps, reasons=() if ok else (message,))


class SilentSession(NaiveSession):
    """Writes nothing."""

    def _write_all(self, request: Mapping[str, Any]) -> None:
        pass


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

    def _write_all(self, request: Mapping[str, Any]) -> None:
        super()._write_all(request)
        os.kill(os.getpid(), signal.SIGKILL)


