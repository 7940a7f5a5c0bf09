"""One profile of an engine elsewhere: asked for over HTTP, its files waited for in a folder that both sides see."""

from __future__ import annotations

import contextlib
import re
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_gputrace.control.collecting import collect
from pytest_gputrace.control.dialects import DIALECTS
from pytest_gputrace.control.expected import Expected, profilers_of
from pytest_gputrace.control.reply import Reply
from pytest_gputrace.control.request import DEFAULT_ACTIVITIES
from pytest_gputrace.control.snapshot import Snapshot
from pytest_gputrace.control.verdict import RankVerdict, shown
from pytest_gputrace.errors import ControlError, RequestError

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterator, Mapping

    from pytest_gputrace.control.answer import Answer
    from pytest_gputrace.control.client import ProfileClient
    from pytest_gputrace.control.expected import Collection

__all__ = ["RemoteProfile"]

_NAME_PROFILERS = ("gputrace", "tokenspeed", "sglang")
"""The kinds of engines whose files tell by their names which profiler wrote them."""

_NAME_PROFILES = ("sglang", "tokenspeed")
"""The kinds whose files of one profile begin with one id."""

_SEEN_LATER_S = 10.0
"""A folder that two machines share may show a file to one of them a little later."""


class RemoteProfile:
    """Profiles of one engine, one at a time, into ``folder``.

    Args:
        client: speaks to the engine.
        folder: where its workers write; it is named to engines that can be told. Made by them.
    """

    def __init__(self, client: ProfileClient, folder: str | os.PathLike[str]) -> None:
        self.client = client
        self.folder = Path(folder).absolute()
        self.running = False
        """Whether a profile may be running that we asked for."""
        self.started: Answer | None = None
        self.stopped: Answer | None = None
        self._before: Snapshot | None = None
        self._activities: tuple[str, ...] = ()
        self._by_stage = False

    def start(self, **fields: Any) -> Answer:
        """Ask for a profile, with fields of `ProfileRequest`; its ``ok`` says whether one runs now.

        Raises:
            RequestError: the engine cannot be asked so; nothing was sent.
            ControlError: it could not be reached, or it refused.
        """
        self.refuse(fields)
        told = self._told(fields)
        before = Snapshot.of(self.folder, marked=True)
        was_running, self.running = self.running, True  # an answer that does not come may have been a yes
        try:
            answer = self.client.start(**told)
        except ControlError as error:
            self.running = was_running or self.client.may_have_reached(error)
            raise
        self.running = was_running or answer.ok
        if answer.ok:
            self._before, self.started, self.stopped = before, answer, None
            self._by_stage = bool(told.get("profile_by_stage"))
            self._activities = tuple(word.upper() for word in told.get("activities") or DEFAULT_ACTIVITIES)
        return answer

    @property
    def can_be_told_where(self) -> bool:
        """Whether the engine takes the folder from us; any other was told when it was started."""
        return self.client.carries("output_dir")

    def refuse(self, fields: Mapping[str, Any]) -> None:
        """Hold the fields of a profile to what the engine can be told; sends nothing.

        Raises:
            RequestError: with every reason why it cannot be asked for this profile.
        """
        DIALECTS[self.client.kind].body(self._told(fields))
        words = [word.upper() for word in fields.get("activities") or DEFAULT_ACTIVITIES]
        if words == ["CUDA_PROFILER"] and self.client.kind != "gputrace":
            raise RequestError("CUDA_PROFILER alone writes no file that could be waited for; its profiler, nsys, does")

    def _told(self, fields: Mapping[str, Any]) -> dict[str, Any]:
        return {**({"output_dir": str(self.folder)} if self.can_be_told_where else {}), **fields}

    def stop(self) -> Answer:
        """Stop what runs, wherever it was started; engines answer before all their workers have written.

        Raises:
            ControlError: the engine could not be reached, or it refused.
        """
        self.running = False
        self.stopped = answer = self.client.stop()
        return answer

    @contextlib.contextmanager
    def window(self, **fields: Any) -> Iterator[Answer]:
        """Record what is done in here; stopped whatever the end of it is.

        Raises:
            ControlError: no profile runs, or it could not be stopped.
        """
        answer = self.start(**fields)
        if not answer.ok:
            raise ControlError(f"the profile was not started: {answer.describe()}")
        try:
            yield answer
        finally:
            self.stop()

    def collect(
        self, expected_ranks: int, *, timeout_s: float = 120.0, progress: Callable[[str], None] | None = None
    ) -> Collection:
        """Wait until the files of so many ranks are complete on disk, and judge each rank.

        An engine of ours has waited itself: what it found missing is not waited for as long as that again, and ranks
        that it does not have are not waited for at all.
        ``progress`` is called now and then with what is waited for.

        Raises:
            ControlError: no profile was started.
        """
        if self._before is None or self.started is None:
            raise ControlError("nothing to collect: no profile was started here")
        told = {} if self.stopped is None else {each.rank: each for each in self.stopped.ranks}
        is_told = 0 < len(told) <= expected_ranks
        kind = self.client.kind
        profilers = profilers_of(self._activities) if kind in _NAME_PROFILERS else None
        expected = Expected(
            ranks=None if is_told else expected_ranks,
            tags=tuple(told) if is_told else None,
            profilers=profilers if kind == "gputrace" else profilers or None,
            profile_id=self.started.profile_id,
            every_stage=self._by_stage and kind in _NAME_PROFILERS,
            one_prefix=kind in _NAME_PROFILES,
            own_names=kind == "gputrace",
        )
        # Of any other rank it is not known whether it answered the engine.
        replies = {rank: _reply(each) for rank, each in told.items() if each.verdict in ("ok", "failed")}
        # What was complete on disk is looked at anew, and told by whoever looks.
        dead = {
            rank: re.split("; (?:all its files are complete|complete on disk):", each.message)[0]
            for rank, each in told.items()
            if each.verdict == "dead"
        }
        verdicts = {each.verdict for each in told.values()}
        if verdicts & {"missing", "truncated"} and "growing" not in verdicts:
            timeout_s = min(timeout_s, _SEEN_LATER_S)
        came = collect(
            self.folder,
            expected,
            before=self._before,
            timeout_s=timeout_s,
            replies=lambda: replies,
            deaths=lambda: dead,
            progress=progress,
        )
        came = replace(came, ranks=tuple(_as_told(each, told.get(each.rank)) for each in came.ranks))
        return _short(came, len(told), expected_ranks) if is_told and len(told) < expected_ranks else came


def _as_told(verdict: RankVerdict, told: RankVerdict | None) -> RankVerdict:
    """Of a rank that stays missing the engine knows more: whether it answered at all."""
    if told is None or not told.message or {verdict.verdict, told.verdict} != {"missing"}:
        return verdict
    return replace(verdict, message=shown(told.message))


def _short(came: Collection, told: int, expected: int) -> Collection:
    """What came of an engine that has fewer ranks than expected, as it says itself."""
    message = f"the engine has {told} rank{'' if told == 1 else 's'} alone"
    lacking = RankVerdict(f"{expected - told} of {expected} ranks", "missing", message)
    what = f"{came.message}; {message}, where {expected} were expected"
    return replace(came, ok=False, ranks=(*came.ranks, lacking), message=what)


def _reply(told: RankVerdict) -> Reply:
    """What a worker said, as far as the engine's verdict on it tells; its files are looked at anew."""
    failed = told.verdict == "failed"
    return Reply(not failed, "failed" if failed else "stopped", told.message, told.rank)
