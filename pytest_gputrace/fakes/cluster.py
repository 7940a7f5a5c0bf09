"""A job of several nodes on one machine: one real process for each node, rank and configuration.

Plans the run and judges it; the processes themselves are the work of ``supervisor``, ``nodeagent``, ``workerproc``.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeVar

from pytest_gputrace.errors import ClusterError
from pytest_gputrace.fakes.aims import Aim
from pytest_gputrace.fakes.events import VENDORS
from pytest_gputrace.fakes.faults import Fault
from pytest_gputrace.fakes.isolation import namespaces
from pytest_gputrace.fakes.job import Job
from pytest_gputrace.fakes.launchers import LAUNCHERS, clean_environment, launcher_environment
from pytest_gputrace.fakes.outcome import ClusterRun, Outcome, read_outcome
from pytest_gputrace.fakes.plan import NodePlan, RunPlan, WorkerPlan
from pytest_gputrace.fakes.rankdirs import make_rank_dirs
from pytest_gputrace.fakes.snapshot import snapshot
from pytest_gputrace.fakes.supervisor import supervise
from pytest_gputrace.fakes.validate import (
    check_flag,
    check_legacy_template,
    check_seconds,
    check_text,
    check_texts,
    check_variables,
    configuration_names,
    one_of,
    whole,
)
from pytest_gputrace.model import Capture, WorkerId

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from pytest_gputrace.fakes.events import Vendor
    from pytest_gputrace.fakes.launchers import Launcher

__all__ = ["Cluster", "ClusterRun", "Outcome"]

T = TypeVar("T")
_IDENTITIES = ("auto", "namespaces", "patched")
_HOSTNAME_BYTES = 64  # HOST_NAME_MAX of Linux


class Cluster:
    """Simulated nodes that run a function in one process per node, rank and configuration.

    Args:
        root: everything goes below it; node ``node0`` has its SuperBench output in ``ROOT/node0``.
        nodes: how many nodes, labelled ``node0``, ``node1``, ...
        ranks: workers on each node for each configuration.
        configurations: SuperBench configuration names; each is a job of its own with ranks from 0.
        model: SuperBench's model name, a part of the legacy file name.
        legacy_name: how the exporter names the file that workers share, for the faults that strike it and for
            ``Job.legacy_name``: a template with ``{model}``, ``{local_rank}``, ``{rank}``, ``{node}`` and
            ``{configuration}``.
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
        TypeError: an argument is of the wrong kind, such as one text for a list.
        ValueError: a number is below 1, a name is unknown, unusable or given twice, or host names are too few or many.
    """

    def __init__(
        self,
        root: Path | str,
        *,
        nodes: int = 2,
        ranks: int = 2,
        configurations: Sequence[str] = ("model-benchmarks:experiment/fp16",),
        model: str = "resnet50",
        legacy_name: str = "torch-profiler-sb-{model}-{local_rank}.json",
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
        nodes, ranks = whole("Cluster", "nodes", nodes), whole("Cluster", "ranks", ranks)
        rounds = whole("Cluster", "rounds", rounds)
        one_of("Cluster", "launcher", launcher, LAUNCHERS)
        one_of("Cluster", "vendor", vendor, VENDORS)
        one_of("Cluster", "node_identity", node_identity, _IDENTITIES)
        check_text("Cluster", "model", model)
        check_seconds("Cluster", "deadline_s", deadline_s)
        check_flag("Cluster", "shared_trace_dir", shared_trace_dir)
        if trace_dir is not None and not shared_trace_dir:
            raise ValueError("Cluster: trace_dir is the shared folder; it cannot be given with shared_trace_dir=False")
        self.faults = _faults(faults)
        self.hostnames = _hostnames(hostnames, nodes, self.faults)
        self.root = Path(root).absolute()
        self.nodes, self.ranks, self.rounds = nodes, ranks, rounds
        self.configurations = configuration_names("Cluster", configurations)
        self.legacy_name = check_legacy_template("Cluster", legacy_name, model)
        self.model, self.launcher, self.vendor, self.seed = model, launcher, vendor, seed
        self.shared_trace_dir = shared_trace_dir
        self.node_identity, self.deadline_s = node_identity, deadline_s
        self.env = check_variables("Cluster", "env", {} if env is None else env)
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
            check: raise when a worker died, raised or gave a result that cannot be pickled, and when a fault selected
                nobody or never struck; else just return.

        Raises:
            ClusterError: with ``check``, a worker failed or a fault struck nobody; always, the deadline passed, a node
                could not be made, or a fault's ``who`` raised.
            TypeError: ``function`` cannot be called.
        """
        __tracebackhide__ = True
        if not callable(function):
            raise TypeError(f"Cluster.run: {function!r} cannot be called; give the function itself: run(export)")
        began = time.monotonic()
        if sys.platform != "linux":
            raise ClusterError(f"simulated nodes need Linux; this is {sys.platform}")
        how, reason = (None, "") if self.node_identity == "patched" else namespaces()
        if self.node_identity == "namespaces" and how is None:
            raise ClusterError(f"this machine refuses namespaces: {reason}")
        identity: Literal["namespaces", "patched"] = "patched" if how is None else "namespaces"
        before = snapshot(self.trace_dirs)
        nodes = self._plan()
        workers = [worker for node in nodes for worker in node.workers]
        aims = [Aim(fault, workers) for fault in self.faults]
        for aim in aims:
            aim.before_start()
        plan = RunPlan(function, aims, identity, how, began + self.deadline_s, os.getpid())
        ended = supervise(nodes, plan)
        outcomes = tuple(
            read_outcome(worker, ended.get(worker.index), tuple(str(aim) for aim in aims if aim.struck_in(worker.job)))
            for worker in workers
        )
        requested = tuple(aim.requested(outcomes) for aim in aims)
        run: ClusterRun[T] = ClusterRun(outcomes, identity, time.monotonic() - began, requested, before)
        if check:
            run.check()
        return run

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
        legacy = self.legacy_name.format(
            model=self.model, local_rank=local_rank, rank=worker.rank, node=worker.node, configuration=configuration
        )
        return Job(self.model, configuration, worker, trace_dir, rank_dir, self.rounds, self.vendor, self.seed, legacy)

    def _launcher_environment(self, job: Job, node_index: int, hostname: str) -> dict[str, str]:
        worker = job.worker
        return launcher_environment(
            self.launcher, node_index=node_index, nodes=self.nodes, rank=worker.rank, local_rank=worker.local_rank,
            world_size=worker.world_size, local_world_size=self.ranks, hostname=hostname,
        )  # fmt: skip


def _faults(given: object) -> tuple[Fault, ...]:
    """``given`` as a tuple of faults; refuse what is none, and say what was probably meant."""
    accepted = "give a list of faults, such as faults=[faults.truncate_legacy('every-open')]"
    if isinstance(given, Fault):
        raise TypeError(f"Cluster: faults={given} is one fault; give a list: faults=[{given}]")
    if not isinstance(given, Iterable) or isinstance(given, str | bytes):
        if callable(given):
            raise TypeError(f"Cluster: faults: {getattr(given, '__name__', given)} was not called; {accepted}")
        raise TypeError(f"Cluster: faults={given!r} is no list of faults; {accepted}")
    found = []
    for fault in given:
        if not isinstance(fault, Fault):
            name = getattr(fault, "__name__", "")
            why = f"{name} was not called" if callable(fault) and name else f"{fault!r} is no fault"
            raise TypeError(f"Cluster: faults: {why}; {accepted}")
        found.append(fault)
    return tuple(found)


def _hostnames(given: object, nodes: int, faults: Sequence[Fault]) -> tuple[str, ...]:
    names = [f"node{index}" for index in range(nodes)]
    if given is not None:
        names = check_texts("Cluster", "hostnames", given, "host name", "['gpu-a', 'gpu-b']")
    if len(names) != nodes:
        raise ValueError(f"Cluster: hostnames={given!r}: {len(names)} host names for {nodes} nodes")
    for fault in faults:
        names = fault.hostnames(names)
    for name in names:
        if len(check_text("Cluster", "host name", name).encode()) > _HOSTNAME_BYTES:
            raise ValueError(f"Cluster: host name {name!r} is longer than {_HOSTNAME_BYTES} bytes")
    return tuple(names)
