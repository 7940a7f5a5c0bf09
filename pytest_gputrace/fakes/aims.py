"""The faults of one run: whom each selects, decided before the first fork, and whom it struck, dead or alive."""

from __future__ import annotations

import contextlib
import mmap
import signal
from typing import TYPE_CHECKING, Any

from pytest_gputrace.errors import ClusterError
from pytest_gputrace.fakes.outcome import Requested

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pytest_gputrace.fakes.faultbase import AtWork, Fault
    from pytest_gputrace.fakes.job import Job
    from pytest_gputrace.fakes.moments import Record
    from pytest_gputrace.fakes.outcome import Outcome
    from pytest_gputrace.fakes.plan import WorkerPlan

__all__ = ["Aim"]


class Aim:
    """One fault and its workers.

    Its notes are memory that all processes of the run share: a worker that is killed cannot tell what struck it before.

    Raises:
        ClusterError: the fault's ``who`` raised.
    """

    def __init__(self, fault: Fault, workers: Sequence[WorkerPlan]) -> None:
        self.fault = fault
        self._places = {worker.job: worker.index for worker in workers}
        self.jobs = [worker.job for worker in workers if _selects(fault, worker.job)]
        self._selected = frozenset(self.jobs)
        self._at_work: AtWork = fault
        self._notes = mmap.mmap(-1, max(self._places.values()) + 1)

    def __str__(self) -> str:
        return str(self.fault)

    def selects(self, job: Job) -> bool:
        """Whether this worker is struck, as was decided before the start."""
        return job in self._selected

    def before_start(self) -> None:
        """Let the fault change the folders."""
        self.fault.before_start(self.jobs)

    @contextlib.contextmanager
    def around_run(self) -> Iterator[None]:
        """What the fault does in the test's own process, around the run."""
        with self.fault.around_run(self.jobs) as self._at_work:
            yield

    @contextlib.contextmanager
    def applied(self, job: Job) -> Iterator[Record | None]:
        """The fault at work in this process, with a note for the parent at its first strike."""
        with self._at_work.applied(job) as record:
            if record is not None:
                record.on_strike = lambda: self._note(job)
                if record.fired:
                    self._note(job)
            yield record

    def _note(self, job: Job) -> None:
        self._notes[self._places[job]] = 1

    def struck_in(self, job: Job) -> bool:
        """Whether the fault noted a strike in this worker."""
        return bool(self._notes[self._places[job]])

    def requested(self, outcomes: Sequence[Outcome[Any]]) -> Requested:
        """What came of the fault."""
        selected = frozenset(index for index, outcome in enumerate(outcomes) if self.selects(outcome.job))
        if self.fault.strikes_at_setup:
            struck = selected
        else:
            noted = {index for index, outcome in enumerate(outcomes) if self.struck_in(outcome.job)}
            dead = {index for index in selected if self.fault.kills and outcomes[index].signal is signal.SIGKILL}
            struck = frozenset(noted | dead)
        advice = self.fault.advice(self.jobs) if selected else _workers_there(list(self._places))
        return Requested(str(self.fault), selected, struck, self.fault.kills, advice, self.fault.may_be_idle)


def _selects(fault: Fault, job: Job) -> bool:
    known = "who= gets the job: job.worker.node, job.worker.rank, job.worker.local_rank, job.configuration"
    try:
        answer = fault.selects(job)
    except Exception as error:  # whatever the user's function raises ends as an error that names the fault
        said = f"{type(error).__name__}: {error}"
        raise ClusterError(f"{fault}: who= raised for {job}: {said}; {known}", workers=[str(job)]) from error
    if callable(answer):
        raise ClusterError(f"{fault}: who= must answer True or False; for {job} it gave {answer!r}; {known}")
    return bool(answer)


def _workers_there(jobs: Sequence[Job]) -> str:
    nodes = dict.fromkeys(repr(job.worker.node) for job in jobs)
    configurations = dict.fromkeys(repr(job.configuration) for job in jobs)
    ranks = sorted({job.worker.rank for job in jobs})
    return (
        f"this run has node {_few(list(nodes))}; rank {_few([str(rank) for rank in ranks])}; "
        f"configuration {_few(list(configurations))}; change who="
    )


def _few(names: Sequence[str]) -> str:
    if len(names) <= 8:
        return ", ".join(names)
    return f"{', '.join(names[:3])}, ..., {names[-1]}"
