"""The report for GitHub Actions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_gputrace.checks.outcome import FileReport, Report
from pytest_gputrace.model import Finding, Severity
from pytest_gputrace.report.annotations import as_annotations

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

    from pytest_gputrace.checks.rule import Rule


def test_a_command_for_each_finding_then_the_summary(report: Report, rules: dict[str, Rule]) -> None:
    assert as_annotations(report, rules).splitlines()[:6] == [
        "::warning file=run/rank 1.json,title=GT309 missing-base::no baseTimeNanoseconds",
        "::error file=run/rank 1.json,title=GT301 negative-duration::event 2, byte 99: dur -1 us",
        "::error file=run/rank 1.json,title=GT301 negative-duration::event 12, byte 3456: dur -5 us",
        "::notice file=run/rank 1.json,title=GT402 no-gpu-work::event 3: 50%25 sure, no GPU:\\nnone",
        "::error title=GT501 missing-rank::rank 2 of 3 left no file",
        "2 files, 1,234 events, 801 of a GPU: 3 errors, 1 warning, 1 for information",
    ]


def test_what_would_end_a_property_or_the_command_is_escaped(rules: dict[str, Rule]) -> None:
    finding = Finding("GT301", Severity.ERROR, "100%\r\n::error::forged, a:b")
    text = as_annotations(Report((FileReport("a,b:100%.json", "kineto", 0, 0, 0, findings=(finding,)),)), rules)
    assert text.splitlines()[0] == (
        r"::error file=a%2Cb%3A100%25.json,title=GT301 negative-duration::100%25\r\n::error::forged, a:b"
    )


def test_paths_are_as_seen_from_the_working_directory(
    rules: dict[str, Rule], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    finding = Finding("GT301", Severity.ERROR, "m")
    for path, shown in {str(tmp_path / "run/a.json"): "run/a.json", "/elsewhere/a.json": "/elsewhere/a.json"}.items():
        text = as_annotations(Report((FileReport(path, "kineto", 0, 0, 0, findings=(finding,)),)), rules)
        assert text.startswith(f"::error file={shown},")
