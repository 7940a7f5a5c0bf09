"""The course of ``gputrace profile``: start, load, stop, collect, and what is told of each, on standard error alone.

Standard output belongs to the load. Whatever happens on the way, a profile that may run is stopped.
"""

from __future__ import annotations

import contextlib
import sys
import textwrap
import time
from typing import TYPE_CHECKING, Any

from pytest_gputrace.cli.gathering import checked, merged, next_commands
from pytest_gputrace.cli.load import run_load
from pytest_gputrace.cli.signals import Ended, Signals
from pytest_gputrace.cli.waiting import WaitingLine
from pytest_gputrace.control.request import DEADLINE_S
from pytest_gputrace.errors import ControlError, GputraceError
from pytest_gputrace.report.wording import printable

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from pytest_gputrace.cli.load import LoadResult
    from pytest_gputrace.control.collecting import Collection
    from pytest_gputrace.control.remote import RemoteProfile

__all__ = ["ProfiledRun", "tell"]

_FAILED = 3
_NAMED = 8
_LONGEST = 200


class ProfiledRun:
    """One run of ``command`` under ``remote``'s profile; ``problems`` is why the profile failed, empty where it did not."""

    def __init__(
        self,
        remote: RemoteProfile,
        command: Sequence[str],
        fields: dict[str, Any],
        *,
        expect_ranks: int,
        merge: Path | None,
        timeout_s: float,
    ) -> None:
        self.problems: list[str] = []
        self.load: LoadResult | None = None
        self._remote, self._command, self._fields = remote, command, fields
        self._expect_ranks, self._merge, self._timeout_s = expect_ranks, merge, timeout_s
        self._judged = False

    def run(self) -> int:
        """Do all of it; returns the exit code."""
        with Signals() as signals:
            try:
                self._record(signals)
                self._gather()
            except Ended:
                with contextlib.suppress(Ended):
                    self._give_up()
        tell(f"profile: failed: {'; '.join(self.problems)}" if self.problems else "profile: ok")
        # The load's own failure comes first: one that was told to end may say by its code how it did.
        load = self.load.code if self.load is not None else 0
        return load or signals.code or (_FAILED if self.problems else 0)

    def _record(self, signals: Signals) -> None:
        try:
            self._start(signals)
            began_s = time.monotonic()
            self.load = run_load(self._command, signals)
            tell(f"load: {self.load.words}")
            self._hold_to_deadline(time.monotonic() - began_s)
        finally:
            if self._remote.running:
                self._stop()

    def _start(self, signals: Signals) -> None:
        why: str | None = "it did not answer; it may still be recording"
        told = ""
        try:
            # An engine that is told to stop while it still starts may start after that, and never stop.
            with signals.delayed():
                told, why = self._asked()
        finally:
            if why is None:
                tell(told)
            else:
                tell(*_lines(f"profile: not started: {why}"))
                self.problems.append(f"not started: {_short(why)}")
        if why is not None:
            tell("the load runs all the same")

    def _asked(self) -> tuple[str, str | None]:
        """Ask for the profile: what is told of it where it was started, or why it was not."""
        remote, client = self._remote, self._remote.client
        try:
            answer = remote.start(**self._fields)
        except ControlError as error:
            return "", str(error)
        if not answer.ok:
            return "", answer.describe()
        what = " of ".join(filter(None, [answer.profile_id, ",".join(self._fields.get("activities", ()))]))
        return f"profile: {what or 'started'}; {client.kind} at {client.url}, files in {remote.folder}", None

    def _hold_to_deadline(self, took_s: float) -> None:
        """An engine of ours that was told no deadline has one all the same: what it cut off is no success."""
        is_open = self._remote.running and not {"deadline_s", "num_steps"} & {*self._fields}
        if is_open and self._remote.client.kind == "gputrace" and took_s > DEADLINE_S:
            what = f"nothing was recorded after {DEADLINE_S:g} s, and the load took {took_s:.0f} s: give --deadline"
            self.problems.append(what)

    def _stop(self) -> None:
        try:
            answer = self._remote.stop()
            # Verdicts on ranks come with their files.
            why = "" if answer.ok or answer.ranks else answer.describe()
        except ControlError as error:
            why = str(error)
        if why:
            tell(*_lines(f"profile: not stopped as it should: {why}"))
            self.problems.append(f"not stopped as it should: {_short(why)}")

    def _gather(self) -> None:
        if self._remote.started is None:
            return
        with contextlib.closing(WaitingLine()) as line:
            collection = self._remote.collect(self._expect_ranks, timeout_s=self._timeout_s, progress=line.tell)
        self._judge(collection)
        files = list(collection.files)
        if files:
            is_merged = self._look_at(files, whole=collection.ok)
            tell(*next_commands(files, self._remote.folder, self._merge if is_merged else None))

    def _give_up(self) -> None:
        """A signal ended the wait: what is there at this moment is told."""
        if self.load is None:
            tell("load: not run")
        self.problems.append("not waited for to its end")
        if self._remote.started is not None and not self._judged:
            self._judge(self._remote.collect(self._expect_ranks, timeout_s=0.0))

    def _judge(self, collection: Collection) -> None:
        self._judged = True
        tell(*_lines(collection.describe()))
        if not collection.ok:
            self.problems.append(_verdicts(collection, self._expect_ranks))

    def _look_at(self, files: Sequence[str], *, whole: bool) -> bool:
        """Check them, and merge them where that was asked for; whether they are on a timeline now."""
        try:
            # Ranks that are missing were told already.
            clean, lines = checked(files, self._expect_ranks if whole else None)
            tell(*lines)
            if not clean:
                self.problems.append("errors were found in its files")
            if self._merge is None:
                return False
            is_merged, lines = merged(files, self._merge, whole=whole)
            tell(*lines)
        except (GputraceError, OSError) as error:
            self.problems.append(_short(str(error)))
            return False
        if not is_merged:
            self.problems.append("its files were not merged")
        return is_merged


def _verdicts(collection: Collection, expected: int) -> str:
    """``7 of 8 ranks are ok; missing: DP1-TP0``."""
    ranks: dict[str, list[str]] = {}
    for each in collection.ranks:
        ranks.setdefault(each.verdict, []).append(each.rank)
    good = len(ranks.pop("ok", []))
    return "; ".join(
        [f"{good} of {expected} ranks are ok", *(f"{word}: {_listed(tags)}" for word, tags in ranks.items())]
    )


def _listed(names: list[str]) -> str:
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(printable(name) for name in names[:_NAMED]) + more


def tell(*lines: str) -> None:
    """Print lines to standard error, whatever an engine or a name put into them.

    Where nobody can read them, the run is worth more than the words.
    """
    with contextlib.suppress(OSError, ValueError):
        print("\n".join(map(printable, lines)), file=sys.stderr, flush=True)


def _short(text: str) -> str:
    return printable(textwrap.shorten(text, _LONGEST, placeholder=" ..."))


def _lines(text: str) -> list[str]:
    return text.split("\n")
