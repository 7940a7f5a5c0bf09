"""The files that naive sessions write: under the names that each engine gives them, with small valid contents."""

from __future__ import annotations

import gzip
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_gputrace.control.output import Output
from pytest_gputrace.fakes.files import BASE_TIME_NS
from pytest_gputrace.fakes.traces import FakeTrace

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from pytest_gputrace.model import WorkerId

__all__ = ["ForeignFiles", "LibraryFiles"]

_UPTIME_NS = 2_900 * 10**9  # VizTracer's times of a made-up report count from the machine's start, 48 minutes ago
_STEP_NS, _SKEW_NS = 1_000_000, 1_009
_MOST_STEPS = 32  # whoever reads them wants small files
_STAGES = {"PREFILL": "EXTEND", "DECODE": "DECODE"}  # SGLang's and TokenSpeed's words
_ENDINGS = {"torch": ".json.gz", "viztracer": ".json", "proton": ".chrome_trace"}


class LibraryFiles:
    """Named as the library names them, for a session that takes the place of the library's own."""

    def __init__(self, worker: WorkerId, tag: str) -> None:
        self._tag = tag
        self._contents = _Contents(worker)

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
            files.append((profiler, path))
        return self._contents.of(files, steps)


class ForeignFiles:
    """Named as ``kind`` of engine names them. ``folder`` is where it writes when a request does not say."""

    def __init__(self, kind: str, worker: WorkerId, folder: Path) -> None:
        self._kind, self._worker, self._folder = kind, worker, folder
        self._contents = _Contents(worker)

    def folder(self, request: Mapping[str, Any]) -> Path:
        """The one that is asked for, where the engine can be asked."""
        return Path(request.get("output_dir") or self._folder)

    def contents(self, request: Mapping[str, Any], steps: int, stage: str | None) -> list[tuple[Path, bytes]]:
        """One file of each profiler that the engine has and was asked for."""
        profilers = _profilers(request) if self._kind == "tokenspeed" else ("torch",)
        name = str(request["profile_id"])
        files = [(each, self.folder(request) / self._name(each, name, stage)) for each in profilers]
        return self._contents.of(files, steps)

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


class _Contents:
    """What is in the files of one worker: no two windows are alike, nor those of two workers."""

    def __init__(self, worker: WorkerId) -> None:
        self._worker = worker
        self._steps = 0

    def of(self, files: Sequence[tuple[str, Path]], steps: int) -> list[tuple[Path, bytes]]:
        """Of the files of a window, each with its profiler."""
        steps = max(1, min(steps, _MOST_STEPS))
        contents = [(path, self._content(profiler, path, steps)) for profiler, path in files]
        self._steps += steps
        return contents

    def _content(self, profiler: str, path: Path, steps: int) -> bytes:
        worker = self._worker
        base_time_ns = BASE_TIME_NS + self._steps * _STEP_NS + worker.rank * _SKEW_NS
        if profiler == "torch":
            trace = FakeTrace(
                rank=worker.rank, world_size=worker.world_size, steps=steps, first_step=self._steps, host=worker.node
            )
        elif profiler == "viztracer":
            trace = FakeTrace.viztracer(steps=steps, pid=4000 + worker.rank, base_time_ns=base_time_ns - _UPTIME_NS)
        else:
            trace = FakeTrace.proton(steps=steps, base_time_ns=base_time_ns, first_scope_id=1 + self._steps)
        data = trace.text().encode()
        return gzip.compress(data) if path.suffix == ".gz" else data
