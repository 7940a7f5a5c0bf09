"""Decides, of all inputs together, what is changed about each: whose it is, by which clock, under which numbers."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from pytest_gputrace.claims import claim
from pytest_gputrace.timeline.alignment import Collectives, Estimate
from pytest_gputrace.timeline.alignment import align as align_clocks
from pytest_gputrace.timeline.anchors import anchors
from pytest_gputrace.timeline.completeness import complete
from pytest_gputrace.timeline.eventids import all_ids
from pytest_gputrace.timeline.ids import id_maps
from pytest_gputrace.timeline.oddities import copies, notes
from pytest_gputrace.timeline.outcome import WorkerClock
from pytest_gputrace.timeline.plan import Clock, Plan
from pytest_gputrace.timeline.tracks import Member, Tracks
from pytest_gputrace.timeline.workers import Told, assign, order

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from pytest_gputrace.timeline.anchors import Bases
    from pytest_gputrace.timeline.inputs import Input
    from pytest_gputrace.timeline.outcome import Align
    from pytest_gputrace.timeline.survey import Survey
    from pytest_gputrace.timeline.workers import Worker

__all__ = ["Decision", "Planned", "decide"]

_STAYS = Estimate(0, 0, 0, 0, float("nan"), float("nan"), "")


class Planned(NamedTuple):
    """One input, in the order of the timeline, with what is changed about it; ``node`` is the clock it was recorded by."""

    survey: Survey
    worker: Worker
    node: str
    base_time_ns: int
    plan: Plan


@dataclass
class Decision:
    """What is to be written. With ``reasons`` nothing is: they say what is in the way."""

    planned: list[Planned] = field(default_factory=list)
    tracks: Tracks | None = None
    base_time_ns: int = 0
    align: Align = "anchor"
    clocks: list[WorkerClock] = field(default_factory=list)
    expected_ranks: int | None = None
    missing_ranks: tuple[int, ...] = ()
    notes: list[str] = field(default_factory=list)
    reasons: list[str] = field(default_factory=list)


class _Whose(NamedTuple):
    survey: Survey
    worker: Worker
    node: str


def decide(
    surveys: Sequence[Survey],
    given: Mapping[Path, Input],
    *,
    align: Align,
    assume_base: Bases,
    expect_ranks: int | None,
    allow_missing: bool,
) -> Decision:
    """Everything at once, so that whoever is refused sees all that is in the way."""
    told = [_told(each, given[each.path].rank) for each in surveys]
    assigned = assign(told)
    completeness = complete(told, assigned.workers, expect_ranks)
    decision = Decision(align=align, expected_ranks=completeness.expected, missing_ranks=completeness.missing)
    decision.reasons += assigned.reasons
    decision.reasons += completeness.reasons
    if not allow_missing:
        decision.reasons += completeness.absent
    whose = [_Whose(*each) for each in zip(surveys, assigned.workers, assigned.nodes, strict=True)]
    whose.sort(key=lambda each: order(each.worker, each.survey.format, each.survey.path))
    decision.reasons += copies([(each.survey, each.worker) for each in whose])
    bases, wrong = anchors([each.survey for each in whose], assume_base, align)
    decision.reasons += wrong
    if not whose:
        return decision
    if not any(each.survey.first_ns is not None for each in whose) and not decision.reasons:
        decision.reasons.append("no file has an event with a time, so there is nothing to put on a timeline")
    if not decision.reasons:
        _plan(decision, whose, bases)
    return decision


def _told(survey: Survey, given: int | None) -> Told:
    return Told(survey.path, survey.format, given, survey.rank, survey.world_size, survey.host, claim(survey.path))


def _plan(decision: Decision, whose: Sequence[_Whose], bases: Sequence[int]) -> None:
    estimates = _estimates(decision, whose, bases)
    absolute = [_clock(base_ns, estimate) for base_ns, estimate in zip(bases, estimates, strict=True)]
    begins = {
        index: clock.at(each.survey.first_ns)
        for index, (each, clock) in enumerate(zip(whose, absolute, strict=True))
        if each.survey.first_ns is not None
    }
    decision.base_time_ns = min(begins.values())
    decision.notes += notes([(each.survey, each.worker, clock) for each, clock in zip(whose, absolute, strict=True)])
    several = len({each.node for each in whose if each.node}) > 1
    decision.tracks = Tracks([Member(each.survey, each.worker, each.node if several else "") for each in whose])
    links = sum(len(each.survey.links) for each in whose)
    maps, end = id_maps([each.survey.ids for each in whose], links, lambda index: all_ids(whose[index].survey.source))
    if end > 2**53:
        decision.notes.append("some ids are beyond 2**53, where viewers written in JavaScript take one for another")
    for index, (each, base_ns, clock, ids) in enumerate(zip(whose, bases, absolute, maps, strict=True)):
        moved = clock._replace(delta_ns=clock.delta_ns - decision.base_time_ns)
        plan = Plan(moved, ids, decision.tracks.of(index))
        decision.planned.append(Planned(each.survey, each.worker, each.node, base_ns, plan))


def _clock(base_ns: int, estimate: Estimate) -> Clock:
    """From a file's own times to those of the timeline since 1970."""
    return Clock(
        base_ns + estimate.offset_ns, estimate.drift_ppt, estimate.about_ns - base_ns if estimate.drift_ppt else 0
    )


def _estimates(decision: Decision, whose: Sequence[_Whose], bases: Sequence[int]) -> list[Estimate]:
    """How far the clock of each input is off, by the collectives of its worker, or of others of its node."""
    if decision.align != "collectives":
        return [_STAYS] * len(whose)
    seen = {
        index: (each.node, _collectives(each.survey, base_ns))
        for index, (each, base_ns) in enumerate(zip(whose, bases, strict=True))
        if each.survey.collectives is not None and each.survey.format == "kineto"
    }
    found = align_clocks(seen)
    by_worker = {whose[index].worker: estimate for index, estimate in reversed(found.items())}
    by_node = {whose[index].node: estimate for index, estimate in reversed(found.items()) if whose[index].node}
    decision.clocks = [_told_of(whose[index], estimate, bases[index]) for index, estimate in sorted(found.items())]
    return [
        found.get(index) or by_worker.get(each.worker) or by_node.get(each.node) or _STAYS
        for index, each in enumerate(whose)
    ]


def _collectives(survey: Survey, base_ns: int) -> Collectives:
    gathered = survey.collectives
    assert gathered is not None
    # Where a file tells its groups, one that it does not tell may be another group of that name on another rank.
    known = np.array([not survey.groups or group in survey.groups for group, _ in gathered.sorts], np.bool_)
    keys = [f"{group} {survey.groups.get(group, '')} {kernel}" for group, kernel in gathered.sorts]
    rows = known[gathered.sort] if len(keys) else np.empty(0, np.bool_)
    return Collectives(keys, gathered.sort[rows], gathered.end_ns[rows] + base_ns)


def _told_of(each: _Whose, estimate: Estimate, base_ns: int) -> WorkerClock:
    first_ns = base_ns + (each.survey.first_ns or 0)
    shift_ns = Clock(estimate.offset_ns, estimate.drift_ppt, estimate.about_ns).at(first_ns) - first_ns
    return WorkerClock(
        worker=each.worker.label, node=each.node, offset_us=shift_ns / 1000, drift_ppm=estimate.drift_ppt / 10**6,
        used=estimate.used, residual_before_us=estimate.residual_before_us, residual_after_us=estimate.residual_after_us,
        why=estimate.why,
    )  # fmt: skip
