"""The verdict on one worker, from its files, its answer and its death.

Works on what was told; looks at nothing.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_gputrace.control.verdict import RankVerdict, after, shown

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_gputrace.control.arrivals import Arrival
    from pytest_gputrace.control.expected import Expected
    from pytest_gputrace.control.reply import Reply
    from pytest_gputrace.control.verdict import Verdict

__all__ = ["Part"]


@dataclass(frozen=True)
class Part:
    """All that is known of one worker; ``death`` is empty while it lives, ``reply`` None until it answers."""

    rank: str
    files: Sequence[Arrival]
    reply: Reply | None = None
    death: str = ""

    def decided(self, expected: Expected) -> RankVerdict | None:
        """The verdict, where no waiting can change it."""
        if self.death:
            complete = [each for each in self.files if each.is_complete]
            names = ", ".join(map(_name, complete)) or "no file"
            cut = ", ".join(map(_name, self._unfinished()))
            told = (
                "all its files are complete"
                if complete and not cut and not self._lacking(expected)
                else "complete on disk"
            )
            message = f"{self.death}; {told}: {names}" + (f"; not whole: {cut}" if cut else "")
            return self._verdict("dead", message, complete)
        if self.reply is not None and not self.reply.ok:
            return self._verdict("failed", self.reply.message)
        if expected.profilers == ():
            return None if self.reply is None else self._verdict("ok")
        if self._unfinished() or self._lacking(expected) or self._told_of_others(expected):
            return None
        if flaws := self._flaws():
            return self._verdict("failed", "; ".join(flaws))
        return self._verdict("ok", "" if all(each.owner.told for each in self.files) else "nothing tells its rank")

    def overdue(self, expected: Expected, waited_s: float, changed_after_s: float) -> RankVerdict:
        """The verdict when time is up; files that changed after ``changed_after_s`` are still written to."""
        unfinished, lacking = self._unfinished(), self._lacking(expected)
        flaws = self._flaws()
        growing = [each for each in unfinished if each.changed_s is not None and each.changed_s >= changed_after_s]
        if growing:
            names = ", ".join(map(_name, growing))
            message = f"it still wrote to {names}{after(waited_s)}; give it more time"
            return self._verdict("growing", "; ".join([message, *lacking, *flaws]))
        if unfinished:
            return self._verdict("truncated", "; ".join([*map(_cut, unfinished), *lacking, *flaws]))
        if lacking:
            message = f"{' and '.join(lacking)} is there{after(waited_s)}"
            if self.reply is not None:
                message = f"it answered that it stopped, and {message}"
        elif self._told_of_others(expected):
            message = "what is there is not what it says that it wrote"
        else:
            message = f"it did not answer{after(waited_s)}"
        return self._verdict("missing", "; ".join([message, *flaws]))

    def _verdict(self, verdict: Verdict, message: str = "", files: Sequence[Arrival] | None = None) -> RankVerdict:
        files = self.files if files is None else files
        return RankVerdict(self.rank, verdict, message, tuple(sorted(each.path for each in files)))

    def _told_of_others(self, expected: Expected) -> bool:
        """Whether it answered for another profile, or has files that are not these: then somebody else wrote these."""
        if self.reply is None:
            return False
        if None not in (expected.profile_id, self.reply.profile_id) and self.reply.profile_id != expected.profile_id:
            return True
        return not {os.path.realpath(each.path) for each in self.reply.files} <= {
            os.path.realpath(each.path) for each in self.files
        }

    def _unfinished(self) -> list[Arrival]:
        return [each for each in self.files if not each.is_complete]

    def _flaws(self) -> list[str]:
        return [f"{_name(each)}: {shown(each.flaw)}" for each in self.files if each.flaw]

    def _lacking(self, expected: Expected) -> list[str]:
        """What of the expected is not there at all, neither whole nor in part."""
        return [
            f"no {f'{profiler} ' if profiler else ''}file of {f'its {stage}' if stage else 'it'}"
            for profiler in ((None,) if expected.profilers is None else expected.profilers)
            for stage in ((None,) if expected.stages is None else expected.stages)
            if not any(_is_by(each, profiler, stage) for each in self.files)
        ]


def _is_by(file: Arrival, profiler: str | None, stage: str | None) -> bool:
    return profiler in (None, file.owner.profiler) and stage in (None, file.owner.stage)


def _name(file: Arrival) -> str:
    return shown(os.path.basename(file.path))


def _cut(file: Arrival) -> str:
    problem = file.examined.problem if file.examined is not None else ""
    return f"{_name(file)} is not whole, and nobody writes to it any more{f': {shown(problem)}' if problem else ''}"
