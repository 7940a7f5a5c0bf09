"""The figures of a trace, as plain data; the names of the fields are the keys of the JSON.

None always means that the trace does not tell, never zero.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = [
    "Collective", "Communication", "DeviceGroup", "DeviceUse", "Gap", "Host", "Launches", "Moves", "Named", "Overview",
    "Ranking", "Steps", "StreamUse",
]  # fmt: skip


@dataclass(frozen=True)
class Named:
    """All events of one name. ``share_percent`` is of the time of all names, shown or not."""

    name: str
    calls: int
    total_us: float | None
    share_percent: float | None
    min_us: float | None
    median_us: float | None
    max_us: float | None


@dataclass(frozen=True)
class Ranking:
    """Events by name, those that took longest in all first; ``calls``, ``names`` and ``total_us`` count them all."""

    calls: int
    names: int
    total_us: float | None
    top: tuple[Named, ...]


@dataclass(frozen=True)
class DeviceGroup:
    """Devices of one name that the trace lists, used or not."""

    name: str
    vendor: str
    count: int


@dataclass(frozen=True)
class StreamUse:
    """What ran on one stream of a device."""

    stream: int | str | None
    events: int
    busy_us: float | None


@dataclass(frozen=True)
class Gap:
    """A time in which nothing ran on a device; ``start_us`` counts from the first event of the trace."""

    start_us: float
    dur_us: float
    after: str
    before: str


@dataclass(frozen=True)
class DeviceUse:
    """What ran on one device, from its first event to its last; ``busy_us`` counts time once, however many streams."""

    device: int | str | None
    name: str | None
    events: int
    span_us: float | None
    busy_us: float | None
    busy_percent: float | None
    idle_us: float | None
    streams: tuple[StreamUse, ...]
    gaps: tuple[Gap, ...]


@dataclass(frozen=True)
class Steps:
    """The steps that a profiler's schedule marked, on the host."""

    numbers: tuple[int, ...]
    durations_us: tuple[float | None, ...]
    min_us: float | None
    median_us: float | None
    max_us: float | None


@dataclass(frozen=True)
class Launches:
    """Calls that launch kernels; ``without_gpu_work`` and ``kernels_without_call`` are told by correlation ids."""

    ranking: Ranking
    without_gpu_work: int | None
    kernels_without_call: int | None


@dataclass(frozen=True)
class Moves:
    """Copies or sets of one name. ``bytes`` and the rate are those of the ``bytes_told_by`` events that tell a size."""

    name: str
    direction: str | None
    count: int
    bytes: int | None
    bytes_told_by: int
    total_us: float | None
    gb_per_s: float | None


@dataclass(frozen=True)
class Collective:
    """Collectives of one kind; ``in_bytes`` is what went in on this rank, all calls together."""

    name: str | None
    dtype: str | None
    group_size: int | None
    count: int
    total_us: float | None
    in_bytes: int | None


@dataclass(frozen=True)
class Communication:
    """Collectives, ``where`` they were seen: as kernels (``gpu``) or as ranges of a backend (``host``).

    ``busy_us`` counts time once; ``exposed_us`` is the part of it in which no other kernel ran on the device.
    """

    where: str
    count: int
    total_us: float | None
    busy_us: float | None
    exposed_us: float | None
    kinds: tuple[Collective, ...]


@dataclass(frozen=True)
class Host:
    """What ran on the host; ``kind`` says what the format calls it.

    Times include what an event called, so they have no sum and no shares (but in a SuperBench list).
    """

    kind: str
    ranking: Ranking


@dataclass(frozen=True)
class Overview:
    """One trace. ``problems`` counts what makes its text ``broken``; ``whole`` says whether it was read to its end."""

    path: str
    format: str
    broken: bool
    whole: bool
    problems: int
    size_bytes: int
    events: int
    rank: int | None
    world_size: int | None
    node: str | None
    configuration: str | None
    backend: str | None
    devices: tuple[DeviceGroup, ...]
    versions: dict[str, str]
    base_time_ns: int | None
    base_utc: str | None
    start_ns: int | None
    start_utc: str | None
    span_us: float | None
    steps: Steps | None
    gpu_events: int
    gpu_span_us: float | None
    gpu_busy_us: float | None
    gpu_busy_percent: float | None
    gpu_idle_us: float | None
    gpu_time_us: float | None
    gpus: tuple[DeviceUse, ...]
    gpus_left_out: int
    kernels: Ranking
    launches: Launches
    copies: tuple[Moves, ...]
    sets: tuple[Moves, ...]
    communication: Communication | None
    synchronisations: Ranking
    host: Host
