"""How many ranks there should be, and whether all of them are there."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from pytest_gputrace.timeline.workers import LAST_RANK, Worker, listed

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from pytest_gputrace.timeline.workers import Told

__all__ = ["Complete", "complete"]


class Complete(NamedTuple):
    """How many ranks there should be and which of them are absent; ``absent`` says so, and may be put up with."""

    expected: int | None
    missing: tuple[int, ...]
    reasons: list[str]
    absent: list[str]


def complete(files: Sequence[Told], workers: Sequence[Worker], expect_ranks: int | None) -> Complete:
    """How many ranks there should be, as said or as the files tell, and whether they are there."""
    expected, reasons = _expected(files, expect_ranks)
    reasons += _outside(files, workers, expected)
    if expected is None:
        return Complete(None, (), reasons, [])
    there = {worker for worker in workers if worker != Worker()} or set(workers)
    ranks = {worker.rank for worker in there if worker.rank >= 0}
    if (count := len(there)) > len(ranks):  # of some only the local rank is known
        told = f"files of {count} of {expected} ranks are there, and they do not tell which are missing"
        if count > expected:
            reasons.append(f"there are files of {count} workers, more than the {expected} that are expected")
        return Complete(expected, (), reasons, [f"{told}; --allow-missing merges these"] if count < expected else [])
    missing = tuple(rank for rank in range(expected) if rank not in ranks)
    told = f"{len(missing)} of {expected} ranks have no file: {listed(missing, ', ')}"
    return Complete(expected, missing, reasons, [f"{told}; --allow-missing merges the others"] if missing else [])


def _expected(files: Sequence[Told], expect_ranks: int | None) -> tuple[int | None, list[str]]:
    """The number of ranks, None where nobody knows it; and why what is told of it cannot be."""
    worlds: dict[int, Path] = {}
    for file in files:
        if file.world_size is not None and file.world_size > 1:
            worlds[file.world_size] = min(worlds.get(file.world_size, file.path), file.path)
    reasons = []
    if len(worlds) > 1:
        (small, one), *_, (great, other) = sorted(worlds.items())
        reasons.append(f"{one} is of a world of {small} ranks, {other} of one of {great}: are they of two jobs?")
    expected = expect_ranks if expect_ranks is not None else next(iter(worlds)) if len(worlds) == 1 else None
    if expected is None or 1 <= expected <= LAST_RANK + 1:
        return expected, reasons
    who = f"{worlds[expected]} says" if expect_ranks is None else "you say"
    return None, [*reasons, f"{who} that there are {expected} ranks; there can be 1 to {LAST_RANK + 1:,}"]


def _outside(files: Sequence[Told], workers: Sequence[Worker], expected: int | None) -> Iterator[str]:
    """Ranks that there cannot be, by their own world or by what is expected."""
    outside = {worker.rank for worker in workers if expected is not None and worker.rank >= expected}
    for file, worker in zip(files, workers, strict=True):
        if file.world_size is not None and 1 < file.world_size <= worker.rank:
            yield f"{file.path}: rank {worker.rank} cannot be in a world of {file.world_size} ranks"
            outside.discard(worker.rank)
    if outside:
        number = "rank" if len(outside) == 1 else "ranks"
        yield f"{number} {listed(sorted(outside), ', ')} beyond the {expected} that are expected"
