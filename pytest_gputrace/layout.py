"""The executor's folder layout: ``benchmarks/<configuration>/rank<N>`` to and from (configuration, local rank).

Works on the text of a path alone: it never looks at the disk and never decides which rank a worker is.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

from pytest_gputrace.errors import LayoutError

__all__ = ["RankFolder", "rank_folder", "recognise", "resolve_configuration"]

_BENCHMARKS = "benchmarks"
# ASCII digits without leading zeros: `rank²` and `rank00` would be second names of a rank, and the executor moves an
# old folder aside as `rank0.bak1`, which no running worker lives in.
_RANK = re.compile(r"rank(0|[1-9][0-9]{0,17})")  # 18 digits are far above any rank, and int() refuses thousands


@dataclass(frozen=True)
class RankFolder:
    """One worker's folder, taken apart.

    ``root`` is the folder that holds ``benchmarks``, ``configuration`` the folders between it and ``rank<N>`` joined
    with ``/``, and ``local_rank`` the N: a rank on the node, never the global one.
    """

    root: Path
    configuration: str
    local_rank: int


def recognise(path: str | os.PathLike[str]) -> RankFolder | None:
    """Take a rank folder apart; ``None`` when ``path`` is not one.

    The configuration lies below the nearest ancestor called exactly ``benchmarks``. It may span several folders and
    contain ``:``, because the executor uses it as a path as it is (SuperBench, ``superbench/executor/executor.py``).

    Args:
        path: the folder itself, not a file in it. A relative one is taken from the current directory. Symbolic links
            are kept: a results folder that is a link to scratch storage still has its configuration in the name it
            was entered by, and has it nowhere else.
    """
    folder = Path(os.path.abspath(path))
    match = _RANK.fullmatch(folder.name)
    if match is None:
        return None
    ancestors = folder.parent.parts
    for index in range(len(ancestors) - 2, 0, -1):  # from the nearest; at least one folder below it, the root above
        if ancestors[index] == _BENCHMARKS:
            configuration = "/".join(ancestors[index + 1 :])
            return RankFolder(Path(*ancestors[:index]), configuration, int(match.group(1)))
    return None


def rank_folder(root: str | os.PathLike[str], configuration: str, local_rank: int) -> Path:
    """The folder of one worker below ``root``: what ``recognise`` takes apart again.

    Raises:
        LayoutError: the configuration is no relative path of plain folder names, or the local rank no rank; the
            folder would be one that ``recognise`` gives back as another, or not at all.
    """
    folder = Path(root, _BENCHMARKS, *configuration.split("/"), f"rank{local_rank}")
    parts = configuration.split("/")
    if _RANK.fullmatch(folder.name) is None:
        raise LayoutError(f"rank_folder: {local_rank} is not a local rank; local ranks count from 0", folder=folder)
    if "\0" in configuration or any(part in ("", ".", "..") for part in parts):
        raise LayoutError(
            f"rank_folder: configuration {configuration!r} is not a relative path of plain folder names; "
            "give names joined with '/', without empty parts, '.' or '..'",
            folder=folder,
        )
    if _BENCHMARKS in parts[:-1]:
        raise LayoutError(
            f"rank_folder: configuration {configuration!r} has a folder 'benchmarks' above another one, so its rank "
            "folder would be read back as a shorter configuration; rename that folder",
            folder=folder,
        )
    return folder


def resolve_configuration(explicit: str | None, folder: RankFolder | None) -> str | None:
    """The configuration, from what the caller said and the folder it runs in; ``None`` when neither says.

    Raises:
        LayoutError: the two differ, or ``explicit`` is empty.
    """
    if explicit is not None and not explicit:
        raise LayoutError(
            "the configuration given is empty, most likely from a variable that is not set; "
            "give a name, or give none (None) to take it from the rank folder"
        )
    if folder is None:
        return explicit
    if explicit is not None and explicit != folder.configuration:
        path = Path(folder.root, _BENCHMARKS, folder.configuration, f"rank{folder.local_rank}")
        raise LayoutError(
            f"the configuration given is {explicit!r}, but the rank folder {path} belongs to "
            f"{folder.configuration!r}; drop the one given, or run in the folder of {explicit!r}",
            folder=path,
        )
    return folder.configuration
