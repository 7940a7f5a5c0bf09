"""What is odd about the files of a merge as a set: copies, gaps between runs, a profiler that one rank lacks."""

from __future__ import annotations

from collections import defaultdict
from itertools import zip_longest
from typing import TYPE_CHECKING

from pytest_gputrace.timeline.processes import PROFILERS
from pytest_gputrace.timeline.workers import listed
from pytest_gputrace.traces.arguments import run_texts

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pytest_gputrace.timeline.plan import Clock
    from pytest_gputrace.timeline.survey import Survey
    from pytest_gputrace.timeline.workers import Worker

__all__ = ["copies", "notes"]

_SECOND_NS = 10**9
# Ranks of one run begin seconds apart; after so long without any it is another run.
_APART_NS = 60 * _SECOND_NS
_DAY_NS = 86_400 * _SECOND_NS


def copies(files: Sequence[tuple[Survey, Worker]]) -> Iterator[str]:
    """Files of two workers that hold the same events at the same times, which no two processes record."""
    alike: dict[object, list[tuple[Survey, Worker]]] = defaultdict(list)
    for survey, worker in files:
        if survey.first_ns is not None:
            facts = survey.base_time_ns, survey.first_ns, survey.last_ns, survey.events, survey.flows, survey.ids
            alike[survey.format, facts].append((survey, worker))
    for (one, of_one), *others in alike.values():
        for other, of_other in others:
            if of_one != of_other and _is_same(one, other):
                told = f"{one.path} and {other.path} hold the same events at the same times"
                yield f"{told}: is one a copy, under another rank's name?"


def _is_same(one: Survey, other: Survey) -> bool:
    try:
        return all(mine == its for mine, its in zip_longest(run_texts(one.source), run_texts(other.source)))
    except (OSError, ValueError):  # whoever writes the timeline says so
        return False


def notes(files: Sequence[tuple[Survey, Worker, Clock]]) -> Iterator[str]:
    """What is odd, a sentence each; each file's clock leads to times since 1970."""
    for survey, _, _ in files:
        if not survey.events:
            yield f"{survey.path} holds no event"
        elif survey.untimed:
            yield f"{survey.path}: {survey.untimed:,} events have no time, and no place on the timeline"
        if survey.first_ns is not None and survey.last_ns is not None and survey.last_ns - survey.first_ns > _DAY_NS:
            days = (survey.last_ns - survey.first_ns) / _DAY_NS
            yield f"{survey.path} spans {days:,.1f} days: are times in it wrong? gputrace check tells"
    yield from _gaps(files)
    yield from _lacking([(survey, worker) for survey, worker, _ in files])


def _gaps(files: Sequence[tuple[Survey, Worker, Clock]]) -> Iterator[str]:
    spans = sorted(
        (clock.at(survey.first_ns), clock.at(survey.last_ns or survey.first_ns), str(survey.path))
        for survey, _, clock in files
        if survey.first_ns is not None
    )
    latest_ns = spans[0][1] if spans else 0
    for number, (begin_ns, end_ns, path) in enumerate(spans):
        if begin_ns > latest_ns + _APART_NS:
            gap_s = (begin_ns - latest_ns) / _SECOND_NS
            gap = f"{gap_s:,.0f} seconds" if gap_s < 7200 else f"{gap_s / 86_400:,.1f} days"
            count = f"{len(spans) - number} of {len(spans)} files, {path} the first,"
            yield f"{count} begin {gap} after the others end: are they of two runs, or is a clock wrong?"
        latest_ns = max(latest_ns, end_ns)


def _lacking(files: Sequence[tuple[Survey, Worker]]) -> Iterator[str]:
    """Workers without a file of a profiler that others have one of: was it lost?"""
    there: dict[str, dict[Worker, None]] = defaultdict(dict)
    for survey, worker in files:
        there[survey.format][worker] = None
    workers = dict.fromkeys(worker for _, worker in files)
    for format, having in there.items():
        without = [worker.label for worker in workers if worker not in having]
        if without:
            have = "has" if len(without) == 1 else "have"
            yield f"{listed(without)} {have} no {PROFILERS[format]} file, and others have one"
