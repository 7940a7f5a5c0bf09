"""One way to measure work on large files: each in a process of its own, by its time and by the most memory it held."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import textwrap
import time
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

__all__ = ["Measured", "made", "measure", "middle"]

_CHILD = """
import contextlib, os, sys, time
given = sys.argv[1:]
path = given[0]
with open(os.devnull, "w") as quiet, contextlib.redirect_stdout(quiet), contextlib.redirect_stderr(quiet):
    {prepare}
    start = time.perf_counter()
    with contextlib.suppress(SystemExit):
{work}
    seconds = time.perf_counter() - start
lines = open("/proc/self/status").read().splitlines()
print(seconds, next(line.split()[1] for line in lines if line.startswith("VmHWM:")))
"""


class Measured(NamedTuple):
    """What one process took."""

    seconds: float
    peak_bytes: int


def measure(
    python: str,
    prepare: str,
    work: str,
    *given: str | Path,
    outside: bool = False,
    environ: Mapping[str, str] | None = None,
) -> Measured:
    """Run ``work`` in a process of its own; timed from ``outside``, or from within.

    The code finds the paths in ``given``, the first also in ``path``.
    """
    code = _CHILD.format(prepare=prepare, work=textwrap.indent(work, " " * 8))
    start = time.perf_counter()
    done = subprocess.run(
        [python, "-c", code, *map(str, given)],
        stdout=subprocess.PIPE,
        text=True,
        timeout=1800,
        check=True,
        env={**os.environ, **(environ or {})},
    )
    whole = time.perf_counter() - start
    seconds, kilobytes = done.stdout.split()
    return Measured(whole if outside else float(seconds), int(kilobytes) * 1024)


def middle(measured: Sequence[Measured]) -> Measured:
    """The median of the times, and that of the peaks."""
    seconds, peaks = zip(*measured, strict=True)
    return Measured(statistics.median(seconds), round(statistics.median(peaks)))


def made(size_mb: int) -> list[str]:
    """The paths of the real traces, scaled to about this size; none where the real ones are not there.

    A process of its own makes the files: what this one holds, its children would seem to.
    """
    command = [sys.executable, "-m", "benchmarks.scaled", str(size_mb)]
    return subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False).stdout.split()
