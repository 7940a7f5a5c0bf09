"""A check of files as workflow commands of GitHub Actions, which shows each at its file."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_gputrace.model import Severity
from pytest_gputrace.report.findings import label, summary
from pytest_gputrace.report.places import in_order, place, relative
from pytest_gputrace.report.wording import printable

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pytest_gputrace.checks.outcome import Report
    from pytest_gputrace.checks.rule import Rule
    from pytest_gputrace.model import Finding

__all__ = ["as_annotations"]

_COMMANDS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.INFO: "notice"}
_ESCAPES = {"%": "%25", "\r": "%0D", "\n": "%0A"}
_DATA = str.maketrans(_ESCAPES)
_PROPERTY = str.maketrans({**_ESCAPES, ":": "%3A", ",": "%2C"})


def as_annotations(report: Report, rules: Mapping[str, Rule]) -> str:
    """A command for each finding, then the summary, which GitHub shows as plain lines of the log."""
    commands = [_command(finding, path, rules) for path, finding in _all(report)]
    return "\n".join([*commands, *summary(report)])


def _all(report: Report) -> Iterator[tuple[str | None, Finding]]:
    for file in report.files:
        for finding in in_order(file.findings):
            yield file.path, finding
    for finding in in_order(report.findings):
        yield finding.file, finding


def _command(finding: Finding, path: str | None, rules: Mapping[str, Rule]) -> str:
    properties = {} if path is None else {"file": relative(path) or path}
    properties["title"] = label(finding.code, rules)
    given = ",".join(f"{key}={printable(value).translate(_PROPERTY)}" for key, value in properties.items())
    where = place(finding)
    message = f"{where}: {finding.message}" if where else finding.message
    return f"::{_COMMANDS[finding.severity]} {given}::{printable(message).translate(_DATA)}"
