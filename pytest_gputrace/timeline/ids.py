"""New numbers for the ids of each input, no two the same and none beyond what every viewer tells apart."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_gputrace.timeline.plan import IdMap

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy as np
    from numpy.typing import NDArray

__all__ = ["id_maps"]

# A viewer in JavaScript tells no two numbers apart beyond this.
_END = 2**53
# Ids that are numbered one after another lie closer than this, addresses do not.
_CLOSE = 2**32


def id_maps(
    ranges: Sequence[tuple[int, int] | None], reserved: int, known: Callable[[int], NDArray[np.int64]]
) -> tuple[list[IdMap], int]:
    """A map for each input, of whose ids the smallest and the largest are given; and the first number that is left.

    Ids are moved, input by input, so that the new ones follow each other; ``reserved`` numbers are needed behind them.
    Where that leads too far, those of an input whose ids are far apart are numbered one by one: ``known`` gives all ids
    of an input, sorted, each once.
    """
    fits = sum(each[1] - each[0] + 1 for each in ranges if each) + reserved < _END
    maps: list[IdMap] = []
    first = 1
    for index, each in enumerate(ranges):
        prefix = f"{index}:"
        if each is None:
            maps.append(IdMap(0, prefix))
        elif fits or each[1] - each[0] < _CLOSE:
            maps.append(IdMap(first - each[0], prefix))
            first += each[1] - each[0] + 1
        else:
            numbers = known(index)
            maps.append(IdMap(first, prefix, numbers))
            first += len(numbers)
    return maps, first
