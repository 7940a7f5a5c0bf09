"""The profilers that a session can record, and why a set of them cannot be recorded in this process.

Importing this imports no profiler: each kind does that for itself, once it is asked to record.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_gputrace.control.activities.protocol import Kind

__all__ = ["kinds", "refusals"]

_GPU_CLIENTS = ("GPU", "CUDA_PROFILER")
"""What takes a process's one place for a GPU profiler, as Proton does."""


def kinds() -> tuple[Kind, ...]:
    """Every profiler, in the order in which they start; they stop in the reverse, so that VizTracer sees none stop."""
    from pytest_gputrace.control.activities.cudaprofiler import CudaProfilerKind
    from pytest_gputrace.control.activities.memory import MemoryKind
    from pytest_gputrace.control.activities.proton import ProtonKind
    from pytest_gputrace.control.activities.torchprofile import TorchProfileKind
    from pytest_gputrace.control.activities.viztracer import VizTracerKind

    return TorchProfileKind(), MemoryKind(), CudaProfilerKind(), ProtonKind(), VizTracerKind()


def refusals(words: Sequence[str], kinds: Sequence[Kind]) -> list[str]:
    """Every reason why ``words`` cannot be recorded in this process now; empty when they can. Changes nothing."""
    reasons = []
    known = {word for kind in kinds for word in kind.words}
    unknown = [word for word in words if word not in known]
    if unknown:
        reasons.append(f"nothing here records {', '.join(unknown)}; what there is: {', '.join(sorted(known))}")
    clients = [word for word in _GPU_CLIENTS if word in words]
    if "PROTON" in words and clients:
        reasons.append(
            f"PROTON cannot be recorded together with {' and '.join(clients)}, as a process has room for one GPU "
            "profiler; ask for one or the other (CPU, MEM and VIZTRACER go with both)"
        )
    for kind in kinds:
        asked = tuple(word for word in kind.words if word in words)
        if asked:
            reasons.extend(kind.refusals(asked))
    return reasons
