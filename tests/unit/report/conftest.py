"""A check of two files, one of them broken, and the rules that were broken."""

from __future__ import annotations

import pytest

from pytest_gputrace.checks.outcome import FileReport, Report
from pytest_gputrace.checks.rule import Rule
from pytest_gputrace.model import Finding, Severity
from pytest_gputrace.traces.search import Ignored


@pytest.fixture
def rules() -> dict[str, Rule]:
    return {
        "GT301": Rule("GT301", "negative-duration", "an event ends before it begins", Severity.ERROR),
        "GT309": Rule("GT309", "missing-base", "nothing says when times begin", Severity.WARNING),
        "GT402": Rule("GT402", "no-gpu-work", "nothing ran on a GPU", Severity.INFO),
        "GT501": Rule("GT501", "missing-rank", "a rank left no file", Severity.ERROR),
    }


@pytest.fixture
def report() -> Report:
    broken = FileReport(
        path="run/rank 1.json",
        format="kineto",
        events=1200,
        gpu_events=800,
        size_bytes=5000,
        rank=1,
        node="n0",
        findings=(
            Finding("GT301", Severity.ERROR, "dur -5 us", event=12, byte=3456, rank=1, node="n0"),
            Finding("GT402", Severity.INFO, "50% sure, no GPU:\nnone", event=3),
            Finding("GT301", Severity.ERROR, "dur -1 us", event=2, byte=99),
            Finding("GT309", Severity.WARNING, "no baseTimeNanoseconds"),
        ),
        looked_at={"GT301": 1200, "GT306": 0, "GT308": 0, "GT309": 1, "GT402": 1},
    )
    good = FileReport("run/rank0.json", "kineto", 34, 1, 700, rank=0, looked_at={"GT301": 34, "GT306": 0, "GT308": 4})
    return Report(
        files=(broken, good),
        findings=(Finding("GT501", Severity.ERROR, "rank 2 of 3 left no file", rank=2),),
        looked_at={"GT501": 3, "GT508": 0},
        ignored=(Ignored("run/a.txt", "not the name of a trace"), Ignored("run/b.log", "not the name of a trace")),
    )
