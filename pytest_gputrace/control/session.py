"""The profile session of a worker process: a state machine between whoever asks and the profilers.

::

                start                    step, or at once              full, stop, close, deadline, no traffic, SIGTERM
    idle ─────────────────▶ armed ─────────────────────▶ recording ─────────────────────────▶ files on disk, idle

Everything is checked before anything is changed, so that a refused request leaves the session as it was. Whatever a
profiler does, neither ``step`` nor any other method raises for it: the worker's own work is worth more.
"""

from __future__ import annotations

import functools
import os
import threading
import time
import weakref
from typing import TYPE_CHECKING, Any

from pytest_gputrace.control.activities import kinds as all_kinds
from pytest_gputrace.control.activities import refusals
from pytest_gputrace.control.recording import Recording
from pytest_gputrace.control.reply import Reply
from pytest_gputrace.control.request import ProfileRequest
from pytest_gputrace.control.section import Section
from pytest_gputrace.control.watch import Exit, Termination, Watchdog
from pytest_gputrace.control.window import Close
from pytest_gputrace.control.workertag import tag_of
from pytest_gputrace.errors import NamingError, RequestError
from pytest_gputrace.windownames import window_name

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from types import TracebackType

    from typing_extensions import Self

    from pytest_gputrace.control.activities.protocol import Kind
    from pytest_gputrace.control.reply import Status
    from pytest_gputrace.model import WorkerId

__all__ = ["Session", "Step"]

_OWNER_S = 30.0  # how long a stop waits for the thread that alone may end what it started
_SIGTERM_S = 60.0  # and SIGTERM for files that another thread writes
_IDLE_S = 30.0


class Step:
    """One step of the worker; in a ``with`` statement a window that is full then closes at the step's end."""

    __slots__ = ("_session",)

    def __init__(self, session: Session | None = None) -> None:
        self._session = session

    def __enter__(self) -> None:
        if self._session is not None:
            self._session._in_step = True

    def __exit__(self, *_: object) -> None:
        if self._session is not None:
            self._session._end_step()


_UNRECORDED = Step()
_NONE = "no profile was started"
_FULL = "its windows are over"


class Session:
    """Records profiles of the process it lives in; make one for each worker process, before its first step.

    ::

        session = Session(worker=WorkerId(node="a", rank=5, local_rank=1, world_size=8, coordinates={"DP": 1, "TP": 2}))
        for batch in batches:
            with session.step("DECODE"):
                run(batch)

    ``start``, ``stop``, ``status`` and ``close`` may come from any thread, ``step`` comes from the one that works. What is
    started by another one than that begins with its next step.

    Args:
        worker: who this process is; found out by `identify` when not given.
        coordinates: the parallel dimensions of this process, such as ``{"DP": 1, "TP": 0}``, beside those of ``worker``.
        output_dir: the folder for a request that names none.
        kinds: the profilers; all there are when not given.
        barrier: called once after the files of each profile are on disk, also when some are lost; whatever it raises is
            told in the reply. It must have a deadline of its own.
        idle_s: a window that counts steps, and has one, is closed when none came for so long: traffic has ended.
        on_sigterm: whether SIGTERM closes an open window first, where the session is made, or a profile started, in the
            main thread; what SIGTERM did before happens afterwards.

    Raises:
        IdentityError: it is not clear who this process is.
        NamingError: a coordinate is none.
    """

    def __init__(
        self,
        *,
        worker: WorkerId | None = None,
        coordinates: Mapping[str, int] | None = None,
        output_dir: str | os.PathLike[str] | None = None,
        kinds: Sequence[Kind] | None = None,
        barrier: Callable[[], object] | None = None,
        idle_s: float = _IDLE_S,
        on_sigterm: bool = True,
    ) -> None:
        self.tag = tag_of(worker, coordinates or {})
        self._output_dir = None if output_dir is None else os.path.abspath(output_dir)
        self._kinds = tuple(all_kinds() if kinds is None else kinds)
        self._barrier = barrier
        self._idle_s = idle_s
        self._steps = self._stepper = 0
        self._recording: Recording | None = None
        self._last: Reply | None = None
        self._watchdog: Watchdog | None = None
        self._stop_for = ""  # why a profile shall end that only another thread can end
        self._finishing = self._in_step = False
        self._end_s = self._last_step_s = 0.0
        self._section = Section(self._forget)
        self._termination = Termination(lambda: self._section.apart(self._end_by_signal)) if on_sigterm else None
        self._exit = Exit(functools.partial(_close, weakref.ref(self)))  # a session that nobody has need not live on
        self._hold_the_end()

    def start(self, request: ProfileRequest | Mapping[str, Any]) -> Reply:
        """Begin a profile, or be ready to begin it with a step that is still to come.

        Args:
            request: what to record; a mapping is read as `ProfileRequest.from_json` does.

        Returns:
            ``recording`` or ``armed``; ``refused`` with every reason, and nothing is changed; ``failed`` where a
            profiler could not start, and then none records.
        """
        with self._section:
            try:
                request = self._checked(request)
            except RequestError as error:
                return self._reply("refused", "nothing was changed: " + "; ".join(error.reasons), reasons=error.reasons)
            recording = Recording(request, self.tag, self._kinds)
            # Profilers may see no thread but the one that starts them: leave it to the one that works, where it is known.
            if recording.window.at_once and self._stepper in (0, threading.get_ident()):
                recording.window.opened(None)
                if not recording.open(None):
                    # Whoever asks next must not hear of the profile before.
                    self._last = self._reply("failed", "; ".join(recording.reasons), recording, recording.reasons)
                    return self._last
            now_s = time.monotonic()
            self._recording, self._stop_for, self._end_s = recording, "", now_s + request.deadline_s
            self._last_step_s = now_s
            self._hold_the_end()
            self._watchdog = Watchdog(lambda: self._look(recording), self._next_look_s(recording))
            return self._state(recording)

    def stop(self) -> Reply:
        """End the profile, and answer when its files are on disk.

        Returns:
            ``stopped``, or ``failed`` where anything is lost; the same again where it was stopped, or ended by itself,
            before. ``refused`` when there was none.
        """
        with self._section:
            recording = self._recording
            if recording is None:
                return self._last or self._reply("refused", _NONE, reasons=[_NONE])
            self._finish("it was stopped")
        return self._result_of(recording)

    def cancel(self) -> Reply:
        """End a profile that is under way and keep nothing of an open window, as it did not begin on other workers."""
        with self._section:
            recording = self._recording
            if recording is not None and not recording.may_close:
                self._stop_for = "it was cancelled"
            elif recording is not None:
                recording.undo()
                self._let_go(self._reply("idle", "it was cancelled, and nothing was kept", recording))
                self._last = None
            return self.status()

    def step(self, stage: str | None = None) -> Step:
        """Say that a step of the worker begins, and of which stage it is (``PREFILL``, ``DECODE``); costs nothing when idle."""
        number, self._steps, self._stepper = self._steps, self._steps + 1, threading.get_ident()
        if self._recording is None or self._finishing:  # while files are written the worker works on
            return _UNRECORDED
        with self._section:
            return Step(self) if self._begin_step(number, stage) else _UNRECORDED

    def status(self) -> Reply:
        """What is going on; waits for nothing."""
        recording, last = self._recording, self._last
        if recording is not None:
            return self._state(recording)
        return last or self._reply("idle", _NONE)

    def close(self) -> None:
        """End a profile that is under way, its files on disk, and let go of SIGTERM; harmless when repeated."""
        with self._section:
            self._finish("the session was closed")
        if self._termination is not None:
            self._termination.release()
        self._exit.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    # What follows runs inside a section.

    def _checked(self, request: ProfileRequest | Mapping[str, Any]) -> ProfileRequest:
        if self._recording is not None:
            raise RequestError(f"profile {self._recording.request.profile_id} is under way; stop it first")
        if not isinstance(request, ProfileRequest):
            request = ProfileRequest.from_json(request, output_dir=self._output_dir)
        reasons = refusals(request.activities, self._kinds)
        if why := _not_a_folder(request.output_dir) or _unnameable(request, self.tag):
            reasons.append(why)
        if reasons:
            raise RequestError("; ".join(reasons), reasons=reasons)
        return request

    def _begin_step(self, number: int, stage: str | None) -> bool:
        """Do what the window says before a step; whether a profile is under way then."""
        recording = self._recording
        if recording is None:
            return False
        if self._stop_for:
            self._finish(self._stop_for)
            return False
        self._last_step_s = time.monotonic()
        if not recording.may_close:  # it was started before this thread worked, and ends in the one that started it
            return True
        for action in recording.window.before_step(number, stage):
            if isinstance(action, Close):
                recording.close()
            elif not self._open(recording, action.stage):
                return False
        if recording.window.is_done:
            self._finish(_FULL)
        return not recording.window.is_done

    def _open(self, recording: Recording, stage: str | None) -> bool:
        """Have a window begin in the middle of a profile; where it cannot, the profile is over."""
        is_open = False
        try:
            is_open = recording.open(stage)
        finally:
            if not is_open:
                recording.window.closed()
                self._finish("a profiler could not start")
        return is_open

    def _end_step(self) -> None:
        self._in_step, self._last_step_s = False, time.monotonic()
        if self._finishing:  # another thread writes
            return
        with self._section:
            recording = self._recording
            if recording is not None and recording.window.is_full and recording.may_close:
                recording.window.closed()
                recording.close()
                if recording.window.is_done:
                    self._finish(_FULL)

    def _finish(self, why: str) -> None:
        """Bring everything to disk, unless there is nothing under way, or only another thread may end it, and is told so."""
        recording = self._recording
        if recording is None:
            return
        if not recording.may_close:
            self._stop_for = why
            return
        self._finishing = True
        try:
            if recording.window.is_open:
                recording.window.closed()
                recording.close()
            recording.finish(self._barrier)
        finally:  # a Ctrl-C must not leave a profile that can neither go on nor end
            status: Status = "failed" if recording.reasons else "stopped"
            self._let_go(self._reply(status, recording.describe(why), recording, recording.reasons))

    def _let_go(self, reply: Reply) -> None:
        """Be idle again, with the reply for whoever asks from now on."""
        recording, watchdog = self._recording, self._watchdog
        self._recording, self._watchdog, self._stop_for, self._finishing = None, None, "", False
        self._last = reply
        if watchdog is not None:
            watchdog.end()
        if recording is not None:
            recording.reply = reply
            recording.ended.set()

    def _look(self, recording: Recording) -> float | None:
        """For the watchdog: close what is over."""
        with self._section:
            if self._recording is not recording or self._stop_for:
                return None
            if time.monotonic() >= self._end_s:
                self._finish(f"its deadline of {recording.request.deadline_s:g} s came")
            elif self._idle_in_s(recording) <= 0:
                self._finish(f"no step came for {self._idle_s:g} s")
            return self._next_look_s(recording) if self._recording is recording else None

    def _idle_in_s(self, recording: Recording) -> float:
        """Seconds until traffic counts as ended; a window without a number of steps, or without a step, waits on."""
        if self._in_step or not recording.window.has_count or not recording.has_steps:
            return self._idle_s
        return self._last_step_s + self._idle_s - time.monotonic()

    def _next_look_s(self, recording: Recording) -> float:
        return max(0.0, min(self._end_s - time.monotonic(), self._idle_in_s(recording)))

    def _hold_the_end(self) -> None:
        self._exit.hold()
        if self._termination is not None:
            self._termination.hold()

    def _state(self, recording: Recording) -> Reply:
        if recording.window.is_open:
            return self._reply("recording", f"records, {recording.describe_steps()} so far", recording)
        return self._reply("armed", "waits for the step, or the stage, that it begins with", recording)

    def _reply(
        self, status: Status, message: str, recording: Recording | None = None, reasons: Sequence[str] = ()
    ) -> Reply:
        ok = status not in ("refused", "failed")
        profile_id = None if recording is None else recording.request.profile_id
        files = () if recording is None else tuple(recording.files)
        return Reply(ok, status, message, self.tag, profile_id, self._steps, files, tuple(reasons))

    # What follows is about threads and processes.

    def _result_of(self, recording: Recording) -> Reply:
        """The reply, once the thread that may has ended the profile."""
        if recording.ended.wait(_OWNER_S):
            assert recording.reply is not None
            return recording.reply
        what = (
            f"only the thread that started the profile can end it, and it made no step in {_OWNER_S:g} s; it records on"
        )
        return self._reply("failed", what, recording, [what])

    def _end_by_signal(self) -> None:
        if self._section.acquire(timeout_s=_SIGTERM_S):
            try:
                self._finish("SIGTERM came")
            finally:
                self._section.release()
        if self._termination is not None:
            self._termination.go_on()

    def _forget(self) -> None:
        """Be idle; so is a forked process, whose parent records on."""
        self._recording = self._last = self._watchdog = None
        self._stop_for = ""
        self._finishing = self._in_step = False


def _not_a_folder(path: str) -> str:
    """Why no files can go there, as far as it can be told without making anything; empty where they can."""
    while not os.path.lexists(path):
        path = os.path.dirname(path)
    if not os.path.isdir(path):
        return f"output_dir: {path} is no folder"
    return "" if os.access(path, os.W_OK | os.X_OK) else f"output_dir: {path} cannot be written to"


def _unnameable(request: ProfileRequest, tag: str) -> str:
    """Why no file can have its name; empty where all can."""
    try:
        for stage in request.stages or (None,):
            window_name(
                request.profile_id, tag, stage=stage, profiler="viztracer", ending=".hatchet_msgpack", attempt=99_999
            )
    except NamingError as error:
        return str(error)
    return ""


def _close(reference: Callable[[], Session | None]) -> None:
    session = reference()
    if session is not None:
        session.close()
