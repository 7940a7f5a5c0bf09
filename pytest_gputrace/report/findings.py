"""A check of files as text for people: a line for each finding, grouped by file, and what was looked at."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from pytest_gputrace.model import Severity
from pytest_gputrace.report.places import in_order, listed, place
from pytest_gputrace.report.wording import count, printable

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from pytest_gputrace.checks.outcome import Report
    from pytest_gputrace.checks.rule import Rule
    from pytest_gputrace.model import Finding
    from pytest_gputrace.traces.search import Ignored

__all__ = ["as_text", "ignored_text", "label", "summary"]

_SHOWN_OF_ONE_CODE = 10
_EXPLAINED = 8
_SHOWN_ALIKE = 3
_LISTED = 8
_SET = "all files"
_COLOURS = {Severity.ERROR: "31", Severity.WARNING: "33", Severity.INFO: "36"}


def as_text(report: Report, rules: Mapping[str, Rule], *, colour: bool = False) -> str:
    """Every finding with its place, those of the set after those of the files, and the summary."""
    folded = _in_many_files(report)
    lines: list[str] = []
    for file in report.files:
        lines += _group(file.path, [one for one in file.findings if one.code not in folded], rules, colour=colour)
    for code, findings in folded.items():
        paths = [finding.file or "" for finding in findings]
        rule = f"{label(code, rules)} [{findings[0].severity.value}]"
        lines.append(f"{len(paths):,} files: {rule} {printable(findings[0].message)}: {listed(paths)}")
    lines += _group(_SET, report.findings, rules, colour=colour)
    return "\n".join([*lines, *summary(report)])


def summary(report: Report) -> list[str]:
    """What was looked at and what was not, how many findings there are, and where to read on."""
    files, infos = report.files, report.count(Severity.INFO)
    errors, warnings = report.count(Severity.ERROR), report.count(Severity.WARNING)
    counts = [count(errors, "error") if errors else "no error"]
    counts += [count(warnings, "warning")] if warnings else []
    counts += [f"{infos:,} for information"] if infos else []
    events, gpu_events = (sum(getattr(file, name) for file in files) for name in ("events", "gpu_events"))
    verdict = ", ".join(counts) if report.all_findings or report.unseen else "clean"
    lines = [f"{count(len(files), 'file')}, {count(events, 'event')}, {gpu_events:,} of a GPU: {verdict}"]
    if report.unseen:
        lines.append(f"not checked by any rule: {listed([file.path for file in report.unseen])}")
    if report.ignored:
        lines.append(f"ignored {ignored_text(report.ignored)}")
    lines += _not_checked(report)
    worst: dict[str, int] = {}
    for finding in report.all_findings:
        weight = list(Severity).index(finding.severity)
        worst[finding.code] = min(weight, worst.get(finding.code, weight))
    codes = sorted(worst, key=lambda code: (worst[code], code))
    if codes:
        more = f" (and {len(codes) - _EXPLAINED} more)" if len(codes) > _EXPLAINED else ""
        lines.append(f"why, and how to fix it: gputrace rules {' '.join(codes[:_EXPLAINED])}{more}")
    return lines


def _in_many_files(report: Report) -> dict[str, list[Finding]]:
    """What many files tell alike, and is no more than information: it is told once."""
    infos: dict[str, list[Finding]] = {}
    for file in report.files:
        for finding in file.findings:
            if finding.severity is Severity.INFO:
                infos.setdefault(finding.code, []).append(finding)
    return {code: findings for code, findings in infos.items() if len(findings) > _SHOWN_ALIKE}


def ignored_text(ignored: Sequence[Ignored]) -> str:
    """What was passed over, by reason: ``3 files (not a name of a trace: a.txt, b.log, c.md)``."""
    by_reason: dict[str, list[str]] = {}
    for entry in ignored:
        by_reason.setdefault(entry.why, []).append(entry.path)
    return "; ".join(f"{len(paths):,} ({printable(why)}: {listed(paths)})" for why, paths in by_reason.items())


def label(code: str, rules: Mapping[str, Rule]) -> str:
    """``GT301 negative-duration``."""
    return f"{code} {rules[code].name}" if code in rules else code


def _group(path: str, findings: Sequence[Finding], rules: Mapping[str, Rule], *, colour: bool) -> Iterator[str]:
    shown: Counter[str] = Counter()
    for finding in in_order(findings):
        shown[finding.code] += 1
        if shown[finding.code] <= _SHOWN_OF_ONE_CODE:
            yield _line(finding.file or path if path == _SET else path, finding, rules, colour=colour)
    for code, number in shown.items():
        more = number - _SHOWN_OF_ONE_CODE
        if more > 0:
            yield f"{printable(path)}: {label(code, rules)}: {more:,} more; all of them: --format json"


def _line(path: str, finding: Finding, rules: Mapping[str, Rule], *, colour: bool) -> str:
    rule = f"{label(finding.code, rules)} [{finding.severity.value}]"
    path = printable(path)
    if colour:
        rule = f"\x1b[1;{_COLOURS[finding.severity]}m{rule}\x1b[0m"
        path = f"\x1b[1m{path}\x1b[0m"
    where = place(finding)
    return (
        f"{path}: {where}: {rule} {printable(finding.message)}"
        if where
        else f"{path}: {rule} {printable(finding.message)}"
    )


def _not_checked(report: Report) -> Iterator[str]:
    counts = Counter(code for file in report.files for code in file.not_checked)
    nowhere = sorted([code for code, number in counts.items() if number == len(report.files)] + [*report.not_checked])
    partly = len(counts) + len(report.not_checked) - len(nowhere)
    parts = [", ".join(nowhere) if len(nowhere) <= _LISTED else f"{len(nowhere)} rules in no file"] if nowhere else []
    parts += [f"{count(partly, 'rule')} in some of the files"] if partly else []
    if parts:
        more = "; which: --format json" if partly or len(nowhere) > _LISTED else ""
        yield f"not checked, nothing to look at: {'; '.join(parts)}{more}"
