"""``gputrace show``: what a person wants to know first of a trace, or of a folder of them."""

from __future__ import annotations

import contextlib
import shutil
import sys
from typing import TYPE_CHECKING

from pytest_gputrace.cli.commands import count
from pytest_gputrace.cli.progress import ProgressLine, ReadingLine
from pytest_gputrace.cli.terminal import say

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator
    from pathlib import Path

    from pytest_gputrace.cli.commands import Commands
    from pytest_gputrace.overview.many import Glance

__all__ = ["add"]


def add(commands: Commands) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser(
        "show",
        help="what a trace holds: device, steps, kernels by time, copies, collectives, GPU busy and idle",
        description="Show what a person wants to know first of a trace: device, rank, span, steps, kernels by time, "
        "launches, copies, collectives, how busy the GPU was. Of several files: a line for each, and which stands out.",
        epilog="exit code: 0, or 1 when a file could not be read as a trace, 2 wrong use or a path that does not exist, "
        "130 interrupted. Whether a trace can be trusted is another question: gputrace check PATH",
    )
    parser.add_argument(
        "paths", nargs="+", metavar="PATH", help="a trace file, or a folder, searched as gputrace check does"
    )
    parser.add_argument(
        "--top", type=count, default=10, metavar="N", help="how many kernels and other names are listed (default: 10)"
    )
    parser.add_argument("--format", choices=("text", "json"), default="text", help="for people or programs")
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    from pytest_gputrace.traces.search import search

    found, _ = search(options.paths)
    paths = [file.path for file in found]
    if not paths:
        print(f"gputrace show: no trace file in {', '.join(options.paths)}", file=sys.stderr)
        return 2
    return _one(paths[0], options) if len(paths) == 1 else _several(paths, options)


def _one(path: Path, options: argparse.Namespace) -> int:
    from pytest_gputrace.overview import look
    from pytest_gputrace.report import overview as report
    from pytest_gputrace.report.jsonreport import strict_json
    from pytest_gputrace.traces import open_trace

    try:
        with contextlib.closing(ProgressLine()) as line:
            shown = look(open_trace(path, progress=ReadingLine(line, [path]).of(0, path)), top=options.top)
    except OSError as error:
        print(f"gputrace show: {path}: {error.strerror or error}", file=sys.stderr)
        return 1
    say(strict_json(report.data(shown)) if options.format == "json" else "\n".join(report.lines(shown, width=_width())))
    return 1 if shown.broken and not shown.events else 0


def _several(paths: list[Path], options: argparse.Namespace) -> int:
    from pytest_gputrace.overview import compare
    from pytest_gputrace.report import overviews as report
    from pytest_gputrace.report.jsonreport import strict_json

    with contextlib.closing(ProgressLine()) as line:
        many = compare(_glances(paths, ReadingLine(line, paths)))
    say(
        strict_json(report.data(many))
        if options.format == "json"
        else "\n".join(report.lines(many, width=_width() if sys.stdout.isatty() else _NO_LIMIT))
    )
    return 1 if any(file.error or (file.broken and not file.events) for file in many.files) else 0


def _glances(paths: list[Path], reading: ReadingLine) -> Iterator[Glance]:
    from pytest_gputrace.overview import glances

    for number, path in enumerate(paths):
        yield from glances([path], progress=reading.of(number, path))


# In a pipe the names of files are for programs, too.
_NO_LIMIT = 10_000


def _width() -> int:
    return shutil.get_terminal_size((100, 24)).columns
