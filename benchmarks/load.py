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
        environment = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}

        def collect(*options: str) -> None:
            command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider", *options]
            subprocess.run(
                [*command, folder], cwd=folder, env=environment, stdout=subprocess.DEVNULL, check=False, timeout=60
            )

        # The process start is noisy beside what is measured: many cheap pairs, and the median of the differences.
        measured = pairs(lambda: collect("-p", "pytest_gputrace.plugin"), collect, 5 * count)
    added_ms = statistics.median((ours - rival) * 1e3 for ours, rival in measured)
    show(
        "Loading the plugin without --gputrace: `python -m benchmarks load`",
        ["pytest --collect-only -q", "with the plugin", "added (median of pairs)"],
        [
            [
                f"{statistics.median(rival for _, rival in measured) * 1e3:.0f} ms",
                f"{statistics.median(ours for ours, _ in measured) * 1e3:.0f} ms",
                f"{added_ms:.1f} ms",
            ]
        ],
    )
