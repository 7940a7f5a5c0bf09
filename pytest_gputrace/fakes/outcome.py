"""How each worker of a run ended, read from its exit status and the result it left."""

from __future__ import annotations

import os
import pickle
import signal as signals
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from pytest_gputrace.errors import ClusterError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from pytest_gputrace.fakes.job import Job
    from pytest_gputrace.fakes.plan import NodeIdentity, WorkerPlan

__all__ = ["ClusterRun", "Outcome", "check_all", "read_outcome"]

T = TypeVar("T")

_TAIL_LINES, _TAIL_CHARACTERS, _SHOWN = 15, 3000, 8


@dataclass(frozen=True)
class Outcome(Generic[T]):
    """One worker's end.

    ``error`` is the text of what went wrong (a traceback, a death, a result that cannot travel) and ``None`` when
    nothing did; ``error_type`` and ``exception`` belong to an exception the function raised, the latter where it can
    be pickled. ``signal`` or ``exit_code`` say how the process ended. Times are of the call, on the monotonic clock;
    ``None`` when it did not end. ``injected`` names the faults that struck, where the worker lived to tell.
    """

    job: Job
    value: T | None
    error: str | None
    error_type: str | None
    exception: BaseException | None
    signal: signals.Signals | None
    exit_code: int | None
    started_ns: int | None
    ended_ns: int | None
    injected: tuple[str, ...]
    log: Path

    @property
    def ok(self) -> bool:
        """Whether the function returned and its value arrived."""
        return self.error is None

    def __str__(self) -> str:
        if self.error is None:
            return f"{self.job}: ok"
        return f"{self.job}: {self.error.strip().splitlines()[-1]}"

    def log_tail(self) -> str:
        """The last lines the worker printed."""
        try:
            text = self.log.read_text(encoding="utf-8", errors="replace")[-_TAIL_CHARACTERS:]
        except OSError:
            return ""
        return "\n".join(text.splitlines()[-_TAIL_LINES:])


@dataclass(frozen=True)
class ClusterRun(Generic[T]):
    """All outcomes of one run, ordered by node, rank and configuration."""

    outcomes: tuple[Outcome[T], ...]
    node_identity: NodeIdentity
    duration_s: float

    def __iter__(self) -> Iterator[Outcome[T]]:
        return iter(self.outcomes)

    def __len__(self) -> int:
        return len(self.outcomes)

    @property
    def values(self) -> list[T | None]:
        """What the function returned in each worker; ``None`` also for one that failed."""
        return [outcome.value for outcome in self.outcomes]

    @property
    def failures(self) -> list[Outcome[T]]:
        """The workers that did not return."""
        return [outcome for outcome in self.outcomes if not outcome.ok]

    def of(self, node: str, rank: int, configuration: str | None = None) -> Outcome[T]:
        """The outcome of one worker; the configuration may be left out where there is only one.

        Raises:
            KeyError: no worker, or more than one, is meant.
        """
        found = [
            outcome
            for outcome in self.outcomes
            if (outcome.job.worker.node, outcome.job.worker.rank) == (node, rank)
            and configuration in (None, outcome.job.configuration)
        ]
        if len(found) != 1:
            raise KeyError(f"{len(found)} workers are {node} rank {rank} {configuration or ''}".rstrip())
        return found[0]


def read_outcome(worker: WorkerPlan, status: int | None) -> Outcome[Any]:
    """Make an outcome of a wait status (``None``: nobody saw the end) and the file the worker may have left."""
    killed = signals.Signals(os.WTERMSIG(status)) if status is not None and os.WIFSIGNALED(status) else None
    code = os.WEXITSTATUS(status) if status is not None and os.WIFEXITED(status) else None
    left = _result(worker)
    error = left.get("error")
    value = exception = None
    if killed is not None:
        error = f"killed by {killed.name}"
    elif status is None:
        error = "lost: the process that watched it died first"
    elif not left:
        error = f"exited with code {code} before the function returned"
    elif error is None:
        value, error = _loaded(left["value"], "the result")
    elif left.get("exception") is not None:
        exception, _ = _loaded(left["exception"], "the exception")
    return Outcome(
        worker.job, value, error, left.get("error_type"), exception, killed, code, left.get("started_ns"),
        left.get("ended_ns"), tuple(left.get("injected", ())), worker.log,
    )  # fmt: skip


def _result(worker: WorkerPlan) -> dict[str, Any]:
    try:
        content = worker.result.read_bytes()
    except OSError:
        return {}
    result: dict[str, Any] = pickle.loads(content)
    return result


def _loaded(content: bytes, what: str) -> tuple[Any, str | None]:
    """Unpickle, or say why not: a class may be pickled by a name that does not lead back to it."""
    try:
        return pickle.loads(content), None
    except Exception as error:  # noqa: BLE001  # unpickling runs the class's own code; it ends as an outcome
        return None, f"{what} cannot be unpickled: {type(error).__name__}: {error}"


def check_all(outcomes: Sequence[Outcome[Any]], faults: str = "") -> None:
    """Raise ``ClusterError`` that names every worker that failed, with what it said and the end of its log."""
    failed = [outcome for outcome in outcomes if not outcome.ok]
    if not failed:
        return
    lines = [f"{len(failed)} of {len(outcomes)} workers failed" + (f" (faults: {faults})" if faults else "")]
    lines += [f"  {outcome}" for outcome in failed]
    for outcome in failed[:_SHOWN]:
        lines += ["", f"--- {outcome.job}", (outcome.error or "").rstrip()]
        tail = outcome.log_tail()
        lines += [f"end of {outcome.log}:", tail] if tail else []
    if len(failed) > _SHOWN:
        lines += ["", f"({len(failed) - _SHOWN} more are not shown in full)"]
    cause = next((outcome.exception for outcome in failed if outcome.exception is not None), None)
    raise ClusterError("\n".join(lines), workers=[str(outcome.job) for outcome in failed]) from cause
