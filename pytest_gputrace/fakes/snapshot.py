"""What lay in a folder at one moment, so that a run, or one turn of it, can be told from what was there before."""

from __future__ import annotations

import contextlib
import os
import time
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

__all__ = ["Snapshot", "differences", "is_new", "settled_snapshot", "snapshot"]

Snapshot: TypeAlias = "Mapping[str, tuple[int, int, int]]"
"""Of each file its inode, size and time of change; a file that was replaced or written differs in one of them."""

_COARSE_CLOCK = 5  # Linux' CLOCK_REALTIME_COARSE, which most kernels stamp files with; Python has no name for it
_SETTLING_S = 0.1  # many ticks of any kernel; longer only where a file is dated in the future
_NAP_S = 0.0005


def snapshot(folders: Iterable[Path], without: Path | None = None) -> Snapshot:
    """All files below ``folders``, as they are now, but for those below ``without``."""
    found: dict[str, tuple[int, int, int]] = {}
    waiting = [os.fspath(folder) for folder in folders]
    passed_over = None if without is None else os.fspath(without)
    while waiting:
        with contextlib.suppress(OSError), os.scandir(waiting.pop()) as entries:  # gone again
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    if entry.path != passed_over:
                        waiting.append(entry.path)
                else:
                    with contextlib.suppress(OSError):
                        found[entry.path] = _stamp(entry.path)
    return found


def settled_snapshot(folders: Iterable[Path], without: Path | None = None) -> Snapshot:
    """A snapshot after which every change gives a file another stamp.

    A file that is written twice within one tick of the kernel's clock keeps its time of change, so the tick is waited
    out where a file was changed in it. Nobody may write meanwhile.
    """
    found = snapshot(folders, without)
    newest_ns = max((changed_ns for _, _, changed_ns in found.values()), default=0)
    until = time.monotonic() + _SETTLING_S
    while time.clock_gettime_ns(_COARSE_CLOCK) <= newest_ns and time.monotonic() < until:
        time.sleep(_NAP_S)
    return found


def differences(before: Snapshot, after: Snapshot) -> tuple[str, ...]:
    """The sorted paths of the files that were made, changed, replaced or removed between the two."""
    return tuple(sorted(path for path in {*before, *after} if before.get(path) != after.get(path)))


def is_new(path: str | os.PathLike[str], before: Snapshot) -> bool:
    """Whether ``path`` was made or changed since ``before``."""
    try:
        return before.get(os.fspath(path)) != _stamp(path)
    except OSError:
        return True


def _stamp(path: str | os.PathLike[str]) -> tuple[int, int, int]:
    status = os.lstat(path)
    return status.st_ino, status.st_size, status.st_ctime_ns
