"""The command as it is installed, in a process of its own, on files."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from pytest_gputrace.checks.rules import RULES
from pytest_gputrace.cli import main
from pytest_gputrace.fakes import FakeTrace


def gputrace(*arguments: str) -> tuple[int, str, str]:
    command = [sys.executable, "-m", "pytest_gputrace", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    return done.returncode, done.stdout, done.stderr


@pytest.fixture
def ranks() -> Path:
    """Rank 1 of 2 holds an event that ends before it begins; a note lies beside them."""
    Path("run").mkdir()
    for rank in range(2):
        trace = FakeTrace(rank=rank, world_size=2)
        if rank:
            trace.events[trace.index(ph="X", cat="kernel")]["dur"] = -1
        trace.write(Path(f"run/trace-rank{rank}.json"))
    Path("run/notes.txt").touch()
    return Path("run")


@pytest.mark.usefixtures("ranks")
def test_a_folder_with_a_broken_rank() -> None:
    code, out, err = gputrace("check", "run", "--jobs", "2", "--expect-ranks", "3")
    assert (code, err) == (1, "")
    lines = out.splitlines()
    assert lines[0].startswith("run/trace-rank1.json: event ")
    assert ": GT301 negative-duration [error] " in lines[0]
    assert any(": GT501 missing-rank [error] " in line for line in lines)
    assert "ignored 1 (not called like a trace: run/notes.txt)" in lines
    assert "GT301" in lines[-1]
    assert "rank1" not in lines[0].split("[error]")[1]  # the path is said once


@pytest.mark.usefixtures("ranks")
@pytest.mark.parametrize("format", ["json", "sarif", "github"])
def test_reports_for_machines_agree(format: str) -> None:
    code, out, err = gputrace("check", "run/trace-rank1.json", "--select", "negative-duration", "--format", format)
    assert (code, err) == (1, "")
    if format == "json":
        document = json.loads(out)
        [finding] = document["files"][0]["findings"]
        assert (finding["code"], finding["rank"], document["summary"]["errors"]) == ("GT301", 1, 1)
    elif format == "sarif":
        run = json.loads(out)["runs"][0]
        assert run["results"][0]["ruleId"] == "GT301"
        assert run["tool"]["driver"]["rules"][0]["help"]["text"].startswith("# GT301")
    else:
        assert out.startswith("::error file=run/trace-rank1.json,title=GT301 negative-duration::event ")


@pytest.mark.usefixtures("ranks")
def test_a_good_file_is_clean() -> None:
    code, out, err = gputrace("check", "run/trace-rank0.json")
    assert (code, err) == (0, "")
    assert out.splitlines()[0].startswith("1 file, ")


@pytest.mark.parametrize(
    ("arguments", "told"),
    [(["gone.json"], "gone.json: there is no such file or folder"), ([".", "--select", "GT9"], "no rule has the code")],
)
def test_wrong_use(arguments: list[str], told: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", *arguments]) == 2
    assert capsys.readouterr().err.startswith(f"gputrace check: {told}")


@pytest.mark.usefixtures("ranks")
def test_a_cut_file_is_told_repaired_and_fine_again(capsys: pytest.CaptureFixture[str]) -> None:
    whole = Path("run/trace-rank0.json").read_text()
    Path("cut.json").write_text(whole[: len(whole) // 2])
    assert main(["check", "cut.json", "--select", "GT2"]) == 1
    assert "GT202 cut-short [error]" in capsys.readouterr().out
    code, out, err = gputrace("repair", "cut.json", "-o", "saved.json")
    assert (code, err) == (0, "")
    assert out.startswith("cut.json: ")
    assert "saved to saved.json; lost: nobody knows how many events" in out
    assert main(["check", "saved.json", "--select", "GT2"]) == 0
    assert main(["repair", "cut.json", "-o", "saved.json"]) == 2


@pytest.mark.usefixtures("ranks")
def test_it_shows_all() -> None:
    code, out, err = gputrace("show", "run", "--format", "json")
    assert (code, err) == (0, "")
    assert [file["rank"] for file in json.loads(out)["files"]] == [0, 1]


def test_every_rule_has_its_page() -> None:
    code, out, err = gputrace("rules", *RULES)
    assert (code, err) == (0, "")
    assert all(f"# {code} " in out or f"# {code}:" in out for code in RULES)
