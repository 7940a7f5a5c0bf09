"""What a trace holds once Perfetto has loaded it: slices with whose they are, and arrows between them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tests.perfetto.processor import TraceProcessor

__all__ = ["Amount", "Slice", "amounts", "flow_ends", "rank_of", "slices", "together"]

# Slices are on tracks of threads, and async ones on tracks of processes. Instants of the whole trace are nowhere.
_PLACES = """
    (select t.id as track, p.pid, h.tid, p.name as process, h.name as thread from thread_track t
        join thread h using (utid) join process p using (upid)
     union all
     select t.id, p.pid, null, p.name, null from process_track t join process p using (upid))
"""
_SLICES = f"select s.name, ts, ts + dur, pid, tid, process, thread from slice s join {_PLACES} on track_id = track"
_AMOUNTS = f"""
    select process, count(*), sum(dur), min(ts), max(ts + dur) from slice join {_PLACES} on track_id = track
    group by process
"""
_FLOW_ENDS = f"""
    select a.process, b.process, count(*) from flow
    join slice s on slice_out = s.id left join {_PLACES} a on a.track = s.track_id
    join slice f on slice_in = f.id left join {_PLACES} b on b.track = f.track_id group by 1, 2
"""
_RANK = re.compile(r"rank (\d+) · ")


class Slice(NamedTuple):
    """An event with a length, in ns of the trace's own time; on a track of a process there is no thread."""

    name: str
    start_ns: int
    end_ns: int
    pid: int
    tid: int | None
    process: str | None
    thread: str | None


class Amount(NamedTuple):
    """How many slices there are, how long they are in all, and when the first begins and the last ends."""

    slices: int
    dur_ns: int
    first_ns: int
    last_ns: int


def slices(perfetto: TraceProcessor, like: str) -> list[Slice]:
    """The slices whose name is like SQL has it, in order of time."""
    return [Slice(*row) for row in perfetto.query(f"{_SLICES} where s.name like '{like}' order by ts")]


def amounts(perfetto: TraceProcessor) -> list[tuple[str | None, Amount]]:
    """What each process has, by its name; instants of the whole trace are in none."""
    return [(process, Amount(*amount)) for process, *amount in perfetto.query(_AMOUNTS)]


def together(several: Iterable[Amount]) -> Amount:
    counts, durations, firsts, lasts = zip(*several, strict=True)
    return Amount(sum(counts), sum(durations), min(firsts), max(lasts))


def flow_ends(perfetto: TraceProcessor) -> dict[tuple[str | None, str | None], int]:
    """Between which processes arrows lead, and how many."""
    return {(out, into): count for out, into, count in perfetto.query(_FLOW_ENDS)}


def rank_of(process: str | None) -> int:
    """The rank that is in a process's name: every process of a timeline of several ranks has one."""
    found = _RANK.match(process or "")
    assert found, f"the process {process!r} names no rank"
    return int(found[1])
