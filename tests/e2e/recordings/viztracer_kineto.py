"""Python frames by VizTracer and operators by torch.profiler, recorded together: ``viztracer_kineto.py FOLDER``.

Leaves ``viztracer.json`` and ``kineto.json``. Each frame opens one annotation.
"""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile, record_function

STEPS = 9
# By name: it is not there where types are checked.
VizTracer: Any = importlib.import_module("viztracer").VizTracer


def step(name: str, matrix: torch.Tensor) -> None:
    with record_function(name):
        torch.mm(matrix, matrix)


def main(folder: Path) -> None:
    matrix = torch.ones(400, 400)
    step("warm-up", matrix)  # the first use of anything takes milliseconds between a frame and what it opens
    with profile(activities=[ProfilerActivity.CPU]) as profiler:
        step("warm-up", matrix)
        tracer = VizTracer(output_file=str(folder / "viztracer.json"), verbose=0)
        tracer.start()
        for number in range(STEPS):
            step(f"step {number}", matrix)
        tracer.stop()
    tracer.save()
    profiler.export_chrome_trace(str(folder / "kineto.json"))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
