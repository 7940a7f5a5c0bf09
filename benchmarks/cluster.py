"""128 simulated captures: what one costs, and where the time goes.

There is no rival to name: nobody else simulates ranks. The same 128 exports in one process, one after the other, stand
beside it, so that the price of the processes can be seen.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.table import show
from pytest_gputrace import export_events
from pytest_gputrace.fakes import Cluster, fake_events
from pytest_gputrace.model import Capture, WorkerId

if TYPE_CHECKING:
    from pytest_gputrace.export.exporter import ExportResult
    from pytest_gputrace.fakes import Job

_CONFIGURATIONS = [f"model-benchmarks:experiment/{index}" for index in range(8)]


def _export(job: Job) -> ExportResult:
    with job.profiler() as profiler:
        pass
    return export_events(profiler, model=job.model, trace_dir=job.trace_dir)


def main(count: int) -> None:
    """Print the time of a whole run of 2 nodes x 8 ranks x 8 configurations, and of its parts."""
    wholes, met, exports, alone = [], [], [], []
    for _ in range(count + 1):
        with tempfile.TemporaryDirectory(prefix="gputrace-bench-") as folder:
            start_ns = time.monotonic_ns()
            run = Cluster(Path(folder), nodes=2, ranks=8, configurations=_CONFIGURATIONS).run(_export)
            end_ns = time.monotonic_ns()
            started = [outcome.started_ns or 0 for outcome in run.outcomes]
            ended = [outcome.ended_ns or 0 for outcome in run.outcomes]
            wholes.append((end_ns - start_ns) / 1e9)
            met.append((min(started) - start_ns) / 1e9)
            exports.append((max(ended) - min(started)) / 1e9)
            alone.append(_one_by_one(Path(folder) / "alone"))
    whole = statistics.median(wholes[1:])
    start, work = statistics.median(met[1:]), statistics.median(exports[1:])
    show(
        "128 simulated captures, 2 nodes x 8 ranks x 8 configurations: `python -m benchmarks cluster`",
        ["whole run", "one capture", "fork to barrier", "128 exports at once", "rest", "128 exports in one process"],
        [
            [
                f"{whole:.2f} s",
                f"{whole / 128 * 1e3:.0f} ms",
                f"{start:.2f} s",
                f"{work:.2f} s",
                f"{whole - start - work:.2f} s",
                f"{statistics.median(alone[1:]):.2f} s",
            ]
        ],
    )


def _one_by_one(folder: Path) -> float:
    start = time.perf_counter()
    for rank in range(16):
        worker = WorkerId(f"node{rank // 8}", rank, rank % 8, 16)
        for configuration in _CONFIGURATIONS:
            events = fake_events(Capture(worker.node, rank, configuration))
            export_events(events, model="resnet50", trace_dir=folder, configuration=configuration, worker=worker)
    return time.perf_counter() - start
