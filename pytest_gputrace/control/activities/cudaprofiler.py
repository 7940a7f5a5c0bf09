"""``CUDA_PROFILER``: the range that a profiler around this process records. It writes no file of its own.

The file is the outer profiler's: run the worker under ``nsys profile --capture-range=cudaProfilerApi`` (for short
``-c cudaProfilerApi``) or ``ncu --profile-from-start off``. Without one the range means nothing, and nobody says so.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

from pytest_gputrace import torchdoor
from pytest_gputrace.errors import ActivityError, MissingDependencyError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_gputrace.control.activities.protocol import Saved, Setup

__all__ = ["CudaProfilerKind", "CudaRange"]


class CudaProfilerKind:
    """CUDA's switch for the profiler around this process."""

    words: tuple[str, ...] = ("CUDA_PROFILER",)

    def refusals(self, words: tuple[str, ...]) -> Iterator[str]:
        """Without torch, without a GPU, and on AMD, where torch's switch does nothing."""
        try:
            why = torchdoor.missing_gpu()
            if not why and torchdoor.installed_torch().version.hip:
                why = "on a ROCm build of torch cudaProfilerStart does nothing; leave it out, and use rocprofv3 on the process"
        except MissingDependencyError as error:
            why = str(error)
        if why:
            yield f"CUDA_PROFILER: {why}"

    def recorder(self, setup: Setup) -> CudaRange:
        """What marks one window."""
        return CudaRange()


class CudaRange:
    """From ``cudaProfilerStart`` to ``cudaProfilerStop``, which hold for the whole process. Any thread may stop it."""

    profiler = ""
    thread_bound = False

    def __init__(self) -> None:
        self._runtime: Any = torchdoor.installed_torch().cuda.cudart()

    def start(self) -> None:
        """Let the outer profiler begin.

        Raises:
            ActivityError: CUDA refused.
        """
        self._call("cudaProfilerStart")

    def stop(self) -> None:
        """Let the outer profiler end.

        Raises:
            ActivityError: CUDA refused.
        """
        self._call("cudaProfilerStop")

    def save(self) -> list[Saved]:
        """Nothing: the outer profiler writes."""
        return []

    def discard(self) -> None:
        """Let the outer profiler end."""
        with contextlib.suppress(Exception):
            self._runtime.cudaProfilerStop()

    def _call(self, function: str) -> None:
        code = getattr(self._runtime, function)()
        if int(code) != 0:
            what = f"{function} answered {int(code)}: {self._runtime.cudaGetErrorString(code)}"
            raise ActivityError(what, activity="CUDA_PROFILER")
