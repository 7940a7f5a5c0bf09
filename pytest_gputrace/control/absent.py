"""Which workers did not come, told from those that did where their number alone is known."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_gputrace.control.owners import Owner

__all__ = ["absent"]


def absent(came: Sequence[Owner], needed: int, count: int) -> list[str]:
    """The names of the workers that did not come; one such as ``3 of 8 ranks`` where they cannot be told.

    Args:
        came: one file's owner for each worker that did.
        needed: how many did not.
        count: how many there are.
    """
    if needed <= 0:
        return []
    names = _by_rank(came, count) or _by_coordinates(came, count)
    return names if len(names) == needed else [f"{needed} of {count} ranks"]


def _by_rank(came: Sequence[Owner], count: int) -> list[str]:
    ranks = {each.rank for each in came}
    return [] if None in ranks or not ranks else [f"rank {rank}" for rank in range(count) if rank not in ranks]


def _by_coordinates(came: Sequence[Owner], count: int) -> list[str]:
    """Those absent from the grid that all coordinates seen span; of one dimension it has as many places as workers."""
    dimensions = {tuple(name for name, _ in each.coordinates) for each in came}
    if len(dimensions) != 1 or not (names := dimensions.pop()):
        return []
    places = {tuple(number for _, number in each.coordinates) for each in came}
    if len(names) == 1:
        sides: list[list[int]] = [list(range(count))]
    else:
        sides = [sorted(set(numbers)) for numbers in zip(*places, strict=True)]
    missing = [place for place in product(*sides) if place not in places]
    return ["-".join(f"{name}{number}" for name, number in zip(names, place, strict=True)) for place in missing]
