"""CT4: what is in a file: CPU events once, the GPU half, numbers and names that every reader takes, one document."""

from __future__ import annotations

import dataclasses
import gzip
import json
import re
import zlib
from collections import Counter
from typing import TYPE_CHECKING, Any

from pytest_gputrace.conformance.distinct import plain_configurations
from pytest_gputrace.conformance.judgement import Judgement, short
from pytest_gputrace.conformance.promise import Family
from pytest_gputrace.errors import ContractError
from pytest_gputrace.fakes import fake_events, faults
from pytest_gputrace.fakes.profilefaults import HOSTILE_NAMES, BadValues

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pytest_gputrace.checks.captures import Reading
    from pytest_gputrace.conformance.scene import Scene
    from pytest_gputrace.conformance.trial import Trial
    from pytest_gputrace.fakes import FakeEvent
    from pytest_gputrace.fakes.events import Vendor

__all__ = ["FAMILY"]

FAMILY = Family()

_GPU_TIME = re.compile("(gpu|cuda|hip|device).*(time|dur)", re.IGNORECASE)
_MARKS_AROUND_STEPS = 2  # a capture is marked at its begin, after each step and at its end
_GPU_CATEGORIES = ("kernel", "gpu_memcpy", "gpu_memset")
_NOT_HOST = (*_GPU_CATEGORIES, "gpu_user_annotation", "Trace")  # "Trace" is the profiler's own range


@FAMILY.check("CT401", "every CPU event is in the file, once, and no event of another kind passes for one",
              needs=("torch_profiler",))  # fmt: skip
def cpu_events(trial: Trial) -> Judgement:
    """A range over GPU work is reported twice, and kernels stand beside the operations that launched them."""
    scene = trial.run()
    problems = list(scene.judge().problems)
    for reading in scene.homes().values():
        wanted = Counter(event.name for event in _events(scene, reading) if event.device_type.name == "CPU")
        found = Counter(_cpu_names(_content(reading)))
        missing, more = wanted - found, found - wanted
        if missing or more:
            problems.append(
                f"{short(reading.name)}: {_counted(missing, 'missing')}{_counted(more, 'too many')}".rstrip()
            )
    expected = "the CPU events of the profile, each once"
    return Judgement(expected, len(scene.readings), tuple(problems), (), scene.cluster.trace_dir)


def _counted(names: Counter[str], what: str) -> str:
    if not names:
        return ""
    name, count = next(iter(names.items()))
    return f"{sum(names.values())} CPU events {what}, such as {short(name)!r} ({count}x). "


@FAMILY.check("CT402", "on a CUDA build the GPU half of the profile is kept", needs=("torch_profiler", "cuda"))
def cuda(trial: Trial) -> Judgement:
    """cudaLaunchKernel, NCCL kernels; GPU times of operations, or the kernels themselves."""
    return _gpu_half(trial, "cuda")


@FAMILY.check("CT403", "on a HIP build the GPU half of the profile is kept", needs=("torch_profiler", "hip"))
def hip(trial: Trial) -> Judgement:
    """hipLaunchKernel, RCCL kernels; devices are still called CUDA."""
    return _gpu_half(trial, "hip")


def _gpu_half(trial: Trial, vendor: Vendor) -> Judgement:
    scene = trial.run(vendor=vendor)
    judgement = scene.judge(f"the capture on a {vendor.upper()} build, with its GPU times or its kernels")
    empty = [
        f"{short(reading.name)} holds no GPU time above 0 and no kernel"
        for reading in scene.homes().values()
        if not _has_gpu_half(_content(reading))
    ]
    return dataclasses.replace(judgement, problems=(*judgement.problems, *empty))


@FAMILY.check("CT404", "numbers that JSON cannot hold break no file", needs=("torch_profiler",))
def bad_values(trial: Trial) -> Judgement:
    """NaN, both infinities and a complex number stand among inputs and times."""
    scene = trial.run(faults=[faults.bad_values()])
    judgement = scene.judge("strict JSON with finite numbers, the capture whole in it, and no event left out")
    return _without_gaps(scene, judgement, values=BadValues().values)


@FAMILY.check("CT405", "no event name breaks a file", needs=("torch_profiler",))
def hostile_names(trial: Trial) -> Judgement:
    """Quotes, backslashes, control characters, half a surrogate pair, 100,000 characters."""
    scene = trial.run(faults=[faults.hostile_names()])
    judgement = scene.judge("strict JSON in UTF-8, the capture whole in it, and no event left out")
    return _without_gaps(scene, judgement, names=HOSTILE_NAMES)


@FAMILY.check("CT406", "one file holds one JSON document", ranks=2)
def one_document(trial: Trial) -> Judgement:
    """Appended gzip streams and appended documents inflate without an error, and no JSON reader takes them."""
    scene = trial.run(ranks=trial.sizes.ranks, configurations=plain_configurations(2))
    problems = [
        f"{short(reading.name)} holds {count} documents"
        for reading in scene.readings
        if (count := _documents(reading.path)) > 1
    ]
    return Judgement(
        "one JSON document in each file", len(scene.readings), tuple(problems), (), scene.cluster.trace_dir
    )


def _documents(path: Path) -> int:
    """How many JSON documents, or gzip members with something in them, a file holds; 0 where it cannot be told."""
    data = path.read_bytes()
    try:
        text = (gzip.decompress(data) if data.startswith(b"\x1f\x8b") else data).decode("utf-8")
    except (OSError, EOFError, zlib.error, UnicodeDecodeError):
        return 0
    decoder, count, position = json.JSONDecoder(), 0, 0
    while position < len(text):
        if text[position].isspace():
            position += 1
            continue
        try:
            _, position = decoder.raw_decode(text, position)
        except ValueError:
            return 0
        count += 1
    return count


def _content(reading: Reading) -> list[dict[str, Any]]:
    """The events of a file that was read strictly before."""
    data = reading.path.read_bytes()
    value = json.loads(gzip.decompress(data) if data.startswith(b"\x1f\x8b") else data)
    events: list[dict[str, Any]] = value["traceEvents"] if isinstance(value, dict) else value
    return events


def _without_gaps(scene: Scene, judgement: Judgement, **more: Any) -> Judgement:
    """The judgement, and whether the awkward events were simply dropped; their names need not be kept as they are."""
    gaps = []
    for reading in scene.homes().values():
        wanted = sum(event.device_type.name == "CPU" for event in _events(scene, reading, **more))
        found = len(list(_cpu_names(_content(reading))))
        if found < wanted:
            gaps.append(f"{short(reading.name)} holds {found} of {wanted} CPU events")
    return dataclasses.replace(judgement, problems=(*judgement.problems, *gaps))


def _events(scene: Scene, reading: Reading, **more: Any) -> list[FakeEvent]:
    """What the fake profiler recorded for the capture in a file: as many steps as the exporter made."""
    cluster = scene.cluster
    steps = reading.marks[0].total - _MARKS_AROUND_STEPS
    if steps < 0:
        raise ContractError("the marks in the file are not those of the fake profiler, which nobody used")
    return fake_events(reading.captures[0], vendor=cluster.vendor, seed=cluster.seed, steps=steps, **more)


def _cpu_names(events: list[dict[str, Any]]) -> Iterator[str]:
    """The names of what a file gives out as CPU events: all records of an event list, host events of a Chrome trace."""
    for event in events:
        if "ph" not in event:
            yield str(event.get("name"))
        elif event["ph"] in ("X", "B", "b") and event.get("cat") not in _NOT_HOST:
            name = str(event.get("name"))
            yield "ProfilerStep*" if name.startswith("ProfilerStep#") else name


def _has_gpu_half(events: list[dict[str, Any]]) -> bool:
    return any(
        event.get("cat") in _GPU_CATEGORIES
        or any(_number(value) > 0 and _GPU_TIME.search(key) for key, value in event.items())
        for event in events
    )


def _number(value: Any) -> float:
    return value if isinstance(value, int | float) and not isinstance(value, bool) else 0.0
