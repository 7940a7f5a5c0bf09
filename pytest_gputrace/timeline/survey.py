"""The first pass over one input: everything that must be known of a file before any other can be written beside it.

The file is read strictly, run by run; what is kept does not grow with the number of its events.
"""

from __future__ import annotations

import hashlib
import re
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from pytest_gputrace.timeline.collectives import CollectiveEnds
from pytest_gputrace.timeline.eventids import ID_PHASES, numbers, other_ids
from pytest_gputrace.timeline.exact import earliest_ns
from pytest_gputrace.timeline.names import Names
from pytest_gputrace.timeline.plan import Flows
from pytest_gputrace.traces.columns import NO_ID
from pytest_gputrace.traces.root import member, whole_number
from pytest_gputrace.traces.scanner import Problem
from pytest_gputrace.traces.streaming import stream_trace
from pytest_gputrace.traces.vocabulary import (
    ANYWHERE,
    FLOW_END,
    GPU_LANES,
    LAUNCH_FLOWS,
    ON_GPU,
    ON_HOST,
    chosen,
    of_phase,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from numpy.typing import NDArray

    from pytest_gputrace.timeline.collectives import Gathered
    from pytest_gputrace.timeline.plan import Id
    from pytest_gputrace.traces.arguments import Source
    from pytest_gputrace.traces.columns import Columns
    from pytest_gputrace.traces.formats import Format
    from pytest_gputrace.traces.streaming import EventRun

__all__ = ["LINK_CATEGORY", "LINK_NAME", "Survey", "survey"]

LINK_NAME, LINK_CATEGORY = "viztracer->proton", "tokenspeed.proton"
"""An arrow that starts in a frame of VizTracer; its id is the ``scope_id`` of a scope of Proton."""

_WHOLE = re.compile(r"-?[0-9]{1,30}")
_LAST_OF_A_COLUMN = 2**63 - 1
# In the year 2255; what is later does not fit the 64 bits of a viewer's nanoseconds.
_LAST_US = 9e15
# What a file cannot have wrong and be merged all the same: no event is lost by it, and it is not written again.
_HARMLESS = frozenset({"path", "wrapping", "bom"})


@dataclass(frozen=True)
class Survey:
    """What one file holds. ``problems`` are those for which it cannot be merged.

    ``first_ns`` and ``last_ns`` are when its first event begins and its last one ends, by its own times in ns; None
    where no event has a time. ``tracks`` are the process, the thread and the lane of every event but metadata.
    ``ids`` are the smallest and the largest number that ties events together. ``links`` are when arrows of `LINK_NAME` start, in ns, by their ids.
    ``groups`` stand for the ranks of each process group.
    """

    path: Path
    format: Format
    problems: tuple[Problem, ...]
    source: Source
    base_time_ns: int | None
    rank: int | None
    world_size: int | None
    host: str
    events: int
    metadata: int
    untimed: int
    first_ns: int | None
    last_ns: int | None
    tracks: frozenset[tuple[Id, Id, int]]
    names: Names
    flows: Flows
    ids: tuple[int, int] | None
    links: dict[int, int]
    collectives: Gathered | None
    groups: dict[str, str]
    file_info: dict[str, Any] | None


def survey(
    path: Path, *, collectives: int = 0, sources: bool = False, progress: Callable[[int], None] | None = None
) -> Survey:
    """Read a file; note when its first ``collectives`` ended, and with ``sources`` keep VizTracer's ``file_info``.

    Raises:
        OSError: it cannot be read.
    """
    seen = _Seen(collectives)
    streamed = stream_trace(path, seen.look, progress=progress)
    root = streamed.metadata
    base = whole_number(root, ("baseTimeNanoseconds",))
    host = member(root, ("host_name",))
    file_info = root.get("file_info") if sources else None
    problems = tuple(problem for problem in streamed.problems if problem.kind not in _HARMLESS)
    return Survey(
        path=path,
        format=streamed.format,
        problems=problems or (() if seen.problem is None else (seen.problem,)),
        source=streamed.source,
        base_time_ns=whole_number(root, ("viztracer_metadata", "baseTimeNanoseconds")) if base is None else base,
        rank=whole_number(root, ("distributedInfo", "rank")),
        world_size=whole_number(root, ("distributedInfo", "world_size")),
        host=host if isinstance(host, str) else "",
        events=streamed.events - seen.metadata,
        metadata=seen.metadata,
        untimed=seen.untimed,
        first_ns=seen.first_ns,
        last_ns=seen.last_ns,
        tracks=frozenset(seen.tracks),
        names=seen.names,
        flows=seen.flows,
        ids=seen.ids,
        links=seen.links,
        collectives=seen.collectives.gathered() if seen.collectives else None,
        groups=_groups(root) if collectives else {},
        file_info=file_info if isinstance(file_info, dict) else None,
    )


def _groups(root: dict[str, Any]) -> dict[str, str]:
    """Their ranks as text: a name alone may stand for another group on another rank."""
    groups = member(root, ("distributedInfo", "pg_config"))
    told = [each for each in groups if isinstance(each, dict)] if isinstance(groups, list) else []
    # The same text in the files of a thousand ranks.
    return {str(each.get("pg_name")): sys.intern(_short(str(each.get("ranks")))) for each in told}


def _short(text: str) -> str:
    """Text that is the same for the same text, and never long: a group may have thousands of ranks."""
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()


class _Seen:
    """What was seen of the events so far."""

    def __init__(self, collectives: int) -> None:
        self.metadata = self.untimed = 0
        self.first_ns: int | None = None
        self.last_ns: int | None = None
        self.tracks: set[tuple[Id, Id, int]] = set()
        self.names = Names()
        self.flows = Flows()
        self.ids: tuple[int, int] | None = None
        self.links: dict[int, int] = {}
        self.collectives = CollectiveEnds(collectives) if collectives else None
        self.problem: Problem | None = None
        self._first_us = np.inf

    def look(self, run: EventRun) -> None:
        """Look at some more events."""
        try:
            self._look(run)
        except (msgspec.DecodeError, RecursionError, ArithmeticError, AttributeError, TypeError, ValueError):
            # The reader has told what is wrong with such events, but for what it follows deeper than others.
            self.problem = self.problem or Problem("deep", "events that cannot be read: do they nest too deep?", 0)

    def _look(self, run: EventRun) -> None:
        columns = run.columns
        counts = dict(
            zip(columns.phases, np.bincount(columns.phase, minlength=len(columns.phases)).tolist(), strict=True)
        )
        self.flows = self.flows.plus(Flows(counts.get("s", 0), counts.get("t", 0), counts.get("f", 0)))
        events = None  # all of them
        if counts.get("M"):
            self.metadata += counts["M"]
            self.names.read(run.text)
            events = np.flatnonzero(columns.phase != columns.phases.index("M"))
        self._times(run, events)
        self._tracks(columns, events)
        self._ids(run, counts)
        if self.collectives is not None:
            self.collectives.look(columns)

    def _times(self, run: EventRun, events: NDArray[np.intp] | None) -> None:
        ts_us, dur_us = run.columns.ts_us, run.columns.dur_us
        if events is not None:
            ts_us, dur_us = ts_us[events], dur_us[events]
        if not len(ts_us):
            return
        first_us = np.fmin.reduce(ts_us)
        if np.isnan(first_us):
            self.untimed += len(ts_us)
            return
        self.untimed += int(np.isnan(ts_us).sum())
        with np.errstate(over="ignore"):  # what is beyond every double is told below
            last_us = float(np.fmax(np.fmax.reduce(ts_us), np.fmax.reduce(ts_us + dur_us)))
        if first_us < -_LAST_US or last_us > _LAST_US:
            odd_us = last_us if last_us > _LAST_US else float(first_us)
            self.problem = self.problem or Problem(
                "number", f"an event at {odd_us:g} us, which is no time of any clock", 0
            )
            return
        last_ns = int(last_us * 1000)
        self.last_ns = last_ns if self.last_ns is None else max(self.last_ns, last_ns)
        if first_us <= self._first_us:
            # A double may stand for several times in the file, a nanosecond apart.
            first_ns = earliest_ns(run.text, float(first_us))
            self.first_ns = first_ns if self.first_ns is None else min(self.first_ns, first_ns)
            self._first_us = first_us

    def _tracks(self, columns: Columns, events: NDArray[np.intp] | None) -> None:
        on_gpu = chosen(columns.categories, columns.category, GPU_LANES.__contains__)
        ends = chosen(columns.categories, columns.category, LAUNCH_FLOWS.__contains__) & of_phase(columns, "f")
        lane = np.where(of_phase(columns, "XB"), ON_HOST, np.where(ends, FLOW_END, ANYWHERE))
        lane = np.where(on_gpu, ON_GPU, lane)
        rows = [columns.pid, columns.tid, lane]
        if events is not None:
            rows = [column[events] for column in rows]
        pid, tid, lane = rows
        if not len(pid):
            return
        changes = (pid[1:] != pid[:-1]) | (tid[1:] != tid[:-1]) | (lane[1:] != lane[:-1])
        at = np.append(0, np.flatnonzero(changes) + 1)
        for p, t, its_lane in set(zip(pid[at].tolist(), tid[at].tolist(), lane[at].tolist(), strict=True)):
            self.tracks.update((one, two, its_lane) for one in _ids_of(columns, p) for two in _ids_of(columns, t))

    def _ids(self, run: EventRun, counts: dict[str, int]) -> None:
        columns = run.columns
        found: list[int] = []
        if any(counts.get(phase) for phase in ID_PHASES):
            flow = columns.flow[of_phase(columns, ID_PHASES)]
            plain = flow[flow >= NO_ID]  # an event without an id has -1 too: then one number more is kept free
            if len(plain):
                found += [int(plain.min()), int(plain.max())]
            if len(plain) < len(flow):
                found += numbers(columns.ids[-2 - code] for code in np.unique(flow[flow < NO_ID]).tolist())
        if run.has_other_ids:
            found += numbers(other_ids(run.text))
        if found:
            self.ids = min(found + list(self.ids or ())), max(found + list(self.ids or ()))
        if LINK_CATEGORY in columns.categories:
            rows = np.flatnonzero(
                columns.where(phase="s", category=LINK_CATEGORY, name=LINK_NAME) & (columns.flow >= 0)
            )
            times_ns = np.nan_to_num(columns.ts_us[rows] * 1000).astype(np.int64)
            self.links.update(zip(columns.flow[rows].tolist(), times_ns.tolist(), strict=True))


def _ids_of(columns: Columns, number: int) -> list[Id]:
    """What a number of a column may stand for: -1 is also an event that names none, a text also a number beyond 64 bits."""
    if number == NO_ID:
        return [None, -1]
    if number > NO_ID:
        return [number]
    text = columns.ids[-2 - number]
    value = int(text) if _WHOLE.fullmatch(text) else 0
    return [text, value] if value < NO_ID or value > _LAST_OF_A_COLUMN else [text]
