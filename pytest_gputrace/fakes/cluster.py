"""A job of several nodes on one machine: one real process for each node, rank and configuration.

Plans the run and judges it; the processes themselves are the work of ``supervisor``, ``nodeagent``, ``workerproc``.
"""

from __future__ import annotations

import contextlib
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
from pytest_gputrace.fakes.torchfake import taken_names_known
from pytest_gputrace.fakes.turns import Turns
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
    work_folders,
)
from pytest_gputrace.model import Capture, WorkerId

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from pytest_gputrace.fakes.events import Vendor
    from pytest_gputrace.fakes.launchers import Launcher

__all__ = ["Cluster", "ClusterRun", "Outcome"]

T = TypeVar("T")
_IDENTITIES = ("auto", "namespaces", "patched")
_RANKS = 2
_CONFIGURATIONS = ("model-benchmarks:experiment/fp16",)
_HOSTNAME_BYTES = 64  # HOST_NAME_MAX of Linux


class Cluster:
    """Simulated nodes that run a function in one process per node, rank and configuration.

    Args:
        root: everything goes below it; node ``node0`` has its SuperBench output in ``ROOT/node0``.
        nodes: how many nodes, labelled ``node0``, ``node1``, ...
        ranks: workers on each node for each configuration; 2, when left out.
        configurations: SuperBench configuration names; each is a job of its own with ranks from 0.
        work_dirs: for workers outside SuperBench's layout: the folders below ``ROOT/node0``, ... that workers with
            local rank 0, 1, ... run in, instead of ``ranks`` and ``configurations``. Such workers have no
            configuration: theirs is the empty text.
        model: SuperBench's model name, a part of the legacy file name.
        legacy_name: how the exporter names the file that workers share, for the faults that strike it and for
            ``Job.legacy_name``: a template with ``{model}``, ``{local_rank}``, ``{rank}``, ``{node}`` and
            ``{configuration}``.
        launcher: whose environment variables the workers get.
        vendor: the kind of build that ``torch`` is made to look like.
        shared_trace_dir: one trace folder for all workers, else each worker's rank folder.
        trace_dir: the shared folder, when it is not to be ``ROOT/traces``.
        rounds: captures each worker is expected to make.
        first_round: the number of the first one. A run in a folder that holds an earlier one's captures takes another.
        process_group: whether torch.distributed, where torch is loaded, says that the job's process group is there: its
            rank and size, and gloo as its backend; a barrier returns at once, and collectives do not work.
        turns: whether workers are called one after another, in the order of the outcomes, each when the one before it
            has ended. Then ``Outcome.touched`` says which files each touched.
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
        ranks: int | None = None,
        configurations: Sequence[str] | None = None,
        work_dirs: Sequence[str | os.PathLike[str]] | None = None,
        model: str = "resnet50",
        legacy_name: str = "torch-profiler-sb-{model}-{local_rank}.json",
        launcher: Launcher = "torchrun",
        vendor: Vendor = "cuda",
        shared_trace_dir: bool = True,
        trace_dir: Path | str | None = None,
        rounds: int = 1,
        first_round: int = 0,
        turns: bool = False,
        process_group: bool = False,
        faults: Sequence[Fault] = (),
        hostnames: Sequence[str] | None = None,
        node_identity: Literal["auto", "namespaces", "patched"] = "auto",
        deadline_s: float = 60.0,
        env: Mapping[str, str] | None = None,
        seed: int = 0,
    ) -> None:
        nodes, rounds = whole("Cluster", "nodes", nodes), whole("Cluster", "rounds", rounds)
        one_of("Cluster", "launcher", launcher, LAUNCHERS)
        one_of("Cluster", "vendor", vendor, VENDORS)
        one_of("Cluster", "node_identity", node_identity, _IDENTITIES)
        check_text("Cluster", "model", model)
        check_seconds("Cluster", "deadline_s", deadline_s)
        check_flag("Cluster", "shared_trace_dir", shared_trace_dir)
        check_flag("Cluster", "turns", turns)
        check_flag("Cluster", "process_group", process_group)
        if trace_dir is not None and not shared_trace_dir:
            raise ValueError("Cluster: trace_dir is the shared folder; it cannot be given with shared_trace_dir=False")
        self.faults = _faults(faults, turns)
        self.hostnames = _hostnames(hostnames, nodes, self.faults)
        self.root = Path(root).absolute()
        self.work_dirs = None if work_dirs is None else work_folders("Cluster", work_dirs)
        self.nodes, self.ranks, self.configurations = nodes, *_layout(ranks, configurations, self.work_dirs)
        self.rounds, self.first_round = rounds, whole("Cluster", "first_round", first_round, 0)
        self.turns, self.process_group = turns, process_group
        self.legacy_name = check_legacy_template("Cluster", legacy_name, model, self.configurations[0])
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
        folders = [
            self._rank_dir(node, local_rank, configuration)
            for node in range(self.nodes)
            for local_rank in range(self.ranks)
            for configuration in self.configurations
        ]
        return list(dict.fromkeys(folders))

    def _rank_dir(self, node: int, local_rank: int, configuration: str) -> Path:
        root = self.root / f"node{node}"
        if self.work_dirs is not None:
            return root / self.work_dirs[local_rank]
        return root / "benchmarks" / configuration / f"rank{local_rank}"

    @property
    def expected(self) -> list[Capture]:
        """Every capture the workers should leave, ordered by node, rank, configuration and round."""
        return [
            Capture(f"node{node}", node * self.ranks + local_rank, configuration, round)
            for node in range(self.nodes)
            for local_rank in range(self.ranks)
            for configuration in self.configurations
            for round in range(self.first_round, self.first_round + self.rounds)
        ]

    def run(self, function: Callable[[Job], T], *, check: bool = True) -> ClusterRun[T]:
        """Call ``function`` in every worker, each in its own folder and environment: at the same time, or in turns.

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
        plan = RunPlan(function, aims, identity, how, began + self.deadline_s, os.getpid(), self.process_group)
        with contextlib.ExitStack() as undo:
            for aim in aims:
                undo.enter_context(aim.around_run())
            turns = self._turns(len(workers))
            if turns is not None:
                undo.callback(turns.close)
                plan.gates = turns.gates
            undo.enter_context(taken_names_known())
            ended = supervise(nodes, plan, turns)
        outcomes = tuple(
            read_outcome(
                worker,
                ended.get(worker.index),
                tuple(str(aim) for aim in aims if aim.struck_in(worker.job)),
                () if turns is None else turns.touched.get(worker.index, ()),
            )
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
            self._make_rank_dirs(index)
            workers: list[WorkerPlan] = []
            for local_rank in range(self.ranks):
                for number, configuration in enumerate(self.configurations):
                    job = self._job(index, local_rank, configuration)
                    name = f"node{index}-rank{job.worker.rank}-configuration{number}"
                    environment = {**base, **self._launcher_environment(job, index, hostname), **self.env}
                    place = index * self.ranks * len(self.configurations) + len(workers)
                    files = notes / f"{name}.log", notes / f"{name}.result"
                    # Process 1 of a node is no worker, so the first has 2; the patched identity says the same.
                    workers.append(WorkerPlan(place, job, environment, *files, simulated_pid=len(workers) + 2))
            nodes.append(NodePlan(index, f"node{index}", hostname, workers, notes / f"node{index}.log"))
        return nodes

    def _make_rank_dirs(self, node: int) -> None:
        if self.work_dirs is None:
            make_rank_dirs(self.root / f"node{node}", self.configurations, self.ranks)
        for name in self.work_dirs or ():
            (self.root / f"node{node}" / name).mkdir(parents=True, exist_ok=True)

    def _turns(self, workers: int) -> Turns | None:
        return Turns(range(workers), self._looked_at(), self._runs_dir) if self.turns else None

    @property
    def _runs_dir(self) -> Path:
        return self.root / ".runs"

    def _looked_at(self) -> list[Path]:
        """The folders whose files a turn may touch: the root and the trace folder, each file once."""
        root, traces = self.root, self.trace_dir
        if traces.is_relative_to(root):
            return [root]
        return [traces] if root.is_relative_to(traces) else [root, traces]

    def _new_folder(self) -> Path:
        """A folder for the logs and results of one run, beside the nodes and outside every trace folder."""
        number = 0
        while True:
            folder = self._runs_dir / f"run{number}"
            try:
                folder.mkdir(parents=True)
            except FileExistsError:
                number += 1
            else:
                return folder

    def _job(self, node: int, local_rank: int, configuration: str) -> Job:
        worker = WorkerId(
            f"node{node}", node * self.ranks + local_rank, local_rank, self.nodes * self.ranks, self.ranks
        )
        rank_dir = self._rank_dir(node, local_rank, configuration)
        trace_dir = self._trace_dir if self.shared_trace_dir else rank_dir
        legacy = self.legacy_name.format(
            model=self.model, local_rank=local_rank, rank=worker.rank, node=worker.node, configuration=configuration
        )
        return Job(
            self.model, configuration, worker, trace_dir, rank_dir, self.rounds, self.vendor, self.seed, legacy,
            self.first_round,
        )  # fmt: skip

    def _launcher_environment(self, job: Job, node_index: int, hostname: str) -> dict[str, str]:
        worker = job.worker
        return launcher_environment(
            self.launcher, node_index=node_index, nodes=self.nodes, rank=worker.rank, local_rank=worker.local_rank,
            world_size=worker.world_size, local_world_size=self.ranks, hostname=hostname,
        )  # fmt: skip


def _layout(ranks: object, configurations: object, work_dirs: tuple[str, ...] | None) -> tuple[int, tuple[str, ...]]:
    """The workers of one node: how many for each configuration, and the configurations."""
    if work_dirs is None:
        names = _CONFIGURATIONS if configurations is None else configuration_names("Cluster", configurations)
        return whole("Cluster", "ranks", _RANKS if ranks is None else ranks), names
    if configurations is not None:
        raise ValueError("Cluster: workers in work_dirs have no configuration; configurations cannot be given with it")
    if ranks is not None and whole("Cluster", "ranks", ranks) != len(work_dirs):
        raise ValueError(f"Cluster: ranks={ranks!r}, but work_dirs has a folder for {len(work_dirs)}; leave ranks out")
    return len(work_dirs), ("",)


def _faults(given: object, turns: bool) -> tuple[Fault, ...]:
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
        if turns and fault.side_by_side:
            raise ValueError(
                f"Cluster: {fault} needs workers that run side by side; it cannot be given with turns=True"
            )
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
