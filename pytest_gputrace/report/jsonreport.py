"""Reports as strict JSON: a check of files, and any plain data."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any

from pytest_gputrace.model import Severity
from pytest_gputrace.report.places import in_order, well_formed

if TYPE_CHECKING:
    from pytest_gputrace.checks.outcome import FileReport, Report
    from pytest_gputrace.model import Finding

__all__ = ["as_json", "strict_json"]


def as_json(report: Report) -> str:
    """Every file with its findings, those of the set, and a summary."""
    document = {
        "files": [_file(file) for file in report.files],
        "findings": [{"path": finding.file, **_finding(finding)} for finding in in_order(report.findings)],
        "summary": _summary(report),
    }
    return strict_json(document)


def strict_json(data: Any) -> str:
    """Plain data as JSON that every reader takes: a number that no JSON holds is null, half a character escaped."""
    return json.dumps(_strict(data), indent=2, allow_nan=False)


def _strict(data: Any) -> Any:
    if isinstance(data, str):
        return well_formed(data)
    if isinstance(data, dict):
        return {_strict(key): _strict(value) for key, value in data.items()}
    if isinstance(data, list | tuple):
        return [_strict(value) for value in data]
    return None if isinstance(data, float) and not math.isfinite(data) else data


def _file(file: FileReport) -> dict[str, Any]:
    return {
        "path": file.path,
        "format": file.format,
        "events": file.events,
        "gpu_events": file.gpu_events,
        "rank": file.rank,
        "findings": [_finding(finding) for finding in in_order(file.findings)],
        "not_checked": list(file.not_checked),
    }


def _finding(finding: Finding) -> dict[str, Any]:
    return {
        "code": finding.code,
        "severity": finding.severity.value,
        "message": finding.message,
        "event": finding.event,
        "byte": finding.byte,
        "rank": finding.rank,
        "node": finding.node,
    }


def _summary(report: Report) -> dict[str, Any]:
    return {
        "ok": report.ok,
        "files": len(report.files),
        "events": sum(file.events for file in report.files),
        "gpu_events": sum(file.gpu_events for file in report.files),
        "size_bytes": sum(file.size_bytes for file in report.files),
        "errors": report.count(Severity.ERROR),
        "warnings": report.count(Severity.WARNING),
        "infos": report.count(Severity.INFO),
        "not_checked": list(report.not_checked),
        "ignored": [{"path": entry.path, "why": entry.why} for entry in report.ignored],
    }
