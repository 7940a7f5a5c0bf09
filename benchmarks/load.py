"""What loading the plugin costs a run that does not use it: ``pytest --collect-only -q`` on one empty test file."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.table import pairs, show


def main(count: int) -> None:
    """Print the time with the plugin and with ``-p no:gputrace``, and what the difference is."""
    with tempfile.TemporaryDirectory(prefix="gputrace-bench-") as folder:
        (Path(folder) / "test_empty.py").write_text("")
        # As installed: Python keeps its compiled files, and pytest finds the plugin by its entry point.
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}

        def collect(*options: str) -> None:
            command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider", *options]
            # Its output is read: waiting for the exit alone, with a deadline, looks only every 50 ms.
            subprocess.run(
                [*command, folder], cwd=folder, env=environment, capture_output=True, check=False, timeout=60
            )

        # The process start is noisy beside what is measured: many cheap pairs, and the median of the differences.
        measured = pairs(collect, lambda: collect("-p", "no:gputrace"), 5 * count)
    added_ms = statistics.median((ours - rival) * 1e3 for ours, rival in measured)
    show(
        "`pytest --collect-only -q` without --gputrace: `python -m benchmarks load`",
        ["with -p no:gputrace", "with the plugin", "added (median of pairs)"],
        [
            [
                f"{statistics.median(rival for _, rival in measured) * 1e3:.0f} ms",
                f"{statistics.median(ours for ours, _ in measured) * 1e3:.0f} ms",
                f"{added_ms:.1f} ms",
            ]
        ],
    )
