"""A few steps of a small model on every rank, profiled: one qualified trace per rank and configuration.

Started by torchrun, once per configuration: ``torchrun --nproc-per-node 2 train.py CONFIGURATION FOLDER``.
"""

import dataclasses
import json
import os
import sys

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.profiler import record_function

from pytest_gputrace import Capture, identify, profiled


def main(configuration: str, folder: str) -> None:
    dist.init_process_group("gloo")
    dtype = torch.bfloat16 if configuration.endswith("bf16") else torch.float32
    layers = torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.ReLU(), torch.nn.Linear(128, 8))
    model = DistributedDataParallel(layers)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

    # The mark says, inside the trace, whose it is; the checks trust no file name.
    worker = identify().worker
    mark = Capture(worker.node, worker.rank, configuration).mark()

    with (
        profiled(model="mlp", trace_dir=folder, configuration=configuration, strict=True) as capture,
        record_function(mark),
    ):
        for _ in range(5):
            with torch.autocast("cpu", dtype=dtype, enabled=dtype is not torch.float32):
                loss = model(torch.randn(32, 64)).float().pow(2).mean()
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()

    # One rank prints for all: lines that ranks print at one time on a shared output can run into each other.
    results = [None] * dist.get_world_size()
    dist.all_gather_object(results, dataclasses.asdict(capture.result))
    if worker.rank == 0:
        print(json.dumps(results, default=str))


if __name__ == "__main__":
    main(*sys.argv[1:])
    # A gloo job that profiled can abort in its last destructors, after its traces are on disk: leave without them.
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)
