"""Loading the plugin costs nothing: no heavy package, no other room of ours, no time."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pytest

LIGHT = {
    "pytest_gputrace",
    "pytest_gputrace.plugin",
    "pytest_gputrace.plugin.contracthooks",
    "pytest_gputrace.plugin.contractoptions",
    "pytest_gputrace.plugin.fixtures",
    "pytest_gputrace.plugin.folders",
    "pytest_gputrace.plugin.options",
}
MAX_MS = 10.0


def python(code: str) -> str:
    """What a fresh interpreter prints."""
    command = [sys.executable, "-c", textwrap.dedent(code)]
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=60).stdout


def test_modules_after_start_up(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import sys

        def test_modules():
            ours = {name for name in sys.modules if name.partition(".")[0] == "pytest_gputrace"}
            print("\\nOURS", *sorted(ours))
            print("HEAVY", *sorted({"torch", "numpy", "orjson", "filelock"} & sys.modules.keys()))
        """
    )
    # Other plugins may import what they like; only ours is looked at.
    command = [sys.executable, "-m", "pytest", "-s", "-p", "pytest_gputrace.plugin", "-p", "no:cacheprovider"]
    env = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTEST_ADDOPTS": ""}
    result = subprocess.run(command, capture_output=True, text=True, timeout=60, cwd=pytester.path, env=env)
    lines = result.stdout.splitlines()
    assert f"OURS {' '.join(sorted(LIGHT))}" in lines, result.stdout + result.stderr
    assert "HEAVY" in lines


def test_time() -> None:
    best_ms = python(
        """
        import sys, time
        import pytest

        def load():
            for name in [name for name in sys.modules if name.startswith("pytest_gputrace")]:
                del sys.modules[name]
            start = time.process_time()
            import pytest_gputrace.plugin
            return 1000 * (time.process_time() - start)

        print(min(load() for _ in range(5)))
        """
    )
    assert float(best_ms) < MAX_MS
