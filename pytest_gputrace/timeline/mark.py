"""What a merged file says of itself at its root: that it is one, of what it was made, and what is not in it."""

from __future__ import annotations

import math
import os
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_gputrace.timeline.deciding import Decision, Planned
    from pytest_gputrace.timeline.outcome import LeftOut, WorkerClock

__all__ = ["MARK", "account"]

MARK = "gputrace_merge"
"""The key of the root that tells a merged file; `pytest_gputrace.traces.formats` knows it too."""

_VERSION = 1


def account(decision: Decision, left_out: Sequence[LeftOut]) -> dict[str, Any]:
    """The account of one merge. Nothing of the inputs' own metadata is in it."""
    return {
        "version": _VERSION,
        "inputs": [_input(each) for each in decision.planned],
        "expected_ranks": decision.expected_ranks,
        "missing_ranks": list(decision.missing_ranks),
        "left_out": [{"file": _text(each.path), "why": each.why} for each in left_out],
        "align": decision.align,
        "clocks": [_clock(each) for each in decision.clocks],
        "notes": decision.notes,
    }


def _input(each: Planned) -> dict[str, Any]:
    return {
        "file": _text(each.survey.path), "format": each.survey.format, "worker": each.worker.label,
        "rank": each.worker.rank if each.worker.rank >= 0 else None, "node": each.node,
        "base_time_ns": each.base_time_ns, "events": each.survey.events, "flows": list(each.survey.flows),
    }  # fmt: skip


def _clock(each: WorkerClock) -> dict[str, Any]:
    return {
        "worker": each.worker, "offset_us": each.offset_us, "drift_ppm": each.drift_ppm, "used": each.used,
        "residual_before_us": _told(each.residual_before_us), "residual_after_us": _told(each.residual_after_us),
        "why": each.why,
    }  # fmt: skip


def _told(residual_us: float) -> float | None:
    """Of a clock that was compared with none there is no residual, and JSON has no such number."""
    return None if math.isnan(residual_us) else residual_us


def _text(path: os.PathLike[str]) -> str:
    """A path as text; a name on disk may be no text at all, which whoever writes it down has to know."""
    return os.fspath(path)
