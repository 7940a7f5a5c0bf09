"""A check of files as SARIF 2.1.0, which code scanning takes."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from pytest_gputrace.model import Severity
from pytest_gputrace.report.places import in_order, relative, well_formed

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pytest_gputrace.checks.outcome import Report
    from pytest_gputrace.checks.rule import Rule
    from pytest_gputrace.model import Finding

__all__ = ["as_sarif"]

_SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
_LEVELS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.INFO: "note"}


def as_sarif(report: Report, rules: Mapping[str, Rule], page: Callable[[str], str], *, version: str) -> str:
    """One run, with the rules that found something and their pages."""
    found = [(finding, file.path) for file in report.files for finding in in_order(file.findings)]
    folder = _common_folder(report)
    found += [(finding, finding.file or folder) for finding in in_order(report.findings)]
    codes = sorted({finding.code for finding, _ in found})
    driver: dict[str, Any] = {"name": "gputrace", "rules": [_rule(code, rules, page) for code in codes]}
    if version:
        driver["version"] = version
    run = {
        "tool": {"driver": driver},
        "invocations": [{"executionSuccessful": True}],
        "results": [_result(finding, path, codes.index(finding.code)) for finding, path in found],
    }
    return json.dumps({"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}, indent=2, allow_nan=False)


def _rule(code: str, rules: Mapping[str, Rule], page: Callable[[str], str]) -> dict[str, Any]:
    if code not in rules:
        return {"id": code}
    rule, text = rules[code], page(code)
    return {
        "id": code,
        "name": rule.name,
        "shortDescription": {"text": rule.title},
        "fullDescription": {"text": rule.title},
        "help": {"text": text, "markdown": text},
        "defaultConfiguration": {"level": _LEVELS[rule.severity]},
    }


def _result(finding: Finding, path: str, rule_index: int) -> dict[str, Any]:
    # Code scanning shows nothing without a line. A byte of a compressed file is one of the text inside: no region of it.
    region = {"startLine": 1}
    if finding.byte is not None and not path.endswith(".gz"):
        region["byteOffset"] = finding.byte
    facts = {"event": finding.event, "byte": finding.byte, "rank": finding.rank, "node": finding.node}
    return {
        "ruleId": finding.code,
        "ruleIndex": rule_index,
        "level": _LEVELS[finding.severity],
        "message": {"text": well_formed(finding.message)},
        "locations": [{"physicalLocation": {"artifactLocation": {"uri": _uri(path)}, "region": region}}],
        "properties": {
            key: well_formed(value) if isinstance(value, str) else value
            for key, value in facts.items()
            if value is not None
        },
    }


def _uri(path: str) -> str:
    """Relative to the working directory where it can be, which code scanning takes for the repository's root."""
    below = relative(path)
    if below is None:
        return Path(os.path.abspath(path)).as_uri()
    return quote(os.fsencode(below))


def _common_folder(report: Report) -> str:
    """The folder that holds all files: where code scanning shows what is about none of them alone."""
    folders = [os.path.dirname(os.path.abspath(file.path)) for file in report.files]
    return os.path.commonpath(folders) if folders else "."
