"""The little that is kept of a trace to compare it with the others of its set. Picklable, and small whatever the trace."""

from __future__ import annotations

import hashlib
import os
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from pytest_gputrace.checks.view import EPOCH_US
from pytest_gputrace.traces import vocabulary

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from pytest_gputrace.checks.view import View
    from pytest_gputrace.claims import Claim

__all__ = ["FileFacts", "Worker", "gather"]

# In these every rank waits for every other one; a broadcast may end on its root before others begin.
_ALL_WAIT = re.compile(r"all_?(?:reduce|gather|to_?all)|reduce_?scatter", re.IGNORECASE)
# Beyond the year 2080, which no clock tells.
_LATEST_NS = 3_471_292_800 * 10**9
_MOST_COLLECTIVES = 2000
"""Of each file so many of its first collectives are kept: enough to see a clock, little for a thousand ranks."""


@dataclass(frozen=True, order=True)
class Worker:
    """Who wrote a file: the global rank, or else the local rank on a node, or the coordinates that a session's names tell."""

    rank: int = -1
    node: str = ""
    local_rank: int = -1
    tag: str = ""

    def __str__(self) -> str:
        if self.rank >= 0 or self.tag:
            return self.tag or f"rank {self.rank}"
        return f"local rank {self.local_rank}" + (f" on {self.node}" if self.node else "")


@dataclass(frozen=True)
class FileFacts:
    """One file among others.

    ``worker`` is None where nothing tells it, and of a merged file, which is no rank; ``identity`` is the path behind links; ``told_inside`` is the rank that the file itself tells. ``span_ns`` is from
    the first event to the last since 1970, None where times count from nowhere known. ``gpu_steps`` holds how much GPU
    work each step has, ``collectives`` begin and end (ns since 1970) of each collective by process group and name.
    """

    path: str
    claim: Claim
    format: str
    whole: bool
    worker: Worker | None
    identity: str = ""
    told_inside: int | None = None
    world_size: int | None = None
    events: int = 0
    gpu_events: int = 0
    launches: int = 0
    completed: int = 0
    span_ns: tuple[int, int] | None = None
    digest: str = ""
    gpu_steps: Mapping[int, int] = field(default_factory=dict)
    collectives: Mapping[tuple[str, str], NDArray[np.int64]] = field(default_factory=dict)


def gather(view: View, claim: Claim, path: str) -> FileFacts:
    """The facts of one trace."""
    identity = os.path.realpath(path)
    trace = view.trace
    told = None if view.merged else trace.rank
    done = view.successful_launches
    return FileFacts(
        path=path,
        claim=claim,
        format=trace.format,
        whole=view.whole,
        worker=None if view.merged else worker_of(claim, told),
        identity=identity,
        told_inside=told,
        world_size=trace.world_size,
        events=len(trace.events),
        gpu_events=view.gpu_events,
        launches=len(done),
        completed=int(done.sum()),
        span_ns=_span_ns(view),
        digest=_digest(view),
        gpu_steps=view.gpu_steps,
        collectives=_collectives(view),
    )


def worker_of(claim: Claim, told: int | None) -> Worker | None:
    """Who wrote a file, by what it tells itself, else by its name and folders.

    A session knows its worker; what torch tells inside may be the rank in a smaller world, one of several in a job.
    """
    if claim.tag:
        return Worker(tag=claim.tag) if claim.rank is None else Worker(claim.rank)
    rank = told if told is not None and told >= 0 else claim.rank
    if rank is not None:
        return Worker(rank)
    if claim.local_rank is not None:
        return Worker(node=claim.node, local_rank=claim.local_rank)
    return None


def _offset_ns(view: View) -> int | None:
    """What is added to a time of the file, in ns, to get one since 1970."""
    base = view.trace.base_time_ns
    if base is not None:
        return base if 0 <= base < _LATEST_NS else None
    return 0 if view.usual_time_us > EPOCH_US else None


def _placed(view: View) -> NDArray[np.bool_]:
    """Which ranges lie where a clock can be; others are told by rules of their own, and would rule the rest."""
    columns = view.columns
    possible = (columns.ts_us > 0) & (columns.ts_us < _LATEST_NS / 1000)
    return view.ranges & possible & (columns.dur_us >= 0) & (columns.dur_us < _LATEST_NS / 1000)


def _span_ns(view: View) -> tuple[int, int] | None:
    offset = _offset_ns(view)
    columns, rows = view.columns, np.flatnonzero(_placed(view))
    if offset is None or not len(rows):
        return None
    first, last = columns.ts_us[rows].min(), (columns.ts_us[rows] + columns.dur_us[rows]).max()
    return offset + int(first * 1000), offset + int(last * 1000)


def _digest(view: View) -> str:
    """Equal for files that hold the same events at the same times, whatever wraps them; empty where there are none."""
    columns = view.columns
    if view.trace.problems or not (columns.dur_us > 0).any():  # what was mended out of a broken file is no copy of it
        return ""
    whole = hashlib.blake2b(digest_size=16)
    for column in (columns.ts_us, columns.dur_us, columns.name):
        whole.update(np.ascontiguousarray(column).data)
    whole.update("\0".join(columns.names).encode("utf-8", "surrogatepass"))
    whole.update(str(view.trace.base_time_ns).encode())
    return whole.hexdigest()


def _collectives(view: View) -> dict[tuple[str, str], NDArray[np.int64]]:
    """Those of known process groups: only within one it is known who waits for whom."""
    columns, offset = view.columns, _offset_ns(view)
    if offset is None:
        return {}
    waiting = vocabulary.named(columns, lambda name: bool(_ALL_WAIT.search(name)))
    rows = np.flatnonzero(vocabulary.collectives(columns) & waiting & _placed(view))
    rows = rows[np.argsort(columns.ts_us[rows], kind="stable")][:_MOST_COLLECTIVES]
    found: dict[tuple[str, str], list[int]] = {}
    for row in rows.tolist():
        if (group := columns.text_of(int(columns.group[row]))) is not None:
            found.setdefault((str(group), columns.names[columns.name[row]]), []).append(row)
    times = {}
    for key, of_key in found.items():
        begins = columns.ts_us[of_key]
        both = np.stack([begins, begins + columns.dur_us[of_key]])
        times[key] = offset + (both * 1000).astype(np.int64)
    return times
