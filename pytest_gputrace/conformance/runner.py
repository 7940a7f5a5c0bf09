"""Holds one exporter to one check: runs it, makes sure that what failed is the exporter, and says so in one screen."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_gputrace.conformance.judgement import short
from pytest_gputrace.conformance.subject import SUPERBENCH_LEGACY_NAME
from pytest_gputrace.conformance.trial import Trial
from pytest_gputrace.errors import ContractError

if TYPE_CHECKING:
    from pathlib import Path

    from pytest_gputrace.conformance.judgement import Judgement
    from pytest_gputrace.conformance.promise import ContractCheck
    from pytest_gputrace.conformance.subject import Sizes, Subject

__all__ = ["Verdict", "hold", "not_checked"]

_LINES = 8
_TRACEBACK = 12


@dataclass(frozen=True)
class Verdict:
    """Whether an exporter keeps one promise: ``ok``, and the ``message`` for people when it does not."""

    check: ContractCheck
    ok: bool
    looked_at: int
    message: str


def not_checked(check: ContractCheck, subject: Subject, sizes: Sizes) -> str:
    """Why ``check`` is not asked of ``subject``; empty when it is."""
    for capability in check.needs:
        if capability in subject.unclaimed:
            return f"{capability} is not claimed: {subject.unclaimed[capability]}"
    for name, least in check.least.items():
        if getattr(sizes, name) < least:
            return f"needs at least {least} {name}, and the job has {getattr(sizes, name)}"
    if check.consumer and subject.consumer is None:
        return "no consumer was given"
    if check.control and subject.legacy_exporter is None and subject.legacy_name != SUPERBENCH_LEGACY_NAME:
        return f"the legacy file is {subject.legacy_name}, and no legacy exporter was given to compare it with"
    return ""


def hold(check: ContractCheck, subject: Subject, folder: Path, sizes: Sizes) -> Verdict:
    """Run one check.

    Args:
        check: one of ``CHECKS``.
        subject: the exporter; must claim what the check needs (`not_checked`).
        folder: for everything the check makes; should be empty.
        sizes: how large jobs are to be.

    Raises:
        ContractError: there is no verdict: the exporter fails in the plainest run too, a worker died unasked or was
            late, or nothing was looked at.
    """
    reason = not_checked(check, subject, sizes)
    if reason:
        raise ContractError(f"{check.id} cannot be checked: {reason}")
    trial = Trial(subject, sizes, folder)
    try:
        judgement = check.run(trial)
        if trial.raised is not None:
            _refuse_always_failing(Trial(subject, sizes, folder / "plain"))
    except ContractError as error:
        if error.always:
            raise
        if "torch_profiler" in check.needs and "no fake profile" in str(error):
            hint = "one that does not record with torch.profiler declares that: unclaimed torch_profiler"
            raise ContractError(f"{error}; {hint}") from error
        _refuse_always_failing(Trial(subject, sizes, folder / "plain"))
        raise
    if judgement.looked_at == 0 and not judgement.problems:
        raise ContractError(f"{check.id}: nothing was looked at, so nothing was checked: {judgement.expected}")
    return Verdict(check, judgement.ok, judgement.looked_at, "" if judgement.ok else _message(check, judgement))


def _refuse_always_failing(trial: Trial) -> None:
    """An exporter that fails where nothing is wrong has not been set up: that says nothing about the check."""
    try:
        trial.run()
    except ContractError as error:
        raise ContractError(f"in the plainest run too (one worker, no fault): {error}", always=True) from error
    if trial.raised is not None:
        told = (trial.raised.error or "").rstrip().splitlines()
        lines = [
            f"the exporter raises in the plainest run too: {short(trial.raised.headline, 200)}",
            "(one worker, no fault, so nothing can be said about it)",
            *(told if len(told) <= _TRACEBACK else ["  ...", *told[-_TRACEBACK:]]),
        ]
        raise ContractError("\n".join(lines), always=True)


def _message(check: ContractCheck, judgement: Judgement) -> str:
    problems = [short(problem, 400) for problem in judgement.problems]
    hidden = len(problems) - _LINES
    lines = [
        f"{check.id} broken: {check.title}",
        f"  expected: {judgement.expected}",
        f"  found:    {problems[0]}",
        *(f"            {problem}" for problem in problems[1:_LINES]),
    ]
    lines += [f"            and {hidden} more"] if hidden > 0 else []
    lines += [f"  injected: {', '.join(judgement.injected)}"] if judgement.injected else []
    lines += [f"  folder:   {judgement.folder}"] if judgement.folder is not None else []
    return "\n".join([*lines, f"  why, and how to fix it: gputrace rules {check.id}"])
