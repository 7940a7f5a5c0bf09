"""One way to measure pairs and to print them."""

from __future__ import annotations

import platform
import statistics
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


def machine() -> str:
    """What the numbers were measured on."""
    return f"{platform.machine()}, Python {platform.python_version()}"


def pairs(
    ours: Callable[[], object],
    rival: Callable[[], object],
    count: int,
    prepare: Callable[[], object] = lambda: None,
) -> list[tuple[float, float]]:
    """Seconds of ``ours`` and ``rival`` in turn, ``count`` times after one uncounted pair; ``prepare`` comes first."""
    measured = []
    for _ in range(count + 1):
        prepare()
        seconds = []
        for work in (ours, rival):
            start = time.perf_counter()
            work()
            seconds.append(time.perf_counter() - start)
        measured.append((seconds[0], seconds[1]))
    return measured[1:]


def median_ratio(measured: Sequence[tuple[float, float]]) -> float:
    """How many times faster ours was, as the median over pairs."""
    return statistics.median(rival / ours for ours, rival in measured)


def show(title: str, header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a Markdown table, as it stands in the docs."""
    print(f"\n{title} ({machine()})\n")
    widths = [max(len(row[column]) for row in [header, *rows]) for column in range(len(header))]
    for row in [header, ["-" * width for width in widths], *rows]:
        print("| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) + " |")
