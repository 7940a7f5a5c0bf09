"""Finds which collectives of two clocks are the same ones, though some are missing and nobody knows how the clocks differ."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Indices = NDArray[np.intp]

__all__ = ["MOST_DRIFT", "NEEDED", "Ambiguous", "Ends", "Line", "Matched", "fit", "match"]

NEEDED = 5
"""So many have to meet, or an offset says nothing."""
MOST_DRIFT = 200e-6
"""Clocks that run further apart than this are broken, or what was matched is not the same."""

_CORE = 0.4  # Of both ranks a third may be late, and then less than half of the pairs is good.
_SIGMAS_OF_CORE = 0.524  # as far from the middle lie so many of a normal distribution
_SEGMENT, _STARTS, _LONGEST_KEYS, _PICKS = 32, 7, 3, 4
_ROWS, _SAMPLE, _MOST_PAIRS, _MOST_SEEDS = 4096, 1000, 20_000, 40
_NOISE_NS, _SAME_NS, _STRAY_NS = 1000.0, 20_000.0, 50_000.0
_REACH_NS = 1_000_000.0  # further off no straggler tells anything
# A step further off regular ones fit as well; and so does any last step, where no more meets.
_RIVALS_MEET, _RIVALS_NEAR, _CLEARLY = 0.6, 0.9, 3


class Ends(NamedTuple):
    """Which collective it was (any number from 0 on), and when it ended, in ns since some time near; sorted by time."""

    key: NDArray[np.int32]
    ns: Floats


class Line(NamedTuple):
    """How far the other clock is ahead: by ``offset_ns`` at ``about_ns``, and ``slope`` of the time since then more."""

    about_ns: float
    offset_ns: float
    slope: float

    def ahead(self, ns: Floats) -> Floats:
        """By how much at these times."""
        return self.offset_ns + self.slope * (ns - self.about_ns)


class Matched(NamedTuple):
    """Rows of both sides that are the same collective, and the line they lie about."""

    rows: Indices
    others: Indices
    line: Line


class Ambiguous(NamedTuple):
    """Several lines fit alike, the nearest two of them this far apart, and nothing tells which is right."""

    apart_ns: float


class _Candidate(NamedTuple):
    """``in_order``: no collective is missing but those that one side has fewer of."""

    line: Line
    rows: Indices
    off_ns: Floats
    in_order: bool


def fit(ns: Floats, ahead_ns: Floats, start: Line, *, level: bool = False) -> tuple[Line, float, float]:
    """The line through most points, how far these scatter, and the error of its slope, which ``level`` leaves as it is."""
    some = slice(None, None, 1 + len(ns) // (4 * _ROWS))
    ns, ahead_ns = ns[some], ahead_ns[some]
    about = float(np.mean(ns))
    line = Line(about, float(start.ahead(np.array([about]))[0]), start.slope)
    since = ns - about
    left = ahead_ns - line.ahead(ns)
    middle, half = _core(left)
    line = line._replace(offset_ns=line.offset_ns + middle)
    sigma, error = max(half / _SIGMAS_OF_CORE, 1.0), math.inf
    for _ in range(6):
        left = ahead_ns - line.ahead(ns)
        weights = np.square(np.clip(1 - np.square(left / (4 * sigma)), 0, None))
        total = float(weights.sum())
        if total < 1:
            break
        center = float((weights * since).sum()) / total
        mean = float((weights * left).sum()) / total
        lever = float((weights * np.square(since - center)).sum())
        turn = 0.0
        if lever > 0:
            error = sigma / math.sqrt(lever)
            if not level:
                turn = float((weights * (since - center) * (left - mean)).sum()) / lever
                turn = min(max(line.slope + turn, -MOST_DRIFT), MOST_DRIFT) - line.slope
        line = Line(about, line.offset_ns + mean - turn * center, line.slope + turn)
        near = np.abs(left - mean)[weights > 0]
        sigma = max(min(sigma, 1.4826 * float(np.median(near))), 1.0)
    return line, sigma, error


def match(own: Ends, other: Ends, unchanged_ns: float) -> Matched | Ambiguous | None:
    """Which rows are the same collective; None where nothing tells.

    ``unchanged_ns`` is how far ahead the other clock is where both are right: of what fits alike, the nearest to it is
    taken, unless others are about as near, or order speaks for another.
    """
    if len(own.ns) < NEEDED or len(other.ns) < NEEDED:
        return None
    lanes = _Lanes(own, other)
    candidates: list[_Candidate] = []
    tried: list[Line] = []
    _grow(lanes, _seeds(lanes, unchanged_ns)[:_MOST_SEEDS], candidates, tried)
    if not candidates:
        return None
    first = _choose(candidates, unchanged_ns)
    matched = lanes.all_of(first.line)
    if matched is None:
        return None
    _grow(lanes, _beside(lanes, first), candidates, tried)
    chosen = _decide(first, _rivals(first, candidates), lanes, unchanged_ns)
    if isinstance(chosen, Ambiguous):
        return chosen
    return matched if chosen is first else lanes.all_of(chosen.line)


def _grow(lanes: _Lanes, seeds: list[Line], candidates: list[_Candidate], tried: list[Line]) -> None:
    for seed in seeds:
        candidate = None if any(_same(line, seed) for line in tried) else lanes.grow(seed)
        tried.append(seed)
        if candidate is not None and not any(_same(candidate.line, each.line) for each in candidates):
            candidates.append(candidate)
            tried.append(candidate.line)


def _choose(candidates: list[_Candidate], unchanged_ns: float) -> _Candidate:
    """Of those by which most are near, the one in order, or that which changes the clock least."""
    near_ns = 3 * min(_core(each.off_ns)[1] * (1 + 5 / (len(each.off_ns) - 2)) for each in candidates) + _NOISE_NS
    alike = _alike(candidates, near_ns)
    most = max(len(each.off_ns) for each in alike)
    # Where windows hardly meet, a few fit by chance, as well as many in earnest.
    alike = _alike([each for each in alike if len(each.off_ns) >= 0.9 * most], near_ns)
    return min(alike, key=lambda each: (not each.in_order, abs(each.line.offset_ns - unchanged_ns)))


def _rivals(first: _Candidate, candidates: list[_Candidate]) -> list[_Candidate]:
    """The first, and those that fit as well where they meet, though fewer may meet."""
    _, sigma, _ = fit(first.off_ns, first.off_ns, Line(0.0, 0.0, 0.0), level=True)
    near_ns = 4 * sigma + _NOISE_NS
    return [first] + [each for each in candidates if each is not first and _fits_like(first, each, near_ns)]


def _fits_like(first: _Candidate, other: _Candidate, near_ns: float) -> bool:
    if len(other.off_ns) < _RIVALS_MEET * len(first.off_ns):
        return False
    of_first, of_other = (np.square(np.minimum(np.abs(each.off_ns) / near_ns, 1)) for each in (first, other))
    if float((of_other < 1).mean()) < _RIVALS_NEAR * float((of_first < 1).mean()):
        return False
    # One by one, for those late are late by any line.
    _, rows, others = np.intersect1d(first.rows, other.rows, assume_unique=True, return_indices=True)
    worse = of_other[others] - of_first[rows]
    return len(worse) < NEEDED or float(worse.mean()) <= _CLEARLY * float(worse.std()) / math.sqrt(len(worse))


def _decide(first: _Candidate, rivals: list[_Candidate], lanes: _Lanes, unchanged_ns: float) -> _Candidate | Ambiguous:
    """The first if it is alone, else the one that changes the clock least, if order does not speak against it."""
    if len(rivals) == 1:
        return first
    middle = np.array([float(np.mean(lanes.own.ns))])
    changes_ns = [float(each.line.ahead(middle)[0]) - unchanged_ns for each in rivals]
    least, second = sorted(range(len(rivals)), key=lambda index: abs(changes_ns[index]))[:2]
    # Less than a quarter of the way from one to the next.
    clear = 3 * abs(changes_ns[least]) < abs(changes_ns[second])
    if rivals[least].in_order and (clear or lanes.equal):
        return rivals[least]
    return Ambiguous(float(np.diff(np.sort(changes_ns)).min()))


def _alike(candidates: list[_Candidate], near_ns: float) -> list[_Candidate]:
    """The one by which most are near, and those of which nobody can say that it is better."""
    fewest = max(len(each.off_ns) for each in candidates)
    shares: list[tuple[float, float]] = []
    for each in candidates:
        losses = np.square(np.minimum(np.abs(each.off_ns) / near_ns, 1))
        # Of very few all are near by chance, and windows that hardly meet leave few.
        losses = np.append(losses, np.ones(2 + (fewest - len(losses)) // 4))
        shares.append((float(losses.mean()), float(losses.var()) / len(losses)))
    best, unsure = min(shares)
    sure = [share - best > 2 * math.sqrt(unsure + also) for share, also in shares]
    return [each for each, worse in zip(candidates, sure, strict=True) if not worse]


def _same(one: Line, two: Line) -> bool:
    return abs(one.offset_ns + one.slope * (two.about_ns - one.about_ns) - two.offset_ns) < _SAME_NS


class _Lanes:
    """Both sides, each key in a lane of its own: one search finds what is next to each in its lane."""

    def __init__(self, own: Ends, other: Ends) -> None:
        self.own = own
        self._order = np.lexsort((other.ns, other.key))
        self._key, self._ns = other.key[self._order], other.ns[self._order]
        lanes = 1 + int(max(own.key.max(), other.key.max()))
        self._low = float(other.ns.min())
        self._width = 4 * (float(other.ns.max()) - self._low + _REACH_NS)
        self._place = self._key * self._width + (self._ns - self._low)
        self._from = np.searchsorted(self._key, np.arange(lanes))
        self.counts = np.bincount(own.key, minlength=lanes)
        self.other_counts = np.bincount(other.key, minlength=lanes)
        self._nth = np.empty(len(own.key), np.intp)
        self._by_key = np.argsort(own.key, kind="stable")
        self._nth[self._by_key] = np.arange(len(own.key)) - np.repeat(np.cumsum(self.counts) - self.counts, self.counts)
        self.equal = bool((self.counts == self.other_counts).all())
        odd = self.other_counts // 25  # wild ones do not say when the window began or ended
        some = self.other_counts > 0
        self._first_ns, self._last_ns = np.full(lanes, np.inf), np.full(lanes, -np.inf)
        self._first_ns[some] = self._ns[(self._from + odd)[some]] - _STRAY_NS
        self._last_ns[some] = self._ns[(self._from + self.other_counts - 1 - odd)[some]] + _STRAY_NS

    def key_ns(self, key: int) -> tuple[Floats, Floats]:
        """The times of one key on both sides."""
        begin = self._from[key]
        return self.own.ns[self.own.key == key], self._ns[begin : begin + self.other_counts[key]]

    def nearest(self, rows: Indices, line: Line, *, inside: bool = True) -> tuple[Indices, Floats, Indices]:
        """Of the rows (inside the window of their lane) how far off the nearest is, and its place among the sorted."""
        key, ns = self.own.key[rows], self.own.ns[rows]
        at_ns = ns + line.ahead(ns)
        good = (at_ns >= self._first_ns[key]) & (at_ns <= self._last_ns[key]) if inside else self.other_counts[key] > 0
        rows, key, at_ns = rows[good], key[good], at_ns[good]
        begin = self._from[key]
        right = np.searchsorted(self._place, key * self._width + (at_ns - self._low))
        right = np.clip(right, begin, begin + self.other_counts[key] - 1)
        left = np.maximum(right - 1, begin)
        place = np.where(np.abs(self._ns[left] - at_ns) <= np.abs(self._ns[right] - at_ns), left, right)
        return rows, self._ns[place] - at_ns, place

    def grow(self, seed: Line) -> _Candidate | None:
        """From where a few fit, to all: how well they do, once the line has been drawn through ever more."""
        line, total = seed, len(self.own.ns)
        center, reach = int(np.searchsorted(self.own.ns, seed.about_ns)), _SEGMENT
        while True:
            low, high = max(center - reach, 0), min(center + reach, total)
            looked = np.arange(low, high, max(1, (high - low) // _SAMPLE))
            rows, off, _ = self.nearest(looked, line)
            if len(rows) >= NEEDED:
                ns = self.own.ns[rows]
                line, _, _ = fit(ns, line.ahead(ns) + off, line)
            if low == 0 and high == total:
                break
            reach *= 3
        rows, off, place = self.nearest(looked, line)
        if len(rows) < max(NEEDED, len(looked) / 20):  # so few fit somewhere by chance
            return None
        key = self.own.key[rows]
        lag, more = place - self._from[key] - self._nth[rows], (self.other_counts - self.counts)[key]
        over = lag - np.clip(lag, np.minimum(more, 0), np.maximum(more, 0))
        return _Candidate(line, rows, off, bool(np.median(over) == 0))

    def all_of(self, line: Line) -> Matched | None:
        """All that belong together by this line; None where they meet no better than any would."""
        for _ in range(3):
            rows, off, place = self.nearest(self._by_key, line, inside=False)
            size = np.abs(off)
            # Where two are nearest to the same, only the nearer of them is it.
            taken = np.append(place[1:] == place[:-1], False)
            behind = np.append(False, taken[:-1] & (size[1:] >= size[:-1]))
            good = ~behind & ~(taken & (size > np.append(size[1:], 0))) & (size <= _REACH_NS)
            rows, off, place = rows[good], off[good], place[good]
            if len(rows) < max(NEEDED, len(self.nearest(self._by_key, line)[0]) / 2):
                return None
            ns = self.own.ns[rows]
            line, _, _ = fit(ns, line.ahead(ns) + off, line)
        gaps = np.diff(self._ns)[self._key[1:] == self._key[:-1]]
        chance_ns = min(_CORE / 4 * float(np.median(gaps)), _STRAY_NS) if len(gaps) else 0.0
        return Matched(rows, self._order[place], line) if _core(off)[1] <= chance_ns else None


def _core(values: Floats) -> tuple[float, float]:
    """The middle of the shortest range that holds the core of the values, and half its length."""
    ordered = np.sort(values)
    held = _held(len(ordered))
    lengths = ordered[held - 1 :] - ordered[: len(ordered) - held + 1]
    at = int(np.argmin(lengths))
    return float(np.median(ordered[at : at + held])), float(lengths[at]) / 2


def _held(count: int) -> int:
    return min(count, 2 + math.ceil(_CORE * (count - 2)))


def _seeds(lanes: _Lanes, unchanged_ns: float) -> list[Line]:
    """Lines by which some collectives fit: where none is missing, then the best first."""
    found = list(_by_votes(lanes, unchanged_ns))
    in_order: list[tuple[float, Line]] = []
    both = np.minimum(lanes.counts, lanes.other_counts)
    for key in np.argsort(-both, kind="stable")[:_LONGEST_KEYS].tolist():
        own, other = lanes.key_ns(key)
        fewest = int(both[key])
        if fewest < NEEDED:
            continue
        sampled = np.arange(0, fewest, 1 + fewest // 512)
        for mine, theirs in ((own[:fewest], other[:fewest]), (own[-fewest:], other[-fewest:])):
            in_order += _in_rows(mine[sampled], theirs[sampled][None, :], unchanged_ns)
        length = min(_SEGMENT, max(NEEDED, fewest // 2))
        windows = np.lib.stride_tricks.sliding_window_view(other, length)
        for start in np.unique(np.linspace(0, len(own) - length, _STARTS).astype(int)).tolist():
            found += _in_rows(own[start : start + length], windows, unchanged_ns)
    return [line for _, line in in_order + sorted(found)]


def _beside(lanes: _Lanes, first: _Candidate) -> list[Line]:
    """The lines next to this one by which a stretch fits: there are some where collectives are regular."""
    alike_ns = 2 * _core(first.off_ns)[1] + 2 * _NOISE_NS
    own, other = lanes.key_ns(int(np.argmax(np.minimum(lanes.counts, lanes.other_counts))))
    length = min(_SEGMENT, len(own), len(other))
    windows = np.lib.stride_tricks.sliding_window_view(other, length)
    found: list[Line] = []
    for start in np.unique(np.linspace(0, len(own) - length, _STARTS).astype(int)).tolist():
        stretch = own[start : start + length]
        ahead_ns = float(first.line.ahead(np.array([np.mean(stretch)]))[0])
        found += [each for _, each in _in_rows(stretch, windows, ahead_ns, alike_ns)]
    return found


def _by_votes(lanes: _Lanes, unchanged_ns: float) -> Iterator[tuple[float, Line]]:
    """Where keys have few each: the differences that most pairs of any key have."""
    pairs = lanes.counts * lanes.other_counts
    differences, room = [], _MOST_PAIRS
    for key in np.flatnonzero(pairs).tolist():
        room -= int(pairs[key])
        if room >= 0:
            own, other = lanes.key_ns(key)
            differences.append(np.subtract.outer(other, own).ravel())
    if not differences:
        return
    about = float(np.mean(lanes.own.ns))
    ahead = np.concatenate(differences)
    width = _STRAY_NS + MOST_DRIFT / 4 * float(lanes.own.ns[-1] - lanes.own.ns[0])
    bins, which, votes = np.unique(ahead // width, return_inverse=True, return_counts=True)
    for at in np.lexsort((np.abs(bins * width - unchanged_ns), -votes))[: 4 * _PICKS].tolist():
        yield _STRAY_NS / int(votes[at]), Line(about, float(np.median(ahead[which == at])), 0.0)


def _in_rows(own: Floats, windows: Floats, near_to_ns: float, alike_ns: float = 0.0) -> Iterator[tuple[float, Line]]:
    """How a stretch of one side fits to each of these of the other: the best, and of those alike the nearest."""
    about = float(np.mean(own))
    since = own - about
    parts = [_spreads(since, windows[low : low + _ROWS] - own) for low in range(0, len(windows), _ROWS)]
    spread, offset, slope = (np.concatenate(part) for part in zip(*parts, strict=True))
    alike = np.flatnonzero(spread <= max(1.5 * spread.min() + 2 * _NOISE_NS, alike_ns))
    nearest = alike[np.argsort(np.abs(offset[alike] - near_to_ns), kind="stable")[:_PICKS]]
    best = np.argsort(spread, kind="stable")[:_PICKS]
    for row in dict.fromkeys([*nearest.tolist(), *best.tolist()]):
        yield float(spread[row]), Line(about, float(offset[row]), float(slope[row]))


def _spreads(since: Floats, ahead: Floats) -> tuple[Floats, Floats, Floats]:
    """For each row how far its core scatters about its line, and the line."""
    apart = max(1, len(since) // 4)  # a missing one in the middle spoils few of these pairs only
    between = np.maximum(since[apart:] - since[:-apart], 1.0)
    slope = np.clip(np.median((ahead[:, apart:] - ahead[:, :-apart]) / between, axis=1), -MOST_DRIFT, MOST_DRIFT)
    left = np.sort(ahead - slope[:, None] * since, axis=1)
    held = _held(len(since))
    lengths = left[:, held - 1 :] - left[:, : len(since) - held + 1]
    at = np.argmin(lengths, axis=1)
    rows = np.arange(len(left))
    return lengths[rows, at] / 2, (left[rows, at] + left[rows, at + held - 1]) / 2, slope
