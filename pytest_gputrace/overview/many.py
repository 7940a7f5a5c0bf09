"""Several traces, one at a time: the first figures of each, and which stands out among them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

from pytest_gputrace.overview.trace import look
from pytest_gputrace.traces import open_trace

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterable, Iterator, Sequence

__all__ = ["Glance", "Many", "Odd", "Slowest", "compare", "glances"]

_COMPARED = ("step_median_us", "kernels", "gpu_busy_us", "communication_us", "span_us")
_FEWEST = 3
"""Of fewer ranks, none can be told to be the odd one."""
_MOST_ODD = 10
_FAR = 0.1
_FAR_SPREADS = 5


@dataclass(frozen=True)
class Glance:
    """The first figures of one file; ``error`` is why it could not be read at all, ``broken`` that it has problems."""

    path: str
    error: str | None = None
    broken: bool = False
    format: str | None = None
    rank: int | None = None
    world_size: int | None = None
    node: str | None = None
    device: str | None = None
    events: int | None = None
    steps: int | None = None
    step_median_us: float | None = None
    kernels: int | None = None
    gpu_busy_us: float | None = None
    gpu_busy_percent: float | None = None
    communication_us: float | None = None
    exposed_us: float | None = None
    span_us: float | None = None
    start_ns: int | None = None


@dataclass(frozen=True)
class Slowest:
    """The rank with the longest steps, or the longest span where not every rank has steps."""

    path: str
    rank: int | None
    figure: str
    value_us: float
    median_us: float


@dataclass(frozen=True)
class Odd:
    """A figure of one rank that is far from the others'."""

    path: str
    rank: int | None
    figure: str
    value: float
    median: float


@dataclass(frozen=True)
class Many:
    """All files, by rank, and what they come to; ``ranks`` counts different ones, ``world_sizes`` lists them."""

    files: tuple[Glance, ...]
    broken: int
    ranks: int
    world_sizes: tuple[int, ...]
    events: int
    kernels: int
    gpu_busy_us: float | None
    gpu_busy_median_percent: float | None
    slowest: Slowest | None
    odd: tuple[Odd, ...]


def glances(
    paths: Iterable[str | os.PathLike[str]],
    *,
    max_bytes: int | None = None,
    progress: Callable[[int], None] | None = None,
) -> Iterator[Glance]:
    """The first figures of each file; no more than one trace is in memory."""
    for path in paths:
        try:
            yield _glance(Path(path), max_bytes, progress)
        except OSError as error:
            yield Glance(str(path), error=error.strerror or str(error), broken=True)


def compare(files: Iterable[Glance]) -> Many:
    """Put the files in order of rank, count them together, and name those that stand out in one job."""
    every = tuple(sorted(files, key=lambda file: (file.rank is None, file.rank or 0, file.path)))
    busy = [file.gpu_busy_us for file in every if file.gpu_busy_us is not None]
    percents = [file.gpu_busy_percent for file in every if file.gpu_busy_percent is not None]
    job = _one_job(every)
    return Many(
        files=every,
        broken=sum(file.broken for file in every),
        ranks=len({file.rank for file in every if file.rank is not None}),
        world_sizes=tuple(sorted({file.world_size for file in every if file.world_size is not None})),
        events=sum(file.events or 0 for file in every),
        kernels=sum(file.kernels or 0 for file in every),
        gpu_busy_us=sum(busy) if busy else None,
        gpu_busy_median_percent=median(percents) if percents else None,
        slowest=_slowest(job),
        odd=_odd(job),
    )


def _glance(path: Path, max_bytes: int | None, progress: Callable[[int], None] | None) -> Glance:
    trace = open_trace(path, max_bytes=max_bytes, progress=progress)
    overview = look(trace, top=0, arguments=False)
    talk = overview.communication
    names = {use.name for use in overview.gpus} or {group.name for group in overview.devices}
    return Glance(
        path=str(path),
        broken=overview.broken,
        format=overview.format,
        rank=overview.rank,
        world_size=overview.world_size,
        node=overview.node,
        device=names.pop() if len(names) == 1 else None,
        events=overview.events,
        steps=len(overview.steps.numbers) if overview.steps else None,
        step_median_us=overview.steps.median_us if overview.steps else None,
        kernels=overview.kernels.calls,
        gpu_busy_us=overview.gpu_busy_us,
        gpu_busy_percent=overview.gpu_busy_percent,
        communication_us=talk.busy_us if talk else None,
        exposed_us=talk.exposed_us if talk else None,
        span_us=overview.span_us,
        start_ns=overview.start_ns,
    )


def _one_job(files: Sequence[Glance]) -> list[Glance]:
    """The files with a rank, where each rank is there once; traces of several jobs or rounds are not compared."""
    ranked = [file for file in files if file.rank is not None]
    worlds = {file.world_size for file in ranked if file.world_size is not None}
    once = len({file.rank for file in ranked}) == len(ranked)
    return ranked if once and len(worlds) <= 1 else []


def _slowest(files: Sequence[Glance]) -> Slowest | None:
    for figure in ("step_median_us", "span_us"):
        values = [(getattr(file, figure), file) for file in files]
        if len(values) > 1 and all(value is not None for value, _ in values):
            value, file = max(values, key=lambda pair: pair[0])
            middle = median(value for value, _ in values)
            return Slowest(file.path, file.rank, figure, value, middle) if value > middle else None
    return None


def _odd(files: Sequence[Glance]) -> tuple[Odd, ...]:
    found = []
    for figure in _COMPARED:
        values = {file: getattr(file, figure) for file in files if getattr(file, figure) is not None}
        if len(values) < _FEWEST:
            continue
        middle = median(values.values())
        usual = median(abs(value - middle) for value in values.values())
        limit = max(_FAR * middle, _FAR_SPREADS * usual)
        found += [
            Odd(file.path, file.rank, figure, value, middle)
            for file, value in values.items()
            if abs(value - middle) > limit
        ]
    return tuple(sorted(found, key=lambda odd: -abs(odd.value - odd.median) / (odd.median or 1))[:_MOST_ODD])
