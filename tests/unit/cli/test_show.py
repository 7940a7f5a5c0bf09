"""``gputrace show``: one trace, several, and what is no trace."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pytest_gputrace.cli import main


def trace(path: str, *, rank: int = 0, kernels: int = 3) -> None:
    events: list[dict[str, Any]] = [
        {"ph": "X", "cat": "kernel", "name": f"k{n}", "ts": 10.0 * n, "dur": 5.0, "pid": 0, "tid": 7,
         "args": {"device": 0, "stream": 7, "correlation": n}}
        for n in range(kernels)
    ]  # fmt: skip
    document = {"schemaVersion": 1, "distributedInfo": {"rank": rank, "world_size": 2}, "traceEvents": events}
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    Path(path).write_text(json.dumps(document))


def test_one_trace(capsys: pytest.CaptureFixture[str]) -> None:
    trace("a.json")
    assert main(["show", "a.json"]) == 0
    assert capsys.readouterr().out.startswith("a.json\n")


def test_as_many_kernels_as_are_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    trace("a.json")
    for top in (1, 2):
        assert main(["show", "a.json", "--top", str(top), "--format", "json"]) == 0
        assert len(json.loads(capsys.readouterr().out)["kernels"]["top"]) == top


def test_a_folder_of_one_is_that_one(capsys: pytest.CaptureFixture[str]) -> None:
    trace("run/a.json")
    assert main(["show", "run"]) == 0
    assert "run/a.json" in capsys.readouterr().out.splitlines()[0]


def test_a_folder_of_several_is_a_line_for_each(capsys: pytest.CaptureFixture[str]) -> None:
    for rank in (1, 0):
        trace(f"run/r{rank}.json", rank=rank)
    Path("run/notes.txt").touch()
    assert main(["show", "run"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[-1] for line in lines[1:3]] == ["r0.json", "r1.json"]


def test_json(capsys: pytest.CaptureFixture[str]) -> None:
    trace("a.json")
    trace("run/b.json")
    assert main(["show", "a.json", "--format", "json"]) == 0
    one = json.loads(capsys.readouterr().out)
    assert (one["kind"], one["kernels"]["calls"]) == ("overview", 3)
    assert main(["show", "a.json", "run", "--format", "json"]) == 0
    both = json.loads(capsys.readouterr().out)
    assert (both["kind"], both["kernels"]) == ("overviews", 6)


def test_a_path_that_is_not_there(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", "gone.json"]) == 2
    assert capsys.readouterr() == ("", "gputrace show: gone.json: there is no such file or folder\n")


def test_a_folder_without_traces(capsys: pytest.CaptureFixture[str]) -> None:
    Path("run").mkdir()
    assert main(["show", "run"]) == 2
    assert capsys.readouterr().err == "gputrace show: no trace file in run\n"


@pytest.mark.parametrize("content", ["", "no json", '{"a": 1}'])
def test_what_is_no_trace_fails(content: str, capsys: pytest.CaptureFixture[str]) -> None:
    Path("a.json").write_text(content)
    assert main(["show", "a.json"]) == 1
    assert "BROKEN" in capsys.readouterr().out
    trace("b.json")
    assert main(["show", "a.json", "b.json"]) == 1
    assert "b.json" in capsys.readouterr().out


def test_a_file_that_the_system_does_not_give(capsys: pytest.CaptureFixture[str]) -> None:
    Path("a.json").symlink_to("nowhere")
    assert main(["show", "a.json"]) == 1
    assert capsys.readouterr() == ("", "gputrace show: a.json: No such file or directory\n")
    trace("b.json")
    assert main(["show", "a.json", "b.json"]) == 1
    assert "a.json: No such file or directory" in capsys.readouterr().out


def test_a_trace_that_was_cut_is_shown_as_far_as_it_goes(capsys: pytest.CaptureFixture[str]) -> None:
    trace("a.json")
    Path("a.json").write_text(Path("a.json").read_text()[:-200])
    assert main(["show", "a.json"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("BROKEN")
    assert "k0" in out
