"""What a trace holds once Perfetto has loaded it: slices with whose they are, and arrows between them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from tests.perfetto.processor import TraceProcessor

__all__ = ["Content", "Slice", "content", "flow_ends", "rank_of", "slices"]

# Slices are on tracks of threads, and async ones on tracks of processes.
_PLACES = """
    (select t.id as track, p.pid, h.tid, p.name as process, h.name as thread from thread_track t
        join thread h using (utid) join process p using (upid)
     union all
     select t.id, p.pid, null, p.name, null from process_track t join process p using (upid))
"""
_SLICES = f"select s.name, ts, ts + dur, pid, tid, process, thread from slice s join {_PLACES} on track_id = track"
_FLOW_ENDS = f"""
    select a.process, b.process, count(*) from flow
    join slice s on slice_out = s.id join {_PLACES} a on a.track = s.track_id
    join slice f on slice_in = f.id join {_PLACES} b on b.track = f.track_id group by 1, 2
"""
_RANK = re.compile(r"rank (\d+) · ")


class Slice(NamedTuple):
    """An event with a length, in ns since the trace's base; on a track of a process there is no thread."""

    name: str
    start_ns: int
    end_ns: int
    pid: int
    tid: int | None
    process: str | None
    thread: str | None


class Content(NamedTuple):
    """How much Perfetto made of a trace, and what it found wrong."""

    slices: int
    flows: int
    errors: dict[str, int]


def content(perfetto: TraceProcessor) -> Content:
    ((slice_count, flow_count),) = perfetto.query(
        "select (select count(*) from slice), (select count(*) from flow)"
    )
    return Content(slice_count, flow_count, perfetto.errors())


def slices(perfetto: TraceProcessor, like: str) -> list[Slice]:
    """The slices whose name is like SQL has it, in order of time."""
    return [Slice(*row) for row in perfetto.query(f"{_SLICES} where s.name like '{like}' order by ts")]


def flow_ends(perfetto: TraceProcessor) -> dict[tuple[str, str], int]:
    """Between which processes arrows lead, and how many."""
    return {(out, into): count for out, into, count in perfetto.query(_FLOW_ENDS)}


def rank_of(process: str | None) -> str:
    """The rank in a process's name; every process of a merged trace of several ranks has one."""
    found = _RANK.match(process or "")
    assert found, f"the process {process!r} names no rank"
    return found[1]
