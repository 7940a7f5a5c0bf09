"""One question to all workers at once, each in a thread of its own, so that none can keep the others waiting."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

from pytest_gputrace.control.reply import Reply

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pytest_gputrace.control.handle import WorkerHandle

__all__ = ["Asked"]

_LOOK_S = 0.05


class Asked:
    """The question, asked as soon as this is made.

    Args:
        workers: who is asked.
        question: put to each; what it raises becomes an answer.
    """

    def __init__(self, workers: Sequence[WorkerHandle], question: Callable[[WorkerHandle], Reply]) -> None:
        self._workers = workers
        self._question = question
        self._answered = threading.Condition()
        self._replies: dict[str, Reply] = {}
        self._deaths: dict[str, str] = {}
        self._too_late: Callable[[WorkerHandle], object] | None = None
        for worker in workers:
            # Daemons: a worker that never answers must not keep this process from its end.
            threading.Thread(target=self._ask, args=(worker,), name=f"gputrace {worker.tag}", daemon=True).start()

    def replies(self) -> dict[str, Reply]:
        """The answers so far, by tag."""
        with self._answered:
            return dict(self._replies)

    def deaths(self) -> dict[str, str]:
        """How each worker ended that did, by tag; one that was seen to be dead stays so."""
        for worker in self._workers:
            if worker.tag not in self._deaths and (death := worker.death()):
                self._deaths[worker.tag] = death
        return dict(self._deaths)

    def wait(self, timeout_s: float) -> None:
        """Wait until everybody has answered or died, but not longer than that."""
        deadline_s = time.monotonic() + timeout_s
        while True:
            deaths = self.deaths()
            with self._answered:
                pending = [worker for worker in self._workers if worker.tag not in {*self._replies, *deaths}]
                left_s = deadline_s - time.monotonic()
                if not pending or left_s <= 0:
                    return
                self._answered.wait(min(_LOOK_S, left_s))

    def give_up(self, too_late: Callable[[WorkerHandle], object]) -> dict[str, Reply]:
        """The answers, now that no other one is waited for; who says yes later has ``too_late`` called."""
        with self._answered:
            self._too_late = too_late
            return dict(self._replies)

    def _ask(self, worker: WorkerHandle) -> None:
        try:
            reply = self._question(worker)
        except Exception as error:  # noqa: BLE001  # another process is at the other end; ends in an answer
            reply = Reply(False, "failed", f"asking it failed: {type(error).__name__}: {error}", worker.tag)
        with self._answered:
            too_late = self._too_late
            if too_late is None:
                self._replies[worker.tag] = reply
                self._answered.notify_all()
        if too_late is not None and reply.ok:
            too_late(worker)
