"""One check at work on one exporter: makes the jobs, lets the exporter run in them, reads what it left.

A worker that dies unasked, a late one, or a fault that strikes nobody gives no verdict: it is an error of set-up.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytest_gputrace.conformance.judgement import listed, short
from pytest_gputrace.conformance.scene import Scene, files_below, legacy_paths, read_new
from pytest_gputrace.errors import ClusterError, ContractError
from pytest_gputrace.fakes import Cluster

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pytest_gputrace.conformance.subject import Sizes, Subject
    from pytest_gputrace.fakes import ClusterRun, Job, Outcome

__all__ = ["PLAIN", "Trial", "refuse_idle_faults"]

PLAIN = "fp16"
"""A configuration that no naming scheme has trouble with, where the check is about something else."""

_SHOWN = 3
_TURN_S = 3.0  # on a busy machine, for each worker that waits for its turn


class Trial:
    """The work place of one check.

    Args:
        subject: the exporter and what was declared about it.
        sizes: how large jobs are to be.
        folder: an empty folder, for everything that the check makes.

    ``raised`` is the first worker in which the exporter raised, in any run so far.
    """

    def __init__(self, subject: Subject, sizes: Sizes, folder: Path) -> None:
        self.subject, self.sizes, self.folder = subject, sizes, folder
        self.raised: Outcome[Any] | None = None
        self._roots = 0
        self._has_own_files = self._looked = False

    @property
    def nodes(self) -> int:
        """How many nodes, for a check that is about something else: one where several are not claimed."""
        return 1 if "multi_node" in self.subject.unclaimed else self.sizes.nodes

    def cluster(self, root: Path | None = None, **options: Any) -> Cluster:
        """A cluster in a folder of its own, or in that of an earlier one.

        One node, one rank and one plain configuration, called one after another, unless ``options`` say otherwise.
        """
        if root is None:
            root = self.folder / f"job{self._roots}"
            self._roots += 1
        workers = len(options.get("configurations", "1")) * options.get("ranks", 1) * options.get("nodes", 1)
        given: dict[str, Any] = {
            "nodes": 1,
            "turns": True,
            "process_group": True,
            "model": self.subject.model,
            "legacy_name": self.subject.legacy_name,
            "deadline_s": self.subject.deadline_s + _TURN_S * workers,
        }
        if "work_dirs" not in options:
            given |= {"ranks": 1, "configurations": [PLAIN]}
        given |= options
        given["env"] = {**self.subject.env, **given.get("env", {})}
        return Cluster(root, **given)

    def run(self, root: Path | None = None, *, may_miss: bool = False, **options: Any) -> Scene:
        """Let the exporter run in a new cluster (see `cluster` and `run_in`)."""
        return self.run_in(self.cluster(root, **options), may_miss=may_miss)

    def run_in(
        self, cluster: Cluster, exporter: Callable[[Job], Any] | None = None, *, may_miss: bool = False
    ) -> Scene:
        """Let an exporter, the one under test unless another is given, run in ``cluster``.

        Args:
            cluster: of this trial.
            exporter: another one, such as a control.
            may_miss: whether it is fine that a fault struck nobody; the caller looks.

        Raises:
            ContractError: a worker died unasked or was late, or a fault that was to strike did not.
        """
        chosen = self.subject.exporter if exporter is None else exporter

        def work(job: Job) -> None:
            chosen(job)  # what it returns proves nothing, and need not be picklable

        before = files_below(cluster.root)
        try:
            run = cluster.run(work, check=False)
        except ClusterError as error:
            raise ContractError(f"the simulated job gave no verdict: {error}") from error
        _refuse_dead(run)
        if not may_miss:
            refuse_idle_faults(run)
        if exporter is None and self.raised is None:
            self.raised = next((outcome for outcome in run if raised(outcome)), None)
        legacy = frozenset() if "legacy" in self.subject.unclaimed else frozenset(legacy_paths(run))
        readings = tuple(read_new(cluster, legacy, before))
        if exporter is None:
            self._has_own_files |= any(not reading.legacy for reading in readings)
            if readings and not self._has_own_files:
                self._look_for_own_files()
        return Scene(cluster, run, legacy, readings, has_own_files=exporter is None and self._has_own_files)

    def _look_for_own_files(self) -> None:
        """Whether the exporter has files of its own where nothing is wrong: the legacy file alone keeps nothing then."""
        if not self._looked:
            self._looked = True
            self.run()


def raised(outcome: Outcome[Any]) -> bool:
    """Whether the exporter raised, which is how it says that it failed. ``SystemExit`` is a death."""
    return outcome.error_type not in (None, "SystemExit") and outcome.signal is None


def _refuse_dead(run: ClusterRun[Any]) -> None:
    killed = {place for fault in run.requested if fault.kills for place in fault.struck}
    dead = [outcome for place, outcome in enumerate(run) if not (outcome.ok or place in killed or raised(outcome))]
    if dead:
        lines = [f"{len(dead)} of {len(run)} workers died in the exporter, so there is no verdict:"]
        lines += listed((f"  {short(str(outcome), 300)}" for outcome in dead), _SHOWN)
        tail = dead[0].log_tail()
        lines += [f"end of {dead[0].log}:", tail] if tail else []
        raise ContractError("\n".join(lines))


def refuse_idle_faults(run: ClusterRun[Any]) -> None:
    """Raise `ContractError` for a fault that was to strike and did not: what was seen proves nothing about it."""
    idle = [fault for fault in run.requested if not fault.struck and not fault.may_be_idle]
    if idle:
        told = "; ".join(f"{fault.text}: {fault.advice}" for fault in idle)
        raise ContractError(f"a fault that belongs to the check struck nobody, so nothing was tried: {told}")
