"""How each worker of a run ended, read from its exit status and the result it left."""

from __future__ import annotations

import os
import pickle
import signal as signals
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from pytest_gputrace.errors import ClusterError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from pytest_gputrace.fakes.job import Job
    from pytest_gputrace.fakes.plan import NodeIdentity, WorkerPlan
    from pytest_gputrace.fakes.snapshot import Snapshot

__all__ = ["ClusterRun", "Outcome", "Requested", "read_outcome"]

T = TypeVar("T")

_TAIL_LINES, _TAIL_CHARACTERS, _SHOWN = 15, 3000, 8


@dataclass(frozen=True)
class Outcome(Generic[T]):
    """One worker's end.

    ``error`` is the text of what went wrong (a traceback, a death, a result that cannot travel) and ``None`` when
    nothing did; ``error_type`` and ``exception`` belong to an exception the function raised, the latter where it can
    be pickled. ``signal`` or ``exit_code`` say how the process ended. Times are of the call, on the monotonic clock;
    ``None`` when it did not end. ``injected`` names the faults that struck while it ran, also in one that was killed.
    ``headline`` is the error in one line: the exception's first. Where workers took turns, ``touched`` are the sorted
    paths of the files that were made, changed, replaced or removed in this one's.
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
    headline: str = ""
    touched: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether the function returned and its value arrived."""
        return self.error is None

    def __str__(self) -> str:
        if self.error is None:
            return f"{self.job}: ok"
        return f"{self.job}: {self.headline}"

    def log_tail(self) -> str:
        """The last lines the worker printed."""
        try:
            text = self.log.read_text(encoding="utf-8", errors="replace")[-_TAIL_CHARACTERS:]
        except OSError:
            return ""
        return "\n".join(text.splitlines()[-_TAIL_LINES:])


@dataclass(frozen=True)
class Requested:
    """One fault of a run and what came of it: ``selected`` and ``struck`` are places in ``ClusterRun.outcomes``.

    ``advice`` says why it may have struck nobody and what to do; with ``may_be_idle`` that is no error.
    """

    text: str
    selected: frozenset[int]
    struck: frozenset[int]
    kills: bool
    advice: str
    may_be_idle: bool = False


@dataclass(frozen=True)
class ClusterRun(Generic[T]):
    """All outcomes of one run, ordered by node, rank and configuration, and what came of each fault asked for.

    ``before`` is what lay in the trace folders when it began: everything else there is its own.
    """

    outcomes: tuple[Outcome[T], ...]
    node_identity: NodeIdentity
    duration_s: float
    requested: tuple[Requested, ...] = ()
    before: Snapshot = field(default_factory=dict, repr=False)

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

    @property
    def struck(self) -> dict[str, int]:
        """How many workers each fault struck, by its text, in the order in which they were given."""
        return _workers_by_text([(fault.text, fault.struck) for fault in self.requested])

    @property
    def selected(self) -> dict[str, int]:
        """How many workers each fault was meant for, by its text."""
        return _workers_by_text([(fault.text, fault.selected) for fault in self.requested])

    def check(self) -> None:
        """What ``Cluster.run`` does unless told not to.

        Raises:
            ClusterError: a worker failed, or a fault that was asked for selected nobody or never struck.
        """
        __tracebackhide__ = True
        _check_workers(self)
        _check_faults(self)

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


def _workers_by_text(pairs: Sequence[tuple[str, frozenset[int]]]) -> dict[str, int]:
    """Two faults with one text are one line for a reader: a worker that both struck counts once."""
    places: dict[str, set[int]] = {}
    for text, workers in pairs:
        places.setdefault(text, set()).update(workers)
    return {text: len(workers) for text, workers in places.items()}


def read_outcome(
    worker: WorkerPlan, status: int | None, injected: tuple[str, ...] = (), touched: tuple[str, ...] = ()
) -> Outcome[Any]:
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
        if code != 0:
            value, error = None, f"exited with code {code} after the function returned"
    elif left.get("exception") is not None:
        exception, _ = _loaded(left["exception"], "the exception")
    headline = left.get("headline", "") if killed is None and status is not None else ""
    return Outcome(
        worker.job, value, error, left.get("error_type"), exception, killed, code, left.get("started_ns"),
        left.get("ended_ns"), injected, worker.log, headline or _first_line(error), touched,
    )  # fmt: skip


def _first_line(error: str | None) -> str:
    return (error or "").strip().split("\n", 1)[0]


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
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # noqa: BLE001  # unpickling runs the class's own code; it ends as an outcome
        return None, f"{what} cannot be unpickled: {type(error).__name__}: {error}"


def _check_workers(run: ClusterRun[Any]) -> None:
    """Raise ``ClusterError`` that names every worker that failed, with what it said and the end of its log."""
    __tracebackhide__ = True
    failed = run.failures
    if not failed:
        return
    faults = ", ".join(fault.text for fault in run.requested)
    lines = [f"{len(failed)} of {len(run)} workers failed" + (f" (faults: {faults})" if faults else "")]
    lines += [f"  {outcome}" for outcome in failed]
    asked = {place for fault in run.requested if fault.kills for place in fault.struck}
    if all(outcome.ok or place in asked for place, outcome in enumerate(run.outcomes)):
        lines.append("all of them by the sigkill that was asked for: pass check=False to look at the survivors")
    lines += _in_full(failed)
    cause = next((outcome.exception for outcome in failed if outcome.exception is not None), None)
    raise ClusterError("\n".join(lines), workers=[str(outcome.job) for outcome in failed]) from cause


def _in_full(failed: Sequence[Outcome[Any]]) -> list[str]:
    """What there is beyond the headlines; one example of workers that failed alike."""
    alike: dict[str, list[tuple[Outcome[Any], list[str]]]] = {}
    for outcome in failed:
        details = _details(outcome)
        if details:
            # What each printed differs; where the error itself tells everything, one example will do.
            key = outcome.error or "" if outcome.error_type else "\n".join(details)
            alike.setdefault(key, []).append((outcome, details))
    groups = list(alike.values())
    lines = []
    for (first, details), *others in groups[:_SHOWN]:
        lines += ["", f"--- {first.job}", *details]
        if others:
            lines += ["", f"(the same in {len(others)} more)"]
    hidden = sum(map(len, groups[_SHOWN:]))
    return lines + (["", f"({hidden} more are not shown in full)"] if hidden else [])


def _details(outcome: Outcome[Any]) -> list[str]:
    """What there is to show of a failed worker beyond its headline; empty when that is all."""
    error, tail = (outcome.error or "").strip(), outcome.log_tail()
    lines = [error] if error != outcome.headline else []
    return lines + ([f"end of {outcome.log}:", tail] if tail else [])


def _check_faults(run: ClusterRun[Any]) -> None:
    """Raise ``ClusterError`` for faults that struck nobody: what was shown, was shown without them."""
    __tracebackhide__ = True
    idle = [fault for fault in run.requested if not fault.struck and not (fault.may_be_idle and fault.selected)]
    if not idle:
        return
    lines = [f"{len(idle)} of {len(run.requested)} faults struck nobody, so this run proves nothing about them"]
    for fault in idle:
        how = f"never struck any of the {len(fault.selected)} it selected" if fault.selected else "selected nobody"
        lines.append(f"  {fault.text} {how}: {fault.advice}")
    lines.append("pass check=False where that is meant")
    raise ClusterError("\n".join(lines))
