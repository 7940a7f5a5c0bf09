"""Events of a profile -> records, as SuperBench writes them.

A record holds the six fields that SuperBench's exporter gives each CPU event (commit 700d6501,
``superbench/benchmarks/model_benchmarks``). Must not touch a file, nor import torch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

__all__ = ["KEYS", "Record", "cpu_records"]

KEYS = ("cpu_time", "gpu_time", "input_shapes", "input_values", "name", "start_time")
"""The keys of a record in the order they are written, which is sorted."""

Record: TypeAlias = tuple[Any, Any, Any, Any, Any, Any]
"""The values of one record, in the order of `KEYS`. Times are microseconds, ``start_time`` since the trace's start."""


def cpu_records(events: Iterable[Any]) -> Iterator[Record]:
    """The records of the CPU events among ``events``, in their order.

    Args:
        events: objects like torch's ``FunctionEvent`` (torch 2.4 or newer, CUDA or HIP build). Kernels, copies and
            the device's side of annotations are left out: their time is in ``gpu_time`` of the CPU event.

    Raises:
        AttributeError: an event lacks an attribute that torch's class has; nothing is guessed.
    """
    for event in events:
        # By name: torch's enum and a fake's are different types, and torch need not be importable here.
        if event.device_type.name == "CPU":
            yield (
                event.cpu_time,
                event.device_time,  # cuda_time is deprecated since torch 2.4 and warns when read
                event.input_shapes,
                event.concrete_inputs,
                event.name,
                event.time_range.start,
            )
