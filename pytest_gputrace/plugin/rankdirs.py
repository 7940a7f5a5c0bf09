"""SuperBench rank folders for a test."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from pytest_gputrace.fakes import RankDirs, make_rank_dirs

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Sequence

__all__ = ["RankDirsFactory"]


class RankDirsFactory:
    """Makes ``benchmarks/<configuration>/rank<N>`` below a folder."""

    def __init__(self, folder: Callable[[], Path]) -> None:
        self._folder = folder

    def __call__(
        self, configurations: Sequence[str], ranks: int | Sequence[int], root: str | os.PathLike[str] | None = None
    ) -> RankDirs:
        """Make a folder for each configuration and local rank; ``dirs[configuration, rank]`` is its path.

        Args:
            configurations: names such as ``model-benchmarks:gpt``.
            ranks: how many local ranks, or which.
            root: where, the test's own folder when left out.
        """
        return make_rank_dirs(self._folder() if root is None else Path(root), configurations, ranks)
