"""What the times of each input count from, in nanoseconds since 1970; or why nobody knows."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from pytest_gputrace.timeline.outcome import Align
    from pytest_gputrace.timeline.survey import Survey

__all__ = ["Bases", "anchors"]

Bases: TypeAlias = "Mapping[str, int] | Mapping[Path, int] | Mapping[str | os.PathLike[str], int]"
"""What files count from, by their paths: of either sort, since a type checker tells them apart."""

# Times of older releases of torch are microseconds since 1970 themselves; no time since a boot or a base is as great.
_EPOCH_NS = 10**18
_END_NS = 2**63
_WRITES_ONE = {
    "kineto": "torch 2.6 and later write one",
    "proton": "Triton's Proton writes one from 3.9 on (tokenspeed-proton from 3.8.10.post20260721 on)",
    "viztracer": "VizTracer writes one (1.0 and later) when the process itself calls VizTracer(...).save(); the viztracer command does not",
    "chrome": 'a Chrome trace tells it as "baseTimeNanoseconds" at its root',
}


def anchors(surveys: Sequence[Survey], assume_base: Bases, align: Align) -> tuple[list[int], list[str]]:
    """For each input what is added to its times, and what is wrong, in words."""
    assumed = {os.path.realpath(path): base_ns for path, base_ns in assume_base.items()}
    known = {os.path.realpath(survey.path) for survey in surveys}
    reasons = [
        f"{path}: a base is assumed for it, and it is not among the files that are merged"
        for path in assume_base
        if os.path.realpath(path) not in known
    ]
    bases: list[int | None] = []
    for survey in surveys:
        base_ns, wrong = _base(survey, assumed.get(os.path.realpath(survey.path)))
        bases.append(base_ns)
        if wrong and (align != "first-event" or base_ns is not None):
            reasons.append(wrong)
    if align == "first-event":
        return _at_one_time(surveys, bases), reasons
    return [base_ns or 0 for base_ns in bases], reasons


def _base(survey: Survey, assumed_ns: int | None) -> tuple[int | None, str]:
    own_ns = survey.base_time_ns
    if assumed_ns is not None:
        if own_ns is not None and own_ns != assumed_ns:
            return own_ns, f"{survey.path}: {assumed_ns} is assumed as its base, and it says itself {own_ns}"
        own_ns = assumed_ns
    if own_ns is not None:
        if 0 <= own_ns < _END_NS:
            return own_ns, ""
        return (
            own_ns,
            f"{survey.path}: its base, {own_ns} ns, is no time after 1970; give another: --assume-base FILE=NS",
        )
    if survey.first_ns is None:  # nothing to be placed
        return 0, ""
    if survey.first_ns > _EPOCH_NS:
        return 0, ""
    how = _WRITES_ONE.get(survey.format, _WRITES_ONE["chrome"])
    return None, (
        f"{survey.path}: nothing tells what its times count from (no baseTimeNanoseconds): {how}; "
        f"say it (--assume-base {survey.path}=NS), or let all begin at one time (--align first-event)"
    )


def _at_one_time(surveys: Sequence[Survey], bases: Sequence[int | None]) -> list[int]:
    """Bases by which every input begins when the earliest of those begins of which that is known."""
    begins = [base_ns + survey.first_ns for base_ns, survey in zip(bases, surveys, strict=True)
              if base_ns is not None and survey.first_ns is not None]  # fmt: skip
    begin_ns = min(begins, default=0)
    return [begin_ns - (survey.first_ns or 0) for survey in surveys]
