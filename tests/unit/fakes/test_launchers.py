from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from pytest_gputrace.fakes.launchers import clean_environment, launcher_environment

PLACE: dict[str, Any] = {
    "node_index": 1,
    "nodes": 2,
    "rank": 5,
    "local_rank": 1,
    "world_size": 8,
    "local_world_size": 4,
    "hostname": "gpu-b",
}


def test_torchrun() -> None:
    environment = launcher_environment("torchrun", **PLACE)
    assert environment["RANK"] == environment["ROLE_RANK"] == "5"
    assert environment["LOCAL_RANK"] == "1"
    assert environment["WORLD_SIZE"] == environment["ROLE_WORLD_SIZE"] == "8"
    assert environment["LOCAL_WORLD_SIZE"] == "4"
    assert (environment["GROUP_RANK"], environment["GROUP_WORLD_SIZE"]) == ("1", "2")
    assert {"ROLE_NAME", "MASTER_ADDR", "MASTER_PORT", "TORCHELASTIC_RUN_ID"} <= environment.keys()
    assert environment["TORCHELASTIC_RESTART_COUNT"] == environment["TORCHELASTIC_MAX_RESTARTS"] == "0"


def test_torchrun_sets_what_torchs_agent_sets() -> None:
    torch = pytest.importorskip("torch", reason="needs torch: compares with the real one")
    source = Path(torch.__file__).parent / "distributed/elastic/agent/server/local_elastic_agent.py"
    block = source.read_text().split("worker_env = {", 1)[1].split("}\n", 1)[0]
    names = set(re.findall(r'^\s+"([A-Z_]+)":', block, re.MULTILINE))
    assert len(names) > 10
    assert names | {"LOCAL_RANK", "OMP_NUM_THREADS"} == launcher_environment("torchrun", **PLACE).keys()


def test_slurm() -> None:
    environment = launcher_environment("slurm", **PLACE)
    assert environment["SLURM_PROCID"] == "5"
    assert environment["SLURM_LOCALID"] == "1"
    assert environment["SLURM_NODEID"] == "1"
    assert environment["SLURM_GTIDS"] == "4,5,6,7"
    assert environment["SLURM_NTASKS"] == environment["SLURM_STEP_NUM_TASKS"] == "8"
    assert environment["SLURM_NNODES"] == environment["SLURM_STEP_NUM_NODES"] == "2"
    assert environment["SLURM_TASKS_PER_NODE"] == "4(x2)"
    assert environment["SLURMD_NODENAME"] == "gpu-b"
    assert {"SLURM_JOB_ID", "SLURM_STEP_ID"} <= environment.keys()


def test_mpi() -> None:
    environment = launcher_environment("mpi", **PLACE)
    assert environment["OMPI_COMM_WORLD_RANK"] == "5"
    assert environment["OMPI_COMM_WORLD_SIZE"] == "8"
    assert environment["OMPI_COMM_WORLD_LOCAL_RANK"] == "1"
    assert environment["OMPI_COMM_WORLD_LOCAL_SIZE"] == "4"
    assert environment["OMPI_COMM_WORLD_NODE_RANK"] == "1", "the rank on the node, not the number of the node"


def test_local_sets_the_local_rank_and_nothing_else() -> None:
    assert launcher_environment("local", **PLACE) == {"PROC_RANK": "1"}


def test_an_unknown_launcher() -> None:
    with pytest.raises(ValueError, match="'srun' is not one of torchrun, slurm, mpi, local"):
        launcher_environment("srun", **PLACE)  # type: ignore[arg-type]


def test_a_clean_environment_keeps_paths_and_drops_launchers() -> None:
    kept = {"PATH": "/bin", "HOME": "/h", "COVERAGE_PROCESS_CONFIG": "c", "LC_ALL": "C", "VIRTUAL_ENV": "/v"}
    gone = {"RANK": "7", "SLURM_PROCID": "7", "OMPI_COMM_WORLD_RANK": "7", "PROC_RANK": "7", "PMIX_RANK": "7"}
    gone |= {"PYTEST_XDIST_WORKER": "gw1", "SB_ENABLE_PYTORCH_PROFILER": "1", "GPUTRACE_X": "1"}
    assert clean_environment(kept | gone) == kept
