"""One scheduler process of the fake engine: a loop that takes commands between steps, and steps while there is traffic.

It ends by SIGKILL, always: nothing is flushed or written at exit.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time
import traceback
from collections import deque
from typing import TYPE_CHECKING, Any, NoReturn

from pytest_gputrace.control.activities import kinds, protondoor
from pytest_gputrace.control.session import Session
from pytest_gputrace.fakes.engine.faults import NoTraffic
from pytest_gputrace.fakes.engine.files import ForeignFiles, LibraryFiles
from pytest_gputrace.fakes.engine.foreign import foreign_session
from pytest_gputrace.fakes.engine.harm import harm_kinds, harm_process, harm_session
from pytest_gputrace.fakes.engine.wire import Wire
from pytest_gputrace.fakes.engine.work import DECODE, PREFILL, decode_batch, prefill_batch
from pytest_gputrace.fakes.isolation import die_with_parent
from pytest_gputrace.fakes.profiler import CapturePlan
from pytest_gputrace.fakes.torchfake import fake_torch_for
from pytest_gputrace.model import Capture

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Mapping, Sequence

    from pytest_gputrace.fakes.engine.config import EngineConfig
    from pytest_gputrace.fakes.engine.session import EngineSession, NaiveFiles
    from pytest_gputrace.fakes.engine.work import Scope
    from pytest_gputrace.model import WorkerId

__all__ = ["run_scheduler"]


def run_scheduler(
    config: EngineConfig, worker: WorkerId, end: socket.socket, parent: int, others: Sequence[int]
) -> NoReturn:
    """Be one scheduler; never returns. ``others`` are descriptors that are the frontend's alone."""
    try:
        die_with_parent(parent)
        for other in others:
            os.close(other)
        null = os.open(os.devnull, os.O_RDONLY)
        os.dup2(null, 0)  # the end of the frontend's input is for the frontend
        os.close(null)
        with contextlib.ExitStack() as stack:
            if config.vendor is not None:
                plan = CapturePlan(Capture(worker.node, worker.rank, "engine"), config.vendor)  # type: ignore[arg-type]  # checked by the configuration
                # Without a node nothing else may say who it is.
                group = None if config.node is None else worker
                stack.enter_context(fake_torch_for(plan, group=group))
            if "torch" in sys.modules:
                sys.modules["torch"].set_num_threads(1)  # a thread pool does not survive a fork
            _Scheduler(config, worker, Wire(end)).run()
    except EOFError:  # the frontend is gone
        pass
    except BaseException:  # noqa: BLE001  # a process border: it ends in the log and in a death that is told
        traceback.print_exc()
        sys.stderr.flush()
    finally:
        os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError("unreachable")


class _Scheduler:
    def __init__(self, config: EngineConfig, worker: WorkerId, wire: Wire) -> None:
        self.worker = worker
        self._config, self._wire = config, wire
        self._struck = [fault for fault in config.faults if fault.strikes(worker.tag)]
        self._tasks: list[tuple[float, Callable[[], object]]] = []
        self._after_reply: list[Callable[[], object]] = []
        self._batches: deque[_Traffic] = deque()
        self._steps = 0
        self._scope: Scope = contextlib.nullcontext
        harm_process(self._struck)
        self._session = self._make_session()
        ends = [fault.after_steps for fault in self._struck if isinstance(fault, NoTraffic)]
        self._last_step = min(ends, default=None)

    def later(self, after_s: float, act: Callable[[], object]) -> None:
        self._tasks.append((time.monotonic() + after_s, act))

    def after_reply(self, act: Callable[[], object]) -> None:
        self._after_reply.append(act)

    def run(self) -> None:
        """Go on until the frontend is gone."""
        self._wire.send({"ready": self._session.tag})
        while True:
            self._do_tasks()
            message = self._wire.receive(0.0 if self._batches else self._idle_s())
            if message is not None:
                self._obey(message)
            elif self._batches:
                self._step(self._batches[0])

    def _make_session(self) -> EngineSession:
        config, worker = self._config, self.worker
        session: EngineSession
        files: NaiveFiles
        if config.kind == "gputrace":
            session = self._library_session()
            files = LibraryFiles(worker, session.tag)
        else:
            files = ForeignFiles(config.kind, worker, config.folder)
            session = foreign_session(self, files, config)
        return harm_session(self._struck, session, self, files)

    def _library_session(self) -> Session:
        who: dict[str, Any] = {"worker": self.worker}
        if self._config.node is None:
            who = {"coordinates": self.worker.coordinates}
        return Session(**who, kinds=harm_kinds(self._struck, kinds()))

    def _idle_s(self) -> float | None:
        """Until the next task; without any, until a command comes."""
        if not self._tasks:
            return None
        return max(0.0, min(due_s for due_s, _ in self._tasks) - time.monotonic())

    def _do_tasks(self) -> None:
        now_s = time.monotonic()
        due = [act for due_s, act in self._tasks if due_s <= now_s]
        self._tasks = [task for task in self._tasks if task[0] > now_s]
        for act in due:
            act()

    def _obey(self, message: dict[str, Any]) -> None:
        number, what = message["id"], message["do"]
        if what == "run":
            self._batches.append(_Traffic(number, message["requests"], message["tokens"]))
            return
        self._wire.send({"id": number, "reply": self._told(what, message["request"]).as_json()})
        acts, self._after_reply = self._after_reply, []
        for act in acts:
            act()

    def _told(self, what: str, request: Mapping[str, Any]) -> Any:
        if what == "start":
            reply = self._session.start(request)
            if reply.ok and self._config.kind == "gputrace" and "PROTON" in request["activities"]:
                # Without a GPU, scopes are all that it records. A fault may say yes where there is no Proton.
                self._scope = contextlib.nullcontext if protondoor.missing() else protondoor.open_proton().scope
            return reply
        ask = {"stop": self._session.stop, "cancel": self._session.cancel, "status": self._session.status}
        return ask[what]()

    def _step(self, traffic: _Traffic) -> None:
        """One step of the traffic at hand, or the answer that it is done."""
        stage = traffic.next_stage()
        if stage is None or (self._last_step is not None and self._steps >= self._last_step):
            self._batches.popleft()
            self._wire.send({"id": traffic.number, "steps": traffic.steps, "total": self._steps})
            return
        with self._session.step(stage):
            batch = prefill_batch if stage == PREFILL else decode_batch
            batch(self._scope, self._config.step_s)
        self._steps += 1
        traffic.steps += 1


class _Traffic:
    """Requests that came together, worked off one after the other: one PREFILL step each, then DECODE steps."""

    def __init__(self, number: int, requests: int, tokens: int) -> None:
        self.number = number
        self.steps = 0
        self._requests, self._tokens = requests, tokens

    def next_stage(self) -> str | None:
        """The stage of the next step; None when there is none."""
        each = 1 + self._tokens
        if self.steps >= self._requests * each:
            return None
        return DECODE if self.steps % each else PREFILL
