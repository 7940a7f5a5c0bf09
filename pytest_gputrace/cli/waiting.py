"""What is told of a long wait: a line on a terminal that is redrawn, elsewhere a plain one now and then."""

from __future__ import annotations

import shutil
import time
from typing import TYPE_CHECKING

from pytest_gputrace.cli.progress import BETWEEN_S, ProgressLine

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TextIO

__all__ = ["WaitingLine"]


_FIRST_S = 10.0
_EVERY_S = 30.0


class WaitingLine(ProgressLine):
    """A `ProgressLine` of words."""

    def __init__(self, stream: TextIO | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__(stream, clock)
        self._plain_s = clock() + _FIRST_S

    def tell(self, words: str) -> None:
        """Redraw the line with ``words``, or where there is no terminal write them if it was long ago."""
        # A name may hold what moves the cursor, and characters of two columns.
        text, now_s = ascii(words)[1:-1], self._clock()
        if self._visible and now_s >= self._next_s:
            self._drawn = True
            self._next_s = now_s + BETWEEN_S
            self._write(f"\r{text[: shutil.get_terminal_size().columns - 1]}\x1b[K")
        elif not self._visible and self._stream is not None and now_s >= self._plain_s:
            self._plain_s = now_s + _EVERY_S
            self._write(f"{text}\n")
