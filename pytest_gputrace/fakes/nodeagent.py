"""One simulated node: a process that makes the node, starts its workers in a fixed order and reports how each ended.

With namespaces the agent forks the node's process 1, which forks the workers: a process 1 cannot be killed by
itself, so no worker may be it, and it must outlive them. Without namespaces the agent is their parent.
"""

from __future__ import annotations

import contextlib
import os
import signal
import traceback
from typing import TYPE_CHECKING, NoReturn

from pytest_gputrace.fakes.isolation import adopt_orphans, children, die_with_parent, enter_namespaces, fork
from pytest_gputrace.fakes.plan import report
from pytest_gputrace.fakes.workerproc import run_worker, take_streams

if TYPE_CHECKING:
    from pytest_gputrace.fakes.plan import NodePlan, RunPlan, WorkerPlan

__all__ = ["run_agent"]

_FAILED = 70  # EX_SOFTWARE


def run_agent(node: NodePlan, plan: RunPlan) -> NoReturn:
    """Be the node until its last worker has ended; never returns."""
    status = _FAILED
    try:
        os.setsid()
        die_with_parent(plan.parent)
        for end in plan.parent_ends:
            os.close(end)
        _default_signals()
        take_streams(node.log)
        if plan.namespaces is None:
            adopt_orphans()
            _tend(node, plan)
        else:
            _be_outside(node, plan)
        status = 0
    except BaseException as error:  # noqa: BLE001  # a process border: it ends in a report and an exit code
        _report_failure(node, plan, error)
    finally:
        os._exit(status)


def _report_failure(node: NodePlan, plan: RunPlan, error: BaseException) -> None:
    with contextlib.suppress(OSError):  # the parent may be gone; the log has it too
        report(plan, "failed", node.index, f"{type(error).__name__}: {error}")
    traceback.print_exception(error)


def _default_signals() -> None:
    """Forget the handlers of the process that was forked: pytest's, its timeouts', coverage's."""
    signal.set_wakeup_fd(-1)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGALRM, signal.SIGUSR1, signal.SIGUSR2, signal.SIGCHLD):
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT, signal.SIGTERM})


def _be_outside(node: NodePlan, plan: RunPlan) -> None:
    """Make the namespaces, fork the node's process 1 and wait for it; SIGTERM ends it and so the whole node."""
    assert plan.namespaces is not None
    enter_namespaces(plan.namespaces, node.hostname)
    die_with_parent()  # changed credentials cancel the wish
    first = 0

    def stop(number: int, frame: object) -> None:
        if first:
            os.kill(first, signal.SIGKILL)

    # Until the handler knows the process, a stop waits.
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    signal.signal(signal.SIGTERM, stop)
    first = fork()
    if first == 0:
        _be_first(node, plan)
    os.close(plan.go)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
    os.waitpid(first, 0)


def _be_first(node: NodePlan, plan: RunPlan) -> NoReturn:
    """Process 1 of a node. When it leaves, the kernel ends whatever the workers left behind."""
    status = _FAILED
    try:
        die_with_parent()
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
        _tend(node, plan)
        status = 0
    except BaseException as error:  # noqa: BLE001  # a process border: it ends in a report and an exit code
        _report_failure(node, plan, error)
    finally:
        os._exit(status)


def _tend(node: NodePlan, plan: RunPlan) -> None:
    """Fork the workers in order, reap them, report each end; then end what they left."""
    running: dict[int, WorkerPlan] = {}
    stopping = False

    def stop(number: int, frame: object) -> None:
        nonlocal stopping
        stopping = True
        for pid in running:
            os.kill(pid, signal.SIGKILL)

    if plan.namespaces is None:
        signal.signal(signal.SIGTERM, stop)
        die_with_parent(plan.parent, signal.SIGTERM)  # not at once: what the workers started would outlive us
    parent = os.getpid()
    try:
        for worker in node.workers:
            if stopping:
                break
            pid = fork()
            if pid == 0:
                run_worker(worker, node, plan, parent)
            running[pid] = worker
        os.close(plan.go)
        while running:
            pid, status = os.wait()
            ended = running.pop(pid, None)
            if ended is not None:
                report(plan, "exit", ended.index, status)  # fails where the parent is gone
    finally:
        if plan.namespaces is None:
            _end_orphans()


def _end_orphans() -> None:
    """End processes that workers left; they became ours, and each may leave further ones."""
    while True:
        for pid in children():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        try:
            os.wait()
        except ChildProcessError:
            return
