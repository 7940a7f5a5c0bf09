"""``gputrace check``: what it asks of the engine, what it prints where, and its exit codes."""

from __future__ import annotations

import io
import json
import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pytest_gputrace.checks.outcome import FileReport, Report
from pytest_gputrace.cli import main
from pytest_gputrace.errors import SelectionError, UnknownPathError
from pytest_gputrace.model import Finding, Severity
from pytest_gputrace.traces.search import Ignored

if TYPE_CHECKING:
    from tests.unit.cli.conftest import Engine


def with_finding(severity: Severity, *, path: str = "a.json") -> Report:
    finding = Finding("GT301", severity, "dur -5 us", event=1, byte=20)
    return Report((FileReport(path, "kineto", 5, 2, 100, findings=(finding,), looked_at={"GT301": 5}),))


def test_all_that_can_be_asked_reaches_the_engine(engine: Engine) -> None:
    arguments = "check a.json b --select GT3,GT501 --select gt2 --ignore GT302 --expect-ranks 8 --expect-gpu"
    assert main([*arguments.split(), "--jobs", "2", "--max-bytes", "500M"]) == 0
    progress = engine.asked.pop("progress")
    assert callable(progress)
    assert engine.asked == {
        "paths": ["a.json", "b"], "select": ("GT3", "GT501", "gt2"), "ignore": ("GT302",), "expect_ranks": 8,
        "expect_gpu": True, "jobs": 2, "max_bytes": 500 << 20,
    }  # fmt: skip


def test_what_is_left_out(engine: Engine) -> None:
    assert main(["check", "a.json"]) == 0
    del engine.asked["progress"]
    assert engine.asked == {
        "paths": ["a.json"], "select": (), "ignore": (), "expect_ranks": None, "expect_gpu": False, "jobs": 1,
        "max_bytes": None,
    }  # fmt: skip


def test_options_of_one_call_are_not_those_of_the_next(engine: Engine) -> None:
    for _ in range(2):
        assert main(["check", "a.json", "--select", "GT3"]) == 0
        assert engine.asked["select"] == ("GT3",)


@pytest.mark.parametrize(("severity", "code"), [(Severity.ERROR, 1), (Severity.WARNING, 0), (Severity.INFO, 0)])
def test_only_errors_fail(severity: Severity, code: int, engine: Engine, capsys: pytest.CaptureFixture[str]) -> None:
    engine.report = with_finding(severity)
    assert main(["check", "a.json"]) == code
    out, err = capsys.readouterr()
    assert out.startswith(f"a.json: event 1, byte 20: GT301 negative-duration [{severity.value}] dur -5 us\n")
    assert out.endswith("why, and how to fix it: gputrace rules GT301\n")
    assert err == ""


@pytest.mark.parametrize(
    ("format", "begin"),
    [("text", "a.json: event 1"), ("json", '{\n  "files"'), ("github", "::error file=a.json"), ("sarif", '{\n  "$sch')],
)
def test_every_format(format: str, begin: str, engine: Engine, capsys: pytest.CaptureFixture[str]) -> None:
    engine.report = with_finding(Severity.ERROR)
    assert main(["check", "a.json", "--format", format]) == 1
    out = capsys.readouterr().out
    assert out.startswith(begin)
    if begin.startswith("{"):
        json.loads(out)


@pytest.mark.parametrize(
    "error",
    [UnknownPathError("x.json: there is no such file or folder"), SelectionError("no rule has a code that begins GX")],
)
def test_wrong_use_is_told_in_one_line(error: Exception, engine: Engine, capsys: pytest.CaptureFixture[str]) -> None:
    engine.error = error
    assert main(["check", "x.json"]) == 2
    assert capsys.readouterr() == ("", f"gputrace check: {error}\n")


@pytest.mark.parametrize("arguments", [[], ["a", "--jobs", "-1"], ["a", "--max-bytes", "5X"], ["a", "--format", "xml"]])
def test_wrong_arguments(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["check", *arguments])
    assert caught.value.code == 2
    assert "usage: gputrace check" in capsys.readouterr().err


def test_no_trace_at_all_is_no_success(engine: Engine, capsys: pytest.CaptureFixture[str]) -> None:
    engine.report = Report((), ignored=(Ignored("run/a.txt", "not called like a trace"),))
    assert main(["check", "run", "more", "--format", "json"]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("gputrace check: no file in run, more is called like a trace (*.json, *.json.gz, ")
    assert err.endswith("; ignored 1 (not called like a trace: run/a.txt)\n")
    engine.report = Report(())
    assert main(["check", "run"]) == 2
    assert capsys.readouterr().err.endswith(", nor any other file\n")


def test_an_interrupt_ends_it_quietly(engine: Engine, capsys: pytest.CaptureFixture[str]) -> None:
    engine.error = KeyboardInterrupt()
    assert main(["check", "a.json"]) == 130
    assert capsys.readouterr() == ("", "gputrace check: interrupted\n")


def test_a_report_for_machines_in_a_file_and_one_for_people_on_the_terminal(
    engine: Engine, capsys: pytest.CaptureFixture[str]
) -> None:
    engine.report = with_finding(Severity.ERROR)
    for _ in range(2):  # an older report is replaced
        assert main(["check", "a.json", "--format", "sarif", "-o", "new/folder/report.sarif"]) == 1
        assert json.loads(Path("new/folder/report.sarif").read_text())["version"] == "2.1.0"
        assert capsys.readouterr().out.startswith("a.json: event 1, byte 20: GT301")


def test_no_report_of_an_earlier_run_is_left_where_this_one_fails(engine: Engine) -> None:
    Path("report.txt").write_text("clean")
    engine.error = UnknownPathError("gone")
    assert main(["check", "gone", "-o", "report.txt"]) == 2
    assert Path("report.txt").read_text() == ""


def test_a_trace_is_never_overwritten_by_the_report(engine: Engine, capsys: pytest.CaptureFixture[str]) -> None:
    Path("a.json").write_text("[]")
    Path("b").symlink_to("a.json")
    for output in ("a.json", "./a.json", "b"):
        assert main(["check", "a.json", "--format", "json", "--output", output]) == 2
        assert "is to be checked; write the report to another file" in capsys.readouterr().err
    assert Path("a.json").read_text() == "[]"
    assert engine.asked == {}


def test_a_report_is_not_written_where_the_next_check_would_take_it_for_a_trace(
    engine: Engine, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("run").mkdir()
    assert main(["check", "run", "--format", "json", "-o", "run/deep/report.json"]) == 2
    assert "run/deep/report.json lies in run, where the next check would take it for a trace" in capsys.readouterr().err
    assert not Path("run/deep").exists()
    assert main(["check", "run", "--format", "json", "-o", "run/report.txt"]) == 0
    assert main(["check", "run", "--format", "json", "-o", "report.json"]) == 0


@pytest.mark.parametrize("output", ["folder", "a.json/report", "/dev/full"])
def test_a_report_that_cannot_be_written_is_no_success(
    output: str, engine: Engine, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("folder").mkdir()
    Path("a.json").write_text("[]")
    assert main(["check", "a.json", "-o", output]) == 2
    assert capsys.readouterr().err.startswith(f"gputrace check: cannot write {output}: ")


def test_names_of_odd_bytes_can_be_printed_and_written(
    engine: Engine, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    engine.report = with_finding(Severity.ERROR, path=os.fsdecode(b"\x80\xc3\xa9.json"))
    assert main(["check", ".", "-o", "report.txt"]) == 1
    assert Path("report.txt").read_bytes().startswith(b"\\udc80\xc3\xa9.json: event 1")
    assert capfdbinary.readouterr().out.startswith(b"\\udc80\xc3\xa9.json: event 1")


def test_a_terminal_that_knows_ascii_only(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    stream = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    monkeypatch.setattr(sys, "stdout", stream)
    engine.report = with_finding(Severity.ERROR, path="é.json")
    assert main(["check", "."]) == 1
    assert stream.buffer.getvalue().startswith(b"\\xe9.json: event 1")


@pytest.mark.parametrize(("no_color", "colours"), [("", True), ("1", False)])
def test_colours_on_a_terminal_unless_forbidden(
    no_color: str, colours: bool, engine: Engine, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    engine.report = with_finding(Severity.ERROR)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("NO_COLOR", no_color)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    assert main(["check", "a.json", "-o", "report.txt"]) == 1
    assert ("\x1b[1;31m" in capsys.readouterr().out) is colours
    assert "\x1b" not in Path("report.txt").read_text()


def test_what_was_ignored_is_listed_when_all_is_clean_too(engine: Engine, capsys: pytest.CaptureFixture[str]) -> None:
    engine.report = replace(engine.report, ignored=(Ignored("a.txt", "not called like a trace"),))
    assert main(["check", "."]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "1 file, 5 events, 2 of a GPU: clean", "ignored 1 (not called like a trace: a.txt)",
    ]  # fmt: skip


def test_a_reader_who_has_seen_enough_does_not_hide_the_error(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    engine.report = with_finding(Severity.ERROR)
    reader, writer = os.pipe()
    os.close(reader)
    with open(writer, "w") as stream:
        monkeypatch.setattr(sys, "stdout", stream)
        assert main(["check", "a.json"]) == 1


def test_a_full_disk_behind_standard_output_is_no_success(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with open("/dev/full", "w") as stream:
        monkeypatch.setattr(sys, "stdout", stream)
        assert main(["check", "a.json"]) == 2
    assert capsys.readouterr().err == "gputrace check: cannot write to standard output: No space left on device\n"
    assert engine.asked
