"""What lay in a folder at one moment, so that a run can be told from what was there before it."""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

__all__ = ["Snapshot", "is_new", "snapshot"]

Snapshot: TypeAlias = "Mapping[str, tuple[int, int, int]]"
"""Of each file its inode, size and time of change; a file that was replaced or written differs in one of them."""


def snapshot(folders: Iterable[Path]) -> Snapshot:
    """All files below ``folders``, as they are now."""
    found = {}
    for folder in folders:
        for parent, _, names in os.walk(folder):
            for name in names:
                path = os.path.join(parent, name)
                with contextlib.suppress(OSError):  # gone again
                    found[path] = _stamp(path)
    return found


def is_new(path: str | os.PathLike[str], before: Snapshot) -> bool:
    """Whether ``path`` was made or changed since ``before``."""
    try:
        return before.get(os.fspath(path)) != _stamp(path)
    except OSError:
        return True


def _stamp(path: str | os.PathLike[str]) -> tuple[int, int, int]:
    status = os.lstat(path)
    return status.st_ino, status.st_size, status.st_ctime_ns
