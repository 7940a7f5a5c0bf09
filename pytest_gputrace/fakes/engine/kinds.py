"""Profilers that fail: each does what a real one does, but for one call."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_gputrace.control.activities.protocol import Kind, Recorder, Saved, Setup

__all__ = ["FailingKind", "RefusingKind"]


class RefusingKind:
    """Refuses whatever it is asked for."""

    def __init__(self, inner: Kind, reason: str) -> None:
        self._inner, self._reason = inner, reason
        self.words = inner.words

    def refusals(self, words: tuple[str, ...]) -> Iterator[str]:
        """The reason, and those of the real one."""
        yield f"{' and '.join(words)} cannot be recorded: {self._reason}"
        yield from self._inner.refusals(words)

    def recorder(self, setup: Setup) -> Recorder:
        """The real one's."""
        return self._inner.recorder(setup)


class FailingKind:
    """Its recorder raises at ``where``, if ``activity`` was asked for."""

    def __init__(self, inner: Kind, activity: str, where: Literal["start", "save"]) -> None:
        self._inner, self._activity, self._where = inner, activity, where
        self.words = inner.words

    def refusals(self, words: tuple[str, ...]) -> Iterator[str]:
        """Those of the real one."""
        yield from self._inner.refusals(words)

    def recorder(self, setup: Setup) -> Recorder:
        """The real one's, or what fails in its place."""
        recorder = self._inner.recorder(setup)
        return _Failing(recorder, self._activity, self._where) if self._activity in setup.words else recorder


class _Failing:
    def __init__(self, inner: Recorder, activity: str, where: Literal["start", "save"]) -> None:
        self._inner, self._activity, self._where = inner, activity, where
        self.profiler, self.thread_bound = inner.profiler, inner.thread_bound

    def start(self) -> None:
        if self._where == "start":
            raise RuntimeError(f"injected: {self._activity} cannot start")
        self._inner.start()

    def stop(self) -> None:
        self._inner.stop()

    def save(self) -> list[Saved]:
        # The real one would leave its session open: what comes after this fault should not be a fault of its own.
        self._inner.discard()
        raise OSError(f"injected: {self._activity} cannot write")

    def discard(self) -> None:
        self._inner.discard()
