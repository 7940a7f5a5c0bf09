"""How far the clocks of nodes are off, by collectives, which end together on all ranks."""

from __future__ import annotations

import heapq
import math
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from pytest_gputrace.timeline.matching import NEEDED, Ambiguous, Ends, Line, fit, match

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from pytest_gputrace.timeline.matching import Matched

__all__ = ["Collectives", "Estimate", "align"]

_PART_PER_TRILLION = 10**12
_NEEDED_FOR_DRIFT, _STANDARD_ERRORS, _MOST_TRIES = 20, 4, 8
# So many are compared between two clocks, or those of one pair of workers: more make nothing surer.
_MOST_ENDS, _MOST_KEYS, _KEPT = 100_000, 256, 500


class Collectives(NamedTuple):
    """Those of one worker, sorted by ``end_ns``, which is when each ended, in ns since 1970 by the worker's own clock.

    ``keys`` are what is matched, process group (name and ranks) and kernel name; ``key`` is which of them each is.
    """

    keys: list[str]
    key: NDArray[np.int32]
    end_ns: NDArray[np.int64]


class Estimate(NamedTuple):
    """How a clock is set right: a time t becomes t + offset_ns + (t - about_ns) * drift_ppt // 10**12.

    ``used`` ends tell it. ``why`` says why the clock is left as it is; empty where it is not.
    """

    offset_ns: int
    drift_ppt: int
    about_ns: int
    used: int
    residual_before_us: float
    residual_after_us: float
    why: str

    def at(self, ns: NDArray[np.int64]) -> NDArray[np.int64]:
        """These times by the clock of the reference."""
        since = (ns - self.about_ns).astype(np.float64)
        return ns + self.offset_ns + np.floor(since * (self.drift_ppt / _PART_PER_TRILLION)).astype(np.int64)


_RIGHT = Estimate(0, 0, 0, 0, math.nan, math.nan, "")


def align(workers: Mapping[int, tuple[str, Collectives]]) -> dict[int, Estimate]:
    """Every clock against that of the first worker that shares enough with another clock, which is the reference.

    Workers with one name (not empty) share a clock.
    """
    clocks: dict[str | int, _Clock] = {}
    members: dict[int, _Clock] = {}
    for number in sorted(workers):
        name, collectives = workers[number]
        members[number] = clocks.setdefault(name or number, _Clock(len(clocks)))
        if len(collectives.end_ns):
            members[number].add(collectives)
    if clocks:
        _spread(list(clocks.values()))
    return {number: clock.estimate for number, clock in members.items()}


@dataclass
class _Clock:
    """A clock and the workers that were recorded by it."""

    place: int
    workers: list[Collectives] = field(default_factory=list)
    counts: list[Counter[str]] = field(default_factory=list)
    most: Counter[str] = field(default_factory=Counter)
    estimate: Estimate = _RIGHT
    called: str = "others"

    def add(self, collectives: Collectives) -> None:
        found = np.bincount(collectives.key, minlength=len(collectives.keys)).tolist()
        counts: Counter[str] = Counter()
        for key, count in zip(collectives.keys, found, strict=True):
            counts[key] += count
        self.workers.append(collectives)
        self.counts.append(counts)
        self.most |= counts


def _shared(one: Counter[str], two: Counter[str]) -> int:
    if len(two) < len(one):
        one, two = two, one
    return sum(min(count, two[key]) for key, count in one.items() if key in two)


class _Found(NamedTuple):
    """The clock against another, which is right already; and for some of the other's collectives how far it was, and is, off."""

    estimate: Estimate
    others: NDArray[np.int64]
    before_ns: NDArray[np.int64]
    after_ns: NDArray[np.int64]


def _reference(clocks: Sequence[_Clock]) -> _Clock:
    """The first that shares enough with another; where none does, the first that has collectives at all."""
    for clock in clocks:
        if any(other is not clock and _shared(clock.most, other.most) >= NEEDED for other in clocks):
            return clock
    return next((clock for clock in clocks if clock.workers), clocks[0])


def _spread(clocks: Sequence[_Clock]) -> None:
    """From the reference on to whatever shares collectives with a clock that is right, along the surest ways."""
    reference = _reference(clocks)
    reference.called = "the reference"
    waiting = {clock.place: clock for clock in clocks if clock is not reference}
    ways: list[tuple[float, int, int, int]] = []
    best: dict[int, tuple[int, str]] = {}
    tries: Counter[int] = Counter()
    beside: list[_Found] = []

    def lead_on(clock: _Clock, cost: float) -> None:
        for place, other in waiting.items():
            count = _shared(clock.most, other.most)
            if count >= NEEDED:
                # Errors add up as squares: a step more is worth it where few collectives lead straight there.
                heapq.heappush(ways, (cost + 1 / 50 + 1 / count, place, clock.place, count))
            elif count:
                best[place] = max(best.get(place, (0, "")), (count, _too_few(count, clock.called)))

    lead_on(reference, 0.0)
    while ways:
        cost, place, by, count = heapq.heappop(ways)
        if place not in waiting or tries[place] >= _MOST_TRIES:
            continue
        tries[place] += 1
        found = _compare(waiting[place], clocks[by])
        if not isinstance(found, _Found):
            why = _apart(count, clocks[by].called) if found is None else _regular(found)
            best[place] = max(best.get(place, (0, "")), (count, why))
            continue
        clock = waiting.pop(place)
        clock.estimate = found.estimate
        if by == reference.place:
            beside.append(found)
        lead_on(clock, cost)
    for place, clock in waiting.items():
        clock.estimate = _RIGHT._replace(why=best[place][1] if place in best else _none(clock, waiting.values()))
    reference.estimate = _of_reference(beside, alone=len(clocks) == 1)


def _too_few(count: int, called: str) -> str:
    are = "collective is" if count == 1 else "collectives are"
    return f"{count} {are} shared with {called}, {NEEDED} are needed: it stays as its anchor has it"


def _apart(count: int, called: str) -> str:
    no = "no setting of the clock lets them end together: it stays as its anchor has it"
    return f"{count:,} collectives are shared with {called}, and {no}"


def _regular(found: Ambiguous) -> str:
    alike = f"several settings of the clock fit alike, {found.apart_ns / 1e6:,.1f} ms apart"
    return f"the collectives are so regular that {alike}: it stays as its anchor has it"


def _none(clock: _Clock, waiting: Iterable[_Clock]) -> str:
    what = "no collective is shared with the others" if clock.workers else "there are no collectives"
    if any(_shared(clock.most, each.most) for each in waiting if each is not clock):
        what = "no collective is shared with the reference, nor with a clock that it sets"
    return f"{what}, {NEEDED} are needed: it stays as its anchor has it"


def _compare(clock: _Clock, other: _Clock) -> _Found | Ambiguous | None:
    """The estimate of a clock against one that is right; None where none lets collectives end together."""
    mine, theirs, which = _side_by_side(clock, other)
    own_ns, other_ns = int(mine[1].min()), int(theirs[1].min())
    own, own_rows = _relative(*mine, own_ns)
    another, other_rows = _relative(*theirs, other_ns)
    matched = match(own, another, float(own_ns - other_ns))
    if matched is None or isinstance(matched, Ambiguous):
        return matched
    line = _with_drift_or_not(own, another, matched)
    ahead_ns, about_ns = other_ns - own_ns + round(line.offset_ns), own_ns + round(line.about_ns)
    step = Estimate(ahead_ns, round(line.slope * _PART_PER_TRILLION), about_ns, len(matched.rows), 0.0, 0.0, "")
    estimate = _chain(step, other.estimate)
    ends_ns, places = mine[1][own_rows[matched.rows]], other_rows[matched.others]
    truth_ns = other.estimate.at(theirs[1][places])
    before_ns, after_ns = ends_ns - truth_ns, estimate.at(ends_ns) - truth_ns
    estimate = estimate._replace(residual_before_us=_median_us(before_ns), residual_after_us=_median_us(after_ns))
    others = which[places]
    kept = others % max(1, sum(len(each.end_ns) for each in other.workers) // _KEPT) == 0
    return _Found(estimate, others[kept], before_ns[kept], after_ns[kept])


def _chain(step: Estimate, then: Estimate) -> Estimate:
    """Both after one another, about the time of the first."""
    landed_ns = step.about_ns + step.offset_ns
    offset_ns = step.offset_ns + then.offset_ns + (landed_ns - then.about_ns) * then.drift_ppt // _PART_PER_TRILLION
    drift_ppt = step.drift_ppt + then.drift_ppt + step.drift_ppt * then.drift_ppt // _PART_PER_TRILLION
    return step._replace(offset_ns=offset_ns, drift_ppt=drift_ppt)


def _with_drift_or_not(own: Ends, other: Ends, matched: Matched) -> Line:
    """The line, level where it is not sure that it is not."""
    ns = own.ns[matched.rows]
    ahead_ns = other.ns[matched.others] - ns
    line, sigma, error = fit(ns, ahead_ns, matched.line)
    near_ns = ns[np.abs(ahead_ns - line.ahead(ns)) < 4 * sigma]
    if len(near_ns) >= _NEEDED_FOR_DRIFT:
        span = float(near_ns.max() - near_ns.min())
        low, high = np.quantile(near_ns, [0.1, 0.9])
        sure = abs(line.slope) > _STANDARD_ERRORS * error and abs(line.slope) * span > sigma
        if sure and high - low > span / 10:  # not two heaps that a line leads through
            return line
    middle = float(np.median(near_ns if len(near_ns) else ns))
    level = Line(middle, float(line.ahead(np.array([middle]))[0]), 0.0)
    return fit(ns, ahead_ns, level, level=True)[0]


_Side = tuple["NDArray[np.int32]", "NDArray[np.int64]"]


def _side_by_side(clock: _Clock, other: _Clock) -> tuple[_Side, _Side, NDArray[np.int64]]:
    """What both clocks' workers share, by keys of each pair of workers; and which collective each of the other is."""
    mine: list[_Side] = []
    theirs: list[_Side] = []
    which: list[NDArray[np.int64]] = []
    numbers = 0
    starts = np.cumsum([0, *(len(each.end_ns) for each in other.workers)])
    for first, second in _pairs(clock, other):
        a, b = clock.counts[first], other.counts[second]
        both = {key: min(count, b[key]) for key, count in a.items() if key in b}
        keys = sorted(both, key=lambda key: (-both[key], key))[: _MOST_KEYS - numbers]
        room = _MOST_ENDS - sum(len(key) for key, _ in (*mine, *theirs))
        if mine and len(clock.workers[first].end_ns) + len(other.workers[second].end_ns) > room:
            continue
        known = {key: numbers + place for place, key in enumerate(keys)}
        numbers += len(keys)
        mine.append(_known(clock.workers[first], known)[0])
        side, rows = _known(other.workers[second], known)
        theirs.append(side)
        which.append(rows + starts[second])
    return _joined(mine), _joined(theirs), np.concatenate(which)


def _pairs(clock: _Clock, other: _Clock) -> list[tuple[int, int]]:
    """For each worker of the one the worker of the other it is best compared with, those first that share most."""
    pairs: list[tuple[int, int, int]] = []
    for first, counts in enumerate(clock.counts):
        shares = [(_shared(counts, each), second) for second, each in enumerate(other.counts)]
        meets = [_meet(clock.workers[first], other.workers[second]) for _, second in shares]
        shared, _, second = max((count, meets[second], -second) for count, second in shares)
        if shared:
            pairs.append((-shared, first, -second))
    return [(first, second) for _, first, second in sorted(pairs)]


def _meet(one: Collectives, two: Collectives) -> bool:
    """Whether they were recorded at one time, as the anchors have it: a worker may have several windows."""
    return bool(one.end_ns[0] <= two.end_ns[-1] and two.end_ns[0] <= one.end_ns[-1])


def _known(collectives: Collectives, numbers: Mapping[str, int]) -> tuple[_Side, NDArray[np.intp]]:
    table = np.array([numbers.get(key, -1) for key in collectives.keys], np.int32)
    rows = np.flatnonzero(table[collectives.key] >= 0)
    return (table[collectives.key[rows]], collectives.end_ns[rows]), rows


def _joined(sides: Sequence[_Side]) -> _Side:
    return np.concatenate([key for key, _ in sides]), np.concatenate([ends for _, ends in sides])


def _relative(key: NDArray[np.int32], end_ns: NDArray[np.int64], origin_ns: int) -> tuple[Ends, NDArray[np.intp]]:
    """Since the origin, for times since 1970 do not fit floats; sorted, with the rows they were."""
    rows = np.argsort(end_ns, kind="stable")
    return Ends(key[rows], (end_ns[rows] - origin_ns).astype(np.float64)), rows


def _median_us(off_ns: NDArray[np.int64]) -> float:
    return float(np.median(np.abs(off_ns))) / 1000 if len(off_ns) else math.nan


def _of_reference(beside: Sequence[_Found], *, alone: bool) -> Estimate:
    """It is right by definition; how far its ends are from the middle of the others' is told all the same."""
    if not beside:
        return _RIGHT._replace(why="there is no other clock" if alone else "no other clock could be compared with it")
    which = np.concatenate([found.others for found in beside])
    before_us = _median_us(_middles(which, np.concatenate([found.before_ns for found in beside])))
    after_us = _median_us(_middles(which, np.concatenate([found.after_ns for found in beside])))
    return Estimate(0, 0, 0, max(found.estimate.used for found in beside), before_us, after_us, "")


def _middles(which: NDArray[np.int64], off_ns: NDArray[np.int64]) -> NDArray[np.int64]:
    """Of each collective the middle of how far others are off."""
    order = np.lexsort((off_ns, which))
    which, off_ns = which[order], off_ns[order]
    starts = np.flatnonzero(np.diff(which, prepend=-1))
    counts = np.diff(np.append(starts, len(which)))
    middles: NDArray[np.int64] = (off_ns[starts + (counts - 1) // 2] + off_ns[starts + counts // 2]) // 2
    return middles
