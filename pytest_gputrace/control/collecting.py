"""Waits until the files of a profile are complete on disk, whoever wrote them and whatever they answered.

Nothing but the disk is believed that all is well: engines answer before their workers have written.
"""

from __future__ import annotations

import os
import time
from dataclasses import replace
from typing import TYPE_CHECKING

from pytest_gputrace.control.absent import absent
from pytest_gputrace.control.arrivals import Arrivals
from pytest_gputrace.control.expected import Collection, Expected
from pytest_gputrace.control.judging import Part
from pytest_gputrace.control.owners import is_named_for
from pytest_gputrace.control.verdict import RankVerdict, after, natural, shown

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from pytest_gputrace.control.arrivals import Arrival
    from pytest_gputrace.control.reply import Reply
    from pytest_gputrace.control.snapshot import Snapshot

__all__ = ["Collection", "Expected", "collect"]

_SHORTEST_S, _LONGEST_S, _GROWTH = 0.02, 0.5, 1.3
# An engine that is not ours may write another file after the first one of its last worker.
_SETTLE_S = 0.5
_STAGE_SETTLE_S = 2.0
# What changed in the last second before time is up is still written to.
_RECENT_S = 1.0
_NAMED = 8


def collect(
    folder: str | os.PathLike[str],
    expected: Expected,
    *,
    before: Snapshot,
    timeout_s: float,
    replies: Callable[[], Mapping[str, Reply]] = dict,
    deaths: Callable[[], Mapping[str, str]] = dict,
    progress: Callable[[str], None] | None = None,
) -> Collection:
    """Wait for the files of every worker expected, or for what tells that they will not come.

    Args:
        folder: where they come, or in folders below it.
        expected: whose, and which.
        before: what was there when nothing was recorded yet; the same files do not count.
        timeout_s: how long to wait at most. Files that are there then are still looked into, however large.
        replies: what each worker answered so far, by its tag.
        deaths: how each worker ended that did, by its tag.
        progress: called with what is waited for in one line, at every look.

    Returns:
        A verdict on each rank, as soon as none can change any more.
    """
    collecting = _Collecting(os.path.abspath(folder), expected, before)
    began_s = time.monotonic()
    pause_s, is_last = _SHORTEST_S, False
    while True:
        look_s = time.monotonic()
        is_late = look_s >= began_s + timeout_s
        # In this order: what a worker wrote before it answered or died is then seen.
        collecting.look(replies(), deaths())
        now_s = time.monotonic()
        is_last = is_last or (is_late and collecting.arrivals.are_all_examined)
        if collecting.is_done(now_s) or is_last:
            return collecting.result(now_s - began_s, now_s - min(_RECENT_S, timeout_s / 2))
        is_last = is_late  # one more look, for files that were seen but once
        if progress is not None:
            progress(collecting.awaited())
        left_s = max(_SHORTEST_S, began_s + timeout_s - now_s)
        time.sleep(min(pause_s, left_s))
        # A folder that takes long to list is not listed all the time.
        pause_s = min(_LONGEST_S, max(pause_s * _GROWTH, now_s - look_s))


class _Collecting:
    """What is known so far."""

    def __init__(self, folder: str, expected: Expected, before: Snapshot) -> None:
        self.folder, self.expected = folder, expected
        self.arrivals = Arrivals(folder, before)
        self._parts: dict[str, Part] = {}
        self._others: tuple[str, ...] = ()
        self._wanted = expected
        self._decided: dict[str, RankVerdict] = {}

    def look(self, replies: Mapping[str, Reply], deaths: Mapping[str, str]) -> None:
        """Look at the disk once, and judge who can be judged."""
        self.arrivals.look()
        of_worker = self._by_worker()
        tags = self.expected.tags
        workers = tags if tags is not None else dict.fromkeys([*of_worker, *replies, *deaths])
        self._parts = {
            worker: Part(worker, of_worker.pop(worker, []), replies.get(worker), deaths.get(worker, ""))
            for worker in sorted(workers, key=natural)
        }
        used = {file.path for part in self._parts.values() for file in part.files}
        self._others = tuple(sorted((path for path in self.arrivals.files if path not in used), key=natural))
        # Workers of others answer nobody here.
        answers = self.expected.every_stage and self.expected.tags is not None
        is_open = answers and not all(part.reply or part.death for part in self._parts.values())
        if self.expected.every_stage:
            self._wanted = replace(self.expected, stages=_stages(self._parts.values()))
        verdicts = {worker: part.decided(self._wanted) for worker, part in self._parts.items()}
        self._decided = {
            worker: verdict
            for worker, verdict in verdicts.items()
            if verdict is not None and not (is_open and verdict.verdict == "ok")
        }

    def is_done(self, now_s: float) -> bool:
        """Whether no verdict can change any more."""
        if len(self._decided) < max(len(self._parts), self.expected.count):
            return False
        if self.expected.tags is not None or all(each.profile for each in self.arrivals.owners.values()):
            return True
        # The next stage of an engine that is not ours comes when it comes.
        return now_s - self.arrivals.quiet_since_s >= (_STAGE_SETTLE_S if self.expected.every_stage else _SETTLE_S)

    def awaited(self) -> str:
        """Who is waited for, in one line."""
        undecided = [worker for worker in self._parts if worker not in self._decided]
        names = sorted([*undecided, *self._absent()], key=natural)
        count = max(self.expected.count, len(self._parts))
        waiting = count - len(self._decided)
        if not waiting:
            return f"waiting for {self.folder} to settle"
        return f"waiting for {waiting} of {count} ranks: {_listed(names)}"

    def result(self, waited_s: float, changed_after_s: float) -> Collection:
        """The verdicts on all, now that the wait is over."""
        verdicts = [
            part.decided(self._wanted) or part.overdue(self._wanted, waited_s, changed_after_s)
            for part in self._parts.values()
        ]
        why = f"no file of it is there{after(waited_s)}"
        verdicts += [RankVerdict(name, "missing", why) for name in self._absent()]
        verdicts.sort(key=lambda verdict: natural(verdict.rank))
        is_ok = len(verdicts) == self.expected.count and all(each.verdict == "ok" for each in verdicts)
        files = tuple(path for verdict in verdicts for path in verdict.files)
        message = self._message(verdicts, len(files), waited_s)
        prefixes = {file.owner.prefix for part in self._parts.values() for file in part.files if file.owner.prefix}
        if self.expected.one_prefix and len(prefixes) > 1:
            is_ok = False
            message += f"; they are of {len(prefixes)} profiles: {_listed([shown(each) for each in sorted(prefixes)])}"
        return Collection(is_ok, message, tuple(verdicts), files, self._others)

    def _by_worker(self) -> dict[str, list[Arrival]]:
        """The new files of each worker, by their labels; those of nobody left out."""
        expected, owners = self.expected, self.arrivals.owners
        is_told = any(each.told for each in owners.values() if each.is_worker)
        found: dict[str, list[Arrival]] = {}
        for path, arrival in self.arrivals.files.items():
            owner = owners[path]
            if owner.profile is None:
                # Where files tell ranks, one that does not is no worker's: engines have frontends.
                is_counted = expected.tags is None and not expected.own_names
                is_counted &= owner.is_worker and (owner.told or not is_told)
                if expected.profile_id is not None:
                    is_counted &= is_named_for(path, expected.profile_id)
            else:
                is_counted = expected.profile_id is None or owner.profile.matches(expected.profile_id)
            if is_counted:
                found.setdefault(owner.label, []).append(replace(arrival, owner=owner))
        return found

    def _absent(self) -> list[str]:
        came = [part.files[0].owner for part in self._parts.values() if part.files]
        needed = self.expected.count - len(self._parts)
        return [] if self.expected.tags is not None else absent(came, needed, self.expected.count)

    def _message(self, verdicts: Iterable[RankVerdict], files: int, waited_s: float) -> str:
        count, came = self.expected.count, len(self._parts)
        good = sum(each.verdict == "ok" for each in verdicts)
        where = f"in {shown(self.folder)}"
        if came > count:
            text = (
                f"{came} ranks came, where {count} {'was' if count == 1 else 'were'} expected: {_files(files)} {where}"
            )
        elif not self.arrivals.files and self.expected.profilers != ():
            text = f"{good} of {count} ranks: no new file {where}{after(waited_s)}"
            text += f"; {_files(self.arrivals.unrelated, 'other ')} there" if self.arrivals.unrelated else ""
        else:
            text = f"{good} of {count} ranks: {_files(files)} {where}"
            text += "" if good == count else after(waited_s)
        if self._others:
            names = _listed([shown(os.path.relpath(path, self.folder)) for path in self._others])
            text += f"; of nobody expected: {names}"
        return text


def _stages(parts: Iterable[Part]) -> tuple[str, ...] | None:
    """The stages of which anybody has a file, or says so."""
    found: dict[str | None, None] = {}
    for part in parts:
        found.update(dict.fromkeys(file.owner.stage for file in part.files))
        found.update(dict.fromkeys(file.stage for file in (part.reply.files if part.reply else ())))
    return tuple(stage for stage in found if stage is not None) or None


def _files(count: int, kind: str = "") -> str:
    return f"{count} {kind}file{'' if count == 1 else 's'}"


def _listed(names: list[str]) -> str:
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more
