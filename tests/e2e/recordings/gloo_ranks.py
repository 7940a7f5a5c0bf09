"""Collectives of gloo on every rank, recorded by torch.profiler: ``torchrun --nproc-per-node 2 gloo_ranks.py FOLDER``.

Leaves ``rank<N>/trace.json`` of each rank.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import torch
import torch.distributed as dist
from torch.profiler import ProfilerActivity, profile

STEPS = 5


def main(folder: Path) -> None:
    dist.init_process_group("gloo")
    here = folder / f"rank{dist.get_rank()}"
    here.mkdir()
    gradient = torch.ones(1000)
    dist.all_reduce(gradient)  # the first one connects the ranks
    with profile(activities=[ProfilerActivity.CPU]) as profiler:
        dist.barrier()  # after the start of the profile, which one rank may take longer over than another
        for _ in range(STEPS):
            dist.all_reduce(gradient)
    profiler.export_chrome_trace(str(here / "trace.json"))
    dist.barrier()  # a rank that ends early takes the connections with it


if __name__ == "__main__":
    main(Path(sys.argv[1]))
    # A gloo job that profiled can abort in its last destructors, after its traces are on disk: leave without them.
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)
