"""Carries the faults of an engine out, in the scheduler they strike: around its session, or around its profilers.

The library is never changed from inside: a fault wraps the session that the scheduler steps, takes its place with one
that is naive, or hands it a profiler that fails.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import shutil
import signal
import time
from typing import TYPE_CHECKING, Any, NoReturn

from pytest_gputrace.fakes import kills
from pytest_gputrace.fakes.engine import faults
from pytest_gputrace.fakes.engine.kinds import FailingKind, RefusingKind
from pytest_gputrace.fakes.engine.naive import CutShortSession, GrowingSession, SilentSession
from pytest_gputrace.fakes.engine.session import Wrapped
from pytest_gputrace.fakes.sizelimit import no_file_beyond

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from contextlib import AbstractContextManager

    from pytest_gputrace.control.activities.protocol import Kind
    from pytest_gputrace.control.reply import Reply
    from pytest_gputrace.fakes.engine.faults import EngineFault
    from pytest_gputrace.fakes.engine.session import EngineSession, NaiveFiles, Place

__all__ = ["harm_kinds", "harm_process", "harm_session"]

_DIES_AT_BYTE = 100  # no file that a profiler writes is as short


def harm_process(struck: Sequence[EngineFault]) -> None:
    """What faults do to the process, before it has a session."""
    if any(isinstance(fault, faults.IgnoresSigterm) for fault in struck):
        signal.signal(signal.SIGTERM, signal.SIG_IGN)


def harm_kinds(struck: Sequence[EngineFault], kinds: Sequence[Kind]) -> list[Kind]:
    """The profilers that the session is given."""
    harmed = list(kinds)
    for fault in struck:
        if isinstance(fault, faults.StartFails):
            harmed = [FailingKind(kind, fault.activity, "start") for kind in harmed]
        elif isinstance(fault, faults.SaveFails):
            harmed = [FailingKind(kind, fault.activity, "save") for kind in harmed]
        elif isinstance(fault, faults.Refuses):
            harmed = [RefusingKind(kind, fault.reason) for kind in harmed]
    return harmed


def harm_session(
    struck: Sequence[EngineFault], session: EngineSession, place: Place, files: NaiveFiles
) -> EngineSession:
    """The session that the scheduler steps, in place of ``session``."""
    for fault in struck:
        session = _harmed(fault, session, place, files)
    return session


def _harmed(fault: EngineFault, session: EngineSession, place: Place, files: NaiveFiles) -> EngineSession:
    tag = session.tag
    if isinstance(fault, faults.EarlyReply):
        return _Late(session, place, fault.late_s) if place.worker.rank else session
    if isinstance(fault, faults.NeverWrites):
        return SilentSession(tag, place, files)
    if isinstance(fault, faults.SecondRoundEmpty):
        return _OneRound(session, SilentSession(tag, place, files))
    if isinstance(fault, faults.WritesSlowly):
        return GrowingSession(tag, place, files, every_s=fault.every_s)
    if isinstance(fault, faults.CutsShort):
        return CutShortSession(tag, place, files)
    if isinstance(fault, faults.StopBlocks):
        return _Blocked(session)
    if isinstance(fault, faults.Dies):
        return _Dying(session, place, fault)
    if isinstance(fault, faults.DiskFull):
        return _FullDisk(session, fault.at_byte)
    if isinstance(fault, faults.InnerProfiler):
        return _Stolen(session)
    if isinstance(fault, faults.FolderVanishes):
        return _Homeless(session, files)
    return session


class _Late(Wrapped):
    """Answers a stop at once, and stops later."""

    def __init__(self, inner: EngineSession, place: Place, late_s: float) -> None:
        super().__init__(inner)
        self._place, self._late_s = place, late_s

    def stop(self) -> Reply:
        before = self._inner.status()
        if before.status not in ("armed", "recording"):
            return self._inner.stop()
        self._place.later(self._late_s, self._inner.stop)
        return dataclasses.replace(before, status="stopped", message="stopped")


class _OneRound(Wrapped):
    """Is the given session for one profile, and a silent one ever after."""

    def __init__(self, inner: EngineSession, silent: EngineSession) -> None:
        super().__init__(inner)
        self._silent = silent
        self._began = False

    def start(self, request: Mapping[str, Any]) -> Reply:
        if self._began and self._inner.status().status not in ("armed", "recording"):
            self._inner = self._silent
        reply = super().start(request)
        self._began = self._began or reply.ok
        return reply


class _Blocked(Wrapped):
    """Never comes back from a stop."""

    def stop(self) -> NoReturn:
        while True:
            time.sleep(60)


class _Armed(Wrapped):
    """Base of those that act in the first step after a start."""

    def __init__(self, inner: EngineSession) -> None:
        super().__init__(inner)
        self._request: Mapping[str, Any] | None = None

    def start(self, request: Mapping[str, Any]) -> Reply:
        reply = super().start(request)
        if reply.ok:
            self._request = request
        return reply

    @contextlib.contextmanager
    def _harmed_step(self, step: AbstractContextManager[object], request: Mapping[str, Any]) -> Any:
        with step:
            self._strike(request)
            yield

    def step(self, stage: str | None = None) -> AbstractContextManager[object]:
        step = super().step(stage)
        if self._request is None or self._inner.status().status != "recording":
            return step
        request, self._request = self._request, None
        harmed: AbstractContextManager[object] = self._harmed_step(step, request)
        return harmed

    def _strike(self, request: Mapping[str, Any]) -> None:
        raise NotImplementedError


class _Stolen(_Armed):
    def _strike(self, request: Mapping[str, Any]) -> None:
        import torch  # loaded by the session that is to be stolen, if at all

        inner = torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU])
        inner.start()
        inner.stop()


class _Homeless(_Armed):
    def __init__(self, inner: EngineSession, files: NaiveFiles) -> None:
        super().__init__(inner)
        self._files = files

    def _strike(self, request: Mapping[str, Any]) -> None:
        shutil.rmtree(self._files.folder(request), ignore_errors=True)


class _Dying(_Armed):
    """Ends the process at its moment."""

    def __init__(self, inner: EngineSession, place: Place, fault: faults.Dies) -> None:
        super().__init__(inner)
        self._place, self._fault = place, fault
        self._limits = contextlib.ExitStack()  # for good: the process ends by them

    def start(self, request: Mapping[str, Any]) -> Reply:
        reply = super().start(request)
        if reply.ok and self._fault.at == "writing":
            kills.allow()
            self._limits.enter_context(kills.dies_of_the_limit())
            self._limits.enter_context(no_file_beyond(_DIES_AT_BYTE))
        return reply

    def stop(self) -> Reply:
        if self._fault.at == "stopping":
            self._die()
        reply = super().stop()
        if self._fault.at == "stopped" and reply.status == "stopped":
            self._place.after_reply(self._die)
        return reply

    def _strike(self, request: Mapping[str, Any]) -> None:
        if self._fault.at == "recording":
            self._die()

    def _die(self) -> None:
        if self._fault.exit_code is not None:
            os._exit(self._fault.exit_code)
        os.kill(os.getpid(), signal.SIGKILL)


class _FullDisk(Wrapped):
    """Leaves room for so many bytes from a start on."""

    def __init__(self, inner: EngineSession, at_byte: int) -> None:
        super().__init__(inner)
        self._at_byte = at_byte
        self._limits = contextlib.ExitStack()  # for good: a full disk stays full

    def start(self, request: Mapping[str, Any]) -> Reply:
        reply = super().start(request)
        if reply.ok:
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            self._limits.enter_context(no_file_beyond(self._at_byte))
        return reply
