"""What came of a merge: what was written, from what, and what was left out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

if TYPE_CHECKING:
    from pathlib import Path

    from pytest_gputrace.timeline.plan import Flows
    from pytest_gputrace.traces.formats import Format

__all__ = ["Align", "LeftOut", "MergeResult", "MergedInput", "WorkerClock"]

Align: TypeAlias = Literal["anchor", "collectives", "first-event"]


@dataclass(frozen=True)
class MergedInput:
    """One file. ``worker`` says whose it is in words, empty where only one is and nothing names it.

    ``base_time_ns`` is what its times count from, ``first_ns`` and ``last_ns`` when its events begin and end, both in ns
    since 1970 by the timeline's clock. ``events`` leaves out the ``metadata`` events (``M``), which are written anew.
    ``flows_in`` were read and ``flows_out`` written; ``untimed`` events have no time.
    """

    path: Path
    format: Format
    worker: str
    rank: int | None
    node: str
    base_time_ns: int
    first_ns: int
    last_ns: int
    events: int
    metadata: int
    untimed: int
    flows_in: Flows
    flows_out: Flows


@dataclass(frozen=True)
class LeftOut:
    """A file that is not on the timeline, and why."""

    path: Path
    why: str


@dataclass(frozen=True)
class WorkerClock:
    """What `--align collectives` found of one worker's clock, against the reference, the first that can be compared.

    ``offset_us`` was added at the worker's first event, and ``drift_ppm`` of the time since then; ``used`` collectives
    tell it. A residual is the median distance of their ends from those on the other ranks, as the anchors have it and
    as it is now. ``why`` says why a clock was left as it is; empty where it was not.
    """

    worker: str
    node: str
    offset_us: float
    drift_ppm: float
    used: int
    residual_before_us: float
    residual_after_us: float
    why: str = ""


@dataclass(frozen=True)
class MergeResult:
    """The timeline that was written: ``path``, compressed when its name ends with .gz, of ``size_bytes`` on disk.

    ``inputs`` are in the order of the timeline. ``expected_ranks`` is None where nobody knows how many there should be;
    ``missing_ranks`` are those of them that are not there. ``base_time_ns`` is when the earliest event begins, from which
    all times of the file count. ``links`` lead from VizTracer's frames to Proton's scopes, ``unlinked`` ones have no
    scope. ``notes`` are what else one should know, a sentence each.
    """

    path: Path
    inputs: tuple[MergedInput, ...]
    left_out: tuple[LeftOut, ...]
    expected_ranks: int | None
    missing_ranks: tuple[int, ...]
    align: Align
    clocks: tuple[WorkerClock, ...]
    base_time_ns: int
    last_ns: int
    events: int
    links: int
    unlinked: int
    size_bytes: int
    notes: tuple[str, ...]
