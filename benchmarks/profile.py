"""A stopped profile of torch to the two files of a capture, against ``events()``, a loop over dicts and two ``json.dump``.

The profile is real: some 60,000 CPU events of training steps, shapes on. Each pair has one of its own, since torch
keeps what ``events()`` made. The rival runs as it would in a program, with Python's garbage collector on; a second rival
has it off.
"""

from __future__ import annotations

import gc
import itertools
import json
import os
import shutil
import statistics
import sys
import tempfile
import time
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.table import median_ratio, pairs, show
from pytest_gputrace import ExportResult, WorkerId, export_events
from pytest_gputrace.export.encode import encode
from pytest_gputrace.export.garbage import collector_paused
from pytest_gputrace.export.reading import read

if TYPE_CHECKING:
    from collections.abc import Callable

_STEPS = 520
_WORKER = WorkerId(node="node0", rank=0, local_rank=0, world_size=1)


def main(count: int) -> None:
    """Print the time ratio, where our time goes, and the peak memory of both."""
    try:
        record = _recorder()
    except ImportError:
        print("\nprofile: left out, since torch is not installed", file=sys.stderr)
        return
    folder = Path(tempfile.mkdtemp(prefix="gputrace-bench-"))
    try:
        _measure(record, folder, count)
    finally:
        shutil.rmtree(folder)


def _measure(record: Callable[[], Any], folder: Path, count: int) -> None:
    profile: Any = None
    written: list[ExportResult] = []

    def prepare() -> None:
        nonlocal profile
        profile = None
        gc.collect()  # what the rival left behind is not for ours to clean up
        profile = record()

    def ours() -> None:
        shutil.rmtree(folder / "ours", ignore_errors=True)
        options: Any = {"trace_dir": folder / "ours", "configuration": "fp16", "worker": _WORKER}
        written.append(export_events(profile, model="m", **options))

    def rival() -> None:
        records = [
            {
                "name": event.name,
                "input_shapes": event.input_shapes,
                "input_values": event.concrete_inputs,
                "cpu_time": event.cpu_time,
                "gpu_time": event.device_time,
                "start_time": event.time_range.start,
            }
            for event in profile.events()
            if event.device_type.name == "CPU"
        ]
        for name in ("legacy.json", "qualified.json"):
            with (folder / name).open("w") as file:
                json.dump(records, file, sort_keys=True)

    def without_collector() -> None:
        gc.disable()
        try:
            rival()
        finally:
            gc.enable()

    # First of all: a process that has worked before has room left that its next work fills unseen.
    our_memory, rival_memory = _peak_memory(prepare, ours), _peak_memory(prepare, rival)
    measured = pairs(ours, rival, count, prepare)
    no_collector = pairs(ours, without_collector, count, prepare)
    expected = (folder / "legacy.json").read_bytes()
    files = [file.read_bytes() for file in (folder / "ours").iterdir()]
    same = files == [expected, expected]
    assert all(result.read_from == "kineto" for result in written), "nothing to show: this torch is read by events()"
    parts = [_parts(record()) for _ in range(count)]
    show(
        f"A stopped profile to two files, read from {written[-1].read_from!r}: `python -m benchmarks profile`",
        ["events", "events() + dicts + json", "export_events", "ratio (median of pairs)", "gc off for the rival", "bytes", "peak memory"],
        [
            [
                f"{written[-1].event_count:,}",
                f"{statistics.median(rival for _, rival in measured):.2f} s",
                f"{statistics.median(ours for ours, _ in measured):.3f} s",
                f"{median_ratio(measured):.1f}x",
                f"{median_ratio(no_collector):.1f}x",
                "identical" if same else "DIFFERENT",
                f"{our_memory / 1e6:.0f} MB against {rival_memory / 1e6:.0f} MB",
            ]
        ],
    )  # fmt: skip
    names = ["events out of torch", "their columns and tree", "shapes and values", "text", "files, to the disk"]
    whole = statistics.median(ours for ours, _ in measured)
    seconds = [statistics.median(part[index] for part in parts) for index in range(4)]
    seconds.append(whole - sum(seconds))
    show(
        "Where its time goes: `python -m benchmarks profile`",
        names,
        [[f"{part * 1e3:.0f} ms ({part / whole:.0%})" for part in seconds]],
    )


def _recorder() -> Callable[[], Any]:
    """A function that gives a stopped profile of training steps."""
    import torch
    import torch.profiler

    torch.set_num_threads(1)
    model = torch.nn.Sequential(torch.nn.Linear(32, 64), torch.nn.ReLU(), torch.nn.Linear(64, 8))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def train() -> None:
        for _ in range(_STEPS):
            labels = torch.randint(0, 8, (16,))
            torch.nn.functional.cross_entropy(model(torch.randn(16, 32)), labels).backward()  # type: ignore[no-untyped-call, unused-ignore]
            optimizer.step()
            optimizer.zero_grad()

    def record() -> Any:
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], record_shapes=True) as profile:
            train()
        return profile

    return record


def _parts(profile: Any) -> list[float]:
    """Seconds for the events out of torch, their columns and tree, shapes and values, and text; the disk left out."""
    clock = time.perf_counter
    with collector_paused():
        marks = [clock()]
        events = profile.profiler.kineto_results.events()
        marks.append(clock())
        for event in events:
            event.shapes()
            event.concrete_inputs()
        marks.append(clock())
        del events
        marks.append(clock())
        reading = read(profile)
        marks.append(clock())
        for _ in encode(reading.records):
            pass
        marks.append(clock())
    out, asked, _, read_all, encoded = (end - start for start, end in itertools.pairwise(marks))
    return [out, read_all - out, asked, encoded - asked]


def _peak_memory(prepare: Callable[[], object], work: Callable[[], object]) -> int:
    """Bytes by which a process of its own grew at most while it did ``work``."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            prepare()
            Path("/proc/self/clear_refs").write_text("5")  # the peak so far is forgotten
            before = _status("VmRSS")
            work()
            os.write(writing, str(_status("VmHWM") - before).encode())
            os._exit(0)
        finally:
            traceback.print_exc()
            os._exit(1)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        grown = pipe.read()
    os.waitpid(child, 0)
    if not grown:
        raise RuntimeError("the process whose memory is measured died")
    return int(grown)


def _status(name: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(f"{name}:")) * 1024
