"""The report for people."""

from __future__ import annotations

import textwrap
from dataclasses import replace
from typing import TYPE_CHECKING

from pytest_gputrace.checks.outcome import FileReport, Report
from pytest_gputrace.model import Finding, Severity
from pytest_gputrace.report.findings import as_text
from pytest_gputrace.traces.search import Ignored

if TYPE_CHECKING:
    from pytest_gputrace.checks.rule import Rule


def file(*findings: Finding, path: str = "a.json") -> FileReport:
    return FileReport(path, "kineto", 1, 0, 10, findings=findings, looked_at={"GT301": 1})


def test_each_finding_with_its_place_then_the_set_then_what_was_looked_at(
    report: Report, rules: dict[str, Rule]
) -> None:
    assert as_text(report, rules) == textwrap.dedent("""\
        run/rank 1.json: GT309 missing-base [warning] no baseTimeNanoseconds
        run/rank 1.json: event 2, byte 99: GT301 negative-duration [error] dur -1 us
        run/rank 1.json: event 12, byte 3456: GT301 negative-duration [error] dur -5 us
        run/rank 1.json: event 3: GT402 no-gpu-work [info] 50% sure, no GPU:\\nnone
        all files: GT501 missing-rank [error] rank 2 of 3 left no file
        2 files, 1,234 events, 801 of a GPU: 3 errors, 1 warning, 1 for information
        ignored 2 (not the name of a trace: run/a.txt, run/b.log)
        not checked, nothing to look at: GT306, GT508; 1 rule in some of the files; which: --format json
        why, and how to fix it: gputrace rules GT301 GT501 GT309 GT402""")


def test_a_clean_file_is_one_line(rules: dict[str, Rule]) -> None:
    assert as_text(Report((file(),)), rules) == "1 file, 1 event, 0 of a GPU: clean"


def test_warnings_alone_are_no_error(rules: dict[str, Rule]) -> None:
    warned = file(Finding("GT309", Severity.WARNING, "no base"))
    assert "0 of a GPU: no error, 1 warning\n" in as_text(Report((warned,)), rules)


def test_a_finding_of_the_set_about_one_file_names_it(rules: dict[str, Rule]) -> None:
    report = Report((file(),), (Finding("GT501", Severity.ERROR, "it is empty", file="b.json"),))
    assert as_text(report, rules).startswith("b.json: GT501 missing-rank [error] it is empty\n")


def test_many_of_one_code_in_one_file_are_cut_and_counted(rules: dict[str, Rule]) -> None:
    many = [Finding("GT301", Severity.ERROR, f"number {byte}", byte=byte) for byte in range(1013)]
    lines = as_text(Report((file(*many, path="a.json"), file(*many[:3], path="b.json"))), rules).splitlines()
    assert lines[:10] == [f"a.json: byte {n}: GT301 negative-duration [error] number {n}" for n in range(10)]
    assert lines[10] == "a.json: GT301 negative-duration: 1,003 more; all of them: --format json"
    assert [line.split(":")[0] for line in lines[11:14]] == ["b.json"] * 3
    assert "1,016 errors" in lines[14]


def test_names_out_of_files_cannot_forge_lines_or_clear_a_terminal(rules: dict[str, Rule]) -> None:
    evil = file(Finding("GT301", Severity.ERROR, "\x1b[2J\nb.json: clean"), path="a\n\x1b[1mb\udc80.json")
    text = as_text(replace(Report((evil,)), ignored=(Ignored("\x07", "a\nb"),)), rules)
    assert text.splitlines()[0] == (
        r"a\n\x1b[1mb\udc80.json: GT301 negative-duration [error] \x1b[2J\nb.json: clean"
    )  # fmt: skip
    assert r"ignored 1 (a\nb: \x07)" in text
    assert "\x1b" not in text


def test_colours_only_where_asked_for(report: Report, rules: dict[str, Rule]) -> None:
    assert "\x1b" not in as_text(report, rules)
    text = as_text(report, rules, colour=True)
    assert "\x1b[1;31mGT501 missing-rank [error]\x1b[0m rank 2 of 3" in text
    assert "\x1b[1;33mGT309" in text
    assert "\x1b[1;36mGT402" in text


def test_a_code_without_a_rule_is_shown_all_the_same() -> None:
    assert as_text(Report((file(Finding("GT999", Severity.ERROR, "odd")),)), {}).startswith("a.json: GT999 [error] odd")


def test_what_many_files_tell_for_information_is_told_once(rules: dict[str, Rule]) -> None:
    info = Finding("GT402", Severity.INFO, "no GPU")
    files = tuple(replace(file(replace(info, file=f"{name}.json")), path=f"{name}.json") for name in "abcd")
    assert as_text(Report(files), rules).splitlines()[0] == (
        "4 files: GT402 no-gpu-work [info] no GPU: a.json, b.json, c.json and 1 more"
    )


def test_a_file_that_no_rule_looked_at_is_not_clean(rules: dict[str, Rule]) -> None:
    report = Report((FileReport("a.json", "unknown", 0, 0, 0, looked_at={"GT401": 0}),))
    assert "clean" not in as_text(report, rules)
    assert "not checked by any rule: a.json" in as_text(report, rules)
    assert not report.ok
