"""What one simulated worker knows about itself: the single argument of the function that a cluster runs."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pytest_gputrace.fakes.profiler import CapturePlan, FakeProfile, profile_class
from pytest_gputrace.model import Capture

if TYPE_CHECKING:
    from pathlib import Path

    from pytest_gputrace.fakes.events import Vendor
    from pytest_gputrace.model import WorkerId

__all__ = ["Job"]


@dataclass(frozen=True)
class Job:
    """One worker's share of a run.

    ``legacy_name`` is the file name SuperBench's exporter would use: model and local rank, nothing else; empty means
    to build it. A cluster fills it from its own ``legacy_name``. ``rank_dir`` is the current directory of the process.
    ``first_round`` is the number that marks name for its first capture. ``plan`` counts the profiles this process made.
    """

    model: str
    configuration: str
    worker: WorkerId
    trace_dir: Path
    rank_dir: Path
    rounds: int = 1
    vendor: Vendor = "cuda"
    seed: int = 0
    legacy_name: str = ""
    first_round: int = 0
    plan: CapturePlan = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        name = self.legacy_name or f"torch-profiler-sb-{self.model}-{self.worker.local_rank}.json"
        object.__setattr__(self, "legacy_name", name)
        object.__setattr__(self, "plan", CapturePlan(self.capture(), self.vendor, self.seed))

    def __str__(self) -> str:
        worker = self.worker
        return f"{worker.node} rank {worker.rank} (local rank {worker.local_rank}, {self.configuration or 'no configuration'})"

    @property
    def legacy_path(self) -> Path:
        """Where SuperBench's exporter would write."""
        return self.trace_dir / self.legacy_name

    def capture(self, round: int = 0) -> Capture:
        """What this worker records in a round of this run, from 0: the mark names ``first_round`` more."""
        return Capture(self.worker.node, self.worker.rank, self.configuration, self.first_round + round)

    def profiler(self, *, record_shapes: bool = True) -> FakeProfile:
        """The fake profile of this process's next round, as a context manager."""
        return profile_class(self.plan)(record_shapes=record_shapes)
