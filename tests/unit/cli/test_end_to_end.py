"""The command as it is installed, in a process of its own, on files."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

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
def test_a_good_file_is_clean_and_a_code_that_is_not_there_is_wrong_use() -> None:
    assert gputrace("check", "run/trace-rank0.json")[0] == 0
    code, out, err = gputrace("check", "run", "--select", "GT9")
    assert (code, out) == (2, "")
    assert "GT9" in err
    assert gputrace("check", "gone.json") == (
        2, "", "gputrace check: gone.json: there is no such file or folder\n"
    )  # fmt: skip


@pytest.mark.usefixtures("ranks")
def test_a_cut_file_is_told_repaired_and_fine_again() -> None:
    whole = Path("run/trace-rank0.json").read_text()
    Path("cut.json").write_text(whole[: len(whole) // 2])
    code, out, _ = gputrace("check", "cut.json", "--select", "GT2")
    assert code == 1
    assert "GT202 cut-short [error]" in out
    code, out, err = gputrace("repair", "cut.json", "-o", "saved.json")
    assert (code, err) == (0, "")
    assert out.startswith("cut.json: ")
    assert "saved to saved.json; lost: nobody knows how many events" in out
    assert gputrace("check", "saved.json", "--select", "GT2")[0] == 0
    assert gputrace("repair", "cut.json", "-o", "saved.json")[0] == 2


@pytest.mark.usefixtures("ranks")
def test_it_shows_one_and_all() -> None:
    code, out, err = gputrace("show", "run/trace-rank0.json")
    assert (code, err) == (0, "")
    assert "kernels" in out
    code, out, err = gputrace("show", "run", "--format", "json")
    assert (code, err) == (0, "")
    assert [file["rank"] for file in json.loads(out)["files"]] == [0, 1]


def test_every_rule_has_its_page() -> None:
    from pytest_gputrace.checks.rules import RULES

    code, out, err = gputrace("rules", *RULES)
    assert (code, err) == (0, "")
    assert all(f"# {code} " in out or f"# {code}:" in out for code in RULES)
