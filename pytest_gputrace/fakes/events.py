"""What a small training loop on one GPU leaves in a profile, made up from a seed.

The same capture and seed give the same events on every machine; no clock, process id or host name goes in.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from pytest_gputrace.fakes.functionevent import DeviceType, EventMetadata, FakeEvent, Interval, Kernel, device_types
from pytest_gputrace.fakes.validate import one_of, whole

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_gputrace.model import Capture

__all__ = ["VENDORS", "DeviceType", "EventMetadata", "FakeEvent", "Interval", "Kernel", "Vendor", "fake_events"]

Vendor = Literal["cuda", "hip"]
VENDORS: tuple[Vendor, ...] = ("cuda", "hip")


class _Op(NamedTuple):
    """One host operation and the device work it starts."""

    name: str
    shapes: list[Any]
    dtypes: list[str]
    values: list[Any]
    kind: Literal["kernel", "memcpy", "memset", "collective"] = "kernel"
    cuda: str = ""
    hip: str = ""


_F = "float"
_OPS = (
    _Op("aten::mm", [[128, 256], [256, 64]], [_F, _F], [None, None], cuda="sm90_xmma_gemm_f32f32_tf32f32_f32_tn_n",
        hip="Cijk_Ailk_Bljk_SB_MT64x64x16_MI16x16x1"),
    _Op("aten::copy_", [[64, 128], [64, 128], []], [_F, _F, "Scalar"], [None, None, False], "memcpy",
        "Memcpy HtoD (Pinned -> Device)", "Memcpy HtoD (Host -> Device)"),
    _Op("aten::addmm", [[64], [32, 128], [128, 64], [], []], [_F, _F, _F, "Scalar", "Scalar"], [None, None, None, 1, 1],
        cuda="cutlass::Kernel2<cutlass_80_tensorop_s1688gemm_128x64_16x6_tn_align4>",
        hip="Cijk_Alik_Bljk_SB_MT128x64x16_MI32x32x2"),
    _Op("aten::layer_norm", [[32, 256], [], [256], [256], [], []], [_F, "ScalarList", _F, _F, "Scalar", "Scalar"],
        [None, [256], None, None, 1e-05, True],
        cuda="void at::native::(anonymous namespace)::vectorized_layer_norm_kernel<float, float>(int, float)",
        hip="void at::native::(anonymous namespace)::vectorized_layer_norm_kernel<float, float>(int, float)"),
    _Op("aten::zero_", [[4096]], [_F], [None], "memset", "Memset (Device)", "Memset (Device)"),
    _Op("aten::clamp", [[32, 256], [], []], [_F, "Scalar", "Scalar"], [None, -1.0, 6],
        cuda="void at::native::vectorized_elementwise_kernel<4, at::native::clamp_scalar_kernel_impl>(int)",
        hip="void at::native::vectorized_elementwise_kernel<4, at::native::clamp_scalar_kernel_impl>(int)"),
    _Op("c10d::allreduce_", [[], [], [], [], [], []], ["TensorList", "", "", "", "Scalar", "Scalar"],
        [None, None, None, None, False, -1], "collective",
        "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
        "ncclDevKernel_Generic_1(ncclDevKernelArgsStorage<4096ul>)"),
)  # fmt: skip

_LAUNCHES = {
    ("cuda", "kernel"): ("cudaLaunchKernel", "cuLaunchKernel"),
    ("cuda", "collective"): ("cudaLaunchKernelExC",),
    ("cuda", "memcpy"): ("cudaMemcpyAsync",),
    ("cuda", "memset"): ("cudaMemsetAsync",),
    ("hip", "kernel"): ("hipLaunchKernel", "hipExtModuleLaunchKernel"),
    ("hip", "collective"): ("hipExtLaunchKernel",),
    ("hip", "memcpy"): ("hipMemcpyWithStream",),
    ("hip", "memset"): ("hipMemsetAsync",),
}
_DEVICE_ACTIVITY = {"kernel": "kernel", "collective": "kernel", "memcpy": "gpu_memcpy", "memset": "gpu_memset"}
_STREAM = {"cuda": 7, "hip": 0}
_USER_SCOPE = 7  # at::RecordScope::USER_SCOPE
_LINK_ASYNC_CPU_GPU = 2  # libkineto's flow type of a launch and its kernel


class _Builder:
    """Lays events on one host thread and one stream; ``now`` is the host's time in microseconds."""

    def __init__(self, rng: random.Random, capture: Capture, vendor: Vendor) -> None:
        self.rng, self.vendor = rng, vendor
        self.events: list[FakeEvent] = []
        self.types = device_types()
        self.pid = 1000 + capture.rank
        self.device = capture.rank % 8
        self.now = 0.0
        self.stream_free = 0.0
        self.next_id = 1

    def new_id(self) -> int:
        self.next_id += 1
        return self.next_id - 1

    def pass_time(self, at_least: float, at_most: float) -> float:
        """Move the host's clock on; three decimals are whole nanoseconds."""
        self.now = round(self.now + self.rng.uniform(at_least, at_most), 3)
        return self.now

    def host(self, name: str, start: float, end: float, **more: Any) -> FakeEvent:
        identity = self.new_id()
        more = {"external_id": identity, **more}
        event = FakeEvent(identity, name, Interval(start, end), self.types.CPU, self.pid, self.pid, **more)
        self.events.append(event)
        return event

    def on_device(self, name: str, start: float, end: float, **more: Any) -> FakeEvent:
        stream = _STREAM[self.vendor]
        event = FakeEvent(
            more.pop("id", 0), name, Interval(start, end), self.types.CUDA, self.device, stream, self.pid, **more
        )
        self.events.append(event)
        return event

    def annotation(self, name: str, start: float, end: float, *, trace_name: str = "") -> FakeEvent:
        return self.host(
            name, start, end, trace_name=trace_name, activity_type="user_annotation", scope=_USER_SCOPE,
            is_user_annotation=True,
        )  # fmt: skip

    def mark(self, name: str) -> None:
        start = self.pass_time(0.5, 2.0)
        self.annotation(name, start, self.pass_time(1.0, 3.0))

    def op(self, op: _Op, parent: FakeEvent, turn: int) -> None:
        """One host operation with its launch inside, and the device work that launch starts."""
        start = self.pass_time(0.5, 4.0)
        launch_start, launch_end = self.pass_time(1.0, 5.0), self.pass_time(2.0, 6.0)
        event = self.host(
            op.name, start, self.pass_time(0.5, 3.0), sequence_nr=turn, input_shapes=list(op.shapes),
            input_dtypes=list(op.dtypes), concrete_inputs=list(op.values), structured_input_shapes=list(op.shapes),
            structured_input_strides=[_strides(shape) for shape in op.shapes],
        )  # fmt: skip
        _adopt(parent, event)
        calls = _LAUNCHES[self.vendor, op.kind]
        call = calls[turn % len(calls)]
        correlation = self.new_id()
        flow = {"flow_id": correlation, "flow_type": _LINK_ASYNC_CPU_GPU, "external_id": event.id}
        launch = self.host(
            call, launch_start, launch_end, linked_correlation_id=event.id, flow_start=True,
            activity_type="cuda_driver" if call.startswith("cuLaunch") else "cuda_runtime", **flow,
        )  # fmt: skip
        _adopt(event, launch)
        # The smallest gap from launch to kernel in real traces is 2 us; a kernel may start before the call returns.
        begin = round(max(self.stream_free, launch_start + self.rng.uniform(2.0, 5.0)), 3)
        self.stream_free = round(begin + self.rng.uniform(3.0, 40.0), 3)
        name = op.cuda if self.vendor == "cuda" else op.hip
        event.append_kernel(name, self.device, round(self.stream_free - begin, 3))
        self.on_device(
            name, begin, self.stream_free, id=correlation, activity_type=_DEVICE_ACTIVITY[op.kind],
            linked_correlation_id=event.id, event_metadata=self._metadata(op), **flow,
        )  # fmt: skip

    def _metadata(self, op: _Op) -> EventMetadata:
        stream = _STREAM[self.vendor]
        if op.kind in ("memcpy", "memset"):
            return EventMetadata(stream=stream, bytes=4 * 64 * 128)
        metadata = EventMetadata(grid=[64, 1, 1], block=[256, 1, 1], stream=stream)
        if self.vendor == "cuda":  # ROCm reports neither registers nor shared memory nor a context
            metadata = metadata._replace(registers_per_thread=32, shared_memory=0, context=1)
        if op.kind == "collective":
            metadata = metadata._replace(
                collective_name="allreduce", dtype="Float", in_msg_nelems=4096, out_msg_nelems=4096, group_size=2,
                process_group_name="0", process_group_desc="default_pg", group_ranks="[0, 1]",
            )  # fmt: skip
        return metadata

    def bad(self, value: complex) -> None:
        """An operation with ``value`` among its inputs and, when a time can hold it, as its end."""
        start = self.pass_time(0.5, 2.0)
        end = self.pass_time(1.0, 3.0)
        self.host(
            "aten::add", start, end, input_shapes=[[4], [4], []], input_dtypes=[_F, _F, "Scalar"],
            concrete_inputs=[None, value, [value, 1.0]],
        )  # fmt: skip
        if not isinstance(value, int | float):  # a time cannot be complex
            return
        start = self.pass_time(0.5, 2.0)
        event = self.host("aten::mul", start, value, input_shapes=[[4], []], concrete_inputs=[None, value])
        event.append_kernel("bad_time_kernel", self.device, value)
        self.on_device("bad_time_kernel", start, value, id=self.new_id(), activity_type="kernel")
        self.pass_time(1.0, 2.0)


def _strides(shape: Any) -> list[int]:
    strides: list[int] = []
    step = 1
    for size in reversed(shape):
        strides.insert(0, step)
        step *= size
    return strides


def _adopt(parent: FakeEvent, child: FakeEvent) -> None:
    parent.append_cpu_child(child)
    child.set_cpu_parent(parent)


def fake_events(
    capture: Capture,
    *,
    vendor: Vendor = "cuda",
    seed: int = 0,
    steps: int = 2,
    ops_per_step: int = 8,
    values: Sequence[complex] = (),
    names: Sequence[str] = (),
    first_step: int = 0,
) -> list[FakeEvent]:
    """The events of one profile, sorted by start, carrying ``capture``'s marks.

    There are ``steps + 2`` marks, all CPU user annotations: one at the begin, one in every step, one at the end.

    Args:
        capture: whose profile this is; its marks are the proof inside a file.
        vendor: names of launches, kernels and streams as a CUDA or a HIP build gives them.
        seed: other times, same events.
        steps: number of ``ProfilerStep*`` annotations.
        ops_per_step: host operations in each step, each with a launch and device work.
        values: numbers that JSON cannot hold (NaN, infinities, complex), put among inputs and times.
        names: further host operations of these names, without device work.
        first_step: the number of the first step.

    Raises:
        ValueError: the vendor is neither ``cuda`` nor ``hip``, or a number is negative.
    """
    one_of("fake_events", "vendor", vendor, VENDORS)
    whole("fake_events", "steps", steps, 0)
    whole("fake_events", "ops_per_step", ops_per_step, 0)
    whole("fake_events", "first_step", first_step, 0)
    build = _Builder(random.Random(f"{seed}/{capture.mark()}"), capture, vendor)
    total = steps + 2
    build.mark(capture.mark(0, total))
    for step in range(steps):
        start = build.pass_time(1.0, 5.0)
        annotation = build.annotation("ProfilerStep*", start, start, trace_name=f"ProfilerStep#{first_step + step}")
        before = len(build.events)
        build.mark(capture.mark(step + 1, total))
        _adopt(annotation, build.events[before])
        for turn in range(ops_per_step):
            build.op(_OPS[turn % len(_OPS)], annotation, turn)
        annotation.time_range = Interval(start, build.pass_time(1.0, 3.0))
        _on_gpu_timeline(build, annotation, build.events[before:])
    for value in values:
        build.bad(value)
    for name in names:
        start = build.pass_time(0.5, 2.0)
        build.host(name, start, build.pass_time(1.0, 3.0))
    build.mark(capture.mark(total - 1, total))
    return sorted(build.events, key=lambda event: event.time_range.start)


def _on_gpu_timeline(build: _Builder, annotation: FakeEvent, inside: list[FakeEvent]) -> None:
    """The copy of a range that torch puts over the kernels it covers; a range without kernels gets none."""
    ranges = [event.time_range for event in inside if event.device_type == build.types.CUDA]
    if ranges:
        build.on_device(
            annotation.name, ranges[0].start, ranges[-1].end, id=annotation.id, trace_name=annotation.trace_name,
            activity_type="gpu_user_annotation", is_user_annotation=True,
        )  # fmt: skip
