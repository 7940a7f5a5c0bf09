"""The files that naive sessions write: under the names that each engine gives them, with small valid contents."""

from __future__ import annotations

import gzip
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_gputrace.control.output import Output
from pytest_gputrace.fakes.traces import FakeTrace

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pytest_gputrace.model import WorkerId

__all__ = ["ForeignFiles", "LibraryFiles"]

_SEVERAL_STEPS = 32  # what a trace is about is not its length
_ENDINGS = {"torch": ".json.gz", "viztracer": ".json", "proton": ".chrome_trace"}


class LibraryFiles:
    """Named as the library names them, for a session that takes the place of the library's own."""

    def __init__(self, worker: WorkerId, tag: str) -> None:
        self._worker, self._tag = worker, tag

    def __call__(self, request: Mapping[str, Any], steps: int) -> list[tuple[Path, bytes]]:
        """The final names are taken at once: a naive session opens its file before it has anything to write."""
        folder = Path(request["output_dir"])
        folder.mkdir(parents=True, exist_ok=True)
        output = Output(folder, request["profile_id"], self._tag)
        files = []
        for profiler in _profilers(request):
            private = output.private(_ENDINGS[profiler])
            private.write_bytes(b"\n")  # the library takes no empty file
            data = _content(profiler, self._worker, steps)
            path = output.publish(private, profiler, _ENDINGS[profiler])
            files.append((path, gzip.compress(data) if path.suffix == ".gz" else data))
        return files


class ForeignFiles:
    """Named as ``kind`` of engine names them. ``folder`` is where it writes when a request does not say."""

    def __init__(self, kind: str, worker: WorkerId, folder: Path) -> None:
        self._kind, self._worker, self._folder = kind, worker, folder

    def __call__(self, request: Mapping[str, Any], steps: int) -> list[tuple[Path, bytes]]:
        """One file of each profiler that the engine has and was asked for."""
        told = request.get("output_dir") if self._kind != "vllm" else None
        folder = Path(told or self._folder)
        folder.mkdir(parents=True, exist_ok=True)
        profilers = _profilers(request) if self._kind == "tokenspeed" else ("torch",)
        files = []
        for profiler in profilers:
            data = _content(profiler, self._worker, steps)
            path = folder / self._name(profiler, str(request.get("profile_id") or ""))
            files.append((path, gzip.compress(data) if path.suffix == ".gz" else data))
        return files

    def _name(self, profiler: str, profile_id: str) -> str:
        worker = self._worker
        dp, tp = worker.coordinates.get("DP"), worker.coordinates["TP"]
        if self._kind == "vllm":
            parts = f"dp{dp or 0}_pp0_tp{tp}_dcp0_ep0_rank{worker.rank}"
            return f"{parts}.{time.time_ns()}.pt.trace.json.gz"
        if self._kind == "sglang":
            return f"{profile_id}-TP-{tp}{'' if dp is None else f'-DP-{dp}'}.trace.json.gz"
        if self._kind == "trtllm":
            return f"trace_{profile_id}-rank-{worker.rank}.json"
        ending = {"torch": ".trace.json.gz", "viztracer": ".viztracer.json", "proton": ".proton.chrome_trace"}[profiler]
        return f"{profile_id}-{worker.tag}{ending}"


def _profilers(request: Mapping[str, Any]) -> Iterator[str]:
    activities = {str(word).upper() for word in request.get("activities") or ("CPU", "GPU")}
    if activities & {"CPU", "GPU"}:
        yield "torch"
    yield from (name for name in ("viztracer", "proton") if name.upper() in activities)


def _content(profiler: str, worker: WorkerId, steps: int) -> bytes:
    steps = max(1, min(steps, _SEVERAL_STEPS))
    if profiler == "torch":
        trace = FakeTrace(rank=worker.rank, world_size=worker.world_size, steps=steps, host=worker.node)
    elif profiler == "viztracer":
        trace = FakeTrace.viztracer(steps=steps, pid=4000 + worker.rank)
    else:
        trace = FakeTrace.proton(steps=steps)
    return trace.text().encode()
