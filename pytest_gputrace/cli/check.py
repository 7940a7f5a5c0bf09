"""``gputrace check``: judge trace files by every rule, and report for people or for machines."""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_gputrace.cli.commands import codes, count, jobs, size_bytes
from pytest_gputrace.cli.progress import ProgressLine
from pytest_gputrace.cli.reportfile import ReportFile
from pytest_gputrace.cli.terminal import has_colours, package_version, say

if TYPE_CHECKING:
    import argparse

    from pytest_gputrace.checks.outcome import Report
    from pytest_gputrace.cli.commands import Commands

__all__ = ["add"]


def add(commands: Commands) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser(
        "check",
        help="find what is wrong with trace files: cut or broken text, impossible times, missing kernels and ranks",
        description="Read GPU traces strictly (Kineto, Proton, VizTracer, SuperBench; plain or gzip), judge each file "
        "and all of them as a set, and say what is wrong, where, and what was not checked.",
        epilog="exit code: 0 no error (warnings are allowed), 1 an error was found, 2 wrong use, a path that does not "
        "exist, or no trace file at all, 130 interrupted. What a code means: gputrace rules GT301",
    )
    parser.add_argument(
        "paths",
        nargs="+",
        metavar="PATH",
        help="a trace file, or a folder, searched with all below it for *.json, *.chrome_trace, *.hatchet and the same "
        "with .gz; give all files of a job at once, so that its ranks are compared",
    )
    _add_rules(parser)
    _add_report(parser)
    parser.set_defaults(run=_run)


def _add_rules(parser: argparse.ArgumentParser) -> None:
    chosen = parser.add_argument_group("what is checked")
    chosen.add_argument(
        "--select",
        type=codes,
        action="extend",
        default=[],
        metavar="CODES",
        help="only these rules: codes, how codes begin, or names, such as GT301,GT4; may be given again (default: all)",
    )
    chosen.add_argument(
        "--ignore",
        type=codes,
        action="extend",
        default=[],
        metavar="CODES",
        help="not these rules; comes after --select; may be given again",
    )
    chosen.add_argument(
        "--expect-ranks", type=count, metavar="N", help="an error for each rank from 0 to N-1 that no file is of"
    )
    chosen.add_argument(
        "--expect-gpu", action="store_true", help="an error for each file in which nothing ran on a GPU"
    )
    chosen.add_argument(
        "--max-bytes",
        type=size_bytes,
        metavar="N",
        help="stop reading a file at N bytes of text, inflated, and call it an error; 500M, 2G (units of 1024) work too",
    )
    chosen.add_argument(
        "--jobs", type=jobs, default=1, metavar="N", help="check N files at once; 0 for one per core (default: 1)"
    )


def _add_report(parser: argparse.ArgumentParser) -> None:
    report = parser.add_argument_group("the report")
    report.add_argument(
        "--format",
        choices=("text", "json", "github", "sarif"),
        default="text",
        help="text for people, one JSON document, annotations of GitHub Actions, or SARIF 2.1.0 (default: text)",
    )
    report.add_argument(
        "-o",
        "--output",
        type=Path,
        metavar="FILE",
        help="write the report to FILE, in the format given, and print it as text; an older report is replaced",
    )


def _run(options: argparse.Namespace) -> int:
    file = None if options.output is None else ReportFile(options.output, options.paths)
    report = _checked(options)
    if not report.files:
        print(f"gputrace check: {_nothing(report, options.paths)}", file=sys.stderr)
        return 2
    if file is not None:
        file.write(_formatted(report, options.format, colour=False) + "\n")
    say(_formatted(report, "text" if file else options.format, colour=has_colours(sys.stdout)))
    return 0 if report.ok else 1


def _checked(options: argparse.Namespace) -> Report:
    from pytest_gputrace.checks.check import check

    with contextlib.closing(ProgressLine()) as line:
        return check(
            options.paths,
            select=tuple(options.select),
            ignore=tuple(options.ignore),
            expect_ranks=options.expect_ranks,
            expect_gpu=options.expect_gpu,
            jobs=options.jobs,
            max_bytes=options.max_bytes,
            progress=line.show,
        )


def _formatted(report: Report, format: str, *, colour: bool) -> str:
    from pytest_gputrace.checks.pages import page
    from pytest_gputrace.checks.rules import RULES
    from pytest_gputrace.report import annotations, findings, jsonreport, sarif

    if format == "json":
        return jsonreport.as_json(report)
    if format == "github":
        return annotations.as_annotations(report, RULES)
    if format == "sarif":
        return sarif.as_sarif(report, RULES, page, version=package_version("pytest-gputrace"))
    return findings.as_text(report, RULES, colour=colour)


def _nothing(report: Report, paths: list[str]) -> str:
    from pytest_gputrace.report.findings import ignored_text
    from pytest_gputrace.traces.search import SUFFIXES

    ignored = f"; ignored {ignored_text(report.ignored)}" if report.ignored else ", nor any other file"
    return f"no file in {', '.join(paths)} is called like a trace (*{', *'.join(SUFFIXES)}){ignored}"
