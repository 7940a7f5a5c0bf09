"""Starts the node agents, opens the barrier, collects the ends, and leaves no process behind.

Runs in the test's own process, which it changes in nothing: no signal handler, no folder, no variable. Every wait has
the run's deadline.
"""

from __future__ import annotations

import contextlib
import gc
import os
import selectors
import signal
import sys
import time
from typing import TYPE_CHECKING

from pytest_gputrace.errors import ClusterError
from pytest_gputrace.fakes.isolation import fork
from pytest_gputrace.fakes.nodeagent import run_agent

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pytest_gputrace.fakes.plan import NodePlan, RunPlan, WorkerPlan
    from pytest_gputrace.fakes.turns import Turns

__all__ = ["supervise"]

_POLL_S = 0.05  # a pipe wakes the loop; this is for an agent that ends while a stray process holds its pipe
_STOP_S = 3.0  # SIGKILL follows when a stop takes longer


def supervise(nodes: Sequence[NodePlan], plan: RunPlan, turns: Turns | None = None) -> dict[int, int]:
    """Run all workers to their end: at the same time, or as ``turns`` says.

    Returns:
        The wait status of every worker, by its index; one that nobody saw end is missing.

    Raises:
        ClusterError: the deadline passed; it names the workers that were not done.
    """
    run = _Run(nodes, plan, turns)
    try:
        run.start()
        run.wait()
    finally:
        run.stop()
    return run.ended


class _Run:
    def __init__(self, nodes: Sequence[NodePlan], plan: RunPlan, turns: Turns | None = None) -> None:
        self.nodes, self.plan, self.turns = nodes, plan, turns
        self.workers: dict[int, WorkerPlan] = {worker.index: worker for node in nodes for worker in node.workers}
        self.ready: set[int] = set()
        self.ended: dict[int, int] = {}
        self.lost: set[int] = set()
        self.failed: list[str] = []
        self.agents: dict[int, NodePlan] = {}
        self.opened = False
        self.buffer = b""
        self.report, plan.report = os.pipe()
        plan.go, self.go = os.pipe()
        plan.parent_ends = (self.go, self.report)
        os.set_blocking(self.report, False)

    def start(self) -> None:
        for stream in (sys.stdout, sys.stderr):  # else every child holds a copy of what is not yet written
            with contextlib.suppress(OSError, ValueError, AttributeError):
                stream.flush()
        with _frozen_garbage(), _no_interrupt():
            for node in self.nodes:
                pid = fork()
                if pid == 0:
                    run_agent(node, self.plan)
                self.agents[pid] = node
        self._close_childrens_ends()

    def _close_childrens_ends(self) -> None:
        for end in (self.plan.go, self.plan.report):
            if end >= 0:
                os.close(end)
        self.plan.go = self.plan.report = -1

    def wait(self) -> None:
        """Until every agent has ended, and its workers with it, or one has failed: others would wait for its workers."""
        with selectors.DefaultSelector() as selector:
            selector.register(self.report, selectors.EVENT_READ)
            while self.agents and not self.failed:
                if self.plan.left_s() == 0:
                    raise self._too_late()
                if selector.get_map():
                    selector.select(min(_POLL_S, self.plan.left_s()))
                else:
                    time.sleep(0.005)
                if self._read() is None and selector.get_map():
                    selector.unregister(self.report)
                self._open_when_ready()
                self._reap()
        self._read()
        if self.failed:
            raise ClusterError("; ".join(self.failed), workers=[])
        self._open_when_ready()  # what the last worker touched

    def stop(self) -> None:
        """End what still runs: ask each agent, which ends its node; after a while kill its process group."""
        self._close_childrens_ends()
        os.close(self.go)
        for pid in self.agents:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGTERM)
        until = time.monotonic() + _STOP_S
        while self.agents and time.monotonic() < until:
            self._reap()
            time.sleep(0.005)
        for pid in self.agents:
            for kill in (os.killpg, os.kill):
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    kill(pid, signal.SIGKILL)
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, 0)
        os.close(self.report)

    def _read(self) -> int | None:
        """Take in what was reported; ``None`` at the end of the pipe."""
        while True:
            try:
                chunk = os.read(self.report, 65536)
            except BlockingIOError:
                return len(self.buffer)
            if not chunk:
                return None
            *lines, self.buffer = (self.buffer + chunk).split(b"\n")
            for line in lines:
                self._note(line.decode())

    def _note(self, line: str) -> None:
        word, index, value = line.split(" ", 2)
        if word == "ready":
            self.ready.add(int(index))
        elif word == "exit":
            self.ended[int(index)] = int(value)
        else:
            node = self.nodes[int(index)]
            self.failed.append(f"{node.label} could not be simulated: {value} (see {node.log})")

    def _open_when_ready(self) -> None:
        """Let all workers go at once, with a byte for each; one that died on the way is not waited for.

        Where they take turns, let the next one go.
        """
        if not self.opened and self.ready | self.ended.keys() >= self.workers.keys():
            self.opened = True
            # Nobody may be left to read it. How each of them died is told by what they left.
            with contextlib.suppress(BrokenPipeError):
                if self.turns is None:
                    os.write(self.go, b"g" * len(self.workers))
        if self.opened and self.turns is not None:
            self.turns.advance(self.ended.keys() | self.lost)

    def _reap(self) -> None:
        for pid in list(self.agents):
            try:
                ended, _ = os.waitpid(pid, os.WNOHANG)
            except ChildProcessError:  # somebody else waited for it, or SIGCHLD is ignored
                ended = pid
            if ended:
                self._note_end(self.agents.pop(pid))

    def _note_end(self, node: NodePlan) -> None:
        """One that ends before the start, and not all its workers before it, was killed: it says nothing itself."""
        self._read()
        # Nobody will tell how they end, and those who come after them must not wait for it.
        self.lost.update(worker.index for worker in node.workers if worker.index not in self.ended)
        if not (self.opened or self.failed) and any(worker.index not in self.ended for worker in node.workers):
            self.failed.append(f"{node.label} could not be simulated: its process ended (see {node.log})")

    def _too_late(self) -> ClusterError:
        self._read()
        waiting = [worker for index, worker in self.workers.items() if index not in self.ended]
        lines = ["the deadline passed; waited for:"]
        lines += [
            f"  {worker.job}: {self._doing(worker.index)}" for worker in waiting if self._was_let_in(worker.index)
        ]
        behind = sum(not self._was_let_in(worker.index) for worker in waiting)
        if behind:
            lines.append(f"  and {behind} whose turn did not come")
        return ClusterError("\n".join(lines + self.failed), workers=[str(worker.job) for worker in waiting])

    def _was_let_in(self, index: int) -> bool:
        """Whether the run waited for this worker itself, not only for one before it."""
        return not (self.opened and self.turns is not None) or index == self.turns.current

    def _doing(self, index: int) -> str:
        if index not in self.ready:
            return "did not start"
        return "still in the function" if self.opened else "was ready, but others were not"


@contextlib.contextmanager
def _no_interrupt() -> Iterator[None]:
    """Hold Ctrl-C back: in a child that does not yet know what it is, it would climb up the test's own stack."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextlib.contextmanager
def _frozen_garbage() -> Iterator[None]:
    """Keep the collector off the objects there are: each page it touches in a child is a page copied."""
    mine = gc.get_freeze_count() == 0
    if mine:
        gc.freeze()
    try:
        yield
    finally:
        if mine:
            gc.unfreeze()
