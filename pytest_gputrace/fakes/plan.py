"""What a run hands to its processes, and the words they report with. Data only."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from pytest_gputrace.fakes.aims import Aim
    from pytest_gputrace.fakes.isolation import Namespaces
    from pytest_gputrace.fakes.job import Job

__all__ = ["NodeIdentity", "NodePlan", "RunPlan", "WorkerPlan", "report"]

NodeIdentity = Literal["namespaces", "patched"]


@dataclass(frozen=True)
class WorkerPlan:
    """One process: its place in the run, its job, its whole environment and its two files."""

    index: int
    job: Job
    environment: dict[str, str]
    log: Path
    result: Path
    simulated_pid: int


@dataclass(frozen=True)
class NodePlan:
    """One simulated node and its workers, in the order in which they are forked."""

    index: int
    label: str
    hostname: str
    workers: Sequence[WorkerPlan]
    log: Path


@dataclass
class RunPlan:
    """What all processes of a run share. The pipe ends are filled in just before the first fork.

    ``gates`` has a descriptor for each worker, by its index, where they go one after another.
    """

    function: Callable[[Job], Any]
    faults: Sequence[Aim]
    identity: NodeIdentity
    namespaces: Namespaces | None
    deadline: float
    parent: int
    process_group: bool = False
    go: int = -1
    report: int = -1
    parent_ends: tuple[int, ...] = ()
    gates: Mapping[int, int] = field(default_factory=dict)

    def left_s(self) -> float:
        """Seconds until the deadline; never negative."""
        return max(0.0, self.deadline - time.monotonic())


def report(plan: RunPlan, word: str, index: int, value: int | str = 0) -> None:
    """Write one line to the parent, short enough that lines of two processes never mix (``PIPE_BUF``)."""
    text = str(value).replace("\n", " | ")[:900]
    os.write(plan.report, f"{word} {index} {text}\n".encode()[:4000])
