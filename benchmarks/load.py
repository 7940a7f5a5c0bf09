"""What loading the plugin costs a run that does not use it: ``pytest --collect-only -q`` on one empty test file.

CPU time of the whole process, as the system accounts it: the wall time of so short a run says more about the machine.
"""

from __future__ import annotations

import os
import statistics
import sys
import tempfile
from pathlib import Path

from benchmarks.table import show


def main(count: int) -> None:
    """Print the time with the plugin and with ``-p no:gputrace``, and what the difference is."""
    with tempfile.TemporaryDirectory(prefix="gputrace-bench-") as folder:
        (Path(folder) / "test_empty.py").write_text("")
        # Many cheap pairs, one uncounted, and the median of the differences.
        measured = [(_cpu_ms(folder), _cpu_ms(folder, "-p", "no:gputrace")) for _ in range(5 * count + 1)][1:]
    show(
        "CPU time of `pytest --collect-only -q` without --gputrace: `python -m benchmarks load`",
        ["with -p no:gputrace", "with the plugin", "added (median of pairs)"],
        [
            [
                f"{statistics.median(rival for _, rival in measured):.0f} ms",
                f"{statistics.median(ours for ours, _ in measured):.0f} ms",
                f"{statistics.median(ours - rival for ours, rival in measured):.1f} ms",
            ]
        ],
    )


def _cpu_ms(folder: str, *options: str) -> float:
    # As installed: Python keeps its compiled files, and pytest finds the plugin by its entry point.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", f"--rootdir={folder}", *options, folder]
    null = [(os.POSIX_SPAWN_OPEN, number, os.devnull, os.O_RDWR, 0) for number in (0, 1, 2)]
    process = os.posix_spawn(sys.executable, command, environment, file_actions=null)
    usage = os.wait4(process, 0)[2]
    return (usage.ru_utime + usage.ru_stime) * 1e3
