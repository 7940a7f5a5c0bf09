"""What of the files that were found has no place on a timeline, and what would have one and is lost."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pytest_gputrace.timeline.survey import Survey

__all__ = ["lost", "not_placeable"]

_WHY = {
    "proton-tree": 'a tree of Proton has no times; record with data="trace" and the format chrome_trace',
    "superbench": "an event list of SuperBench counts from the begin of its profile, on no clock; merge the Chrome traces",
    "merged": "merged already; give the files it was made of",
}
# Of what torch writes beside a trace.
_NO_TRACES = ("pickle", "memory snapshot", "execution trace of torch")


def not_placeable(survey: Survey, *, named: bool) -> str:
    """Why a file is left out, in words; empty where it is not. One that somebody ``named`` should have been a trace."""
    if why := _WHY.get(survey.format):
        return "" if survey.format == "merged" and named else f"not placeable: {why}"
    for problem in survey.problems:
        is_none = problem.kind == "root" or (problem.kind == "event" and survey.first_ns is None)
        if is_none and (not named or any(word in problem.message for word in _NO_TRACES)):
            return f"not placeable: {problem.message}"
    return ""


def lost(survey: Survey) -> str:
    """Why a file cannot be merged that should be: it cannot be read to its end. Empty where it can."""
    if survey.format == "merged":
        return f"{survey.path}: {_WHY['merged']}"
    if not survey.problems:
        return ""
    first, more = survey.problems[0], len(survey.problems) - 1
    where = f"{first.where}: " if first.where else ""
    also = f" (and {more} more)" if more else ""
    advice = (
        "" if first.kind in ("root", "empty") else "; gputrace check tells all, gputrace repair saves what can be saved"
    )
    return f"{survey.path}: byte {first.byte}: {where}{first.message}{also}{advice}"
