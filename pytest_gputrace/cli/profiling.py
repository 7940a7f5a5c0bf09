"""The course of ``gputrace profile``: start, load, stop, collect, and what is told of each, on standard error alone.

Standard output belongs to the load. Whatever happens on the way, a profile that may run is stopped.
"""

from __future__ import annotations

import contextlib
import sys
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from pytest_gputrace.cli.gathering import checked, merged, next_commands
from pytest_gputrace.cli.load import run_load
from pytest_gputrace.cli.signals import Ended, Signals
from pytest_gputrace.cli.waiting import WaitingLine
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

    def run(self) -> int:
        """Do all of it; returns the exit code."""
        with Signals() as signals:
            try:
                self._record(signals)
                self._gather()
            except Ended:
                self.problems.append("not waited for to its end")
        tell(f"profile: failed: {'; '.join(self.problems)}" if self.problems else "profile: ok")
        if signals.code is not None:
            return signals.code
        return (self.load.code if self.load is not None else 0) or (_FAILED if self.problems else 0)

    def _record(self, signals: Signals) -> None:
        try:
            self._start()
            self.load = run_load(self._command, signals)
            tell(f"load: {self.load.words}")
        finally:
            if self._remote.running:
                self._stop()

    def _start(self) -> None:
        remote, client = self._remote, self._remote.client
        try:
            answer = remote.start(**self._fields)
            why = "" if answer.ok else answer.describe()
        except ControlError as error:
            why = str(error)
        if why:
            self.problems.append(f"not started: {_lines(why)}")
            tell(f"profile: {self.problems[0]}", "the load runs all the same")
            return
        what = " ".join(filter(None, [answer.profile_id, ",".join(self._fields.get("activities", ()))]))
        tell(f"profile: {what or 'started'}, {client.kind} at {_place(client.url)}, files in {remote.folder}")

    def _stop(self) -> None:
        try:
            answer = self._remote.stop()
            why = "" if answer.ok else answer.describe()
            answered = True
        except ControlError as error:
            why, answered = str(error), self._remote.client.answered(error)
        # Of a window that closed by itself engines say that nothing runs; then the files alone decide.
        closed = answered and self._fields.get("num_steps") is not None
        if why and not closed:
            self.problems.append(f"not stopped as it should: {_lines(why)}")
            tell(f"profile: {self.problems[-1]}")

    def _gather(self) -> None:
        if self._remote.started is None:
            return
        collection = self._collected()
        tell(_lines(collection.describe()))
        if not collection.ok:
            self.problems.append("not every rank is ok")
        files = [str(path) for path in collection.files]
        if not files:
            return
        self._look_at(files, whole=collection.ok)
        tell(*next_commands(files, self._remote.folder, self._merge))

    def _look_at(self, files: Sequence[str], *, whole: bool) -> None:
        try:
            clean, lines = checked(files, self._expect_ranks)
            tell(*lines)
            if not clean:
                self.problems.append("errors were found in its files")
            if self._merge is not None:
                done, lines = merged(files, self._merge, whole=whole)
                tell(*lines)
                if not done:
                    self.problems.append("its files were not merged")
        except (GputraceError, OSError) as error:
            self.problems.append(_lines(str(error)))

    def _collected(self) -> Collection:
        """Wait for the files; a signal ends the wait, and what is there at that moment is told."""
        try:
            with contextlib.closing(WaitingLine()) as line:
                return self._remote.collect(self._expect_ranks, timeout_s=self._timeout_s, progress=line.tell)
        except Ended:
            tell(_lines(self._remote.collect(self._expect_ranks, timeout_s=0.0).describe()))
            raise


def tell(*lines: str) -> None:
    """Print to standard error; where nobody can read it, the run is worth more than the words."""
    with contextlib.suppress(OSError, ValueError):
        print("\n".join(lines), file=sys.stderr, flush=True)


def _place(url: str) -> str:
    """The URL without a user and password."""
    parts = urlsplit(url)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()


def _lines(text: str) -> str:
    return "\n".join(printable(line) for line in text.splitlines())
