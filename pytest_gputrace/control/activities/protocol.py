"""What one profiler must do to be recorded by a session.

A `Kind` stands for a profiler: what it is asked for by, and whether it can be had here. For each window it makes a
`Recorder`, which is used once. A session calls, always in this order: ``refusals`` of every kind; then, when a window
opens, ``recorder`` and ``start``; when it closes, ``stop`` of all recorders, the last started first, then ``save`` of
each. Where another one could not start, ``discard`` instead of ``stop`` and ``save``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from pytest_gputrace.control.output import Output

__all__ = ["Kind", "Recorder", "Saved", "Setup"]


@dataclass(frozen=True)
class Setup:
    """What a recorder is made for: the words of its kind that were asked for, and where its files go."""

    words: tuple[str, ...]
    output: Output
    with_stack: bool = False
    record_shapes: bool = False


@dataclass(frozen=True)
class Saved:
    """A published file, with the number of its events where it holds any. ``problem`` says what is wrong with it."""

    path: Path
    events: int | None = None
    problem: str = ""


class Recorder(Protocol):
    """One profiler over one window."""

    profiler: str
    """As it stands in the names of its files: ``torch``, ``memory``, ``proton``, ``viztracer``; empty without files."""
    thread_bound: bool
    """Whether only the thread that started it may stop it."""

    def start(self) -> None:
        """Begin to record.

        Raises:
            Exception: whatever the profiler raises; nothing records then.
        """

    def stop(self) -> None:
        """Record no more. Called once, after ``start``."""

    def save(self) -> list[Saved]:
        """Bring what was recorded to disk, complete, verified and under its final name.

        Raises:
            ActivityError: there is no file, or it holds nothing; says why.
            Exception: whatever the profiler raises.
        """

    def discard(self) -> None:
        """Stop and leave nothing on disk; never raises."""


class Kind(Protocol):
    """One profiler, as this process has it."""

    words: tuple[str, ...]
    """The activities that it records, such as ``("CPU", "GPU")``."""

    def refusals(self, words: tuple[str, ...]) -> Iterable[str]:
        """Why ``words`` cannot be recorded in this process now, each a sentence that says what to do; changes nothing.

        A profiler that records already, owned by somebody else, is one reason.
        """

    def recorder(self, setup: Setup) -> Recorder:
        """What records one window."""
