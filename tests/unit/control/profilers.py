"""A profiler that writes what it is told, and fails where it is told to; in place of the real ones."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from pytest_gputrace.control.activities.protocol import Saved
from pytest_gputrace.errors import ActivityError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pytest_gputrace.control.activities.protocol import Setup

TEXT = '{"traceEvents": [{"ph": "X", "name": "a", "pid": 0, "tid": 0, "ts": 1, "dur": 1}]}'


class PretendKind:
    """Keeps the order of all that was done in ``log``, which several kinds may share."""

    def __init__(
        self,
        *words: str,
        profiler: str = "viztracer",
        log: list[str] | None = None,
        refuses: Iterable[str] = (),
        fails: str = "",
        thread_bound: bool = False,
        problem: str = "",
    ) -> None:
        self.words = words or ("VIZTRACER",)
        self.profiler, self.fails, self.thread_bound, self.problem = profiler, fails, thread_bound, problem
        self.log = [] if log is None else log
        self.refuses = list(refuses)
        self.saving = threading.Event()
        self.may_save = threading.Event()
        self.may_save.set()

    def refusals(self, words: tuple[str, ...]) -> list[str]:
        return self.refuses

    def recorder(self, setup: Setup) -> PretendRecorder:
        return PretendRecorder(self, setup)


class PretendRecorder:
    def __init__(self, kind: PretendKind, setup: Setup) -> None:
        self.kind, self.setup = kind, setup
        self.profiler, self.thread_bound = kind.profiler, kind.thread_bound

    def start(self) -> None:
        self._do("start")

    def stop(self) -> None:
        self._do("stop")

    def save(self) -> list[Saved]:
        self.kind.saving.set()
        assert self.kind.may_save.wait(20)
        if self.kind.fails == "Ctrl-C":
            raise KeyboardInterrupt
        self._do("save")
        private = self.setup.output.private(".json")
        private.write_text(TEXT)
        return [Saved(self.setup.output.publish(private, self.profiler, ".json"), 1, self.kind.problem)]

    def discard(self) -> None:
        self.kind.log.append(f"discard {self.profiler}")

    def _do(self, what: str) -> None:
        if self.kind.fails == f"Ctrl-C in {what}":
            self.kind.log.append(f"{what} {self.profiler}")
            raise KeyboardInterrupt
        if self.kind.fails == what:
            raise ActivityError(f"{self.profiler} cannot {what}", activity=self.profiler)
        self.kind.log.append(f"{what} {self.profiler}")
