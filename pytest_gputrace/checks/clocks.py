"""Rules about the clocks of a set's ranks: do their times meet, and can their collectives have happened?"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from pytest_gputrace.checks.rule import Hit, Looked
from pytest_gputrace.checks.sets import of_several, rank_of
from pytest_gputrace.checks.words import us

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_gputrace.checks.facts import FileFacts, Worker
    from pytest_gputrace.checks.rule import Settings

__all__ = ["apart_in_time", "clock_skew"]

# Kineto floors its base to a step of a quarter of a mean year.
_BASE_STEP_NS = 7_889_238 * 10**9
_TOLERANCE_NS = 1000
# Ranks that never wait for each other begin to record seconds apart.
_NEAR_NS = 60 * 10**9


def clock_skew(files: Sequence[FileFacts], settings: Settings) -> Looked:
    """GT508: a collective ends on one rank before it begins on another, which none can: each waits for all."""
    looked = Looked(0)
    for group in of_several(files):
        worst: list[tuple[int, FileFacts, FileFacts]] = []
        for key in sorted({key for file in group for key in file.collectives}):
            taking_part = [file for file in group if key in file.collectives]
            counts = {file.collectives[key].shape[1] for file in taking_part}
            if len(taking_part) < 2 or len(counts) != 1:
                continue  # who met whom is not known
            begins = np.stack([file.collectives[key][0] for file in taking_part])
            ends = np.stack([file.collectives[key][1] for file in taking_part])
            looked.at += begins.shape[1]
            late, early = begins.argmax(axis=0), ends.argmin(axis=0)
            by_ns = begins.max(axis=0) - ends.min(axis=0)
            places = np.flatnonzero(by_ns > _TOLERANCE_NS).tolist()
            worst += [(int(by_ns[at]), taking_part[late[at]], taking_part[early[at]]) for at in places]
        if worst:
            largest, late_file, early_file = max(worst, key=lambda each: each[0])
            middle = float(np.median([each[0] for each in worst]))
            what = f"{len(worst)} collectives end on a rank before they begin on another: largest {us(largest / 1000)}, median {us(middle / 1000)}"
            advice = f"the clocks of {early_file.worker} and {late_file.worker} differ by as much at least"
            looked.hits.append(Hit(f"{what}; {advice}", file=late_file.path, rank=rank_of(late_file)))
    return looked


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
        for begin, end, file in spans.values():
            others = [span for span in spans.values() if span[2] is not file]
            if not any(begin < other[1] + _NEAR_NS and other[0] - _NEAR_NS < end for other in others):
                looked.hits.append(_apart(file, begin, sorted(other[0] for other in others)[len(others) // 2]))
    return looked


def _apart(file: FileFacts, begin: int, usual: int) -> Hit:
    distance = begin - usual
    what = f"{file.worker} begins {us(abs(distance) / 1000)} {'after' if distance > 0 else 'before'} the others, and meets none of them"
    steps = round(distance / _BASE_STEP_NS)
    if steps and abs(distance - steps * _BASE_STEP_NS) < _BASE_STEP_NS / 1000:
        advice = (
            f"that is {abs(steps)} of the steps to which Kineto rounds its base: was a base taken from another rank?"
        )
    else:
        advice = "are files of two runs together, or is a clock wrong?"
    return Hit(f"{what}; {advice}", file=file.path, rank=rank_of(file))
