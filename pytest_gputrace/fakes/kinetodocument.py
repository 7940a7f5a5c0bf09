"""What a few training steps on one rank leave in a Kineto trace of torch 2.13, as a document without any defect.

Nothing is left to chance: the same rank and steps give the same events everywhere. Times are whole nanoseconds from the
job's begin, equal on all ranks but for a delay of at most 9 us, so that the ranks of one job go together. Only then is
everything put on the node's own clock, which may be wrong.
"""

from __future__ import annotations

import itertools
import random
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from pytest_gputrace.fakes.files import trace_dict

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_gputrace.fakes.nodeclock import NodeClock

__all__ = ["TraceVendor", "kineto_document"]

TraceVendor = Literal["cuda", "rocm", "cpu"]

_FIRST_TS_NS = 5_171_577_480_660_661  # from the base to the job's begin
_SLOT_NS, _MARGIN_NS = 40_000, 10_000
_DELAY_NS = 1_250
_FIRST_CORRELATION = 100
_DEVICES = 8
_GPU_SORT_INDEX, _SPANS_SORT_INDEX = 5_000_000, 536_870_912

_KERNELS = {
    "cuda": (
        "sm90_xmma_gemm_f32f32_tf32f32_f32_tn_n",
        "void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<float>>(int, float)",
    ),
    "rocm": (
        "Cijk_Ailk_Bljk_SB_MT64x64x16_MI16x16x1",
        "void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<float>>(int, float)",
    ),
}
_CALLS = {
    "cuda": (("cuda_runtime", "cudaLaunchKernel"), ("cuda_driver", "cuLaunchKernel")),
    "rocm": (("cuda_runtime", "hipLaunchKernel"), ("cuda_runtime", "hipExtModuleLaunchKernel")),
}
_COLLECTIVE_CALLS = {"cuda": ("cuda_runtime", "cudaLaunchKernelExC"), "rocm": ("cuda_runtime", "hipExtLaunchKernel")}
_COLLECTIVES = {
    "cuda": "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
    "rocm": "ncclDevKernel_Generic_1(ncclDevKernelArgsStorage<4096ul>)",
}
_COPIES = {
    "cuda": ("cudaMemcpyAsync", "Memcpy HtoD (Pinned -> Device)"),
    "rocm": ("hipMemcpyWithStream", "Memcpy HtoD (Host -> Device)"),
}
_OPS = ("aten::mm", "aten::fill_")
_STREAM = {"cuda": 7, "rocm": 0}


@dataclass
class _Rank:
    """Lays out the events of one rank, group by group as Kineto writes them."""

    vendor: TraceVendor
    rank: int
    world_size: int
    steps: int
    kernels_per_step: int
    first_step: int
    max_pause_ns: int
    pid: int
    device: int
    host: list[dict[str, Any]] = field(default_factory=list)
    activities: list[dict[str, Any]] = field(default_factory=list)
    annotations: list[dict[str, Any]] = field(default_factory=list)
    last_correlation: int = _FIRST_CORRELATION

    def __post_init__(self) -> None:
        self.stream = _STREAM.get(self.vendor, 0)
        self.delay_ns = self.rank % _DEVICES * _DELAY_NS + self.rank // _DEVICES
        self.step_ns = (self.kernels_per_step + 1) * _SLOT_NS + 2 * _MARGIN_NS
        last = self.first_step + self.steps
        chance = random.Random(0)  # of all ranks alike
        pauses = (chance.randrange(self.max_pause_ns + 1) for _ in range(last))
        self.begins = [0, *itertools.accumulate(self.step_ns + pause for pause in pauses)]
        self.first_ns = self.begins[self.first_step]
        self.end_ns = self.begins[last - 1] + self.step_ns if self.steps else self.first_ns

    def ts(self, time_ns: int) -> float:
        return (_FIRST_TS_NS + self.delay_ns + time_ns) / 1000

    def events(self) -> list[dict[str, Any]]:
        for number in range(self.first_step, self.first_step + self.steps):
            self._step(number)
        if self.vendor != "cpu" and self.steps:
            self._synchronise(self.end_ns - 2 * _MARGIN_NS)
        return [*self._metadata(), *self.host, *self.activities, *self.annotations, *self._frame()]

    def on_host(self, cat: str, name: str, start_ns: int, dur_ns: int, *, tid: int = 0, **args: Any) -> dict[str, Any]:
        row = _complete(cat, name, self.pid, self.pid + tid, self.ts(start_ns), dur_ns / 1000)
        number = len(self.host)
        return {**row, "args": {"External id": number + 1, "Record function id": 0, **args, "Ev Idx": number}}

    def _step(self, number: int) -> None:
        start = self.begins[number]
        self.host.append(self.on_host("user_annotation", f"ProfilerStep#{number}", start, self.step_ns - _MARGIN_NS))
        if self.vendor != "cpu":
            self._query(start + _MARGIN_NS // 2)
        before = len(self.activities)
        collective = self.kernels_per_step - 1 if self.world_size > 1 else -1
        for slot in range(self.kernels_per_step):
            self._kernel(start + _MARGIN_NS + slot * _SLOT_NS, slot, collective=slot == collective)
        if number == self.first_step:
            self._copy(start + _MARGIN_NS + self.kernels_per_step * _SLOT_NS)
        on_gpu = [row for row in self.activities[before:] if row["ph"] == "X" and row["pid"] == self.device]
        if on_gpu:
            self._annotate_gpu(f"ProfilerStep#{number}", on_gpu)

    def _annotate_gpu(self, name: str, on_gpu: list[dict[str, Any]]) -> None:
        """The copy of a range over its kernels, which Kineto begins 1 ns early and makes 2 ns longer on purpose."""
        first, last = on_gpu[0], on_gpu[-1]
        start = round(first["ts"] - 0.001, 3)
        dur = round(last["ts"] + last["dur"] - first["ts"] + 0.002, 3)
        row = _complete("gpu_user_annotation", name, self.device, self.stream, start, dur)
        self.annotations.append({**row, "args": {"External id": 1}})

    def _kernel(self, start: int, slot: int, *, collective: bool) -> None:
        op = self._collective_op(start) if collective else self._op(start, _OPS[slot % len(_OPS)])
        if self.vendor == "cpu":
            return
        which = slot % 2
        cat, call = _COLLECTIVE_CALLS[self.vendor] if collective else _CALLS[self.vendor][which]
        name = _COLLECTIVES[self.vendor] if collective else _KERNELS[self.vendor][which]
        # All ranks leave a collective at one time, whenever they came.
        dur_ns = 30_000 - self.delay_ns if collective else 12_000 + 1_037 * slot
        args = self._kernel_arguments()
        if collective:
            args |= self._collective_arguments()
        self._launch(cat, call, start, op["args"]["External id"])
        self._on_gpu("kernel", name, start, dur_ns, op["args"]["External id"], **args)

    def _op(self, start: int, name: str) -> dict[str, Any]:
        shapes: dict[str, Any] = {"Concrete Inputs": ["", ""], "Input type": ["float", "float"]}
        shapes["Input Dims"] = [[64, 64], [64, 64]]
        op = self.on_host("cpu_op", name, start, 25_000, **shapes)
        self.host.append(op)
        if name == "aten::mm" and not any(row["ph"] == "s" for row in self.host):
            # The backward pass of one operation, on the engine's own thread.
            back = self.on_host("cpu_op", "MmBackward0", start + 12_000, 9_000, tid=1, **{"Fwd thread id": 1})
            self.host += [_flow("s", 1, op, "fwdbwd"), back, _flow("f", 1, back, "fwdbwd")]
        return op

    def _collective_op(self, start: int) -> dict[str, Any]:
        op = self.on_host("cpu_op", "c10d::allreduce_", start, 25_000, **self._collective_arguments())
        self.host.append(op)
        name = "gloo:all_reduce" if self.vendor == "cpu" else "nccl:all_reduce"
        self.host.append(self.on_host("user_annotation", name, start + 1_000, 20_000))
        return op

    def _collective_arguments(self) -> dict[str, Any]:
        return {
            "Collective name": "allreduce", "In msg nelems": 4096, "Out msg nelems": 4096,
            "Group size": self.world_size, "dtype": "Float", "In split size": "[]", "Out split size": "[]",
            "Process Group Name": "0", "Process Group Description": "default_pg",
            "Process Group Ranks": str(list(range(self.world_size))),
        }  # fmt: skip

    def _kernel_arguments(self) -> dict[str, Any]:
        if self.vendor == "rocm":
            return {"kind": "Dispatch Kernel", "grid": [64, 1, 1], "block": [256, 1, 1]}
        return {
            "queued": 0, "context": 1, "registers per thread": 32, "shared memory": 0, "blocks per SM": 0.484848,
            "warps per SM": 3.878788, "grid": [64, 1, 1], "block": [256, 1, 1], "est. achieved occupancy %": 6,
        }  # fmt: skip

    def _copy(self, start: int) -> None:
        op = self._op(start, "aten::copy_")
        if self.vendor == "cpu":
            return
        call, name = _COPIES[self.vendor]
        self._launch("cuda_runtime", call, start, op["args"]["External id"])
        self._on_gpu("gpu_memcpy", name, start, 3_200, op["args"]["External id"], bytes=16_384)

    def _launch(self, cat: str, name: str, start: int, external: int) -> None:
        self._call(cat, name, start + 4_000, 6_500, external)
        self.activities.append(_flow("s", self.last_correlation, self.activities[-1], "ac2g"))

    def _call(self, cat: str, name: str, start: int, dur_ns: int, external: int) -> None:
        self.last_correlation += 1
        args = {"External id": external, "cbid" if self.vendor == "cuda" else "cid": 211}
        row = _complete(cat, name, self.pid, self.pid, self.ts(start), dur_ns / 1000)
        self.activities.append({**row, "args": {**args, "correlation": self.last_correlation}})

    def _on_gpu(self, cat: str, name: str, start: int, dur_ns: int, external: int, **args: Any) -> None:
        """Device work, 9 us after its launch: real traces have 2 us at least."""
        row = _complete(cat, name, self.device, self.stream, self.ts(start + 13_000), dur_ns / 1000)
        place = {"device": self.device, "stream": self.stream, "correlation": self.last_correlation}
        row["args"] = {"External id": external, **place, **args}
        self.activities += [row, _flow("f", self.last_correlation, row, "ac2g")]

    def _query(self, start: int) -> None:
        """A call that starts nothing: Kineto gives it the end of a flow all the same."""
        name = "cudaStreamIsCapturing" if self.vendor == "cuda" else "hipStreamIsCapturing"
        self._call("cuda_runtime", name, start, 400, 1)
        self.activities.append(_flow("f", self.last_correlation, self.activities[-1], "ac2g"))

    def _synchronise(self, start: int) -> None:
        """The wait at the end, whose flow begins and never ends."""
        name = "cudaDeviceSynchronize" if self.vendor == "cuda" else "hipDeviceSynchronize"
        self._call("cuda_runtime", name, start, 5_000, 1)
        self.activities.append(_flow("s", self.last_correlation, self.activities[-1], "ac2g"))

    def _metadata(self) -> Iterator[dict[str, Any]]:
        ts = self.ts(self.first_ns)
        processes: list[tuple[int, str, int]] = [(self.pid, "CPU", self.pid)]
        # Torch writes the main thread's rows twice.
        threads = [(self.pid, self.pid, f"thread {self.pid} (python)")] * 2
        if self.vendor != "cpu":
            processes.append((self.device, f"GPU {self.device}", _GPU_SORT_INDEX + self.device))
            threads.append((self.device, self.stream, f"stream {self.stream} "))
        for pid, labels, order in processes:
            for name, args in [("name", "python"), ("labels", labels), ("sort_index", order)]:
                yield _about(f"process_{name}", pid, 0, ts, {name: args})
        for pid, tid, thread in threads:
            yield _about("thread_name", pid, tid, ts, {"name": thread})
            yield _about("thread_sort_index", pid, tid, ts, {"sort_index": tid})

    def _frame(self) -> Iterator[dict[str, Any]]:
        """The rows about the profile itself, on torch's text pids."""
        start, end = self.ts(self.first_ns - 1_000), self.ts(self.end_ns - 2_000)
        span = _complete("Trace", "PyTorch Profiler (0)", "Spans", "PyTorch Profiler", start, round(end - start, 3))
        yield {**span, "args": {"Op count": 0}}
        yield _about("process_sort_index", "Spans", 0, start, {"sort_index": _SPANS_SORT_INDEX})
        begin = "Iteration Start: PyTorch Profiler"
        yield {"ph": "i", "s": "g", "name": begin, "pid": "Traces", "tid": "Trace PyTorch Profiler", "ts": start}
        yield {"ph": "i", "s": "g", "name": "Record Window End", "pid": "", "tid": "", "ts": end}


def kineto_document(
    vendor: TraceVendor,
    *,
    rank: int,
    world_size: int,
    steps: int,
    kernels_per_step: int,
    base_time_ns: int,
    first_step: int,
    max_pause_ns: int,
    host: str,
    pid: int,
    device: int,
    clock: NodeClock,
) -> dict[str, Any]:
    """The whole document, keys in torch's order."""
    build = _Rank(vendor, rank, world_size, steps, kernels_per_step, first_step, max_pause_ns, pid, device)
    head = trace_dict([], vendor="cuda" if vendor == "cuda" else "hip", trace_name=f"rank{rank}.step{first_step}.json")
    events = clock.tells(build.events(), since_ns=_FIRST_TS_NS)
    document = {"schemaVersion": 1, "deviceProperties": []}
    if vendor != "cpu":
        document["deviceProperties"] = [{**head["deviceProperties"][0], "id": build.device}]
        document |= {key: value for key, value in head.items() if key.endswith("_version")}
    document |= {"trace_id": head["trace_id"], "record_shapes": 1}
    if world_size > 1:
        document["distributedInfo"] = _distributed(vendor, rank, world_size)
    return {
        **document, "host_name": host, "displayTimeUnit": "ms", "baseTimeNanoseconds": base_time_ns,
        "traceEvents": events, "traceName": head["traceName"],
    }  # fmt: skip


def _distributed(vendor: TraceVendor, rank: int, world_size: int) -> dict[str, Any]:
    backend = "gloo" if vendor == "cpu" else "nccl"
    kind = "cpu" if vendor == "cpu" else "cuda"
    group = {
        "pg_name": "0", "pg_desc": "default_pg", "backend_config": f"{kind}:{backend}", "pg_size": world_size,
        "ranks": list(range(world_size)),
    }  # fmt: skip
    about: dict[str, Any] = {"backend": backend, "rank": rank, "world_size": world_size, "pg_count": 1}
    about["pg_config"] = [group]
    return about if vendor == "cpu" else {**about, "nccl_version": "2.27.3"}


def _complete(cat: str, name: str, pid: int | str, tid: int | str, ts: float, dur: float) -> dict[str, Any]:
    return {"ph": "X", "cat": cat, "name": name, "pid": pid, "tid": tid, "ts": ts, "dur": dur}


def _about(name: str, pid: int | str, tid: int, ts: float, args: dict[str, Any]) -> dict[str, Any]:
    return {"ph": "M", "name": name, "ts": ts, "pid": pid, "tid": tid, "args": args}


def _flow(ph: Literal["s", "f"], identity: int, of: dict[str, Any], cat: str) -> dict[str, Any]:
    row = {"ph": ph, "id": identity, "pid": of["pid"], "tid": of["tid"], "ts": of["ts"], "cat": cat, "name": cat}
    return row if ph == "s" else {**row, "bp": "e"}
