"""The frontend's side of one scheduler: commands to it and their answers, and how it ended."""

from __future__ import annotations

import contextlib
import os
import queue
import signal
import threading
import time
from typing import TYPE_CHECKING, Any

from pytest_gputrace.control.reply import Reply
from pytest_gputrace.errors import ControlError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pytest_gputrace.control.request import ProfileRequest
    from pytest_gputrace.fakes.engine.wire import Wire
    from pytest_gputrace.model import WorkerId

__all__ = ["SchedulerHandle"]

_POLL_S = 0.005
_END_S = 2.0  # from the end of its socket to the end of the process


class SchedulerHandle:
    """One forked scheduler; it speaks as the coordinator wants its workers to.

    ``tag`` is that of its session, ``steps`` how many steps it told of, in all traffic so far.
    """

    def __init__(self, worker: WorkerId, pid: int, wire: Wire, timeout_s: float) -> None:
        self.worker, self.pid, self.tag = worker, pid, worker.tag
        self.steps = 0
        self._wire, self._timeout_s = wire, timeout_s
        self._lock = threading.Lock()
        self._waiting: dict[int, queue.SimpleQueue[dict[str, Any] | None]] = {}
        self._asked = 0
        self._is_gone = False
        self._status: int | None = None

    def wait_until_ready(self, within_s: float) -> None:
        """Take the scheduler's first word, the tag of its session; then listen to it in a thread.

        Raises:
            ControlError: it ended, or said nothing in time.
        """
        try:
            word = self._wire.receive(within_s)
        except EOFError:
            raise ControlError(f"scheduler {self.tag} did not start: {self._how_it_ended()}") from None
        if word is None:
            raise ControlError(f"scheduler {self.tag} did not start within {within_s:g} s")
        self.tag = word["ready"]

    def listen(self) -> None:
        """Hand each answer to who waits for it, from now on."""
        threading.Thread(target=self._listen, name=f"listen-{self.tag}", daemon=True).start()

    def start(self, request: ProfileRequest) -> Reply:
        """Have it start a profile."""
        return self.ask_reply("start", request.as_json())

    def stop(self) -> Reply:
        """Have it stop."""
        return self.ask_reply("stop")

    def cancel(self) -> Reply:
        """Have it end without keeping anything."""
        return self.ask_reply("cancel")

    def status(self) -> Reply:
        """What it does."""
        return self.ask_reply("status")

    def death(self) -> str:
        """How it ended; empty while it lives."""
        with self._lock:
            if self._status is None:
                with contextlib.suppress(ChildProcessError):
                    pid, status = os.waitpid(self.pid, os.WNOHANG)
                    self._status = status if pid else None
            if self._status is None:
                return ""
        if os.WIFSIGNALED(self._status):
            number = os.WTERMSIG(self._status)
            return f"killed by signal {number} ({signal.Signals(number).name})"
        return f"exited with {os.WEXITSTATUS(self._status)}"

    def ask_reply(self, what: str, request: Mapping[str, Any] | None = None) -> Reply:
        """Send a command to its session, and wait for the answer.

        Raises:
            ControlError: it ended, or did not answer in time.
        """
        return self.reply(self.send(what, request=dict(request or {})))

    def reply(self, number: int) -> Reply:
        """The session's answer to a command that was sent.

        Raises:
            ControlError: it ended, or did not answer in time.
        """
        return Reply.from_json(self.answer(number, self._timeout_s)["reply"])

    def send(self, what: str, **fields: Any) -> int:
        """Send a command; the number is for ``answer``."""
        with self._lock:
            self._asked += 1
            number = self._asked
            answers = self._waiting[number] = queue.SimpleQueue()
            if self._is_gone:
                answers.put(None)
        with contextlib.suppress(OSError):  # its end is gone: whoever listens to it says so
            self._wire.send({"id": number, "do": what, **fields})
        return number

    def answer(self, number: int, within_s: float) -> dict[str, Any]:
        """The answer to a command.

        Raises:
            ControlError: it ended, or did not answer in time.
        """
        try:
            answer = self._waiting[number].get(timeout=max(0.0, within_s))
        except queue.Empty:
            raise ControlError(f"scheduler {self.tag} did not answer within {within_s:g} s") from None
        finally:
            with self._lock:
                self._waiting.pop(number)
        if answer is None:
            raise ControlError(f"scheduler {self.tag}: {self._how_it_ended()}")
        return answer

    def end(self) -> None:
        """Kill it, as engines do when they shut down, and wait for its end."""
        with contextlib.suppress(ProcessLookupError):
            if not self.death():
                os.kill(self.pid, signal.SIGKILL)
        self._how_it_ended()

    def _how_it_ended(self) -> str:
        until_s = time.monotonic() + _END_S
        while not (death := self.death()):
            if time.monotonic() > until_s:
                return "closed its socket"
            time.sleep(_POLL_S)
        return death

    def _listen(self) -> None:
        while True:
            try:
                message = self._wire.receive(None)
            except (EOFError, OSError):
                break
            assert message is not None
            with self._lock:
                self.steps = message.get("total", self.steps)
                answers = self._waiting.get(message["id"])
            if answers is not None:
                answers.put(message)
        with self._lock:
            self._is_gone = True
            waiting = list(self._waiting.values())
        for answers in waiting:
            answers.put(None)
