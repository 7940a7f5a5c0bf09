"""Rules about the clocks of a set's ranks: do their times meet, and can their collectives have happened?"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

import numpy as np

from pytest_gputrace.checks.rule import Hit, Looked
from pytest_gputrace.checks.sets import NEAR_NS, of_several, rank_of
from pytest_gputrace.checks.words import number, us

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from pytest_gputrace.checks.facts import FileFacts, Worker
    from pytest_gputrace.checks.rule import Settings

__all__ = ["apart_in_time", "clock_skew"]

# Kineto floors its base to a step of a quarter of a mean year.
_BASE_STEP_NS = 7_889_238 * 10**9
_TOLERANCE_NS = 1000


def clock_skew(files: Sequence[FileFacts], settings: Settings) -> Looked:
    """GT508: a collective ends on one rank before it begins on another, which none can: each waits for all."""
    looked = Looked(0)
    for group in of_several(files):
        offsets: dict[Worker, list[float]] = defaultdict(list)
        violations: list[NDArray[np.int64]] = []
        for workers, begins, ends in _met(group):
            looked.at += begins.shape[1]
            by_ns = begins.max(axis=0) - ends.min(axis=0)
            if by_ns.max() > NEAR_NS:
                continue  # recorded at other times, which GT509 says
            places = np.flatnonzero(by_ns > _TOLERANCE_NS)
            violations.append(by_ns[places])
            for worker, offset in zip(workers, np.median(begins - np.median(begins, axis=0), axis=1), strict=True):
                offsets[worker].append(abs(float(offset)))
        sizes = np.concatenate(violations) if violations else np.empty(0)
        if len(sizes):
            worker = max(offsets, key=lambda worker: max(offsets[worker]))
            file = next(file for file in group if file.worker == worker)
            what = f"{number(len(sizes), 'collective')} of one rank end before others of them begin"
            how_far = f"largest {us(float(sizes.max()) / 1000)}, median {us(float(np.median(sizes)) / 1000)}"
            who = f", most that of {worker}" if len(offsets) > 2 else ""  # of two nobody can tell which is off
            advice = f"the ranks' clocks differ by as much at least{who}"
            looked.hits.append(Hit(f"{what} ({how_far}): {advice}", file=file.path, rank=rank_of(file)))
    return looked


def _met(group: list[FileFacts]) -> Iterator[tuple[list[Worker], NDArray[np.int64], NDArray[np.int64]]]:
    """For each process group and name: who took part, and begins and ends, a line a worker, a column a collective."""
    by_worker: dict[Worker, list[FileFacts]] = defaultdict(list)
    for file in group:
        if file.worker is not None:
            by_worker[file.worker].append(file)
    for key in sorted({key for file in group for key in file.collectives}):
        times: dict[Worker, NDArray[np.int64]] = {}
        for worker, own in sorted(by_worker.items()):
            windows = [file.collectives[key] for file in own if key in file.collectives]
            if windows:  # one after another, as they ran
                times[worker] = np.concatenate(sorted(windows, key=lambda window: int(window[0, 0])), axis=1)
        # Where the counts differ it is not known which met which.
        if len(times) > 1 and len({each.shape[1] for each in times.values()}) == 1:
            both = np.stack(list(times.values()))
            yield list(times), both[:, 0], both[:, 1]


def apart_in_time(files: Sequence[FileFacts], settings: Settings) -> Looked:
    """GT509: a rank recorded at another time than all others of its recording."""
    looked = Looked(0)
    for group in of_several(files):
        spans: dict[Worker, tuple[int, int, FileFacts]] = {}
        for file in group:
            if file.span_ns is not None and file.worker is not None:
                begin, end, _ = spans.get(file.worker, (*file.span_ns, file))
                spans[file.worker] = (min(begin, file.span_ns[0]), max(end, file.span_ns[1]), file)
        if len(spans) < 2:
            continue
        looked.at += len(spans)
        together = _together([spans[worker] for worker in sorted(spans)])
        usual = max(together, key=len)
        looked.hits += [
            _apart(file, begin, usual[0][0]) for some in together if some is not usual for begin, _, file in some
        ]
    return looked


_Span = tuple[int, int, "FileFacts"]


def _together(spans: list[_Span]) -> list[list[_Span]]:
    """The spans that meet, or nearly, each lot by itself; the lot of the lowest rank first."""
    lots: list[list[_Span]] = []
    for begin, end, file in sorted(spans, key=lambda span: span[0]):
        if lots and begin < max(span[1] for span in lots[-1]) + NEAR_NS:
            lots[-1].append((begin, end, file))
        else:
            lots.append([(begin, end, file)])
    return sorted(lots, key=lambda lot: min(spans.index(span) for span in lot))


def _apart(file: FileFacts, begin: int, usual: int) -> Hit:
    distance = begin - usual
    what = f"{file.worker} begins {us(abs(distance) / 1000)} {'after' if distance > 0 else 'before'} the others"
    steps = round(distance / _BASE_STEP_NS)
    if steps and abs(distance - steps * _BASE_STEP_NS) < _BASE_STEP_NS / 1000:
        advice = (
            f"that is {abs(steps)} of the steps to which Kineto rounds its base: was a base taken from another rank?"
        )
    else:
        advice = "are files of two runs together, or is a clock wrong?"
    return Hit(f"{what}; {advice}", file=file.path, rank=rank_of(file))
