"""``FakeTrace``: a small, faultless trace file of any of the writers, to be written or changed by hand first."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pytest_gputrace.fakes.files import BASE_TIME_NS
from pytest_gputrace.fakes.kinetodocument import TraceVendor, kineto_document
from pytest_gputrace.fakes.kinetotext import kineto_layout
from pytest_gputrace.fakes.nodeclock import NodeClock
from pytest_gputrace.fakes.otherdocuments import (
    event_list_document,
    proton_document,
    proton_tree_document,
    viztracer_document,
)
from pytest_gputrace.fakes.validate import check_flag, check_text, one_of, whole

if TYPE_CHECKING:
    import os
    from collections.abc import Sequence

    from typing_extensions import Self

__all__ = ["FakeTrace", "TraceFormat", "TraceVendor"]

TraceFormat = Literal["kineto", "proton", "proton-tree", "viztracer", "superbench"]
_VENDORS: tuple[TraceVendor, ...] = ("cuda", "rocm", "cpu")
_HOST_PID, _DEVICES = 4000, 8
_A_DAY_NS, _MOST_DRIFT_PPM = 86_400 * 10**9, 1000


class FakeTrace:
    """A Kineto trace of one rank, as torch 2.13 writes it; the class methods make those of other tools.

    Nothing in it is a defect, and the ranks of one job fit together: same steps, collectives that meet. ``document`` is
    what the text is made from, free to be changed; nothing checks what is put there.

    Args:
        vendor: names, categories, arguments and streams of a CUDA or ROCm build; ``cpu`` has no device at all.
        rank: the global rank; it runs on device ``rank % 8``.
        world_size: above 1, the last kernel of each step is a collective, and ``distributedInfo`` is there.
        steps: how many ``ProfilerStep#N``.
        kernels_per_step: how many kernels each step launches; the first step has a copy besides.
        base_time_ns: ``baseTimeNanoseconds``; times in the file count from it.
        first_step: the number of the first step. Later steps happen later.
        max_pause_ns: between two steps there is a pause of at most so long, of irregular length, equal on all ranks.
        host: ``host_name``, the node.
        pid: the process id, by default 4000 + ``rank``; in containers those of several ranks are equal.
        device: the GPU, by default ``rank % 8``; those of several nodes are equal.
        clock_offset_ns: how far the node's clock is ahead when the job begins, at most a day.
        clock_drift_ppm: how many microseconds it gains in each second since then, at most 1000.
    """

    def __init__(
        self,
        vendor: TraceVendor = "cuda",
        *,
        rank: int = 0,
        world_size: int = 1,
        steps: int = 2,
        kernels_per_step: int = 3,
        base_time_ns: int = BASE_TIME_NS,
        first_step: int = 0,
        max_pause_ns: int = 0,
        host: str = "node0",
        pid: int | None = None,
        device: int | None = None,
        clock_offset_ns: int = 0,
        clock_drift_ppm: float = 0.0,
    ) -> None:
        one_of("FakeTrace", "vendor", vendor, _VENDORS)
        whole("FakeTrace", "rank", rank, 0)
        whole("FakeTrace", "world_size", world_size)
        _check("FakeTrace", steps, kernels_per_step, base_time_ns)
        whole("FakeTrace", "first_step", first_step, 0)
        whole("FakeTrace", "max_pause_ns", max_pause_ns, 0)
        check_text("FakeTrace", "host", host)
        pid = _HOST_PID + rank if pid is None else whole("FakeTrace", "pid", pid, 0)
        device = rank % _DEVICES if device is None else whole("FakeTrace", "device", device, 0)
        _within("clock_offset_ns", clock_offset_ns, _A_DAY_NS, int)
        _within("clock_drift_ppm", clock_drift_ppm, _MOST_DRIFT_PPM, int, float)
        if rank >= world_size:
            raise ValueError(f"FakeTrace: rank={rank} is outside a world of {world_size}; give world_size={rank + 1}")
        self.format: TraceFormat = "kineto"
        self.document: Any = kineto_document(
            vendor, rank=rank, world_size=world_size, steps=steps, kernels_per_step=kernels_per_step,
            base_time_ns=base_time_ns, first_step=first_step, max_pause_ns=max_pause_ns, host=host, pid=pid,
            device=device, clock=NodeClock(clock_offset_ns, clock_drift_ppm),
        )  # fmt: skip

    @classmethod
    def proton(
        cls, *, steps: int = 2, kernels_per_step: int = 3, base_time_ns: int = BASE_TIME_NS, first_scope_id: int = 1
    ) -> Self:
        """A Chrome trace of Proton; its scopes, one a step, are numbered from ``first_scope_id`` on."""
        _check("FakeTrace.proton", steps, kernels_per_step, base_time_ns)
        whole("FakeTrace.proton", "first_scope_id", first_scope_id, 0)
        document = proton_document(
            steps=steps, kernels_per_step=kernels_per_step, base_time_ns=base_time_ns, first_scope_id=first_scope_id
        )
        return cls._of("proton", document)

    @classmethod
    def proton_tree(
        cls, vendor: Literal["cuda", "rocm"] = "cuda", *, steps: int = 2, kernels_per_step: int = 3
    ) -> Self:
        """A tree of Proton, in hatchet's form."""
        one_of("FakeTrace.proton_tree", "vendor", vendor, _VENDORS[:2])
        _check("FakeTrace.proton_tree", steps, kernels_per_step)
        document = proton_tree_document(steps=steps, kernels_per_step=kernels_per_step, vendor=vendor)
        return cls._of("proton-tree", document)

    @classmethod
    def viztracer(
        cls,
        *,
        steps: int = 2,
        base_time_ns: int = BASE_TIME_NS,
        sources: bool = False,
        pid: int = _HOST_PID,
        scope_ids: Sequence[int] = (),
    ) -> Self:
        """A report of VizTracer; with ``sources``, which is its own default, it holds the text of the program.

        The first steps each begin an arrow to the scope of Proton that has the id, as TokenSpeed writes them.
        """
        _check("FakeTrace.viztracer", steps, 0, base_time_ns)
        check_flag("FakeTrace.viztracer", "sources", sources)
        whole("FakeTrace.viztracer", "pid", pid, 0)
        for number in scope_ids:
            whole("FakeTrace.viztracer", "a scope id", number, 0)
        if len(scope_ids) > steps:
            raise ValueError(f"FakeTrace.viztracer: {len(scope_ids)} scope_ids for steps={steps}; one a step at most")
        document = viztracer_document(
            steps=steps, base_time_ns=base_time_ns, sources=sources, pid=pid, scope_ids=scope_ids
        )
        return cls._of("viztracer", document)

    @classmethod
    def event_list(cls, *, steps: int = 2, kernels_per_step: int = 3) -> Self:
        """SuperBench's list of host events."""
        _check("FakeTrace.event_list", steps, kernels_per_step)
        return cls._of("superbench", event_list_document(steps=steps, kernels_per_step=kernels_per_step))

    @classmethod
    def _of(cls, format: TraceFormat, document: Any) -> Self:
        trace = cls.__new__(cls)
        trace.format, trace.document = format, document
        return trace

    @property
    def events(self) -> list[Any]:
        """The list of events in ``document``; of a tree, the list of its two halves."""
        found: list[Any] = self.document["traceEvents"] if isinstance(self.document, dict) else self.document
        return found

    def index(self, nth: int = 0, **fields: Any) -> int:
        """Where the nth event stands whose fields have these values: ``trace.index(1, ph="X", cat="kernel")``."""
        found = self.indices(**fields)
        if not -len(found) <= nth < len(found):
            raise ValueError(f"FakeTrace.index: {len(found)} events have {fields}, so none is number {nth}")
        return found[nth]

    def indices(self, **fields: Any) -> list[int]:
        """Where all events stand whose fields have these values."""
        return [
            number
            for number, event in enumerate(self.events)
            if isinstance(event, dict) and all(event.get(key) == value for key, value in fields.items())
        ]

    def text(self) -> str:
        """The text of the file, in its writer's own layout."""
        if self.format == "kineto" and isinstance(self.document, dict):
            return kineto_layout(self.document)
        if self.format == "proton":
            return json.dumps(self.document, ensure_ascii=False, separators=(",", ":")) + "\n"
        if self.format == "proton-tree":
            return "\n" + json.dumps(self.document, ensure_ascii=False, indent=4) + "\n"
        if self.format == "superbench":
            return json.dumps(self.document)
        return json.dumps(self.document, ensure_ascii=False, separators=(",", ":"))

    def write(self, path: str | os.PathLike[str]) -> Path:
        """Write the text to ``path``, compressed where its name ends in ``.gz``; the same bytes each time."""
        path = Path(path)
        data = self.text().encode()
        path.write_bytes(gzip.compress(data, mtime=0) if path.suffix == ".gz" else data)
        return path


def _check(where: str, steps: int, kernels_per_step: int, base_time_ns: int = 0) -> None:
    whole(where, "steps", steps, 0)
    whole(where, "kernels_per_step", kernels_per_step, 0)
    whole(where, "base_time_ns", base_time_ns, 0)


def _within(name: str, value: object, limit: int, *kinds: type) -> None:
    """Refuse what is no number, or too far from 0 (NaN, too)."""
    if isinstance(value, bool) or not isinstance(value, kinds):
        accepted = "a number" if float in kinds else "a whole number"
        raise TypeError(f"FakeTrace: {name}={value!r} must be {accepted}, not a {type(value).__name__}")
    if not -limit <= value <= limit:  # type: ignore[operator] # a number
        raise ValueError(f"FakeTrace: {name}={value!r} must be between -{limit} and {limit}")
