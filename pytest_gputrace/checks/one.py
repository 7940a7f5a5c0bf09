"""One file against every rule about a single trace. Never raises over a file: what is wrong with it is a finding."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from pytest_gputrace.checks import text
from pytest_gputrace.checks.facts import FileFacts, gather, worker_of
from pytest_gputrace.checks.outcome import FileReport
from pytest_gputrace.checks.rule import Hit, Looked
from pytest_gputrace.checks.rules import RULES
from pytest_gputrace.checks.view import View
from pytest_gputrace.claims import claim
from pytest_gputrace.model import Finding
from pytest_gputrace.traces import open_trace

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_gputrace.checks.rule import Rule, Settings
    from pytest_gputrace.claims import Claim
    from pytest_gputrace.traces import Trace
    from pytest_gputrace.traces.search import Found

__all__ = ["Checked", "check_one", "finding"]


@dataclass(frozen=True)
class Checked:
    """The report of a file, and what is needed to compare it with others."""

    report: FileReport
    facts: FileFacts


def check_one(found: Found, settings: Settings, progress: Callable[[int], None] | None = None) -> Checked:
    """Read a file and run every rule about it that is wanted."""
    whose = claim(found.path)
    try:
        trace = open_trace(found.path, max_bytes=settings.max_bytes, progress=progress)
    except OSError as error:
        return unreadable(found, whose, f"cannot be read: {error.strerror or error}", settings)
    # Times as no clock has them overflow: rules say so, numpy need not.
    with np.errstate(over="ignore", invalid="ignore"):
        view = View(trace)
        facts = gather(view, whose, os.fspath(found.path))
        looked = _text(trace, settings)
        for code, rule in RULES.items():
            if rule.look is not None and settings.wants(code):
                looked[code] = Looked(0) if rule.one_rank and view.merged else rule.look(view, settings)
    return Checked(_report(facts, trace.size_bytes, looked), facts)


def unreadable(found: Found, whose: Claim, why: str, settings: Settings) -> Checked:
    """The report of a file of which nothing could be read."""
    path = os.fspath(found.path)
    facts = FileFacts(
        path, whose, "unknown", whole=False, worker=worker_of(whose, None), identity=os.path.realpath(path)
    )
    looked = {code: Looked(0) for code, rule in RULES.items() if rule.compare is None and settings.wants(code)}
    if not settings.ignores(text.UNREADABLE_CODE):
        looked[text.UNREADABLE_CODE] = Looked(1, [Hit(why)])
    return Checked(_report(facts, 0, looked), facts)


def finding(rule: Rule, hit: Hit, facts: FileFacts | None = None) -> Finding:
    """A hit with everything needed to act on it."""
    worker = None if facts is None else facts.worker
    own_rank = worker.rank if worker is not None and worker.rank >= 0 else None
    node = None if facts is None else facts.claim.node or None
    return Finding(
        code=rule.code,
        severity=hit.severity or rule.severity,
        message=hit.message,
        file=hit.file if facts is None else facts.path,
        node=node,
        rank=hit.rank if hit.rank is not None else own_rank,
        event=hit.event,
        byte=hit.byte,
    )


def _text(trace: Trace, settings: Settings) -> dict[str, Looked]:
    """What the rules about text saw: one text, if there is any."""
    there = 1 if trace.size_bytes else 0
    looked = {code: Looked(there) for code, rule in RULES.items() if not rule.look and not rule.compare}
    looked |= {code: Looked(1) for code in text.ALWAYS_CODES}
    looked[text.GZIP_CODE] = Looked(int(trace.zipped))
    if settings.max_bytes is None:  # no limit, no rule
        del looked[text.LARGE_CODE]
    for problem in trace.problems:
        saw = looked[text.CODES[problem.kind]]
        saw.at = max(saw.at, 1)
        saw.hits.append(text.hit(problem))
    # As a syntax error of a program: whatever is selected was not looked at in what could not be read.
    return {
        code: saw for code, saw in looked.items() if settings.wants(code) or (saw.hits and _ends_all(code, settings))
    }


def _ends_all(code: str, settings: Settings) -> bool:
    return code in text.ENDING_CODES and not settings.ignores(code)


def _report(facts: FileFacts, size_bytes: int, looked: dict[str, Looked]) -> FileReport:
    looked = dict(sorted(looked.items()))
    return FileReport(
        path=facts.path,
        format=facts.format,
        events=facts.events,
        gpu_events=facts.gpu_events,
        size_bytes=size_bytes,
        rank=facts.worker.rank if facts.worker is not None and facts.worker.rank >= 0 else None,
        node=facts.claim.node or None,
        findings=tuple(finding(RULES[code], hit, facts) for code, saw in looked.items() for hit in saw.hits),
        looked_at={code: saw.at for code, saw in looked.items()},
    )
