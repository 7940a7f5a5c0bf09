"""What ran on the GPUs of a trace: where, when, how busy they were and when they did nothing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from pytest_gputrace.overview.figures import DeviceUse, Gap, StreamUse
from pytest_gputrace.overview.intervals import cover, covered_us
from pytest_gputrace.overview.ranking import dated, timed
from pytest_gputrace.traces.columns import NO_ID
from pytest_gputrace.traces.vocabulary import gpu_work

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from pytest_gputrace.traces import Trace
    from pytest_gputrace.traces.columns import Columns

__all__ = ["MOST_PLACES", "Work", "device_uses", "work"]

MOST_PLACES = 64
"""As many devices, and streams of each, are looked at; a broken file can name millions."""
_GAPS = 3
_PROTON_KERNELS = 200_000
_PROTON_DEVICE = 1_000_000


@dataclass(frozen=True)
class Work:
    """The GPU events that have a time: their rows, and where and when each ran."""

    rows: NDArray[np.intp]
    starts: NDArray[np.float64]
    ends: NDArray[np.float64]
    devices: NDArray[np.int64]
    streams: NDArray[np.int64]


def work(trace: Trace) -> Work:
    """What ran on GPUs; a kernel that does not name its place ran where it is drawn."""
    columns = trace.events
    rows = np.flatnonzero(gpu_work(columns) & timed(columns) & dated(columns))
    starts = columns.ts_us[rows]
    devices = np.where(columns.device[rows] == NO_ID, columns.pid[rows], columns.device[rows])
    streams = np.where(columns.stream[rows] == NO_ID, columns.tid[rows], columns.stream[rows])
    if trace.format == "proton":  # lanes: the stream plus 200000, and a million for each device
        lanes = columns.tid[rows]
        devices = np.where(lanes >= _PROTON_KERNELS, lanes // _PROTON_DEVICE, devices)
        streams = np.where(lanes >= _PROTON_KERNELS, lanes % _PROTON_DEVICE - _PROTON_KERNELS, streams)
    return Work(rows, starts, starts + columns.dur_us[rows], devices, streams)


def device_uses(trace: Trace, done: Work, first_us: float) -> tuple[tuple[DeviceUse, ...], int]:
    """The devices on which something ran, the busiest first where there are too many, and how many were left out."""
    devices, counts = np.unique(done.devices, return_counts=True)
    kept = np.sort(np.argsort(-counts, kind="stable")[:MOST_PLACES])
    uses = tuple(_device_use(trace, done, int(devices[at]), first_us) for at in kept)
    return uses, len(devices) - len(kept)


def _device_use(trace: Trace, done: Work, device: int, first_us: float) -> DeviceUse:
    here = np.flatnonzero(done.devices == device)
    starts, ends = done.starts[here], done.ends[here]
    union = cover(starts, ends)
    span = float(union.ends[-1] - union.begins[0])
    busy = float((union.ends - union.begins).sum())
    lengths = union.begins[1:] - union.ends[:-1]
    longest = np.argsort(-lengths, kind="stable")[:_GAPS]
    names = trace.events.name[done.rows[here]]
    return DeviceUse(
        device=trace.events.text_of(device),
        name=_device_name(trace, device),
        events=len(here),
        span_us=span,
        busy_us=busy,
        busy_percent=100 * busy / span if span else None,
        idle_us=span - busy,
        streams=_stream_uses(trace.events, done, here),
        gaps=tuple(
            Gap(
                start_us=float(union.ends[at]) - first_us,
                dur_us=float(lengths[at]),
                after=trace.events.names[names[np.argmax(ends == union.ends[at])]],
                before=trace.events.names[names[union.first[at + 1]]],
            )
            for at in longest.tolist()
        ),
    )


def _stream_uses(columns: Columns, done: Work, here: NDArray[np.intp]) -> tuple[StreamUse, ...]:
    on = done.streams[here]
    streams, counts = np.unique(on, return_counts=True)
    uses = []
    for at in np.argsort(-counts, kind="stable")[:MOST_PLACES].tolist():
        rows = here[on == streams[at]]
        busy = covered_us(done.starts[rows], done.ends[rows])
        uses.append(StreamUse(columns.text_of(int(streams[at])), int(counts[at]), busy))
    return tuple(uses)


def _device_name(trace: Trace, device: int) -> str | None:
    listed = {found.id: found.name for found in trace.devices}
    # ROCm lists the one device a process sees as 0 and counts its kernels by the number it has in the machine.
    only = next(iter(listed.values())) if len(set(listed.values())) == 1 else None
    return listed.get(device, only) or None
