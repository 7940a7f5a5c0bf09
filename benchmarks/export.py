"""Events to the two files of a capture, against two ``json.dump`` of the same records.

The rival gets its list of dicts for nothing; ours starts from the events, and syncs both files to the disk.
"""

from __future__ import annotations

import enum
import gc
import json
import random
import shutil
import statistics
import tempfile
import tracemalloc
from pathlib import Path
from typing import Any

from benchmarks.table import median_ratio, pairs, show
from pytest_gputrace import WorkerId, export_events
from pytest_gputrace.export.records import KEYS, cpu_records

_NAMES = [
    "aten::mm", "aten::add_", "aten::copy_", "aten::empty_strided", "cudaLaunchKernel", "Optimizer.step#SGD.step",
    "autograd::engine::evaluate_function: AddmmBackward0", "aten::as_strided", "ProfilerStep*",
]  # fmt: skip


class _Device(enum.Enum):
    CPU = 0


class _Range:
    __slots__ = ("start",)

    def __init__(self, start: float) -> None:
        self.start = start


class _Event:
    """The attributes that an exporter reads of torch's FunctionEvent, and no others."""

    __slots__ = ("concrete_inputs", "cpu_time", "device_time", "device_type", "input_shapes", "name", "time_range")

    def __init__(self, index: int, rng: random.Random) -> None:
        self.device_type = _Device.CPU
        self.name = rng.choice(_NAMES)
        self.cpu_time = rng.randrange(10**6) / 1000
        self.device_time = rng.randrange(10**6) / 1000 if index % 3 else 0.0
        rows = rng.choice([32, 64, 128, 256, 512, 1024])
        self.input_shapes = [[rows, 256], [256, rng.choice([64, 128, 1024])], []]
        self.concrete_inputs = [None, None, rng.choice([1, 1.0, True, [1, 1], -1])]
        self.time_range = _Range(index * 3.217)


def main(count: int) -> None:
    """Print time ratios and peak memory for 50,000 and 500,000 events."""
    rows = []
    for size in (50_000, 500_000):
        rng = random.Random(size)
        events = [_Event(index, rng) for index in range(size)]
        rows.append(_measure(events, count))
    show(
        "Events to two files on disk, against two json.dump: `python -m benchmarks export`",
        [
            "events",
            "file",
            "two json.dump",
            "export_events",
            "ratio (median of pairs)",
            "bytes",
            "memory above the list",
        ],
        rows,
    )


def _measure(events: list[Any], count: int) -> list[str]:
    records = [dict(zip(KEYS, record, strict=True)) for record in cpu_records(events)]
    folder = Path(tempfile.mkdtemp(prefix="gputrace-bench-"))
    worker = WorkerId(node="node0", rank=0, local_rank=0, world_size=1)
    try:

        def ours() -> None:
            shutil.rmtree(folder / "ours", ignore_errors=True)
            export_events(events, model="m", trace_dir=folder / "ours", configuration="fp16", worker=worker)

        def rival() -> None:
            for name in ("legacy.json", "qualified.json"):
                with (folder / name).open("w") as file:
                    json.dump(records, file, sort_keys=True)

        measured = pairs(ours, rival, count)
        files = list((folder / "ours").iterdir())
        expected = (folder / "legacy.json").read_bytes()
        same = len(files) == 2 and all(file.read_bytes() == expected for file in files)
        gc.collect()
        tracemalloc.start()
        ours()
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    finally:
        shutil.rmtree(folder)
    return [
        f"{len(events):,}",
        f"{len(expected) / 1e6:.1f} MB",
        f"{statistics.median(rival for _, rival in measured):.2f} s",
        f"{statistics.median(ours for ours, _ in measured):.3f} s",
        f"{median_ratio(measured):.1f}x",
        "identical" if same else "DIFFERENT",
        f"{peak / 1e6:.1f} MB",
    ]
