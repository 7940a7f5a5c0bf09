"""``gputrace doctor``: what people see, and its exit codes."""

from __future__ import annotations

import importlib.metadata
from typing import TYPE_CHECKING

import pytest

from pytest_gputrace.cli import main

if TYPE_CHECKING:
    from pathlib import Path


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


@pytest.mark.parametrize(
    ("pure", "there", "line"),
    [
        ("1", True, "read by Python alone, since GPUTRACE_PURE=1"),
        ("", True, "read by the compiled reader"),
        ("", False, "read by Python alone: there was no C compiler when the package was installed"),
    ],
)
def test_it_tells_how_traces_are_read(
    pure: str, there: bool, line: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("GPUTRACE_PURE", pure)
    monkeypatch.setattr("pytest_gputrace.traces.compiled.is_available", lambda: there)
    assert main(["doctor"]) == 0
    assert f"traces          {line}\n" in capsys.readouterr().out
