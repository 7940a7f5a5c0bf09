"""Whose files are waited for, and what came of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pytest_gputrace.control.verdict import RankVerdict

__all__ = ["Collection", "Expected", "profilers_of"]

# CUDA_PROFILER writes no file.
_PROFILERS = {"CPU": "torch", "GPU": "torch", "MEM": "memory", "PROTON": "proton", "VIZTRACER": "viztracer"}


def profilers_of(activities: Iterable[str]) -> tuple[str, ...]:
    """Which profilers write files for these activities, by the words that stand in names."""
    return tuple(dict.fromkeys(_PROFILERS[word] for word in activities if word in _PROFILERS))


@dataclass(frozen=True)
class Expected:
    """Which files are to come.

    Args:
        ranks: from how many workers.
        tags: from exactly these workers, under names of our own; where it is not given, of any.
        profilers: each worker has a file of each of them; at least one file where this is not given. Where it is
            empty no file is waited for, but an answer.
        profile_id: files count for this profile alone, by our own names or by TokenSpeed's, which begin with it.
        stages: each worker has a file of each of its profilers for each of these stages.
        every_stage: the same for each stage that any worker recorded, which is known when all have answered.
        one_prefix: files whose names begin with different ids, as SGLang's and TokenSpeed's, are not of one profile.
        own_names: files count under names of our own alone.

    Raises:
        ValueError: files are expected of nobody, or ``tags`` are not as many as ``ranks``.
    """

    ranks: int | None = None
    tags: tuple[str, ...] | None = None
    profilers: tuple[str, ...] | None = None
    profile_id: str | None = None
    stages: tuple[str, ...] | None = None
    every_stage: bool = False
    one_prefix: bool = False
    own_names: bool = False

    def __post_init__(self) -> None:
        if self.count < 1:
            raise ValueError("files are expected of nobody; give ranks, how many there are, or tags, one at least")
        if self.ranks is not None and self.ranks != self.count:
            raise ValueError(f"ranks={self.ranks}, and there are {self.count} tags; leave one of them out")

    @property
    def count(self) -> int:
        """How many workers there are."""
        return len(self.tags) if self.tags is not None else self.ranks or 0


@dataclass(frozen=True)
class Collection:
    """What came: a verdict on each rank, their ``files``, and ``others``, which are new and of nobody expected.

    ``ok`` when every rank is, and there are as many as were expected. ``message`` says it in one line.
    """

    ok: bool
    message: str
    ranks: tuple[RankVerdict, ...]
    files: tuple[str, ...] = ()
    others: tuple[str, ...] = ()

    def describe(self) -> str:
        """Lines for people: a line for each rank that is not ok, then how many are."""
        return "\n".join([*(each.describe() for each in self.ranks if each.verdict != "ok"), self.message])
