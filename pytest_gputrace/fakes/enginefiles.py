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

_MOST_STEPS = 32  # whoever reads them wants small files
_STAGES = {"PREFILL": "EXTEND", "DECODE": "DECODE"}  # SGLang's and TokenSpeed's words
_ENDINGS = {"torch": ".json.gz", "viztracer": ".json", "proton": ".chrome_trace"}


class LibraryFiles:
    """Named as the library names them, for a session that takes the place of the library's own."""

    def __init__(self, worker: WorkerId, tag: str) -> None:
        self._worker, self._tag = worker, tag

    def folder(self, request: Mapping[str, Any]) -> Path:
        """The one that is asked for."""
        return Path(request["output_dir"])

    def contents(self, request: Mapping[str, Any], steps: int, stage: str | None) -> list[tuple[Path, bytes]]:
        """The final names are taken at once: a naive session opens its file before it has anything to write."""
        output = Output(self.folder(request), request["profile_id"], self._tag, stage)
        files = []
        for profiler in _profilers(request):
            private = output.private(_ENDINGS[profiler])
            private.write_bytes(b"\n")  # the library takes no empty file
            path = output.publish(private, profiler, _ENDINGS[profiler])
            files.append((path, _content(profiler, self._worker, steps, path)))
        return files


class ForeignFiles:
    """Named as ``kind`` of engine names them. ``folder`` is where it writes when a request does not say."""

    def __init__(self, kind: str, worker: WorkerId, folder: Path) -> None:
        self._kind, self._worker, self._folder = kind, worker, folder

    def folder(self, request: Mapping[str, Any]) -> Path:
        """The one that is asked for, where the engine can be asked."""
        return Path(request.get("output_dir") or self._folder)

    def contents(self, request: Mapping[str, Any], steps: int, stage: str | None) -> list[tuple[Path, bytes]]:
        """One file of each profiler that the engine has and was asked for."""
        profilers = _profilers(request) if self._kind == "tokenspeed" else ("torch",)
        paths = [
            (each, self.folder(request) / self._name(each, str(request["profile_id"]), stage)) for each in profilers
        ]
        return [(path, _content(profiler, self._worker, steps, path)) for profiler, path in paths]

    def _name(self, profiler: str, profile_id: str, stage: str | None) -> str:
        worker = self._worker
        dp, tp = worker.coordinates.get("DP"), worker.coordinates["TP"]
        stage = "" if stage is None else f"-{_STAGES[stage]}"
        if self._kind == "vllm":
            parts = f"dp{dp or 0}_pp0_tp{tp}_dcp0_ep0_rank{worker.rank}"
            return f"{parts}.{time.time_ns()}.pt.trace.json.gz"
        if self._kind == "sglang":
            return f"{profile_id}-TP-{tp}{'' if dp is None else f'-DP-{dp}'}{stage}.trace.json.gz"
        if self._kind == "trtllm":
            return f"trace_{profile_id}-rank-{worker.rank}.json"
        ending = {"torch": ".trace.json.gz", "viztracer": ".viztracer.json", "proton": ".proton.chrome_trace"}[profiler]
        return f"{profile_id}-{worker.tag}{stage}{ending}"


def _profilers(request: Mapping[str, Any]) -> Iterator[str]:
    activities = {str(word).upper() for word in request.get("activities") or ("CPU", "GPU")}
    if activities & {"CPU", "GPU"}:
        yield "torch"
    yield from (name for name in ("viztracer", "proton") if name.upper() in activities)


def _content(profiler: str, worker: WorkerId, steps: int, path: Path) -> bytes:
    """A small file, compressed where its name says so."""
    steps = max(1, min(steps, _MOST_STEPS))
    if profiler == "torch":
        trace = FakeTrace(rank=worker.rank, world_size=worker.world_size, steps=steps, host=worker.node)
    elif profiler == "viztracer":
        trace = FakeTrace.viztracer(steps=steps, pid=4000 + worker.rank)
    else:
        trace = FakeTrace.proton(steps=steps)
    data = trace.text().encode()
    return gzip.compress(data) if path.suffix == ".gz" else data
