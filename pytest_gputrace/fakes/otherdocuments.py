"""What Proton, VizTracer and SuperBench write of the same few steps: documents without any defect.

Of the document only, keys in each writer's order; the layout of the text is written elsewhere.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["event_list_document", "proton_document", "proton_tree_document", "viztracer_document"]

_STREAM_LANE = 200_000  # Proton's kernels have the thread 200000 + stream
_MONOTONIC_US = 2_900_000_000.0  # VizTracer counts from the machine's start; this one runs for 48 minutes
_SOURCE = "def step(batch):\n    return sum(batch)\n"
_KERNELS = ("matmul_kernel", "softmax_kernel")


def proton_document(*, steps: int, kernels_per_step: int, base_time_ns: int, first_scope_id: int) -> dict[str, Any]:
    """A Chrome trace of Proton 3.9: a scope a step, and below it one launch that starts all of the step's kernels.

    Proton repeats the begin of a launch's flow before each of its ends.
    """
    events = list(map(_proton_lane, (0, _STREAM_LANE), ("CPU Thread 0", "GPU Stream 0")))
    scopes: list[dict[str, Any]] = []
    kernels: list[dict[str, Any]] = []
    step_us = 40.0 * kernels_per_step + 20.0
    for step in range(steps):
        start, stack = step * step_us, ["ROOT", f"step {step}"]
        scope = _proton_event("scope", f"step {step}", 0, start, step_us - 5.0, stack, scope_id=first_scope_id + step)
        scopes.append(scope)
        for number in range(kernels_per_step):
            name = _KERNELS[number % len(_KERNELS)]
            begin = start + 12.5 + 40.0 * number
            metrics = {"device_id": "0", "time (ns)": "21250"}
            kernel = _proton_event("kernel", name, _STREAM_LANE, begin, 21.25, [*stack, name], metrics=metrics)
            kernels += [_proton_flow("s", step, 0, start + 2.0), _proton_flow("f", step, _STREAM_LANE, begin), kernel]
    return {
        "baseTimeNanoseconds": base_time_ns, "displayTimeUnit": "us", "traceEvents": [*events, *scopes, *kernels]
    }  # fmt: skip


def _proton_lane(tid: int, name: str) -> dict[str, Any]:
    return {"args": {"name": name}, "name": "thread_name", "ph": "M", "pid": 0, "tid": tid}


def _proton_event(
    cat: str, name: str, tid: int, ts: float, dur: float, stack: list[str], **args: Any
) -> dict[str, Any]:
    row = {"args": {"call_stack": stack, **args}, "cat": cat, "dur": dur, "name": name, "ph": "X"}
    return {**row, "pid": 0, "tid": tid, "ts": ts}


def _proton_flow(ph: str, identity: int, tid: int, ts: float) -> dict[str, Any]:
    row = {"bp": "e", "cat": "flow", "id": identity, "name": "launch->kernel", "ph": ph}
    return {**row, "pid": 0, "tid": tid, "ts": ts}


def proton_tree_document(*, steps: int, kernels_per_step: int, vendor: str) -> list[Any]:
    """A tree of Proton in hatchet's form, and its devices."""
    kind, arch = ("CUDA", "90") if vendor == "cuda" else ("HIP", "gfx942")
    names = dict.fromkeys(_KERNELS[number % len(_KERNELS)] for number in range(kernels_per_step))
    scopes = []
    for step in range(steps):
        kernels = []
        for index, name in enumerate(names):
            count = len(range(index, kernels_per_step, len(_KERNELS)))
            metrics = {"count": count, "device_id": "0", "device_type": kind, "time (ns)": 21_250 * count}
            kernels.append(_node(name, [], metrics))
        scopes.append(_node(f"step {step}", kernels, {}))
    device = {"arch": arch, "bus_width": 5120, "clock_rate": 1_980_000, "memory_clock_rate": 2_619_000, "num_sms": 132}
    return [_node("ROOT", scopes, {}), {kind: {"0": device}}]


def _node(name: str, children: list[Any], metrics: dict[str, Any]) -> dict[str, Any]:
    return {"children": children, "frame": {"name": name, "type": "function"}, "metrics": metrics}


def viztracer_document(
    *, steps: int, base_time_ns: int, sources: bool, pid: int, scope_ids: Sequence[int]
) -> dict[str, Any]:
    """A report of VizTracer 1.1, saved in the process; with ``sources`` it holds the text of what was traced.

    Of the scope ids each begins an arrow within a step, 1.5 us after its begin.
    """
    place = {"pid": pid, "tid": pid}
    names = {"process_name": "MainProcess", "thread_name": "MainThread"}
    events: list[dict[str, Any]] = [{"ph": "M", **place, "name": key, "args": {"name": names[key]}} for key in names]
    for step in range(steps):
        start = _MONOTONIC_US + 50.0 * step
        for name, begin, dur in [("builtins.sum", start + 4.427, 21.5), ("step (train.py:1)", start, 32.125)]:
            events.append({**place, "ts": begin, "ph": "X", "dur": dur, "name": name, "cat": "FEE"})
    for step, number in enumerate(scope_ids):
        link = {"ph": "s", "id": number, "cat": "tokenspeed.proton", "name": "viztracer->proton"}
        events.append({**place, "ts": _MONOTONIC_US + 50.0 * step + 1.5, **link})
    metadata = {"version": "1.1.1", "overflow": False, "baseTimeNanoseconds": base_time_ns}
    document: dict[str, Any] = {"traceEvents": events, "viztracer_metadata": metadata}
    if sources:
        files = {"train.py": [_SOURCE, _SOURCE.count("\n")]}
        document["file_info"] = {"files": files, "functions": {"step (train.py:1)": ["train.py", 1]}}
    return document


def event_list_document(*, steps: int, kernels_per_step: int) -> list[dict[str, Any]]:
    """SuperBench's list of host events, keys sorted as it writes them: no rank, no device, no base."""
    records = []
    for step in range(steps):
        start = 10.5 + step * (40.0 * kernels_per_step + 20.0)
        for number in range(kernels_per_step):
            record = {"cpu_time": 25.0, "gpu_time": 21.25, "input_shapes": [[64, 64], [64, 64]]}
            record |= {"input_values": [None, None], "name": "aten::mm", "start_time": start + 40.0 * number}
            records.append(record)
    return records
