"""Which call on the host launched which work on the GPU, by their correlation id."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from pytest_gputrace.traces.vocabulary import runtime_calls

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from pytest_gputrace.traces.columns import Columns

__all__ = ["launch_rows"]


def launch_rows(columns: Columns, work: NDArray[np.intp]) -> NDArray[np.intp]:
    """The row of the call that launched each event of ``work``, -1 where none did.

    ``work`` holds rows. A correlation id that several calls have launches
    nothing, since nobody can tell which did.
    """
    calls = np.flatnonzero(runtime_calls(columns) & (columns.correlation > 0))
    found = np.full(len(work), -1, np.intp)
    if not len(calls) or not len(work):
        return found
    ids, first, counts = np.unique(columns.correlation[calls], return_index=True, return_counts=True)
    wanted = columns.correlation[work]
    place = np.minimum(np.searchsorted(ids, wanted), len(ids) - 1)
    right = (ids[place] == wanted) & (counts[place] == 1)
    found[right] = calls[first[place[right]]]
    return found
