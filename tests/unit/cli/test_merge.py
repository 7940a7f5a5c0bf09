"""``gputrace merge``: what it asks of the engine, what it refuses before a file is read, what it prints, its exit codes."""

from __future__ import annotations

import gzip
import os
import sys
import types
from pathlib import Path
from typing import Any

import pytest

from pytest_gputrace.cli import main
from pytest_gputrace.errors import MergeError, PublishError
from pytest_gputrace.timeline.outcome import MergedInput, MergeResult
from pytest_gputrace.timeline.plan import Flows

ONE = MergedInput(
    Path("a.json"), "kineto", "rank 0", 0, "", 0, 10**18, 10**18 + 5000, 7, 3, 0, Flows(2, 0, 2), Flows(2, 0, 2)
)
LEFT_OUT: dict[str, Any] = {
    "ranks": {}, "align": "anchor", "assume_base": {}, "expect_ranks": None, "allow_missing": False, "keep_source": False,
    "force": False, "jobs": 1,
}  # fmt: skip


class Engine:
    """Gives a small result, or raises ``error``; ``asked`` is how it was called."""

    def __init__(self) -> None:
        self.asked: dict[str, Any] = {}
        self.error: BaseException | None = None

    def merge(self, inputs: list[str], output: Path, **asked: Any) -> MergeResult:
        asked.pop("progress")(5, 10, "reading a.json")
        self.asked = {"inputs": inputs, "output": output, **asked}
        if self.error is not None:
            raise self.error
        return MergeResult(output, (ONE,), (), None, (), "anchor", (), 10**18, 10**18 + 5000, 7, 0, 0, 100, ())


@pytest.fixture(autouse=True)
def engine(monkeypatch: pytest.MonkeyPatch) -> Engine:
    stand_in = Engine()
    module = types.ModuleType("pytest_gputrace.timeline.merge")
    module.__dict__["merge"] = stand_in.merge
    monkeypatch.setitem(sys.modules, "pytest_gputrace.timeline.merge", module)
    return stand_in


@pytest.fixture(autouse=True)
def _files() -> None:
    for name in ("a.json", "b.json", "run/c.json", "x=1.json"):
        Path(name).parent.mkdir(exist_ok=True)
        Path(name).write_text("[]")


def test_what_is_left_out(engine: Engine, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["merge", "a.json", "run", "-o", "out.json"]) == 0
    assert engine.asked == {"inputs": ["a.json", "run"], "output": Path("out.json"), **LEFT_OUT}
    out, err = capsys.readouterr()
    assert out.startswith("out.json: 1 file, 7 events, 5.00 us from the first event to the last, 100 B\n")
    assert err == ""


def test_all_that_can_be_asked_reaches_the_engine(engine: Engine) -> None:
    Path("out.json").touch()
    words = (
        "merge run --rank 0 a.json b.json --rank 12 run/c.json -o out.json --force --align collectives --keep-source"
    )
    more = "--assume-base a.json=5 --assume-base x=1.json=1796028603480660661 --expect-ranks 4 --allow-missing --jobs 2"
    assert main([*words.split(), "--rank", "0", "x=1.json", *more.split()]) == 0
    assert engine.asked == {
        "inputs": ["run"], "output": Path("out.json"), "ranks": {0: ["a.json", "b.json", "x=1.json"], 12: ["run/c.json"]},
        "align": "collectives", "assume_base": {"a.json": 5, "x=1.json": 1796028603480660661}, "expect_ranks": 4,
        "allow_missing": True, "keep_source": True, "force": True, "jobs": 2,
    }  # fmt: skip


def test_ranks_of_one_call_are_not_those_of_the_next(engine: Engine) -> None:
    for file in ("a.json", "b.json"):
        assert main(["merge", "--rank", "0", file, "-o", "out.json"]) == 0
        assert engine.asked["ranks"] == {0: [file]}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "the following arguments are required: -o/--output"),
        (
            ["--rank", "a.json", "b.json"],
            "argument --rank: 'a.json' is no rank; first the rank's number, then its files: ",
        ),
        (["--rank", "-1", "b.json"], "argument --rank"),
        (
            ["--rank", "3"],
            "argument --rank: rank 3 has no file; first the rank's number, then its files: --rank 0 viz.json",
        ),
        (
            ["a.json", "--assume-base", "a.json"],
            "argument --assume-base: 'a.json' is no FILE=NS; give whole nanoseconds",
        ),
        (["a.json", "--assume-base", "a.json=1.5"], "argument --assume-base: 'a.json=1.5' is no FILE=NS"),
        (["a.json", "--assume-base", "a.json=-5"], "argument --assume-base: 'a.json=-5' is no FILE=NS"),
        (["a.json", "--assume-base", "a.json=9999999999999999999"], "is no FILE=NS"),
        (["a.json", "--align", "clock"], "argument --align: invalid choice: 'clock'"),
        (["a.json", "--expect-ranks", "0"], "argument --expect-ranks: '0' is no number of at least 1"),
        (["a.json", "--jobs", "two"], "argument --jobs"),
    ],
)
def test_wrong_arguments(
    arguments: list[str], message: str, engine: Engine, capsys: pytest.CaptureFixture[str]
) -> None:
    output = ["-o", "out.json"] if arguments else []
    with pytest.raises(SystemExit) as caught:
        main(["merge", *arguments, *output])
    assert caught.value.code == 2
    err = capsys.readouterr().err
    assert message in err
    assert "usage: gputrace merge [PATH ...] [--rank N FILE ...]... -o OUT" in err
    assert engine.asked == {}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("gone.json -o out.json", "gone.json: there is no such file or folder"),
        ("--rank 0 gone.json -o out.json", "gone.json: there is no such file or folder"),
        ("a.json -o run", "run is a folder; give the name of a file in it"),
        ("a.json -o gone/out.json", "gone/out.json: there is no folder gone"),
        ("a.json -o pipe.json --force", "pipe.json is no regular file, and nothing else is ever replaced"),
        ("a.json -o old.json", "old.json exists already; give another name, or --force to replace it"),
        ("a.json -o nowhere.json", "nowhere.json exists already"),
        ("a.json b.json -o b.json --force", "b.json is one of the files to merge; give another name"),
        ("a.json --rank 1 b.json -o ./b.json --force", "b.json is one of the files to merge"),
        ("a.json -o link.json --force", "link.json is one of the files to merge"),
        ("run -o run/c.json --force", "run/c.json is one of the files to merge"),
        ("a.json --assume-base b.json=5 -o out.json", "--assume-base b.json=5: b.json is not among the files to merge"),
        ("a.json --assume-base a.json=5 --assume-base ./a.json=6 -o out.json", "--assume-base: two bases for ./a.json, 5 and 6"),
        ("a.json -o timeline.pftrace", "timeline.pftrace: a timeline is a .json or a .json.gz"),
        ("a.json -o -", "-: a timeline is a .json or a .json.gz"),
        (f"a.json -o {'n' * 300}.json", f"{'n' * 300}.json: the name is too long"),
    ],
)  # fmt: skip
def test_wrong_use_is_told_before_a_file_is_read(
    arguments: str, message: str, engine: Engine, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("old.json").write_text("old")
    Path("nowhere.json").symlink_to("nowhere")
    os.mkfifo("pipe.json")
    Path("link.json").symlink_to("a.json")
    assert main(["merge", *arguments.split()]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(f"gputrace merge: {message}")
    assert err.count("\n") == 1
    assert engine.asked == {}
    assert (Path("old.json").read_text(), Path("a.json").read_text()) == ("old", "[]")


@pytest.mark.parametrize(
    ("arguments", "reasons"),
    [
        ("", ["  there is nothing to merge: give files, or folders that hold some"]),
        ("empty", ["  there is nothing to merge. Passed over: empty: no trace is in it"]),
        (
            "--rank 0 a.json --rank 1 a.json",
            ["  a.json: one file under two ranks: --rank 0 a.json and --rank 1 a.json"],
        ),
    ],
)
def test_files_that_cannot_be_meant_so_are_wrong_use_too(
    arguments: str, reasons: list[str], engine: Engine, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("empty").mkdir()
    assert main(["merge", *arguments.split(), "-o", "out.json"]) == 2
    out, err = capsys.readouterr()
    assert (out, err.splitlines()) == ("", ["gputrace merge: the files given cannot be merged:", *reasons])
    assert engine.asked == {}


@pytest.mark.parametrize("name", ["run/timeline.json", "run/timeline.json.gz"])
def test_the_timeline_of_an_earlier_merge_may_lie_among_the_traces(name: str, engine: Engine) -> None:
    text = b'{"gputrace_merge":{"version":1},"traceEvents":[]}'
    Path(name).write_bytes(gzip.compress(text) if name.endswith(".gz") else text)
    assert main(["merge", "run", "-o", name]) == 2
    assert main(["merge", "run", "-o", name, "--force"]) == 0
    assert engine.asked["output"] == Path(name)


def test_every_reason_has_a_line(engine: Engine, capsys: pytest.CaptureFixture[str]) -> None:
    engine.error = MergeError("not merged", reasons=["rank 1 is absent", "a\n.json: byte 5: cut short"])
    assert main(["merge", "a.json", "-o", "out.json"]) == 1
    assert capsys.readouterr() == (
        "",
        "gputrace merge: not merged, nothing was written:\n  rank 1 is absent\n  a\\n.json: byte 5: cut short\n",
    )


@pytest.mark.parametrize(("cause", "code"), [(OSError(28, "No space left on device"), 1), (FileExistsError(), 2)])
def test_what_cannot_be_written_is_told(
    cause: OSError, code: int, engine: Engine, capsys: pytest.CaptureFixture[str]
) -> None:
    engine.error = PublishError("cannot write out.json: no", path=Path("out.json"))
    engine.error.__cause__ = cause
    assert main(["merge", "a.json", "-o", "out.json"]) == code
    assert capsys.readouterr() == ("", "gputrace merge: cannot write out.json: no\n")


def test_an_interrupt_ends_it_quietly(engine: Engine, capsys: pytest.CaptureFixture[str]) -> None:
    engine.error = KeyboardInterrupt()
    assert main(["merge", "a.json", "-o", "out.json"]) == 130
    assert capsys.readouterr() == ("", "gputrace merge: interrupted\n")


def test_a_terminal_shows_how_far_it_is(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("pytest_gputrace.cli.progress._SILENT_S", -1)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    assert main(["merge", "a.json", "-o", "out.json"]) == 0
    assert capsys.readouterr().err == "\r 50% [##########..........] 5 B of 10 B, reading a.json\x1b[K\r\x1b[K"


def test_names_of_odd_bytes_can_be_merged_and_printed(
    engine: Engine, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    name = os.fsdecode(b"\x80.json")
    assert main(["merge", "a.json", "-o", name]) == 0
    assert engine.asked["output"] == Path(name)
    assert capfdbinary.readouterr().out.startswith(b"\\udc80.json: 1 file, ")
