"""One profile in one worker: the recorders of its open window, the files of those that are closed, what went wrong.

Not safe for threads; the session sees to that.
"""

from __future__ import annotations

import logging
import os
import threading
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_gputrace.control.activities.protocol import Setup
from pytest_gputrace.control.output import Output
from pytest_gputrace.control.reply import Written
from pytest_gputrace.control.window import Window
from pytest_gputrace.errors import GputraceError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pytest_gputrace.control.activities.protocol import Kind, Recorder
    from pytest_gputrace.control.reply import Reply
    from pytest_gputrace.control.request import ProfileRequest

__all__ = ["Recording"]

_LOG = logging.getLogger("pytest_gputrace")


class Recording:
    """What a session records.

    ``window`` says when; ``files`` are on disk, ``reasons`` tell what is lost; ``steps`` were recorded in the windows
    that are closed. ``reply`` and ``ended`` are set by who ends it, the latter last.
    """

    def __init__(self, request: ProfileRequest, tag: str, kinds: Sequence[Kind]) -> None:
        self.request = request
        self.window = Window(request)
        self.files: list[Written] = []
        self.reasons: list[str] = []
        self.steps = 0
        self._of_stage: dict[str, int] = {}
        self.reply: Reply | None = None
        self.ended = threading.Event()
        self._windows = 0
        self._tag = tag
        self._kinds = [kind for kind in kinds if set(kind.words) & set(request.activities)]
        self._recorders: list[Recorder] = []
        self._thread = 0

    @property
    def may_close(self) -> bool:
        """Whether this thread may end what records."""
        bound = any(recorder.thread_bound for recorder in self._recorders)
        return not bound or self._thread == threading.get_ident()

    def open(self, stage: str | None) -> bool:
        """Start every recorder; where one cannot, none records, and the reason is kept."""
        folder = Path(self.request.output_dir)
        self._thread = threading.get_ident()
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except (OSError, ValueError) as error:  # ValueError: a name that no file system can hold
            self._lose(f"cannot make the folder {folder}: {getattr(error, 'strerror', None) or error}")
            return False
        output = Output(folder, self.request.profile_id, self._tag, stage, os.path.realpath(folder))
        for kind in self._kinds:
            words = tuple(word for word in kind.words if word in self.request.activities)
            setup = Setup(words, output, self.request.with_stack, self.request.record_shapes)
            recorder = None
            try:
                recorder = kind.recorder(setup)
                recorder.start()
            except BaseException as error:  # the worker's own work goes on; ends in a reason, or a raise
                self._lose(f"{' and '.join(words)} could not start: {_told(error)}")
                if isinstance(error, Exception):
                    self.undo()
                    return False
                if recorder is not None:  # a Ctrl-C may come when it records already
                    recorder.discard()
                self.undo()
                raise
            self._recorders.append(recorder)
        self._windows += 1
        return True

    def close(self) -> None:
        """Stop every recorder, then have each bring its files to disk; what fails costs no other one its files."""
        recorders, self._recorders = self._recorders, []
        steps, stage = self.window.steps, self.window.stage
        self.steps += steps
        if stage is not None:
            self._of_stage[stage] = steps
        # A Ctrl-C, too, costs one file and not the others: it is raised when all have had their turn.
        interrupts: list[BaseException] = []
        stopped = [recorder for recorder in reversed(recorders) if self._stop(recorder, interrupts)]
        for recorder in reversed(stopped):
            try:
                saved = recorder.save()
            except BaseException as error:  # noqa: BLE001  # as above
                self._lose(f"{_name(recorder)}{_of(stage)} is lost: {_told(error)}")
                interrupts += [] if isinstance(error, Exception) else [error]
                continue
            for each in saved:
                size_bytes = _size_bytes(each.path)
                self.files.append(Written(str(each.path), recorder.profiler, stage, steps, size_bytes, each.events))
                if each.problem:
                    self._lose(f"{each.path}: {each.problem}")
        if interrupts:
            raise interrupts[0]

    def finish(self, barrier: Callable[[], object] | None) -> None:
        """Once all windows are closed: wait for the others, and say so where nothing was recorded."""
        if not self._windows and not self.reasons:
            self._lose(f"nothing was recorded: {self._why_nothing()}")
        elif self._windows and self.window.has_count and not self.has_steps:
            self._lose(f"{self.describe_steps()} were recorded; is there traffic?")
        if barrier is not None:
            try:
                barrier()
            except Exception as error:  # noqa: BLE001  # as above
                self._lose(f"the barrier after the profile failed: {_told(error)}")

    @property
    def has_steps(self) -> bool:
        """Whether any step was recorded so far."""
        return self.steps > 0 or (self.window.is_open and self.window.steps > 0)

    def describe_steps(self) -> str:
        """How many steps were recorded, in words."""
        of = "" if self.request.num_steps is None else f" of {self.request.num_steps}"
        if self.request.profile_by_stage:
            now = {str(self.window.stage): self.window.steps} if self.window.is_open else {}
            return ", ".join(f"{stage} {steps}{of}" for stage, steps in {**self._of_stage, **now}.items()) + " steps"
        steps = self.steps + (self.window.steps if self.window.is_open else 0)
        return f"{steps}{of} step{'' if steps == 1 and not of else 's'}"

    def describe(self, why: str) -> str:
        """How it ended, in words."""
        if self.reasons:
            return f"{'; '.join(self.reasons)} ({why})"
        files = "1 file" if len(self.files) == 1 else f"{len(self.files)} files"
        text = f"recorded {self.describe_steps()} in {files}; {why}"
        missing = self.window.waiting_for
        return f"{text}; no step of {' and '.join(missing)} came" if missing else text

    def _why_nothing(self) -> str:
        if not self.request.profile_by_stage:
            return "the step it begins with did not come; is there traffic?"
        wanted, others = " or ".join(self.request.stages), ", ".join(self.window.other_stages)
        came = f"the stages that came were {others}" if others else "is there traffic?"
        return f"no step of {wanted} came; {came}"

    def undo(self) -> None:
        """End what records, and leave nothing of it on disk."""
        recorders, self._recorders = self._recorders, []
        for recorder in reversed(recorders):
            recorder.discard()

    def _stop(self, recorder: Recorder, interrupts: list[BaseException]) -> bool:
        try:
            recorder.stop()
        except BaseException as error:  # noqa: BLE001  # as above
            self._lose(f"{_name(recorder)} could not be stopped: {_told(error)}")
            interrupts += [] if isinstance(error, Exception) else [error]
            recorder.discard()
            return False
        return True

    def _lose(self, reason: str) -> None:
        self.reasons.append(reason)
        _LOG.error("profile %s, %s: %s", self.request.profile_id, self._tag, reason)


def _size_bytes(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:  # somebody has moved it on already
        return 0


def _name(recorder: Recorder) -> str:
    return f"the {recorder.profiler} file" if recorder.profiler else "the CUDA profiler's range"


def _of(stage: str | None) -> str:
    return f" of {stage}" if stage else ""


def _told(error: BaseException) -> str:
    # Our own errors are sentences; of another one the kind is half of what it says.
    return str(error) if isinstance(error, GputraceError) else f"{type(error).__name__}: {error}"
