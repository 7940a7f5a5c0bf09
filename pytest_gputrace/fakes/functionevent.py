"""One event that looks like torch's ``FunctionEvent``: the attributes of torch 2.13, no more and no fewer.

It computes what torch computes (totals from children and kernels) and must not know what any exporter reads.
"""

from __future__ import annotations

import enum
import sys
import warnings
from dataclasses import dataclass, field
from typing import Any, NamedTuple

__all__ = ["DeviceType", "EventMetadata", "FakeEvent", "Interval", "Kernel", "device_types"]


class DeviceType(enum.Enum):
    """The part of ``torch.autograd.DeviceType`` that a GPU profile uses, with torch's numbers.

    ``HIP`` exists and is never used: a ROCm build of torch calls its devices ``CUDA``.
    """

    CPU = 0
    CUDA = 1
    HIP = 6


def device_types() -> Any:
    """``torch.autograd.DeviceType`` where torch is loaded, else the stand-in with the same names."""
    torch = sys.modules.get("torch")
    return DeviceType if torch is None else torch.autograd.DeviceType


@dataclass(frozen=True)
class Interval:
    """A time range in microseconds since the start of the trace, as ``FunctionEvent.time_range``."""

    start: float
    end: float

    def elapsed_us(self) -> float:
        """The length of the range."""
        return self.end - self.start


class Kernel(NamedTuple):
    """A device activity as a CPU event remembers it."""

    name: str
    device: int
    duration: float


class EventMetadata(NamedTuple):
    """The fields of torch's ``EventMetadata`` that these fakes fill; ``None`` where an event has none."""

    registers_per_thread: int | None = None
    shared_memory: int | None = None
    grid: list[int] | None = None
    block: list[int] | None = None
    stream: int | None = None
    context: int | None = None
    bytes: int | None = None
    collective_name: str | None = None
    dtype: str | None = None
    in_msg_nelems: int | None = None
    out_msg_nelems: int | None = None
    group_size: int | None = None
    process_group_name: str | None = None
    process_group_desc: str | None = None
    group_ranks: str | None = None


def _deprecated(name: str, instead: str) -> property:
    """A property that warns as torch does, then gives the device value."""

    def read(self: FakeEvent) -> Any:
        message = f"`{name}` is deprecated. Use `{instead}` instead."
        if name == "cuda_time":
            message = "`cuda_time` is deprecated, please use `device_time` instead."
        warnings.warn(message, FutureWarning, stacklevel=2)
        return getattr(self, instead)

    return property(read, doc=f"Deprecated in torch: reading it warns and gives ``{instead}``.")


def _text(name: str) -> property:
    """A property that shows a time with its unit, as torch's tables do."""

    def read(self: FakeEvent) -> str:
        time_us = getattr(self, name)
        for limit, unit in ((1e6, "s"), (1e3, "ms")):
            if time_us >= limit:
                return f"{time_us / limit:.3f}{unit}"
        return f"{time_us:.3f}us"

    return property(read, doc=f"``{name}`` with its unit.")


@dataclass(eq=False)  # torch compares events by identity
class FakeEvent:
    """Stands in for ``torch.autograd.profiler_util.FunctionEvent`` of torch 2.13.

    An attribute that torch's class lacks raises ``AttributeError``; a deprecated one warns with ``FutureWarning``.
    ``device_index`` of a CPU event holds the process id, as in torch.
    """

    id: int
    name: str
    time_range: Interval
    device_type: Any
    device_index: int
    device_resource_id: int
    thread: int = 1
    trace_name: str = ""
    activity_type: str = "cpu_op"
    overload_name: str = ""
    node_id: int = -1
    fwd_thread: int = 0
    count: int = 1
    scope: int = 0
    sequence_nr: int = -1
    external_id: int = 0
    linked_correlation_id: int = 0
    flow_id: int = 0
    flow_type: int = 0
    flow_start: bool = False
    flops: int = 0
    use_device: str | None = "cuda"
    cpu_memory_usage: int = 0
    device_memory_usage: int = 0
    is_async: bool = False
    is_remote: bool = False
    is_legacy: bool = False
    is_user_annotation: bool = False
    is_python_function: bool = False
    python_id: int = -1
    python_parent_id: int = -1
    python_module_id: int = -1
    self_cpu_percent: float = -1
    total_cpu_percent: float = -1
    total_device_percent: float = -1
    event_metadata: EventMetadata | None = None
    input_shapes: list[Any] = field(default_factory=list)
    input_dtypes: list[str] = field(default_factory=list)
    structured_input_shapes: list[Any] = field(default_factory=list)
    structured_input_strides: list[Any] = field(default_factory=list)
    concrete_inputs: list[Any] = field(default_factory=list)
    kwinputs: dict[str, Any] = field(default_factory=dict)
    stack: list[str] = field(default_factory=list)
    kernels: list[Kernel] = field(default_factory=list)
    cpu_children: list[FakeEvent] = field(default_factory=list, repr=False)
    cpu_parent: FakeEvent | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        self.trace_name = self.trace_name or self.name

    def append_kernel(self, name: str, device: int, duration: float) -> None:
        """Remember a kernel that this CPU event launched."""
        self.kernels.append(Kernel(name, device, duration))

    def append_cpu_child(self, child: FakeEvent) -> None:
        """Remember a direct child."""
        self.cpu_children.append(child)

    def set_cpu_parent(self, parent: FakeEvent) -> None:
        """Remember the direct parent."""
        self.cpu_parent = parent

    @property
    def key(self) -> str:
        """What torch groups by."""
        return self.name

    @property
    def _on_cpu(self) -> bool:
        return bool(self.device_type.name == "CPU")

    @property
    def cpu_time_total(self) -> float:
        """Microseconds on the host, children included; 0 for a device event."""
        return self.time_range.elapsed_us() if self._on_cpu else 0

    @property
    def self_cpu_time_total(self) -> float:
        """Microseconds on the host without the children."""
        if self.is_async or not self._on_cpu:
            return 0
        return self.cpu_time_total - sum(child.cpu_time_total for child in self.cpu_children)

    @property
    def device_time_total(self) -> float:
        """Microseconds on the device: own kernels and the children's, or the length of a device event."""
        if self.is_async or not self.use_device:
            return 0
        if not self._on_cpu:
            return self.time_range.elapsed_us()
        own = sum(kernel.duration for kernel in self.kernels)
        return own + sum(child.device_time_total for child in self.cpu_children)

    @property
    def self_device_time_total(self) -> float:
        """Microseconds on the device without the children."""
        if self.is_async or not self.use_device:
            return 0
        if not self._on_cpu:
            return self.device_time_total
        return self.device_time_total - sum(child.device_time_total for child in self.cpu_children)

    @property
    def cpu_time(self) -> float:
        """Host time per call."""
        return 0.0 if self.count == 0 else 1.0 * self.cpu_time_total / self.count

    @property
    def device_time(self) -> float:
        """Device time per call."""
        return 0.0 if self.count == 0 else 1.0 * self.device_time_total / self.count

    @property
    def self_cpu_memory_usage(self) -> int:
        """Host bytes without the children."""
        if self.is_async or not self._on_cpu:
            return 0
        return self.cpu_memory_usage - sum(child.cpu_memory_usage for child in self.cpu_children)

    @property
    def self_device_memory_usage(self) -> int:
        """Device bytes without the children."""
        if self.is_async or not self._on_cpu:
            return 0
        return self.device_memory_usage - sum(child.device_memory_usage for child in self.cpu_children)

    cuda_time = _deprecated("cuda_time", "device_time")
    cuda_time_total = _deprecated("cuda_time_total", "device_time_total")
    self_cuda_time_total = _deprecated("self_cuda_time_total", "self_device_time_total")
    self_cuda_memory_usage = _deprecated("self_cuda_memory_usage", "self_device_memory_usage")
    cpu_time_str = _text("cpu_time")
    cpu_time_total_str = _text("cpu_time_total")
    self_cpu_time_total_str = _text("self_cpu_time_total")
    device_time_str = _text("device_time")
    device_time_total_str = _text("device_time_total")
    self_device_time_total_str = _text("self_device_time_total")

    @property
    def metadata_json(self) -> str:
        """Deprecated in torch; always empty here."""
        message = "`metadata_json` is deprecated. Use `event_metadata` instead."
        warnings.warn(message, FutureWarning, stacklevel=2)
        return ""
