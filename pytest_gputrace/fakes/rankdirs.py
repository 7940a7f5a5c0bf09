"""Makes rank folders as SuperBench does, and folders that look like them and are not.

Written out on its own: whoever recognises such folders must not have made them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from pytest_gputrace.fakes.validate import configuration_names, whole

__all__ = ["OUTSIDE_LAYOUT", "RankDirs", "make_rank_dirs", "outside_layout"]

OUTSIDE_LAYOUT: tuple[str, ...] = (
    "other",
    "rank1",
    "benchmarks/config/worker0",
    "benchmarks/config/rankx",
    "benchmarks/config/rank0.bak1",
    "benchmarks/config/rank\u00b2",
    "benchmarks/rank0",
    "other/config/rank0",
)
"""Folders of one node that are no rank folders: a word too few or too many, a number that is none (``rankx``, a
superscript two, which Python's ``isdigit`` accepts), the name SuperBench gives to the folder of an earlier run
(``rank0.bak1``), or a rank's name outside any ``benchmarks``."""


class RankDirs(Mapping[tuple[str, int], Path]):
    """The folders that were made: ``dirs[configuration, rank]`` is a path."""

    def __init__(self, root: Path, folders: Mapping[tuple[str, int], Path]) -> None:
        self.root = root
        self._folders = dict(folders)

    def __getitem__(self, key: tuple[str, int]) -> Path:
        return self._folders[key]

    def __iter__(self) -> Iterator[tuple[str, int]]:
        return iter(self._folders)

    def __len__(self) -> int:
        return len(self._folders)

    def __repr__(self) -> str:
        return f"RankDirs({str(self.root)!r}, {len(self)} folders)"


def make_rank_dirs(root: Path | str, configurations: Sequence[str], ranks: int | Sequence[int]) -> RankDirs:
    """Make ``ROOT/benchmarks/CONFIGURATION/rankN`` for every configuration and local rank.

    The configuration is used as a path as it is: ``:`` stays, ``/`` makes nested folders.

    Args:
        root: SuperBench's output folder of one node.
        configurations: names such as ``model-benchmarks:gpt`` or ``nccl-bw:default``.
        ranks: how many local ranks, or which.

    Raises:
        TypeError: the configurations are one text, or something is no text or no whole number.
        ValueError: a configuration is no relative path of plain names or given twice, or there are no ranks.
    """
    root = Path(root)
    names = configuration_names("make_rank_dirs", configurations)
    numbers = _numbers(ranks)
    folders = {}
    for configuration in names:
        for rank in numbers:
            folder = root / "benchmarks" / configuration / f"rank{rank}"
            folder.mkdir(parents=True, exist_ok=True)
            folders[configuration, rank] = folder
    return RankDirs(root, folders)


def _numbers(ranks: int | Sequence[int]) -> Sequence[int]:
    if isinstance(ranks, str | bytes) or not isinstance(ranks, Iterable):
        return range(whole("make_rank_dirs", "ranks", ranks))
    numbers = [whole("make_rank_dirs", "rank", rank, 0) for rank in ranks]
    if not numbers:
        raise ValueError(f"make_rank_dirs: ranks={ranks!r} is empty; give how many ranks, or which")
    return numbers


def outside_layout(root: Path) -> dict[str, Path]:
    """Make the folders of ``OUTSIDE_LAYOUT``, by their path below ``root``."""
    folders = {name: root / name for name in OUTSIDE_LAYOUT}
    for folder in folders.values():
        folder.mkdir(parents=True, exist_ok=True)
    return folders
