"""One trace -> its overview, computed on columns."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np

from pytest_gputrace.overview.communication import communication
from pytest_gputrace.overview.facts import backend, capture, device_groups, start_ns, utc, versions
from pytest_gputrace.overview.figures import Host, Launches, Moves, Overview, Steps
from pytest_gputrace.overview.ranking import dated, plausible, rank, spread, timed
from pytest_gputrace.overview.work import device_uses, work
from pytest_gputrace.traces.columns import NO_ID
from pytest_gputrace.traces.vocabulary import (
    copies,
    functions,
    gpu_work,
    kernels,
    launches,
    of_phase,
    operators,
    runtime_calls,
    scopes,
    sets,
    steps,
    synchronisations,
)  # fmt: skip

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from pytest_gputrace.traces import Trace

__all__ = ["look"]

_MOST_BYTES = 1 << 41
"""No copy is larger; a larger number is a broken file's, and sums of them would overflow."""
_NOT_BROKEN = {"path"}  # only looks wrong
_SHORT_DIRECTION = re.compile(r"\b(?P<short>[HDPA]to[HDPA])\b|Copy(?P<from>Host|Device)To(?P<to>Host|Device)")


def look(trace: Trace, *, top: int = 10, arguments: bool = True) -> Overview:
    """What a trace holds; of every ranking by time, the first ``top`` names.

    ``arguments`` of collectives say their names, types and sizes, and are read in a second pass over the file.
    """
    columns = trace.events
    first_us, span_us = _span(trace)
    done = work(trace)
    gpus, left_out = device_uses(trace, done, first_us or 0.0)
    began = start_ns(trace.base_time_ns, first_us)
    mark = capture(columns.names)
    gpu_span, gpu_busy = _sum([use.span_us for use in gpus]), _sum([use.busy_us for use in gpus])
    problems = sum(1 + problem.more for problem in trace.problems if problem.kind not in _NOT_BROKEN)
    gpu_time = columns.gpu_us[plausible(columns.gpu_us)] if columns.gpu_us is not None else np.empty(0)
    return Overview(
        path=str(trace.path),
        format=trace.format,
        broken=bool(problems) or not trace.whole,
        whole=trace.whole,
        problems=problems,
        size_bytes=trace.size_bytes,
        events=len(columns),
        rank=trace.rank if trace.rank is not None or mark is None else mark.rank,
        world_size=trace.world_size,
        node=mark.node if mark else None,
        configuration=mark.configuration if mark else None,
        backend=backend(trace.metadata),
        devices=device_groups(trace),
        versions=versions(trace.metadata),
        base_time_ns=trace.base_time_ns,
        base_utc=utc(trace.base_time_ns),
        start_ns=began,
        start_utc=utc(began),
        span_us=span_us,
        steps=_steps(trace),
        gpu_events=int(np.count_nonzero(gpu_work(columns))),
        gpu_span_us=gpu_span,
        gpu_busy_us=gpu_busy,
        gpu_busy_percent=100 * gpu_busy / gpu_span if gpu_busy is not None and gpu_span else None,
        gpu_idle_us=gpu_span - gpu_busy if gpu_busy is not None and gpu_span is not None else None,
        gpu_time_us=float(gpu_time.sum()) if len(gpu_time) else None,
        gpus=gpus,
        gpus_left_out=left_out,
        kernels=rank(columns, _kernels(trace), top),
        launches=_launches(trace, top),
        copies=_moves(trace, copies(columns)),
        sets=_moves(trace, sets(columns)),
        communication=communication(trace, done, arguments=arguments),
        synchronisations=rank(columns, np.flatnonzero(synchronisations(columns)), top),
        host=_host(trace, top),
    )


def _sum(values: list[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def _span(trace: Trace) -> tuple[float | None, float | None]:
    """When the first event begins, and how long until the last has ended; what only names things is no event."""
    columns = trace.events
    there = dated(columns) & ~of_phase(columns, "M")
    if not there.any():
        return None, None
    starts = columns.ts_us[there]
    ends = starts + np.where(timed(columns), columns.dur_us, 0.0)[there]
    return float(starts.min()), float(ends.max() - starts.min())


def _steps(trace: Trace) -> Steps | None:
    found = sorted(steps(trace.events).items())
    if not found:
        return None
    rows = np.array([row for _, row in found])
    durations = np.where(timed(trace.events)[rows], trace.events.dur_us[rows], np.nan)
    return Steps(
        tuple(number for number, _ in found),
        tuple(None if np.isnan(duration) else float(duration) for duration in durations),
        *spread(durations),
    )


def _kernels(trace: Trace) -> NDArray[np.intp]:
    columns = trace.events
    if trace.format == "proton-tree":
        return np.flatnonzero(columns.calls != NO_ID) if columns.calls is not None else np.empty(0, np.intp)
    return np.flatnonzero(kernels(columns))


def _launches(trace: Trace, top: int) -> Launches:
    columns = trace.events
    calls = np.flatnonzero(launches(columns))
    return Launches(
        ranking=rank(columns, calls, top),
        without_gpu_work=_unmatched(columns.correlation, calls, np.flatnonzero(gpu_work(columns))),
        kernels_without_call=_unmatched(
            columns.correlation, np.flatnonzero(kernels(columns)), np.flatnonzero(runtime_calls(columns))
        ),
    )


def _unmatched(correlation: NDArray[np.int64], rows: NDArray[np.intp], others: NDArray[np.intp]) -> int | None:
    """How many of ``rows`` have no partner among ``others``; None where none of them says whose partner it is."""
    ids = correlation[rows]
    if not (ids != NO_ID).any():
        return None
    return int(np.count_nonzero(~np.isin(ids, correlation[others]) | (ids == NO_ID)))


def _moves(trace: Trace, which: NDArray[np.bool_]) -> tuple[Moves, ...]:
    columns = trace.events
    rows = np.flatnonzero(which)
    names = columns.name[rows]
    found = [_move(trace, columns.names[number], rows[names == number]) for number in np.unique(names).tolist()]
    return tuple(sorted(found, key=lambda move: (-(move.total_us or 0), -move.count)))


def _move(trace: Trace, name: str, rows: NDArray[np.intp]) -> Moves:
    columns = trace.events
    durations, sizes = columns.dur_us[rows], columns.size[rows]
    known, told = timed(columns)[rows], (sizes >= 0) & (sizes <= _MOST_BYTES)
    moved = int(sizes[told].sum()) if told.any() else None
    took_us = float(durations[known & told].sum())
    return Moves(
        name=name,
        direction=_direction(name),
        count=len(rows),
        bytes=moved,
        bytes_told_by=int(told.sum()),
        total_us=float(durations[known].sum()) if known.any() else None,
        gb_per_s=float(sizes[known & told].sum()) / took_us / 1000 if took_us else None,
    )


def _direction(name: str) -> str | None:
    match = _SHORT_DIRECTION.search(name)
    if match is None:
        return None
    return match["short"] or f"{match['from'][0]}to{match['to'][0]}"


def _host(trace: Trace, top: int) -> Host:
    columns = trace.events
    if trace.format == "kineto":
        kind, which = "CPU ops", operators(columns)
    elif trace.format == "proton":
        kind, which = "scopes", scopes(columns)
        if not which.any():  # cycles of warps, which have categories of their own
            kind, which = "events", of_phase(columns, "X") & ~gpu_work(columns)
    elif trace.format == "viztracer":
        kind, which = "functions", functions(columns)
    elif trace.format == "superbench":
        kind, which = "ops", of_phase(columns, "X")
    elif trace.format == "proton-tree":
        kind, which = "frames", np.ones(len(columns), np.bool_)
        if columns.calls is not None:
            which = columns.calls == NO_ID
    else:
        kind, which = "events", of_phase(columns, "X") & ~gpu_work(columns)
    return Host(kind, rank(columns, np.flatnonzero(which), top, nested=trace.format != "superbench"))
