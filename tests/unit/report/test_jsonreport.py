"""The report as JSON."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import orjson

from pytest_gputrace.checks.outcome import FileReport, Report
from pytest_gputrace.model import Finding, Severity
from pytest_gputrace.report.jsonreport import as_json, strict_json
from pytest_gputrace.traces.search import Ignored

if TYPE_CHECKING:
    from pytest_gputrace.checks.rule import Rule


def test_the_shape(report: Report, rules: dict[str, Rule]) -> None:
    document = json.loads(as_json(report))
    assert list(document) == ["files", "findings", "summary"]
    first, second = document["files"]
    assert list(first) == ["path", "format", "events", "gpu_events", "rank", "findings", "not_checked"]
    assert second == {
        "path": "run/rank0.json", "format": "kineto", "events": 34, "gpu_events": 1, "rank": 0, "findings": [],
        "not_checked": ["GT306"],
    }  # fmt: skip
    assert first["findings"][2] == {
        "code": "GT301", "severity": "error", "message": "dur -5 us", "event": 12, "byte": 3456, "rank": 1, "node": "n0",
    }  # fmt: skip
    assert document["findings"] == [
        {
            "path": None, "code": "GT501", "severity": "error", "message": "rank 2 of 3 left no file", "event": None,
            "byte": None, "rank": 2, "node": None,
        }
    ]  # fmt: skip
    assert document["summary"] == {
        "ok": False, "files": 2, "events": 1234, "gpu_events": 801, "size_bytes": 5700, "errors": 3, "warnings": 1,
        "infos": 1, "not_checked": ["GT508"],
        "ignored": [{"path": f"run/{name}", "why": "not the name of a trace"} for name in ("a.txt", "b.log")],
    }  # fmt: skip


def test_it_is_strict_whatever_names_hold() -> None:
    odd = 'a\udc80\ud800"\x00\u2028é.json'
    finding = Finding("GT301", Severity.ERROR, odd, node=odd, file=odd)
    report = Report((FileReport(odd, "unknown", 0, 0, 0, findings=(finding,)),), (finding,), {}, (Ignored(odd, odd),))
    document = orjson.loads(as_json(report))  # refuses halves of characters, as most readers do
    assert document["files"][0]["path"] == 'a\\udc80\\ud800"\x00\u2028é.json'
    assert document["findings"][0]["path"] == document["files"][0]["path"]


def test_plain_data_is_strict_too() -> None:
    data = {"a\udc80": [float("nan"), float("inf"), 1.5, 2, None, True], "b": ("x",)}
    assert orjson.loads(strict_json(data)) == {"a\\udc80": [None, None, 1.5, 2, None, True], "b": ["x"]}
