"""Tells whoever watches how far a merge is, from several threads."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

__all__ = ["Watch"]

_PASSES = 2


class Watch:
    """Counts the bytes of all inputs, each of which is read twice."""

    def __init__(self, paths: Sequence[Path], watcher: Callable[[int, int, str], None] | None) -> None:
        self._watcher = watcher
        self._lock = threading.Lock()
        self._done = 0
        self._all = _PASSES * sum(map(_size, paths)) if watcher else 0

    def of(self, path: Path, what: str) -> Callable[[int], None] | None:
        """What to call with each count of bytes read of one input."""
        if self._watcher is None:
            return None
        watcher, words = self._watcher, f"{what} {path.name}"

        def read(count: int) -> None:
            with self._lock:
                self._done += count
                watcher(self._done, self._all, words)

        return read


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:  # whoever opens it says so
        return 0
