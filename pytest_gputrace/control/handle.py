"""A worker as whoever controls it sees it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from pytest_gputrace.control.reply import Reply
    from pytest_gputrace.control.request import ProfileRequest
    from pytest_gputrace.control.session import Session

__all__ = ["LocalWorker", "WorkerHandle"]


class WorkerHandle(Protocol):
    """One worker, wherever it lives. Every method may be called from any thread, also while another call waits.

    A call may take for ever; whoever calls does not wait so long.
    """

    @property
    def tag(self) -> str:
        """Which worker, as in the names of its files; no other one has it."""

    def start(self, request: ProfileRequest) -> Reply:
        """Have its session start."""

    def stop(self) -> Reply:
        """Have its session stop."""

    def cancel(self) -> Reply:
        """Have its session end without keeping anything."""

    def status(self) -> Reply:
        """Ask its session."""

    def death(self) -> str:
        """How its process ended, such as ``killed by signal 9 (SIGKILL)``; empty while it lives. Waits for nothing."""


class LocalWorker:
    """The session of this process."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self.tag = session.tag

    def start(self, request: ProfileRequest) -> Reply:
        """Start the session."""
        return self._session.start(request)

    def stop(self) -> Reply:
        """Stop the session."""
        return self._session.stop()

    def cancel(self) -> Reply:
        """End the session's profile, and keep nothing of it."""
        return self._session.cancel()

    def status(self) -> Reply:
        """Ask the session."""
        return self._session.status()

    def death(self) -> str:
        """Never: who asks lives in the same process."""
        return ""
