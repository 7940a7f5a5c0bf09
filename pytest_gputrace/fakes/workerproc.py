"""One simulated worker: takes its place (streams, folder, environment), waits for the start, calls, leaves a result.

The process is thrown away afterwards, so nothing here is undone.
"""

from __future__ import annotations

import contextlib
import faulthandler
import os
import pickle
import signal
import sys
import tempfile
import time
import traceback
from typing import TYPE_CHECKING, Any, NoReturn

from pytest_gputrace.fakes import kills
from pytest_gputrace.fakes.isolation import die_with_parent, readable
from pytest_gputrace.fakes.patched import forget_hostname, patched_identity
from pytest_gputrace.fakes.plan import report
from pytest_gputrace.fakes.torchfake import fake_torch_for

if TYPE_CHECKING:
    from contextlib import AbstractContextManager
    from pathlib import Path

    from pytest_gputrace.fakes.plan import NodePlan, RunPlan, WorkerPlan

__all__ = ["run_worker", "take_streams"]

_FAILED, _NOT_STARTED = 70, 75
# Kept from before it is replaced: a process that the function forked must not take itself for the worker.
_real_getpid = os.getpid
_worker_pid = 0
# Dropping the parent's stream objects would flush what they hold a second time.
_streams: list[Any] = []


def take_streams(log: Path) -> None:
    """Send this process's output to ``log`` and give it no input."""
    _streams.extend([sys.stdin, sys.stdout, sys.stderr])
    null = os.open(os.devnull, os.O_RDONLY)
    target = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    for source, number in ((null, 0), (target, 1), (target, 2)):
        os.dup2(source, number)
    os.close(null)
    os.close(target)
    # They stay open until the process ends, so no "with" can hold them (SIM115).
    sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.stdout = open(1, "w", encoding="utf-8", buffering=1, closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", encoding="utf-8", errors="backslashreplace", buffering=1, closefd=False)  # noqa: SIM115
    if faulthandler.is_enabled():
        faulthandler.enable(file=sys.stderr)  # a crash's traceback belongs to the log, not to the test's terminal


def run_worker(worker: WorkerPlan, node: NodePlan, plan: RunPlan, parent: int) -> NoReturn:
    """Be one worker; never returns."""
    global _worker_pid
    _worker_pid = _real_getpid()
    status = _FAILED
    try:
        die_with_parent(parent)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        take_streams(worker.log)
        _take_place(worker)
        kills.allow()
        status = _work(worker, node, plan)
    except BaseException as error:  # noqa: BLE001  # a process border: it ends in the log, a result and an exit code
        traceback.print_exc()
        with contextlib.suppress(Exception):
            _leave(worker, _describe(error))
    finally:
        _exit(status)


def _exit(status: int) -> NoReturn:
    with contextlib.suppress(OSError, ValueError):  # closed by the function, or a full disk: nothing to save
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(status & 0xFF)  # what the kernel keeps of it; a number too large for C would raise


def _end_forked(status: int) -> None:
    """End here a process that the function forked and that came back from it: the outcome is the worker's to tell."""
    if _real_getpid() != _worker_pid:
        _exit(status)


def _take_place(worker: WorkerPlan) -> None:
    os.chdir(worker.job.rank_dir)
    os.environ.clear()
    os.environ.update(worker.environment)
    tempfile.tempdir = None  # remembered from the parent's TMPDIR
    forget_hostname()


def _work(worker: WorkerPlan, node: NodePlan, plan: RunPlan) -> int:
    job = worker.job
    torch = sys.modules.get("torch")
    if torch is not None:
        # A thread pool does not survive a fork: real operations in a worker would wait for it for ever.
        torch.set_num_threads(1)
    with contextlib.ExitStack() as stack:
        stack.enter_context(fake_torch_for(job.plan, group=job.worker if plan.process_group else None))
        around: list[AbstractContextManager[Any]] = [fault.applied(job) for fault in plan.faults if fault.selects(job)]
        if plan.identity == "patched":
            around.append(patched_identity(node.hostname, worker.simulated_pid, node.index))
        report(plan, "ready", worker.index)
        if not _started(worker, plan):
            return _NOT_STARTED
        result, status = _call(worker, plan, around)
    _leave(worker, result)
    return status


def _started(worker: WorkerPlan, plan: RunPlan) -> bool:
    """Wait for this worker's byte. The end of the pipe means that the parent is gone, silence that it gave up.

    Where workers take turns, wait for this one's gate.
    """
    gate = plan.gates.get(worker.index)
    if gate is not None:
        return readable(gate, plan.left_s())
    return readable(plan.go, plan.left_s()) and os.read(plan.go, 1) == b"g"


def _call(worker: WorkerPlan, plan: RunPlan, around: list[AbstractContextManager[Any]]) -> tuple[dict[str, Any], int]:
    result: dict[str, Any] = {"error": None}
    status = 0
    value: Any = None
    with contextlib.ExitStack() as stack:
        for context in around:
            stack.enter_context(context)
        result["started_ns"] = time.monotonic_ns()
        try:
            value = plan.function(worker.job)
        except BaseException as error:  # noqa: BLE001  # it ends as this worker's outcome
            result |= _describe(error)
            if isinstance(error, SystemExit):
                status = error.code if isinstance(error.code, int) else int(error.code is not None)
            elif _real_getpid() != _worker_pid:
                traceback.print_exc()
                status = _FAILED
        _end_forked(status)
        result["ended_ns"] = time.monotonic_ns()
    if result["error"] is None:
        try:
            result["value"] = pickle.dumps(value)
        except Exception as error:  # noqa: BLE001  # pickling runs the value's own code; it ends as an outcome
            name = f"{type(value).__module__}.{type(value).__qualname__}"
            result["error"] = f"the result, a {name}, cannot be pickled: {type(error).__name__}: {error}"
    return result, status


def _describe(error: BaseException) -> dict[str, Any]:
    """The error as text, and as an object where it can travel."""
    # The first frame is this module's: it says nothing about the failure.
    trace = error.__traceback__.tb_next if error.__traceback__ else None
    name = f"{type(error).__module__}.{type(error).__qualname__}".removeprefix("builtins.")
    described: dict[str, Any] = {
        "error": "".join(traceback.format_exception(type(error), error, trace)),
        "error_type": name,
        "headline": ": ".join([name, *_first_line(error)]),
    }
    try:
        described["exception"] = pickle.dumps(error)
    except BaseException:  # noqa: BLE001  # many exceptions cannot be pickled, and run own code in it; their text is there already
        described["exception"] = None
    return described


def _first_line(error: BaseException) -> list[str]:
    """The first line of what the error says, where it says anything: the last one may read like a success."""
    try:
        return str(error).strip().splitlines()[:1]
    except BaseException:  # noqa: BLE001  # the class's own code; the traceback shows that it failed
        return []


def _leave(worker: WorkerPlan, result: dict[str, Any]) -> None:
    """Put the result in place whole: a worker that dies here has left none."""
    _end_forked(_FAILED)
    beside = worker.result.with_suffix(".tmp")
    beside.write_bytes(pickle.dumps(result))
    os.replace(beside, worker.result)
