"""What a scheduler of the fake engine asks of the profile session it steps, whoever wrote it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from contextlib import AbstractContextManager
    from pathlib import Path

    from pytest_gputrace.control.reply import Reply
    from pytest_gputrace.model import WorkerId

__all__ = ["EngineSession", "NaiveFiles", "Place", "Wrapped"]


class EngineSession(Protocol):
    """A profile session of one scheduler: the library's own, another engine's, or one that is broken on purpose."""

    tag: str

    def start(self, request: Mapping[str, Any]) -> Reply:
        """Begin a profile."""

    def stop(self) -> Reply:
        """End it."""

    def cancel(self) -> Reply:
        """End it, and keep nothing."""

    def status(self) -> Reply:
        """What is going on."""

    def step(self, stage: str | None = None) -> AbstractContextManager[object]:
        """A step begins; the block is the step."""


class Place(Protocol):
    """What a scheduler offers to what happens in it."""

    worker: WorkerId

    def later(self, after_s: float, act: Callable[[], object]) -> None:
        """Have the scheduler's loop call ``act`` between two steps, in so many seconds at the earliest."""

    def after_reply(self, act: Callable[[], object]) -> None:
        """Have ``act`` called when the reply to the command at hand was sent."""


class NaiveFiles(Protocol):
    """The files that a naive session writes in place: their final paths, and what would be in them."""

    def folder(self, request: Mapping[str, Any]) -> Path:
        """Where they go."""

    def contents(self, request: Mapping[str, Any], steps: int, stage: str | None) -> Sequence[tuple[Path, bytes]]:
        """Those of one window of so many steps."""


class Wrapped:
    """A session that does what another one does; a fault overrides what it breaks."""

    def __init__(self, inner: EngineSession) -> None:
        self._inner = inner
        self.tag = inner.tag

    def start(self, request: Mapping[str, Any]) -> Reply:
        """Begin a profile."""
        return self._inner.start(request)

    def stop(self) -> Reply:
        """End it."""
        return self._inner.stop()

    def cancel(self) -> Reply:
        """End it, and keep nothing."""
        return self._inner.cancel()

    def status(self) -> Reply:
        """What is going on."""
        return self._inner.status()

    def step(self, stage: str | None = None) -> AbstractContextManager[object]:
        """A step begins."""
        return self._inner.step(stage)
