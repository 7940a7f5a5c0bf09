"""``gputrace repair``: what it asks, prints and refuses, and its exit codes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pytest_gputrace.cli import main
from pytest_gputrace.errors import PublishError
from pytest_gputrace.repair.outcome import Repaired


@pytest.fixture(autouse=True)
def _broken_trace() -> None:
    Path("a.json").write_text("[")


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """How the library was called; put ``result`` in, or what it raises."""
    calls: dict[str, Any] = {}

    def repair(path: Path, out: Path, *, document: int = 1) -> Repaired:
        calls.update(path=path, out=out, document=document)
        if isinstance(error := calls.get("result"), Exception):
            raise error
        return calls.get("result") or Repaired(path, out, 5, 0, 0, (), ())

    monkeypatch.setattr("pytest_gputrace.repair.repair", repair, raising=False)
    return calls


def test_it_writes_the_file_that_is_asked_for(asked: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["repair", "a.json", "-o", "b.json", "--document", "2"]) == 0
    assert asked == {"path": Path("a.json"), "out": Path("b.json"), "document": 2}
    assert capsys.readouterr().out.startswith("a.json: 5 events saved to b.json")


def test_nothing_saved_is_a_failure(asked: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    asked["result"] = Repaired(Path("a.json"), None, 0, None, 1, (), ("all",))
    assert main(["repair", "a.json", "-o", "b.json"]) == 1
    assert capsys.readouterr().out.startswith("a.json: nothing could be saved")


def test_nothing_is_ever_overwritten(asked: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    Path("link").symlink_to("nowhere")
    Path("good.json").write_text("[1]")
    for out in ("a.json", "good.json", "link"):
        assert main(["repair", "a.json", "-o", out]) == 2
        assert capsys.readouterr().err.startswith(f"gputrace repair: {out} exists already")
    assert (Path("good.json").read_text(), asked) == ("[1]", {})


@pytest.mark.parametrize(
    ("path", "why"), [("gone.json", "there is no such file"), (".", "a folder; one file at a time")]
)
def test_there_must_be_a_file(path: str, why: str, asked: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["repair", path, "-o", "b.json"]) == 2
    assert capsys.readouterr().err == f"gputrace repair: {path}: {why}\n"
    assert asked == {}


@pytest.mark.parametrize(
    ("error", "code"), [(PermissionError(13, "Permission denied"), 1), (PublishError("b.json: full", path=Path()), 2)]
)
def test_what_the_system_refuses_is_told(
    error: Exception, code: int, asked: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    asked["result"] = error
    assert main(["repair", "a.json", "-o", "b.json"]) == code
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("gputrace repair: ")
