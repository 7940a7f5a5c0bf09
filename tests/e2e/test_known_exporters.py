"""The page of known exporters is what its program writes, byte for byte, with the releases that it names."""

from __future__ import annotations

import difflib
import importlib.metadata
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"
PROGRAM, PAGE = DOCS / "known_exporters.py", DOCS / "known-exporters.md"
DEADLINE_S = 1800
SHOWN = 40

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="simulated nodes need Linux")


def named_releases() -> dict[str, str]:
    """The packages that the page's own command installs."""
    return dict(re.findall(r"\b(\w+)==([\w.]+)", PAGE.read_text(encoding="utf-8").partition("\nWhat was run:")[0]))


def need_the_named_releases() -> None:
    for package, named in named_releases().items():
        try:
            installed = importlib.metadata.version(package).partition("+")[0]
        except importlib.metadata.PackageNotFoundError as error:
            pytest.skip(f"needs {package}: {error}")
        if installed != named:
            pytest.skip(f"the page is about {package} {named}, and {installed} is installed")


def test_the_page_names_what_it_was_made_with() -> None:
    assert list(named_releases()) == ["torch", "viztracer", "accelerate"]


def test_the_page_is_what_its_program_writes(tmp_path: Path) -> None:
    need_the_named_releases()
    written = tmp_path / PAGE.name
    # In a process of its own, as a reader runs it: neither pytest's warnings as errors nor the tests' coverage in it.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("COVERAGE_")}
    command = [sys.executable, str(PROGRAM), str(written)]
    run = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=DEADLINE_S, check=False)
    assert run.returncode == 0, run.stderr
    assert run.stdout == ""
    committed, now = (path.read_text(encoding="utf-8").splitlines() for path in (PAGE, written))
    difference = list(difflib.unified_diff(committed, now, "committed", "written now", lineterm="", n=0))
    assert not difference, "\n".join([*difference[:SHOWN], "tox -e known-exporters writes it again"])
    assert written.read_bytes() == PAGE.read_bytes()
