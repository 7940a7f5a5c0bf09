"""Lets workers go from file event to file event together, in a fixed order, so that whatever can collide does.

Between two file events of one worker lie its questions ("does it exist?"). When every worker has to come to its next
event before any does it, all have asked before the first one acts. Then they act one after another, each up to its
next event: what collides ends the same way each time, where bytes of two writers would mix as they please.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from pytest_gputrace.fakes.faultbase import Fault
from pytest_gputrace.fakes.moments import Record, TraceFolder, listening

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from contextlib import AbstractContextManager

    from pytest_gputrace.fakes.faultbase import AtWork
    from pytest_gputrace.fakes.job import Job
    from pytest_gputrace.fakes.moments import FileEvent

__all__ = ["Lockstep"]

_STEPS = frozenset({"open", "os.rename", "os.link", "os.remove", "os.truncate", "os.mkdir"})
_NAP_S = 0.0005
_WORD = 4  # bytes of a counter: the processor writes it in one piece
# Kept from before a simulated identity replaces it.
_real_getpid = os.getpid


@dataclass(frozen=True, repr=False)
class Lockstep(Fault):
    """See ``lockstep``."""

    patience_s: float = 5.0
    side_by_side: ClassVar[bool] = True

    def around_run(self, jobs: Sequence[Job]) -> AbstractContextManager[AtWork]:
        """Make the memory in which the workers tell each other how far they are."""
        return contextlib.nullcontext(_Meeting(str(self), jobs, self.patience_s))

    def advice(self, jobs: Sequence[Job]) -> str:
        """Who did not meet."""
        if len(jobs) == 1:
            return f"it selected {jobs[0]} alone, who has nobody to meet; select more workers with who="
        return (
            "no two workers came to a file event below the trace folder together; files that C code opens are not seen, "
            "and a worker that holds a lock for longer than patience_s ends the lockstep"
        )


class _Meeting:
    """The workers of one run: for each, the number of the file event it has come to, and whether it ended."""

    def __init__(self, label: str, jobs: Sequence[Job], patience_s: float) -> None:
        self._label, self._patience_s = label, patience_s
        self._places = {job: place for place, job in enumerate(jobs)}
        words = memoryview(mmap.mmap(-1, _WORD * (2 * len(jobs) + 1))).cast("I")
        self._come_to, self._ended, self._given_up = words[: len(jobs)], words[len(jobs) : -1], words[-1:]

    @contextlib.contextmanager
    def applied(self, job: Job) -> Iterator[Record]:
        """Take part, until the call ends."""
        me = _Participant(self, self._label, job, self._places[job])
        try:
            with listening(me):
                yield me
        finally:
            if me.is_itself():
                self._ended[me.place] = 1

    def wait(self, place: int, step: int) -> bool:
        """Say that one has come to a step, wait for the others and then for one's turn; whether it met any."""
        others = [other for other in self._places.values() if other != place]
        self._come_to[place] = step
        if not self._until_come(others, step):
            return False
        met = any(self._come_to[other] >= step for other in others)
        return met and self._until_come([other for other in others if other < place], step + 1)

    def _until_come(self, others: Sequence[int], step: int) -> bool:
        """Wait until each of ``others`` has come to a step or ended; false when the lockstep was given up."""
        until = time.monotonic() + self._patience_s
        while not self._given_up[0]:
            if all(self._come_to[other] >= step or self._ended[other] for other in others):
                return True
            if time.monotonic() > until:
                self._given_up[0] = 1
            else:
                time.sleep(_NAP_S)
        return False


class _Participant(Record):
    """One worker's part in it. What it forks goes its own way."""

    def __init__(self, meeting: _Meeting, label: str, job: Job, place: int) -> None:
        super().__init__(label)
        self.place = place
        self._meeting, self._folder = meeting, TraceFolder(job)
        self._rank_dir = f"{job.rank_dir}{os.sep}"  # some keep their files there
        self._pid = _real_getpid()
        self._steps = 0
        self._counting = threading.Lock()

    def is_itself(self) -> bool:
        """Whether this process is the worker, not one that it forked."""
        return _real_getpid() == self._pid

    def on_event(self, event: FileEvent) -> None:
        """Wait until the others have come as far."""
        if event.name not in _STEPS or not self._concerns(event) or not self.is_itself():
            return
        with self._counting:
            self._steps += 1
            step = self._steps
        if self._meeting.wait(self.place, step):
            self.struck()

    def _concerns(self, event: FileEvent) -> bool:
        mine = self._folder.holds_any(event.paths)
        return mine or any(path.startswith(self._rank_dir) for path in event.paths)
