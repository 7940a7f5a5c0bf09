"""Who a session's worker is, as the names of its files tell it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_gputrace.identity import identify
from pytest_gputrace.windownames import worker_tag

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pytest_gputrace.model import WorkerId

__all__ = ["tag_of"]


def tag_of(worker: WorkerId | None, coordinates: Mapping[str, int]) -> str:
    """The tag of ``worker``, or of this process.

    Of a process that no launcher tells its rank, coordinates are all there is: an engine numbers its own workers, and a
    rank of 0 made up for each of them would be a lie. Where there are none either it is rank 0.

    Raises:
        IdentityError: two sources disagree about this process.
        NamingError: a coordinate is none.
    """
    if worker is not None:
        return worker_tag(coordinates={**worker.coordinates, **coordinates}, node=worker.node, rank=worker.rank)
    identity = identify()
    known = {**identity.worker.coordinates, **coordinates}
    if any(source.rank is not None and source.name != "default" for source in identity.sources):
        return worker_tag(coordinates=known, node=identity.worker.node, rank=identity.worker.rank)
    return worker_tag(coordinates=known) if known else worker_tag(rank=0)
