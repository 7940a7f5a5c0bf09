"""The line on a terminal for what tells in words what it waits for."""

from __future__ import annotations

import shutil

from pytest_gputrace.cli.progress import ProgressLine

__all__ = ["WaitingLine"]


class WaitingLine(ProgressLine):
    """A `ProgressLine` of words."""

    def tell(self, words: str) -> None:
        """Redraw the line with ``words``."""
        if self._visible and self._clock() >= self._next_s:
            self._drawn = True
            width = shutil.get_terminal_size().columns - 1
            # A name may hold what moves the cursor, and characters of two columns.
            self._stream.write(f"\r{ascii(words)[1:-1][:width]}\x1b[K")
            self._stream.flush()
