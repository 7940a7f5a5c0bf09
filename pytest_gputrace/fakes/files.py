"""The two files a profile becomes, as their first authors write them: Kineto's trace and SuperBench's event list.

Written out on its own, so that a wrong belief in our exporter or reader is not repeated here.
"""

from __future__ import annotations

import json
import math
import platform
import uuid
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pytest_gputrace.fakes.functionevent import FakeEvent

__all__ = ["BASE_TIME_NS", "event_list", "kineto_text", "trace_dict"]

# Kineto floors the wall clock to a step of a quarter of a mean year; this is 227 steps.
BASE_TIME_NS = 7_889_238 * 227 * 1_000_000_000
_FIRST_TS_US = 5_171_577_480_660.661

_PROPERTIES: dict[str, dict[str, Any]] = {
    "cuda": {
        "name": "NVIDIA H100 80GB HBM3", "totalGlobalMem": 85_045_477_376, "computeMajor": 9, "computeMinor": 0,
        "maxThreadsPerBlock": 1024, "maxThreadsPerMultiprocessor": 2048, "regsPerBlock": 65536, "warpSize": 32,
        "sharedMemPerBlock": 49152, "numSms": 132, "regsPerMultiprocessor": 65536,
        "sharedMemPerBlockOptin": 232448, "sharedMemPerMultiprocessor": 233472,
    },
    "hip": {
        "name": "AMD Instinct MI300X", "totalGlobalMem": 206_141_652_992, "computeMajor": 9, "computeMinor": 4,
        "maxThreadsPerBlock": 1024, "maxThreadsPerMultiprocessor": 2048, "regsPerBlock": 65536, "warpSize": 64,
        "sharedMemPerBlock": 65536, "numSms": 304, "maxSharedMemoryPerMultiProcessor": 65536,
    },
}  # fmt: skip
_VERSIONS = {
    "cuda": {"cupti_version": 26, "cuda_runtime_version": 12080, "cuda_driver_version": 12080},
    "hip": {"roctracer_version": 4010, "hip_runtime_version": 60443483, "hip_driver_version": 60443483},
}
_ARGUMENTS = {
    "registers_per_thread": "registers per thread",
    "shared_memory": "shared memory",
    "grid": "grid",
    "block": "block",
    "context": "context",
    "bytes": "bytes",
    "collective_name": "Collective name",
    "dtype": "dtype",
    "in_msg_nelems": "In msg nelems",
    "out_msg_nelems": "Out msg nelems",
    "group_size": "Group size",
    "process_group_name": "Process Group Name",
    "process_group_desc": "Process Group Description",
    "group_ranks": "Process Group Ranks",
}


def event_list(events: Iterable[FakeEvent]) -> list[dict[str, Any]]:
    """The records of SuperBench's file: host events only, no rank, no device, no base."""
    return [
        {
            "name": event.name,
            "input_shapes": event.input_shapes,
            "input_values": event.concrete_inputs,
            "cpu_time": event.cpu_time,
            "gpu_time": event.device_time,
            "start_time": event.time_range.start,
        }
        for event in events
        if event.device_type.name == "CPU"
    ]


def trace_dict(
    events: Sequence[FakeEvent], *, vendor: str, trace_name: str, options: dict[str, int] | None = None
) -> dict[str, Any]:
    """A Kineto trace of torch 2.13 as a Python object, keys in torch's order."""
    device = next((event.device_index for event in events if event.device_type.name != "CPU"), 0)
    rows: list[dict[str, Any]] = [*_metadata(events, device)]
    for event in events:
        rows.append(_complete(event, vendor))
        if event.flow_id:
            rows.append(_flow(event))
    return {
        "schemaVersion": 1,
        "deviceProperties": [{"id": device, **_PROPERTIES[vendor]}],
        **_VERSIONS[vendor],
        "trace_id": uuid.uuid5(uuid.NAMESPACE_URL, trace_name).hex.upper(),
        **(options or {}),
        "host_name": platform.node(),
        "displayTimeUnit": "ms",
        "baseTimeNanoseconds": BASE_TIME_NS,
        "traceEvents": [*rows, *_frame(events)],
        "traceName": trace_name,
    }


def kineto_text(trace: dict[str, Any]) -> str:
    """The JSON text. Bad values are already texts, as Kineto writes them, so ``allow_nan`` stays off."""
    return json.dumps(trace, indent=2, ensure_ascii=False, allow_nan=False)


def _ts(time_us: float) -> float:
    return round(_FIRST_TS_US + time_us, 3)


def _row(ph: str, name: str, pid: Any, tid: Any, ts: float, **more: Any) -> dict[str, Any]:
    return {"ph": ph, "name": name, "pid": pid, "tid": tid, "ts": ts, **more}


def _place(event: FakeEvent) -> tuple[int, int]:
    """The process and the thread of an event: the device and its stream for device work."""
    return event.device_index, event.device_resource_id


def _complete(event: FakeEvent, vendor: str) -> dict[str, Any]:
    start, end = event.time_range.start, event.time_range.end
    # Kineto keeps whole nanoseconds in integers and clamps a negative length to 0: it cannot hold a non-finite time.
    dur = max(0.0, end - start) if math.isfinite(end - start) else 0.0
    name = event.trace_name if event.name == "ProfilerStep*" else event.name
    row = _row("X", _written(name), *_place(event), _ts(start), cat=event.activity_type, dur=round(dur, 3))
    return {**row, "args": _arguments(event, vendor)}


def _written(name: str) -> str:
    """A name as Kineto of torch 2.14 writes it; that of torch 2.13 and before leaves a quote as it is: no JSON."""
    name = name.split("\0", 1)[0].replace("\n", "").replace('"', "'").replace("\\", "/")
    return name if name.isascii() and name.isprintable() else "unknown"


def _arguments(event: FakeEvent, vendor: str) -> dict[str, Any]:
    args: dict[str, Any] = {"External id": event.external_id or event.id}
    if event.activity_type == "cpu_op":
        args |= {"Concrete Inputs": [_concrete(value) for value in event.concrete_inputs]}
        args |= {"Input type": event.input_dtypes, "Input Dims": event.structured_input_shapes}
    if event.flow_id:
        args["correlation"] = event.flow_id
    if event.flow_id and event.device_type.name == "CPU":
        args["cbid" if vendor == "cuda" else "cid"] = 211
    if event.device_type.name != "CPU":
        args |= {"device": event.device_index, "stream": event.device_resource_id}
        if vendor == "hip" and event.activity_type == "kernel":
            args["kind"] = "Dispatch Kernel"
        known = {} if event.event_metadata is None else event.event_metadata._asdict()
        args |= {_ARGUMENTS[key]: known[key] for key in known if key in _ARGUMENTS and known[key] is not None}
    return args


def _concrete(value: Any) -> str:
    """A concrete input as Kineto's text: ``"6"``, ``"2."``, ``"inf"``, ``"1.+2.j"``, ``"[1., nan]"``, ``""``."""
    if value is None:
        return ""
    if isinstance(value, list):
        return f"[{', '.join(_concrete(item) for item in value)}]"
    if isinstance(value, complex):
        return f"{_concrete(value.real)}+{_concrete(value.imag)}j"
    if isinstance(value, float) and value.is_integer():
        return f"{int(value)}."
    return str(value)


def _flow(event: FakeEvent) -> dict[str, Any]:
    more: dict[str, Any] = {"id": event.flow_id, "cat": "ac2g"}
    if not event.flow_start:
        more["bp"] = "e"
    return _row("s" if event.flow_start else "f", "ac2g", *_place(event), _ts(event.time_range.start), **more)


def _metadata(events: Sequence[FakeEvent], device: int) -> list[dict[str, Any]]:
    pid = next((event.device_index for event in events if event.device_type.name == "CPU"), 0)
    ts = _ts(0.0)
    rows = []
    for process, name, labels, order in [(pid, "python", "CPU", pid), (device, "python", f"GPU {device}", 5_000_000)]:
        rows.append(_row("M", "process_name", process, 0, ts, args={"name": name}))
        rows.append(_row("M", "process_labels", process, 0, ts, args={"labels": labels}))
        rows.append(_row("M", "process_sort_index", process, 0, ts, args={"sort_index": order}))
    streams = sorted({event.device_resource_id for event in events if event.device_type.name != "CPU"})
    threads = [(pid, pid, f"thread {pid} (python)")] * 2  # torch writes the main thread's rows twice
    threads += [(device, stream, f"stream {stream} ") for stream in streams]
    for process, tid, name in threads:
        rows.append(_row("M", "thread_name", process, tid, ts, args={"name": name}))
        rows.append(_row("M", "thread_sort_index", process, tid, ts, args={"sort_index": tid}))
    return rows


def _frame(events: Sequence[FakeEvent]) -> list[dict[str, Any]]:
    """The rows about the profile itself, on torch's string pids."""
    ends = [event.time_range.end for event in events if math.isfinite(event.time_range.end)]
    start, end = _ts(0.0), _ts(max(ends, default=0.0))
    span = {"cat": "Trace", "dur": round(end - start, 3), "args": {"Op count": 0}}
    return [
        _row("X", "PyTorch Profiler (0)", "Spans", "PyTorch Profiler", start, **span),
        _row("i", "Iteration Start: PyTorch Profiler", "Traces", "Trace PyTorch Profiler", start, s="g"),
        _row("i", "Record Window End", "", "", end, s="g"),
    ]
