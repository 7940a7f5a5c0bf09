"""One line on a terminal that says how far a long run is; silent in a pipe, and gone when the run is over."""

from __future__ import annotations

import contextlib
import itertools
import shutil
import sys
import time
from typing import TYPE_CHECKING, TextIO

from pytest_gputrace.checks.outcome import Progress
from pytest_gputrace.cli.terminal import is_terminal
from pytest_gputrace.report.wording import size

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

__all__ = ["BETWEEN_S", "ProgressLine", "ReadingLine"]

_SILENT_S = 0.5
BETWEEN_S = 0.2
_BAR_CELLS = 20


class ProgressLine:
    """The line; use it with `contextlib.closing`, so that it is erased whatever the end is."""

    def __init__(self, stream: TextIO | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        self._stream = sys.stderr if stream is None else stream
        self._clock = clock
        self._visible = is_terminal(self._stream)
        self._next_s = clock() + _SILENT_S
        self._drawn = False

    def close(self) -> None:
        """Erase the line."""
        if self._drawn:
            self._write("\r\x1b[K")

    def show(self, progress: Progress) -> None:
        """Redraw the line, unless it was drawn a moment ago or the run is still young."""
        now_s = self._clock()
        if not self._visible or now_s < self._next_s:
            return
        self._next_s = now_s + BETWEEN_S
        self._drawn = True
        width = shutil.get_terminal_size().columns - 1
        self._write(f"\r{_line(progress)[:width]}\x1b[K")

    def _write(self, text: str) -> None:
        with contextlib.suppress(OSError, ValueError):  # the terminal is gone; what is done is worth more
            self._stream.write(text)
            self._stream.flush()


class ReadingLine:
    """A `ProgressLine` for what reads files one after another and tells only how many bytes it has read."""

    def __init__(self, line: ProgressLine, paths: Sequence[Path]) -> None:
        self._line = line
        sizes = [_size_bytes(path) for path in paths]
        self._begins = [0, *itertools.accumulate(sizes)]

    def of(self, number: int, path: Path) -> Callable[[int], None]:
        """What to call with each count of bytes read of file ``number``, counted from 0."""
        done, files, total = self._begins[number], len(self._begins) - 1, self._begins[-1]

        def read(more: int) -> None:
            nonlocal done
            done += more
            self._line.show(Progress(number, files, done, total, path.name))

        return read


def _size_bytes(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:  # whoever opens it says so
        return 0


def _line(progress: Progress) -> str:
    part = min(1.0, progress.done_bytes / progress.bytes) if progress.bytes else 0.0
    bar = ("#" * int(part * _BAR_CELLS)).ljust(_BAR_CELLS, ".")
    words = [f"{part:4.0%} [{bar}] {size(progress.done_bytes)} of {size(progress.bytes)}"]
    if progress.files > 1:
        words.append(f"{progress.done_files} of {progress.files} files")
    # A name may hold what moves the cursor, and characters of two columns.
    words.append(ascii(progress.name)[1:-1])
    return ", ".join(words)
