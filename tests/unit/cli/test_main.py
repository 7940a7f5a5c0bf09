"""The command as a whole: how it starts, ends and is interrupted."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from pytest_gputrace.cli import main

if TYPE_CHECKING:
    from pathlib import Path


def test_whoever_reads_may_stop(tmp_path: Path) -> None:
    command = f"set -o pipefail; {sys.executable} -m pytest_gputrace rules | head -c 1"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=60, cwd=tmp_path)
    assert (done.stdout, done.stderr, done.returncode) == ("G", "", 0)


def test_without_a_command_it_shows_its_use(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main([])
    assert caught.value.code == 2
    assert "doctor" in capsys.readouterr().err


def test_the_module_is_the_command(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "pytest_gputrace", "--version"],
        capture_output=True, text=True, timeout=60, check=True, cwd=tmp_path,
    )  # fmt: skip
    assert done.stdout.startswith("gputrace ")


def test_help_names_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["--help"])
    assert caught.value.code == 0
    out = capsys.readouterr().out
    assert all(command in out for command in ("check", "show", "repair", "rules", "doctor"))


@pytest.mark.parametrize("arguments", [["--help"], ["check", "--help"], ["--version"]])
def test_help_loads_nothing_heavy(arguments: list[str]) -> None:
    code = """
import sys
from pytest_gputrace.cli import main
try:
    main(sys.argv[1:])
except SystemExit:
    pass
print("HEAVY", *sorted({"numpy", "torch", "msgspec", "orjson", "multiprocessing"} & sys.modules.keys()))
"""
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.splitlines()[-1] == "HEAVY"
