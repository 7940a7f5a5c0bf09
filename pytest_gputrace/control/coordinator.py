"""Starts and stops a profile on all workers, and answers for them together.

A start is all or nothing. A stop is over when the files of every worker are on disk, or it is known of whom they are
not, and why. No worker can hold it up: each is asked in a thread of its own, and every wait has a deadline.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from pytest_gputrace.control.answer import Answer
from pytest_gputrace.control.asking import Asked
from pytest_gputrace.control.collecting import collect
from pytest_gputrace.control.expected import Expected, profilers_of
from pytest_gputrace.control.handle import LocalWorker, WorkerHandle
from pytest_gputrace.control.snapshot import Snapshot
from pytest_gputrace.control.verdict import RankVerdict, natural

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pytest_gputrace.control.reply import Reply, Status
    from pytest_gputrace.control.request import ProfileRequest

__all__ = ["Coordinator", "LocalWorker", "WorkerHandle"]

_STATUS_S = 5.0
_UNDO_S = 30.0


@dataclass(frozen=True)
class _Profile:
    """A profile that is under way, and what lay in its folder before."""

    request: ProfileRequest
    before: Snapshot


@dataclass
class _Stop:
    """A stop that is under way, which others may wait for."""

    done: threading.Event = field(default_factory=threading.Event)
    answer: Answer | None = None


class Coordinator:
    """All workers of a job. Safe for threads.

    Args:
        workers: one handle each, with tags that differ.
        reply_timeout_s: how long a worker may take to answer a start.
        collect_timeout_s: how long to wait for the files after a stop.

    Raises:
        ValueError: there is no worker, or two have one tag, and so one name for their files.
    """

    def __init__(
        self,
        workers: Sequence[WorkerHandle],
        *,
        reply_timeout_s: float = 60.0,
        collect_timeout_s: float = 120.0,
    ) -> None:
        self._workers = sorted(workers, key=lambda worker: natural(worker.tag))
        self._tags = tuple(worker.tag for worker in self._workers)
        if not self._tags:
            raise ValueError("there is no worker to coordinate")
        if double := sorted({tag for tag in self._tags if self._tags.count(tag) > 1}):
            what = f"several workers are called {', '.join(double)}, and would write files of one name"
            raise ValueError(f"{what}; give each its own coordinates, node or rank")
        self._reply_timeout_s = reply_timeout_s
        self._collect_timeout_s = collect_timeout_s
        self._changed = threading.Condition()
        self._is_starting = False
        self._profile: _Profile | None = None
        self._stop: _Stop | None = None
        self._last: Answer | None = None

    def start(self, request: ProfileRequest) -> Answer:
        """Start on every worker, or on none.

        Returns:
            ``recording`` or ``armed``; ``refused`` where nothing was changed, also as one is under way; ``failed``
            where some had started, which keep nothing of it. The reasons name each worker that did not start.
        """
        with self._changed:
            if (why := self._busy()) is not None:
                return Answer(False, "refused", f"nothing was changed: {why}", reasons=(why,))
            self._is_starting = True
        answer = None
        try:
            before = Snapshot.of(request.output_dir)
            answer = self._start_all(request)
        finally:
            with self._changed:
                self._is_starting = False
                if answer is not None and answer.ok:
                    self._profile = _Profile(request, before)
                if answer is None or answer.status != "refused":
                    self._last = None  # that of an earlier profile says nothing of this one
                self._changed.notify_all()
        return answer

    def stop(self, *, collect_timeout_s: float | None = None) -> Answer:
        """Stop on every worker, and wait for their files.

        Args:
            collect_timeout_s: how long, where it is not as usual.

        Returns:
            ``stopped``, or ``failed`` where anything is lost, with a verdict on each rank; the same again where it was
            stopped before. ``refused`` when there is nothing to stop.
        """
        with self._changed:
            while self._is_starting:
                self._changed.wait()
            under_way, profile = self._stop, self._profile
            if under_way is None and profile is None:
                why = "no profile was started"
                return self._last or Answer(False, "refused", why, reasons=(why,))
            if under_way is None:
                mine = self._stop = _Stop()
        if under_way is not None:
            under_way.done.wait()
            return under_way.answer or self.stop(collect_timeout_s=collect_timeout_s)
        assert profile is not None
        timeout_s = self._collect_timeout_s if collect_timeout_s is None else collect_timeout_s
        try:
            mine.answer = self._stop_all(profile, timeout_s)
        finally:
            with self._changed:
                self._stop = None
                if mine.answer is not None:
                    self._profile, self._last = None, mine.answer
            mine.done.set()
        return mine.answer

    def status(self) -> Answer:
        """What is going on, with a line for each worker in ``reasons``, and a verdict on each that is dead."""
        asked = Asked(self._workers, lambda worker: worker.status())
        asked.wait(min(_STATUS_S, self._reply_timeout_s))
        with self._changed:
            profile, last, is_stopping = self._profile, self._last, self._stop is not None
        replies, deaths = asked.replies(), asked.deaths()
        states = {tag: _state(replies.get(tag), deaths.get(tag, "")) for tag in self._tags}
        dead = tuple(RankVerdict(tag, "dead", death) for tag, death in sorted(deaths.items(), key=_natural))
        if profile is None:
            return self._rested(last, states, dead)
        request = profile.request
        status = _together(list(replies.values()))
        is_ok = len(replies) == len(self._tags) and not dead and all(reply.ok for reply in replies.values())
        if dead or any(not reply.ok for reply in replies.values()):
            status = "failed"
        doing = "it is being stopped" if is_stopping else status
        message = f"profile {request.profile_id} into {request.output_dir}: {doing}"
        return Answer(is_ok, status, message, request.profile_id, request.output_dir, dead, _lines(states))

    def _busy(self) -> str | None:
        if self._is_starting:
            return "a start is under way"
        if self._stop is not None:
            return "a stop is under way; start when it has answered"
        if self._profile is not None:
            return f"profile {self._profile.request.profile_id} is under way; stop it first"
        return None

    def _start_all(self, request: ProfileRequest) -> Answer:
        asked = Asked(self._workers, lambda worker: worker.start(request))
        asked.wait(self._reply_timeout_s)
        replies, deaths = asked.give_up(lambda worker: worker.cancel()), asked.deaths()
        wrong = {}
        for tag in self._tags:
            if tag in deaths:
                wrong[tag] = deaths[tag]
            elif tag not in replies:
                wrong[tag] = f"did not answer in {self._reply_timeout_s:g} s"
            elif not replies[tag].ok:
                wrong[tag] = replies[tag].message
        named = request.profile_id, request.output_dir
        if not wrong:
            status = _together(list(replies.values()))
            return Answer(
                True, status, f"profile {named[0]} into {named[1]}: {status}, {_count(len(self._tags))}", *named
            )
        started = [worker for worker in self._workers if worker.tag in replies and replies[worker.tag].ok]
        undone = self._undo([worker for worker in started if worker.tag not in deaths])
        reasons = _lines({**wrong, **undone})
        message = (
            f"the profile was not started, as {len(wrong)} of {_count(len(self._tags))} did not: {'; '.join(reasons)}"
        )
        is_refused = all(tag in replies and replies[tag].status == "refused" for tag in self._tags)
        verdicts = tuple(RankVerdict(tag, "dead", deaths[tag]) for tag in self._tags if tag in deaths)
        return Answer(False, "refused" if is_refused else "failed", message, *named, verdicts, reasons)

    def _undo(self, started: Sequence[WorkerHandle]) -> dict[str, str]:
        """Have those keep nothing; what stands in the way of that, by tag."""
        asked = Asked(started, lambda worker: worker.cancel())
        asked.wait(min(_UNDO_S, self._reply_timeout_s))
        answered = {*asked.replies(), *asked.deaths()}
        tags = [worker.tag for worker in started if worker.tag not in answered]
        return dict.fromkeys(tags, "started, and may record on: it did not answer when it was cancelled")

    def _stop_all(self, profile: _Profile, timeout_s: float) -> Answer:
        request = profile.request
        asked = Asked(self._workers, lambda worker: worker.stop())
        expected = Expected(
            tags=self._tags,
            profilers=profilers_of(request.activities),
            profile_id=request.profile_id,
            every_stage=request.profile_by_stage,
        )
        came = collect(
            request.output_dir,
            expected,
            before=profile.before,
            timeout_s=timeout_s,
            replies=asked.replies,
            deaths=asked.deaths,
        )
        reasons = tuple(f"{each.rank}: {each.verdict}: {each.message}" for each in came.ranks if each.verdict != "ok")
        status: Status = "stopped" if came.ok else "failed"
        return Answer(came.ok, status, came.message, request.profile_id, request.output_dir, came.ranks, reasons)

    def _rested(self, last: Answer | None, states: Mapping[str, str], dead: tuple[RankVerdict, ...]) -> Answer:
        """The status while nothing is recorded."""
        is_ok = not dead and (last is None or last.ok)
        if last is None:
            return Answer(is_ok, "idle", "no profile is under way", ranks=dead, reasons=_lines(states))
        ranks = tuple(each for each in last.ranks if each.rank not in {one.rank for one in dead})
        ranks = tuple(sorted((*ranks, *dead), key=lambda each: natural(each.rank)))
        return replace(last, ok=is_ok, ranks=ranks, reasons=(*last.reasons, *_lines(states)))


def _together(replies: Sequence[Reply]) -> Status:
    told = {reply.status for reply in replies}
    order: tuple[Status, ...] = ("recording", "armed", "stopped")
    return next((status for status in order if status in told), "failed")


def _state(reply: Reply | None, death: str) -> str:
    if death:
        return death
    if reply is None:
        return "does not answer"
    return f"{reply.status}, step {reply.step}" + ("" if reply.ok else f": {reply.message}")


def _natural(item: tuple[str, str]) -> list[tuple[int, str]]:
    return natural(item[0])


def _lines(states: Mapping[str, str]) -> tuple[str, ...]:
    return tuple(f"{tag}: {state}" for tag, state in sorted(states.items(), key=_natural))


def _count(workers: int) -> str:
    return "1 worker" if workers == 1 else f"{workers} workers"
