"""CT2: who a worker is, as each launcher tells it. Several ranks on several nodes, as launchers start them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_gputrace.conformance.promise import Family

if TYPE_CHECKING:
    from pytest_gputrace.conformance.judgement import Judgement
    from pytest_gputrace.conformance.trial import Trial
    from pytest_gputrace.fakes.launchers import Launcher

__all__ = ["FAMILY"]

FAMILY = Family()


@FAMILY.check("CT201", "under torchrun every worker keeps its capture", needs=("multi_node",), nodes=2)
def torchrun(trial: Trial) -> Judgement:
    """RANK, LOCAL_RANK, WORLD_SIZE, GROUP_RANK."""
    return _under(trial, "torchrun")


@FAMILY.check("CT202", "under Slurm every worker keeps its capture", needs=("multi_node", "slurm"), nodes=2)
def slurm(trial: Trial) -> Judgement:
    """SLURM_PROCID, SLURM_LOCALID, SLURM_NODEID; no RANK."""
    return _under(trial, "slurm")


@FAMILY.check("CT203", "under MPI every worker keeps its capture", needs=("multi_node", "mpi"), nodes=2)
def mpi(trial: Trial) -> Judgement:
    """OMPI_COMM_WORLD_RANK, OMPI_COMM_WORLD_LOCAL_RANK; no RANK and no node."""
    return _under(trial, "mpi")


@FAMILY.check("CT204", "in an executor's local mode every rank keeps its capture", needs=("proc_rank",), ranks=2)
def local(trial: Trial) -> Judgement:
    """One node; PROC_RANK, the local rank, is the only variable."""
    scene = trial.run(ranks=trial.sizes.ranks, launcher="local", process_group=False)
    return scene.judge(f"{scene.size}, told apart by PROC_RANK only: a file of its own for each")


@FAMILY.check("CT205", "a rank that two sources disagree about is reported, not guessed", needs=("slurm",), ranks=2)
def disagreement(trial: Trial) -> Judgement:
    """Started by Slurm, with a RANK=0 of the same world that somebody left in the environment of every worker."""
    count = trial.sizes.ranks
    left = {"RANK": "0", "WORLD_SIZE": str(count), "LOCAL_RANK": "0"}
    scene = trial.run(ranks=count, launcher="slurm", env=left, process_group=False)
    return scene.judge_reports("each capture kept, or an error from the exporter: RANK and SLURM_PROCID disagree")


def _under(trial: Trial, launcher: Launcher) -> Judgement:
    scene = trial.run(nodes=trial.sizes.nodes, ranks=trial.sizes.ranks, launcher=launcher)
    return scene.judge(f"{scene.size} started by {launcher}: a file of its own for each")
