"""A job of several nodes on one machine: one real process for each node, rank and configuration.

Plans the run and judges it; the processes themselves are the work of ``supervisor``, ``nodeagent``, ``workerproc``.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeVar

from pytest_gputrace.errors import ClusterError
from pytest_gputrace.fakes.isolation import namespaces
from pytest_gputrace.fakes.job import Job
from pytest_gputrace.fakes.launchers import LAUNCHERS, clean_environment, launcher_environment
from pytest_gputrace.fakes.outcome import ClusterRun, Outcome, check_all, read_outcome
from pytest_gputrace.fakes.plan import NodePlan, RunPlan, WorkerPlan
from pytest_gputrace.fakes.rankdirs import make_rank_dirs
from pytest_gputrace.fakes.supervisor import supervise
from pytest_gputrace.model import Capture, WorkerId

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from pytest_gputrace.fakes.events import Vendor
    from pytest_gputrace.fakes.faults import Fault
    from pytest_gputrace.fakes.launchers import Launcher

__all__ = ["Cluster", "ClusterRun", "Outcome"]

T = TypeVar("T")


class Cluster:
    """Simulated nodes that run a function in one process per node, rank and configuration.

    Args:
        root: everything goes below it; node ``node0`` has its SuperBench output in ``ROOT/node0``.
        nodes: how many nodes, labelled ``node0``, ``node1``, ...
        ranks: workers on each node for each configuration.
        configurations: SuperBench configuration names; each is a job of its own with ranks from 0.
        model: SuperBench's model name, a part of the legacy file name.
        launcher: whose environment variables the workers get.
        vendor: the kind of build that ``torch`` is made to look like.
        shared_trace_dir: one trace folder for all workers, else each worker's rank folder.
        trace_dir: the shared folder, when it is not to be ``ROOT/traces``.
        rounds: captures each worker is expected to make.
        faults: what is done to the run, from ``pytest_gputrace.fakes.faults``.
        hostnames: one for each node; they may be equal. The labels, when left out.
        node_identity: ``namespaces`` gives each node a host name and process ids of its own; ``patched`` replaces the
            calls that tell them; ``auto`` takes the first where the machine allows it.
        deadline_s: a run that takes longer is ended and raises.
        env: variables for every worker, on top of a small clean environment and the launcher's.
        seed: for the made-up events.

    Raises:
        ValueError: a number is below 1, a name is unknown or given twice, or host names are too few or too many.
    """

    def __init__(
        self,
        root: Path | str,
        *,
        nodes: int = 2,
        ranks: int = 2,
        configurations: Sequence[str] = ("model-benchmarks:experiment/fp16",),
        model: str = "resnet50",
        launcher: Launcher = "torchrun",
        vendor: Vendor = "cuda",
        shared_trace_dir: bool = True,
        trace_dir: Path | str | None = None,
        rounds: int = 1,
        faults: Sequence[Fault] = (),
        hostnames: Sequence[str] | None = None,
        node_identity: Literal["auto", "namespaces", "patched"] = "auto",
        deadline_s: float = 60.0,
        env: Mapping[str, str] | None = None,
        seed: int = 0,
    ) -> None:
        if min(nodes, ranks, rounds, len(configurations)) < 1:
            raise ValueError("Cluster: nodes, ranks, rounds and the number of configurations must be at least 1")
        if launcher not in LAUNCHERS:
            raise ValueError(f"Cluster: launcher {launcher!r} is not one of {', '.join(LAUNCHERS)}")
        if len(set(configurations)) != len(configurations):
            raise ValueError(f"Cluster: a configuration is given twice in {list(configurations)}")
        if trace_dir is not None and not shared_trace_dir:
            raise ValueError("Cluster: trace_dir is the shared folder; it cannot be given with shared_trace_dir=False")
        names = [f"node{index}" for index in range(nodes)] if hostnames is None else list(hostnames)
        if len(names) != nodes:
            raise ValueError(f"Cluster: {len(names)} host names for {nodes} nodes")
        for fault in faults:
            names = fault.hostnames(names)
        self.root = Path(root).absolute()
        self.nodes, self.ranks, self.rounds = nodes, ranks, rounds
        self.configurations = tuple(configurations)
        self.model, self.launcher, self.vendor, self.seed = model, launcher, vendor, seed
        self.shared_trace_dir = shared_trace_dir
        self.faults, self.hostnames = tuple(faults), tuple(names)
        self.node_identity, self.deadline_s, self.env = node_identity, deadline_s, dict(env or {})
        self._trace_dir = self.root / "traces" if trace_dir is None else Path(trace_dir).absolute()

    @property
    def trace_dir(self) -> Path:
        """The shared trace folder; ``root``, which all rank folders lie in, when there is none."""
        return self._trace_dir if self.shared_trace_dir else self.root

    @property
    def trace_dirs(self) -> list[Path]:
        """Every folder a worker is told to write to: the shared one, or all rank folders."""
        if self.shared_trace_dir:
            return [self._trace_dir]
        return [
            self.root / f"node{node}" / "benchmarks" / configuration / f"rank{local_rank}"
            for node in range(self.nodes)
            for local_rank in range(self.ranks)
            for configuration in self.configurations
        ]

    @property
    def expected(self) -> list[Capture]:
        """Every capture the workers should leave, ordered by node, rank, configuration and round."""
        return [
            Capture(f"node{node}", node * self.ranks + local_rank, configuration, round)
            for node in range(self.nodes)
            for local_rank in range(self.ranks)
            for configuration in self.configurations
            for round in range(self.rounds)
        ]

    def run(self, function: Callable[[Job], T], *, check: bool = True) -> ClusterRun[T]:
        """Call ``function`` in every worker at the same time, each in its own folder and environment.

        The workers are forked from this process, so any callable will do; its result must be picklable. The trace
        folder exists when they start. Not for a process that holds a GPU context: that does not survive a fork.

        Args:
            function: gets the worker's ``Job``.
            check: raise when a worker died, raised or gave a result that cannot be pickled; else just return.

        Raises:
            ClusterError: a worker failed (with ``check``), the deadline passed (always), or a node could not be made.
        """
        began = time.monotonic()
        if sys.platform != "linux":
            raise ClusterError(f"simulated nodes need Linux; this is {sys.platform}")
        how, reason = (None, "") if self.node_identity == "patched" else namespaces()
        if self.node_identity == "namespaces" and how is None:
            raise ClusterError(f"this machine refuses namespaces: {reason}")
        identity: Literal["namespaces", "patched"] = "patched" if how is None else "namespaces"
        nodes = self._plan()
        workers = [worker for node in nodes for worker in node.workers]
        for fault in self.faults:
            fault.before_start([worker.job for worker in workers])
        plan = RunPlan(function, self.faults, identity, how, began + self.deadline_s, os.getpid())
        ended = supervise(nodes, plan)
        outcomes = tuple(read_outcome(worker, ended.get(worker.index)) for worker in workers)
        if check:
            check_all(outcomes, ", ".join(map(str, self.faults)))
        return ClusterRun(outcomes, identity, time.monotonic() - began)

    def _plan(self) -> list[NodePlan]:
        """Make the folders and say what each process is."""
        notes = self._new_folder()
        if self.shared_trace_dir:
            self._trace_dir.mkdir(parents=True, exist_ok=True)
        base = clean_environment()
        nodes = []
        for index, hostname in enumerate(self.hostnames):
            dirs = make_rank_dirs(self.root / f"node{index}", self.configurations, self.ranks)
            workers: list[WorkerPlan] = []
            for local_rank in range(self.ranks):
                for number, configuration in enumerate(self.configurations):
                    job = self._job(index, local_rank, configuration, dirs[configuration, local_rank])
                    name = f"node{index}-rank{job.worker.rank}-configuration{number}"
                    environment = {**base, **self._launcher_environment(job, index, hostname), **self.env}
                    place = index * self.ranks * len(self.configurations) + len(workers)
                    files = notes / f"{name}.log", notes / f"{name}.result"
                    # Process 1 of a node is no worker, so the first has 2; the patched identity says the same.
                    workers.append(WorkerPlan(place, job, environment, *files, simulated_pid=len(workers) + 2))
            nodes.append(NodePlan(index, f"node{index}", hostname, workers, notes / f"node{index}.log"))
        return nodes

    def _new_folder(self) -> Path:
        """A folder for the logs and results of one run, beside the nodes and outside every trace folder."""
        number = 0
        while True:
            folder = self.root / ".runs" / f"run{number}"
            try:
                folder.mkdir(parents=True)
            except FileExistsError:
                number += 1
            else:
                return folder

    def _job(self, node: int, local_rank: int, configuration: str, rank_dir: Path) -> Job:
        worker = WorkerId(
            f"node{node}", node * self.ranks + local_rank, local_rank, self.nodes * self.ranks, self.ranks
        )
        trace_dir = self._trace_dir if self.shared_trace_dir else rank_dir
        return Job(self.model, configuration, worker, trace_dir, rank_dir, self.rounds, self.vendor, self.seed)

    def _launcher_environment(self, job: Job, node_index: int, hostname: str) -> dict[str, str]:
        worker = job.worker
        return launcher_environment(
            self.launcher, node_index=node_index, nodes=self.nodes, rank=worker.rank, local_rank=worker.local_rank,
            world_size=worker.world_size, local_world_size=self.ranks, hostname=hostname,
        )  # fmt: skip
