"""What the words of a trace mean: which events are GPU work, launches, collectives, steps.

Every question is asked of the string tables, once a word, and answered for all events at once. The words are those of
Kineto (all of its categories), Proton and VizTracer.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from pytest_gputrace.traces.columns import Columns

__all__ = [
    "ANYWHERE",
    "FLOW_END",
    "GPU_CATEGORIES",
    "GPU_LANES",
    "LAUNCH_FLOWS",
    "ON_GPU",
    "ON_HOST",
    "chosen",
    "collectives",
    "copies",
    "functions",
    "gpu_work",
    "host_collectives",
    "is_gpu",
    "kernels",
    "lane_of",
    "launches",
    "named",
    "of_category",
    "of_phase",
    "operators",
    "runtime_calls",
    "scopes",
    "sets",
    "steps",
    "synchronisations",
]

GPU_CATEGORIES = frozenset({"kernel", "gpu_memcpy", "gpu_memset", "memcpy", "memset"})
"""Categories of what a GPU does, in small letters (files of 2021 write them with capitals)."""
GPU_LANES = frozenset({
    *GPU_CATEGORIES, "Kernel", "Memcpy", "Memset", "gpu_user_annotation", "cuda_sync", "cuda_event"
})  # fmt: skip
"""Categories, spelled as files spell them, of all that Kineto puts on the lanes of a GPU."""
ON_HOST, ON_GPU, ANYWHERE, FLOW_END = range(4)
"""The sorts of lanes; see `lane_of`."""
LAUNCH_FLOWS = frozenset({"ac2g", "async_cpu_to_gpu"})
"""Categories of the arrows from a launch to what it launched."""
_RUNTIME = frozenset({"cuda_runtime", "cuda_driver", "runtime"})  # ROCm's calls have these too
_LAUNCH = re.compile(r"(?:cuda|cu|hip)\w*Launch(?!HostFunc)\w*")
_GRAPH_LAUNCH = re.compile(r"(?:cuda|cu|hip)GraphLaunch\w*")
_SYNCHRONISATION = re.compile(r"(?:cuda|cu|hip)\w*Synchronize\w*")
_COLLECTIVE = re.compile(r"(?:nccl|rccl|msccl|mscclpp)", re.IGNORECASE)
_HOST_COLLECTIVE = re.compile(r"(?:gloo|mpi|ucc|xccl|nccl):\w+")
_STEP = re.compile(r"ProfilerStep#(?P<number>[0-9]{1,18})(?![0-9])")


def of_category(columns: Columns, test: Callable[[str], bool]) -> NDArray[np.bool_]:
    """Which events have a category that passes ``test``."""
    return chosen(columns.categories, columns.category, test)


def of_phase(columns: Columns, phases: str) -> NDArray[np.bool_]:
    """Which events have one of these phases, a letter each."""
    return chosen(columns.phases, columns.phase, lambda phase: len(phase) == 1 and phase in phases)


def named(columns: Columns, test: Callable[[str], bool]) -> NDArray[np.bool_]:
    """Which events have a name that passes ``test``."""
    return chosen(columns.names, columns.name, test)


def gpu_work(columns: Columns) -> NDArray[np.bool_]:
    """Which events are kernels, copies or sets that ran on a GPU (``ph`` X)."""
    return of_category(columns, lambda category: category.lower() in GPU_CATEGORIES) & of_phase(columns, "X")


def is_gpu(category: str) -> bool:
    """Whether a category is one of a GPU's lanes: work, or a range of the program as the GPU saw it."""
    return category.lower() in GPU_CATEGORIES or category == "gpu_user_annotation"


def lane_of(category: str, phase: str) -> int:
    """Which sort of lane an event is on: a GPU's, the host's, or that of whatever else is on its thread.

    A range tells it by its category. An arrow, an instant or the end of a range does not: it is where the ranges of its
    thread are. Where those of the host and of a GPU share a number, the end of a launch's arrow is on the GPU.
    """
    if category in GPU_LANES:
        return ON_GPU
    if phase in ("X", "B"):
        return ON_HOST
    return FLOW_END if phase == "f" and category in LAUNCH_FLOWS else ANYWHERE


def kernels(columns: Columns) -> NDArray[np.bool_]:
    """Which events are kernels."""
    return of_category(columns, lambda category: category.lower() == "kernel") & of_phase(columns, "X")


def runtime_calls(columns: Columns) -> NDArray[np.bool_]:
    """Which events are calls of the CUDA or HIP runtime or driver, on the host."""
    return of_category(columns, lambda category: category.lower() in _RUNTIME) & of_phase(columns, "X")


def launches(columns: Columns, *, graphs: bool = True) -> NDArray[np.bool_]:
    """Which events are calls that launch kernels; without ``graphs``, those that launch one kernel each."""

    def is_launch(name: str) -> bool:
        return bool(_LAUNCH.fullmatch(name)) and (graphs or not _GRAPH_LAUNCH.fullmatch(name))

    return named(columns, is_launch) & runtime_calls(columns)


def synchronisations(columns: Columns) -> NDArray[np.bool_]:
    """Which events are calls that wait for a GPU."""
    return named(columns, lambda name: bool(_SYNCHRONISATION.fullmatch(name))) & runtime_calls(columns)


def collectives(columns: Columns) -> NDArray[np.bool_]:
    """Which events are kernels of NCCL or RCCL."""
    return named(columns, lambda name: bool(_COLLECTIVE.match(name))) & kernels(columns)


def host_collectives(columns: Columns) -> NDArray[np.bool_]:
    """Which events are what a backend such as gloo did for a collective, on the host."""
    return named(columns, lambda name: bool(_HOST_COLLECTIVE.fullmatch(name))) & _is(columns, "user_annotation")


def copies(columns: Columns) -> NDArray[np.bool_]:
    """Which events are copies that a GPU made."""
    return _is(columns, "gpu_memcpy", "memcpy")


def sets(columns: Columns) -> NDArray[np.bool_]:
    """Which events are sets of memory that a GPU made."""
    return _is(columns, "gpu_memset", "memset")


def operators(columns: Columns) -> NDArray[np.bool_]:
    """Which events are operations of torch on the host."""
    return _is(columns, "cpu_op", "operator")  # the latter until 2021


def scopes(columns: Columns) -> NDArray[np.bool_]:
    """Which events are scopes of Proton on the host."""
    return _is(columns, "scope", "metric")


def functions(columns: Columns) -> NDArray[np.bool_]:
    """Which events are functions that VizTracer saw."""
    return _is(columns, "fee")


def steps(columns: Columns) -> dict[int, int]:
    """The number of each step, ``N`` of ``ProfilerStep#N``, and the row of its (first) range on the host."""
    numbers = {index: int(match["number"]) for index, name in enumerate(columns.names) if (match := _STEP.match(name))}
    if not numbers:
        return {}
    rows = np.flatnonzero(
        chosen(columns.names, columns.name, lambda name: bool(_STEP.match(name)))
        & of_category(columns, lambda category: category == "user_annotation")
        & of_phase(columns, "X")
    )
    found: dict[int, int] = {}
    for row in rows.tolist():
        found.setdefault(numbers[int(columns.name[row])], row)
    return found


def chosen(table: list[str], column: NDArray[np.int32], test: Callable[[str], bool]) -> NDArray[np.bool_]:
    """Which events have a word of ``table`` that passes ``test``; ``column`` numbers the words."""
    if not table:
        return np.zeros(len(column), np.bool_)
    return np.fromiter(map(test, table), np.bool_, len(table))[column]


def _is(columns: Columns, *categories: str) -> NDArray[np.bool_]:
    return of_category(columns, lambda category: category.lower() in categories) & of_phase(columns, "X")
