"""Collectives: which, of what, how long, and how long nothing else ran meanwhile."""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from pytest_gputrace.overview.figures import Collective, Communication
from pytest_gputrace.overview.intervals import covered_us
from pytest_gputrace.overview.ranking import dated, timed
from pytest_gputrace.overview.work import MOST_PLACES
from pytest_gputrace.traces.vocabulary import collectives, host_collectives, kernels

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from pytest_gputrace.overview.work import Work
    from pytest_gputrace.traces import Trace

__all__ = ["communication"]

_MOST_READ = 100_000
"""The arguments of as many collectives are read; what is beyond is counted by its kernel's name."""
_KERNEL = re.compile(r"(?:n|r)ccl(?:Dev)?Kernel_?(?P<kind>[A-Z][A-Za-z]+)")
_HOST = re.compile(r"\w+:_?(?P<kind>\w+)")
_TELLS_NOTHING = {"Generic"}
_BYTES = {
    "bool": 1, "byte": 1, "char": 1, "short": 2, "int": 4, "long": 8, "half": 2, "bfloat16": 2, "float": 4, "double": 8,
    "complexfloat": 8, "complexdouble": 16, "float8_e4m3fn": 1, "float8_e5m2": 1, "float8_e4m3fnuz": 1, "float8_e5m2fnuz": 1,
}  # fmt: skip

_Kind = tuple["str | None", "str | None", "int | None"]


@dataclass
class _Tally:
    count: int = 0
    total_us: float | None = None
    in_bytes: int | None = 0


def communication(trace: Trace, done: Work, *, arguments: bool) -> Communication | None:
    """The collectives of a trace, None where it has none: kernels, or else what a backend did on the host."""
    rows = np.flatnonzero(collectives(trace.events))
    if len(rows):
        told = trace.arguments(rows[:_MOST_READ].tolist()) if arguments else iter(())
        return _on_gpu(trace, rows, done, told)
    rows = np.flatnonzero(host_collectives(trace.events))
    return _on_host(trace, rows) if len(rows) else None


def _on_gpu(
    trace: Trace, rows: NDArray[np.intp], done: Work, told: Iterator[tuple[int, dict[str, Any]]]
) -> Communication:
    talks = np.isin(done.rows, rows, assume_unique=True)
    works = kernels(trace.events)[done.rows] & ~talks
    devices = np.unique(done.devices[talks])[:MOST_PLACES]
    busy = exposed = 0.0
    for device in devices.tolist():
        here = done.devices == device
        work, both = here & works, here & (works | talks)
        busy += covered_us(done.starts[here & talks], done.ends[here & talks])
        exposed += covered_us(done.starts[both], done.ends[both]) - covered_us(done.starts[work], done.ends[work])
    return Communication(
        where="gpu",
        count=len(rows),
        total_us=_total(trace, rows),
        busy_us=busy if len(devices) else None,
        exposed_us=max(exposed, 0.0) if len(devices) else None,
        kinds=_kinds(trace, rows, told),
    )


def _on_host(trace: Trace, rows: NDArray[np.intp]) -> Communication:
    columns = trace.events
    known = rows[(timed(columns) & dated(columns))[rows]]
    starts = columns.ts_us[known]
    return Communication(
        where="host",
        count=len(rows),
        total_us=_total(trace, rows),
        busy_us=covered_us(starts, starts + columns.dur_us[known]) if len(known) else None,
        exposed_us=None,
        kinds=_kinds(trace, rows, iter(())),
    )


def _total(trace: Trace, rows: NDArray[np.intp]) -> float | None:
    known = rows[timed(trace.events)[rows]]
    return float(trace.events.dur_us[known].sum()) if len(known) else None


def _kinds(trace: Trace, rows: NDArray[np.intp], told: Iterator[tuple[int, dict[str, Any]]]) -> tuple[Collective, ...]:
    columns = trace.events
    called = {number: _called(columns.names[number]) for number in np.unique(columns.name[rows]).tolist()}
    durations = np.where(timed(columns)[rows], columns.dur_us[rows], np.nan)
    tallies: dict[_Kind, _Tally] = defaultdict(_Tally)
    rest = np.ones(len(rows), np.bool_)
    for row, arguments in told:
        at = int(np.searchsorted(rows, row))
        rest[at] = False
        name, dtype, group, size = _read(arguments)
        kind = (name or called[int(columns.name[row])], dtype, group)
        _add(tallies[kind], 1, durations[at : at + 1], size)
    for number in np.unique(columns.name[rows[rest]]).tolist():
        chosen = durations[rest & (columns.name[rows] == number)]
        _add(tallies[called[number], None, None], len(chosen), chosen, None)
    kinds = [Collective(*kind, tally.count, tally.total_us, tally.in_bytes) for kind, tally in tallies.items()]
    return tuple(sorted(kinds, key=lambda kind: (-(kind.total_us or 0), -kind.count)))


def _add(tally: _Tally, count: int, durations: NDArray[np.float64], size: int | None) -> None:
    tally.count += count
    if not np.isnan(durations).all():
        tally.total_us = (tally.total_us or 0.0) + float(np.nansum(durations))
    tally.in_bytes = None if size is None or tally.in_bytes is None else tally.in_bytes + size


def _called(name: str) -> str | None:
    match = _KERNEL.match(name) or _HOST.match(name)
    return None if match is None or match["kind"] in _TELLS_NOTHING else match["kind"].lower()


def _read(arguments: dict[str, Any]) -> tuple[str | None, str | None, int | None, int | None]:
    """Name, type, group size and bytes; a value of another type than torch writes is not told."""
    name, dtype = arguments.get("Collective name"), arguments.get("dtype")
    group, count = arguments.get("Group size"), arguments.get("In msg nelems")
    each = _BYTES.get(dtype.lower()) if isinstance(dtype, str) else None
    return (
        name if isinstance(name, str) and name else None,
        dtype if isinstance(dtype, str) and dtype else None,
        group if type(group) is int and group > 0 else None,
        count * each if type(count) is int and count >= 0 and each else None,
    )
