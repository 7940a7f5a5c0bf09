"""When recording begins and ends, step by step: counting alone, no profiler and no clock."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_gputrace.control.request import ProfileRequest

__all__ = ["Close", "Open", "Window"]


@dataclass(frozen=True)
class Open:
    """Begin to record; ``stage`` is that of the window, None where it is not done by stage."""

    stage: str | None


@dataclass(frozen=True)
class Close:
    """Record no more, and bring what there is to disk."""


class Window:
    """The windows of one profile: one, or one for each stage.

    A stage's window begins with its first step and ends when it is full, or with the first step of a stage that still
    waits for its own; without a number of steps with that of any other stage. A stage is recorded once. Steps of other
    stages, and of none, count for nothing.

    ``steps`` is how many steps the open window has, ``is_open`` whether there is one, ``is_done`` whether none will be
    any more. ``other_stages`` are those that came and are not asked for.
    """

    def __init__(self, request: ProfileRequest) -> None:
        self._first_step = request.start_step or 0
        self._num_steps = request.num_steps
        self._waiting = list(request.stages) if request.profile_by_stage else None
        self.at_once = request.start_step is None and not request.profile_by_stage
        self.is_open = False
        self.is_done = False
        self.stage: str | None = None
        self.steps = 0
        self.other_stages: dict[str, None] = {}

    @property
    def is_full(self) -> bool:
        """Whether the open window has all its steps."""
        return self.is_open and self._num_steps is not None and self.steps >= self._num_steps

    @property
    def has_count(self) -> bool:
        """Whether it ends by itself after a number of steps."""
        return self._num_steps is not None

    @property
    def waiting_for(self) -> tuple[str, ...]:
        """The stages of which no step was recorded so far."""
        return tuple(self._waiting or ())

    def before_step(self, number: int, stage: str | None) -> Iterator[Open | Close]:
        """What is to be done before step ``number``, which then counts."""
        stage = None if stage is None else str(stage).upper()  # a worker's own mistake must not stop its step
        if self.is_full or (self.is_open and self._is_ended_by(stage)):
            self.closed()
            yield Close()
        if not self.is_open and not self.is_done and number >= self._first_step and self._is_wanted(stage):
            self.opened(stage if self._waiting is not None else None)
            yield Open(self.stage)
        if self.is_open and (self._waiting is None or stage == self.stage):
            self.steps += 1

    def opened(self, stage: str | None) -> None:
        """Note that a window is open."""
        self.is_open, self.stage, self.steps = True, stage, 0
        if self._waiting is not None and stage is not None:
            self._waiting.remove(stage)

    def closed(self) -> None:
        """Note that the window is not open any more."""
        self.is_open = False
        self.is_done = not self._waiting

    def _is_ended_by(self, stage: str | None) -> bool:
        if self._waiting is None or stage in (None, self.stage):
            return False
        # Batches of several stages alternate: only for one that has nothing yet a count is left short.
        return self._num_steps is None or stage in self._waiting

    def _is_wanted(self, stage: str | None) -> bool:
        if self._waiting is None:
            return True
        if stage is not None and stage not in self._waiting:
            self.other_stages[stage] = None
        return stage in self._waiting
