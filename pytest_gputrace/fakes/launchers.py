"""The environment each launcher gives to one worker, and the clean one it is added to.

Tables only. What a reader makes of these variables is not this module's business.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["LAUNCHERS", "Launcher", "clean_environment", "launcher_environment"]

Launcher = Literal["torchrun", "slurm", "mpi", "local"]
LAUNCHERS: tuple[Launcher, ...] = ("torchrun", "slurm", "mpi", "local")

# An allow list, so that no variable of an outer launcher, of SuperBench or of pytest-xdist reaches a worker.
_KEPT = frozenset(
    [
        "PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "TZ", "TMPDIR", "TMP", "TEMP", "PYTHONPATH",
        "PYTHONHOME", "PYTHONHASHSEED", "PYTHONWARNINGS", "PYTHONDONTWRITEBYTECODE", "PYTHONUNBUFFERED", "PYTHONUTF8",
        "VIRTUAL_ENV", "LD_LIBRARY_PATH", "LD_PRELOAD",
    ]
)  # fmt: skip
_KEPT_PREFIXES = ("LC_", "COVERAGE_", "COV_CORE_")


def clean_environment(outer: Mapping[str, str] | None = None) -> dict[str, str]:
    """The variables that a worker keeps from the process around it: paths, language, coverage; nothing of a launcher."""
    outer = os.environ if outer is None else outer
    return {name: value for name, value in outer.items() if name in _KEPT or name.startswith(_KEPT_PREFIXES)}


def launcher_environment(
    launcher: Launcher,
    *,
    node_index: int,
    nodes: int,
    rank: int,
    local_rank: int,
    world_size: int,
    local_world_size: int,
    hostname: str,
) -> dict[str, str]:
    """What ``launcher`` sets for one worker of a job with equally many workers on each node.

    ``local`` is SuperBench's local mode: it sets ``PROC_RANK``, the local rank, and nothing else.

    Raises:
        ValueError: the launcher is not one of ``LAUNCHERS``.
    """
    if launcher == "torchrun":
        return _torchrun(node_index, nodes, rank, local_rank, world_size, local_world_size)
    if launcher == "slurm":
        return _slurm(node_index, nodes, rank, local_rank, world_size, local_world_size, hostname)
    if launcher == "mpi":
        return _mpi(rank, local_rank, world_size, local_world_size)
    if launcher == "local":
        return {"PROC_RANK": str(local_rank)}
    raise ValueError(f"launcher {launcher!r} is not one of {', '.join(LAUNCHERS)}")


def _torchrun(
    node_index: int, nodes: int, rank: int, local_rank: int, world_size: int, local_world_size: int
) -> dict[str, str]:
    return {
        "RANK": str(rank),
        "LOCAL_RANK": str(local_rank),
        "WORLD_SIZE": str(world_size),
        "LOCAL_WORLD_SIZE": str(local_world_size),
        "GROUP_RANK": str(node_index),
        "GROUP_WORLD_SIZE": str(nodes),
        "ROLE_RANK": str(rank),
        "ROLE_WORLD_SIZE": str(world_size),
        "ROLE_NAME": "default",
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": "29500",
        "TORCHELASTIC_RESTART_COUNT": "0",
        "TORCHELASTIC_MAX_RESTARTS": "0",
        "TORCHELASTIC_RUN_ID": "gputrace-fake",
        "TORCHELASTIC_USE_AGENT_STORE": "True",
        "TORCH_NCCL_ASYNC_ERROR_HANDLING": "1",
        "OMP_NUM_THREADS": "1",
    }


def _slurm(
    node_index: int, nodes: int, rank: int, local_rank: int, world_size: int, local_world_size: int, hostname: str
) -> dict[str, str]:
    first = rank - local_rank
    tasks_per_node = f"{local_world_size}(x{nodes})" if nodes > 1 else str(local_world_size)
    return {
        "SLURM_JOB_ID": "4711",
        "SLURM_JOBID": "4711",
        "SLURM_JOB_NAME": "gputrace-fake",
        "SLURM_STEP_ID": "0",
        "SLURM_STEPID": "0",
        "SLURM_PROCID": str(rank),
        "SLURM_LOCALID": str(local_rank),
        "SLURM_NODEID": str(node_index),
        "SLURM_GTIDS": ",".join(str(first + index) for index in range(local_world_size)),
        "SLURM_NTASKS": str(world_size),
        "SLURM_NPROCS": str(world_size),
        "SLURM_NNODES": str(nodes),
        "SLURM_JOB_NUM_NODES": str(nodes),
        "SLURM_TASKS_PER_NODE": tasks_per_node,
        "SLURM_STEP_NUM_TASKS": str(world_size),
        "SLURM_STEP_NUM_NODES": str(nodes),
        "SLURM_STEP_TASKS_PER_NODE": tasks_per_node,
        "SLURMD_NODENAME": hostname,
    }


def _mpi(rank: int, local_rank: int, world_size: int, local_world_size: int) -> dict[str, str]:
    return {
        "OMPI_COMM_WORLD_RANK": str(rank),
        "OMPI_COMM_WORLD_SIZE": str(world_size),
        "OMPI_COMM_WORLD_LOCAL_RANK": str(local_rank),
        "OMPI_COMM_WORLD_LOCAL_SIZE": str(local_world_size),
        # Open MPI's "node rank" counts the processes on this node over all jobs; it is not the number of the node.
        "OMPI_COMM_WORLD_NODE_RANK": str(local_rank),
        "OMPI_UNIVERSE_SIZE": str(world_size),
        "OMPI_APP_CTX_NUM_PROCS": str(world_size),
        "OMPI_FIRST_RANKS": "0",
        "PMIX_RANK": str(rank),
        "PMIX_NAMESPACE": "gputrace-fake",
    }
