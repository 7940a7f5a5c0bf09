"""Goes through the possible ends of the texts in a damaged value, until everything can be read."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from pytest_gputrace.repair.values import Broken, TooShort, Values

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["attempts"]

_T = TypeVar("_T")
_ATTEMPTS = 64
_STEPS = 4_000


def attempts(begin: Callable[[list[int]], Values], read: Callable[[Values], _T]) -> _T:
    """``read`` with one set of ends of texts after another, until it is through.

    Raises:
        Broken: as the first attempt did; no other came through.
    """
    first: Broken | None = None
    skips: list[int] = []
    steps = 0
    for _ in range(_ATTEMPTS):
        values = begin(skips)
        try:
            return read(values)
        except Broken as broken:
            first = first or broken
            if isinstance(broken, TooShort) and broken.intact:
                break
        steps += values.steps
        if not values.chosen or steps > _STEPS + 4 * values.steps:
            break
        skips = [*values.chosen[:-1], values.chosen[-1] + 1]
    raise first or Broken(0)
