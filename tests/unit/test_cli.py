"""The command: what people see, and its exit codes."""

from __future__ import annotations

import importlib.metadata
import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from pytest_gputrace.cli import main
from pytest_gputrace.conformance import CHECKS, page

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(autouse=True)
def _no_launcher(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in list(os.environ):
        if "RANK" in name or name.startswith(("SLURM_", "OMPI_", "WORLD_", "LOCAL_WORLD_")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("GPUTRACE_NODE_ID", "n1")
    monkeypatch.chdir(tmp_path)


def test_doctor_says_who_where_from_and_what_would_be_written(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {"RANK": "5", "WORLD_SIZE": "8", "LOCAL_RANK": "1"}.items():
        monkeypatch.setenv(name, value)
    assert main(["doctor", "--model", "resnet50"]) == 0
    out = capsys.readouterr().out
    assert "rank 5 of 8, local rank 1, node n1" in out
    assert "RANK=5" in out
    assert "qualified file  none: no configuration is given" in out
    assert "torch-profiler-sb-resnet50-1.json" in out
    assert main(["doctor", "--model", "resnet50", "--configuration", "fp16"]) == 0
    assert "qualified file  torch-profiler-sb-resnet50__cfg=fp16__node=n1-5.json" in capsys.readouterr().out


def test_doctor_knows_the_rank_folder(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    rank_dir = tmp_path / "benchmarks/fp16/rank2"
    rank_dir.mkdir(parents=True)
    monkeypatch.chdir(rank_dir)
    assert main(["doctor"]) == 0
    out = capsys.readouterr().out
    assert "rank folder of configuration fp16, local rank 2" in out
    assert "qualified file  torch-profiler-sb-model__cfg=fp16__node=n1-2.json" in out
    assert main(["doctor", "--configuration", "fp32"]) == 1
    assert "'fp32'" in capsys.readouterr().err


@pytest.mark.parametrize(("version", "line"), [("2.9", "torch           2.9"), ("", "torch           not installed:")])
def test_doctor_knows_torch_without_importing_it(
    version: str, line: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def known(_package: str) -> str:
        if version:
            return version
        raise importlib.metadata.PackageNotFoundError

    monkeypatch.setattr(importlib.metadata, "version", known)
    assert main(["doctor"]) == 0
    assert line in capsys.readouterr().out


def test_doctor_names_what_disagrees(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PROC_RANK", "2")
    monkeypatch.setenv("LOCAL_RANK", "1")
    assert main(["doctor"]) == 1
    assert "PROC_RANK=2" in capsys.readouterr().err


def test_rules_prints_a_page(capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("CT102", "ct102"):
        assert main(["rules", name]) == 0
        assert capsys.readouterr().out.rstrip("\n") == page("CT102").rstrip("\n")


def test_rules_lists_every_check(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["rules"]) == 0
    lines = [f"{check.id}  {check.title}" for check in CHECKS.values()]
    assert capsys.readouterr().out.splitlines() == lines
    assert "CT102" in CHECKS


@pytest.mark.parametrize("begin", ["CT1", "ct1", "CT10", "ct", "C"])
def test_rules_lists_the_checks_that_begin_so(begin: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["rules", begin]) == 0
    lines = [f"{check.id}  {check.title}" for check in CHECKS.values() if check.id.startswith(begin.upper())]
    assert capsys.readouterr().out.splitlines() == lines
    assert len(lines) > 1


def test_rules_prints_several(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["rules", "CT102", "ct103", "CT3"]) == 0
    out = capsys.readouterr().out
    assert out.startswith(f"{page('CT102').rstrip()}\n\n{page('CT103').rstrip()}\n\nCT301  ")


@pytest.mark.parametrize("name", ["GT101", "gt101", "GT"])
def test_rules_knows_what_gt_codes_are(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["rules", "CT102", name]) == 2
    told = f"{name} is no check: GT codes are findings of gputrace_check; see docs/reference/options.md"
    assert capsys.readouterr() == ("", f"gputrace rules: {told}\n")


@pytest.mark.parametrize(
    ("name", "hint"), [("CT102x", "did you mean CT102?"), ("nonsense", "all of them: gputrace rules")]
)
def test_rules_does_not_know_the_check(name: str, hint: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["rules", name]) == 2
    assert capsys.readouterr().err == f"gputrace rules: there is no {name}; {hint}\n"


def test_whoever_reads_may_stop(tmp_path: Path) -> None:
    command = f"set -o pipefail; {sys.executable} -m pytest_gputrace rules | head -c 1"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=60, cwd=tmp_path)
    assert (done.stdout, done.stderr, done.returncode) == ("C", "", 0)


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
