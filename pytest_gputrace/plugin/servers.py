"""What `gputrace_server` gives a test: profiles of a serving engine, and an assertion that every rank's files came."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

import pytest

from pytest_gputrace.control.client import KINDS, ProfileClient
from pytest_gputrace.control.remote import RemoteProfile
from pytest_gputrace.errors import ControlError
from pytest_gputrace.fakes.engine import FakeEngine

if TYPE_CHECKING:
    import os
    from collections.abc import Callable
    from contextlib import ExitStack
    from pathlib import Path

    from pytest_gputrace.control.expected import Collection

__all__ = ["ServerFactory", "ServerProfile"]

_TIMEOUT_S = 600.0


class ServerProfile(RemoteProfile):
    """A `RemoteProfile` whose `collect` fails the test where a rank is not ok."""

    def collect(
        self,
        expected_ranks: int,
        *,
        timeout_s: float = 120.0,
        progress: Callable[[str], None] | None = None,
        check: bool = True,
    ) -> Collection:
        """As `RemoteProfile.collect`.

        Args:
            expected_ranks: how many ranks there must be.
            timeout_s: how long their files are waited for.
            progress: called now and then with what is waited for.
            check: raise an `AssertionError` with the verdict on each rank unless all are ok.
        """
        __tracebackhide__ = True
        collection = super().collect(expected_ranks, timeout_s=timeout_s, progress=progress)
        if check and not collection.ok:
            raise AssertionError(f"collect: not every rank is ok\n{collection.describe()}")
        return collection


class ServerFactory:
    """Makes a `ServerProfile` of an engine, given by its URL or as a `FakeEngine`; ``end`` stops what a test left running."""

    def __init__(self, folder: Callable[[], Path], end: ExitStack) -> None:
        self._folder, self._end = folder, end

    def __call__(
        self,
        server: object,
        *,
        kind: str | None = None,
        folder: str | os.PathLike[str] | None = None,
        token: str | None = None,
        timeout_s: float = _TIMEOUT_S,
    ) -> ServerProfile:
        """Control the profiles of ``server``.

        Args:
            server: its URL, or a fake engine, which tells ``kind`` and ``folder`` itself.
            kind: what it is, one of `pytest_gputrace.control.client.KINDS`; an endpoint of ours when left out.
            folder: where its workers write; the folder of this test when left out, for engines that can be told.
            token: what it asks for as ``Authorization: Bearer``.
            timeout_s: how long an answer is waited for; to stop may take an engine minutes.

        Raises:
            pytest.UsageError: it cannot be meant so.
        """
        if isinstance(server, FakeEngine):
            url, kind = server.url, kind or server.kind
            folder = server.folder if folder is None else folder
        elif isinstance(server, str):
            url, kind = server, kind or "gputrace"
        else:
            what = f"expected a URL or a FakeEngine, got {type(server).__name__}: {server!r}"
            raise pytest.UsageError(f"gputrace_server: {what}")
        if kind not in KINDS:
            raise pytest.UsageError(f"gputrace_server: kind={kind!r} is not one of {', '.join(KINDS)}")
        try:
            client = ProfileClient(url, kind=kind, token=token, timeout_s=timeout_s)
        except ControlError as error:
            raise pytest.UsageError(f"gputrace_server: {error}") from error
        profile = ServerProfile(client, self._folder() if folder is None else folder)
        if folder is None and not profile.can_be_told_where:
            what = f"an engine of kind {kind} cannot be told where to write; give the folder that it was started with"
            raise pytest.UsageError(f"gputrace_server: {what}")
        self._end.callback(_stop, profile)
        return profile


def _stop(profile: ServerProfile) -> None:
    """End what still runs; an engine that is gone runs nothing."""
    if profile.running:
        with suppress(ControlError):
            profile.stop()
