"""The faults of the profile: what it holds that no file can, what it does not hold, and who took it."""

from __future__ import annotations

import contextlib
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_gputrace.fakes.faultbase import Fault
from pytest_gputrace.fakes.moments import Record

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pytest_gputrace.fakes.job import Job
    from pytest_gputrace.fakes.profiler import CapturePlan

__all__ = ["HOSTILE_NAMES", "BadValues", "EmptyProfile", "HostileNames", "StolenSession"]

HOSTILE_NAMES: tuple[str, ...] = (
    'say "hello"',
    "C:\\new\\table\\users\\bin",
    "ends in a backslash\\",
    "two\nlines",
    "carriage\r\nreturn",
    "a\ttab",
    "a\0NUL",
    "".join(map(chr, range(1, 32))),
    "\x7fDEL and C1\x80\x85\x9f",
    "</script><!-- ]]> & 'quoted'",
    "line \u2028 and paragraph \u2029 separators",
    "a lone surrogate \ud800",
    "a fire \U0001f525",
    "e\u0301 and \u00e9",
    "right to left \u202egnp.exe",
    "\ufeffa byte order mark",
    "NaN",
    " ",
    "x" * 100_000,
)
"""What ``hostile_names`` calls its events, when it is not told."""


@dataclass(frozen=True, repr=False)
class _ProfileFault(Fault):
    """One that changes what a profile becomes, and has struck when a capture of one was ended."""

    def change(self, plan: CapturePlan) -> None:
        """Change what the profiles of ``plan`` become."""

    @contextlib.contextmanager
    def applied(self, job: Job) -> Iterator[Record]:
        """Change the profiles of this worker."""
        record, plan = Record(str(self)), job.plan
        before = plan.values, plan.names, plan.empty, plan.stolen
        self.change(plan)
        plan.on_stop.append(record.struck)
        try:
            yield record
        finally:
            plan.on_stop.remove(record.struck)
            plan.values, plan.names, plan.empty, plan.stolen = before

    def advice(self, jobs: Sequence[Job]) -> str:
        """Which profile there was not."""
        return (
            "no fake profile was stopped; use job.profiler() or torch.profiler.profile: one that a class, a closure or a "
            "default argument took before the run is the real one"
        )


@dataclass(frozen=True, repr=False)
class BadValues(_ProfileFault):
    """See ``bad_values``."""

    values: tuple[complex, ...] = (math.nan, math.inf, -math.inf, 1 + 2j)

    def change(self, plan: CapturePlan) -> None:
        """Let the events hold the values."""
        plan.values = (*plan.values, *self.values)


@dataclass(frozen=True, repr=False)
class EmptyProfile(_ProfileFault):
    """See ``empty_profile``."""

    def change(self, plan: CapturePlan) -> None:
        """Let nothing be recorded."""
        plan.empty = True


@dataclass(frozen=True, repr=False)
class StolenSession(_ProfileFault):
    """See ``stolen_session``."""

    def change(self, plan: CapturePlan) -> None:
        """Let another profile take the session."""
        plan.stolen = True


@dataclass(frozen=True, repr=False)
class HostileNames(_ProfileFault):
    """See ``hostile_names``."""

    names: tuple[str, ...] = HOSTILE_NAMES

    def change(self, plan: CapturePlan) -> None:
        """Add events of these names."""
        plan.names = (*plan.names, *self.names)
