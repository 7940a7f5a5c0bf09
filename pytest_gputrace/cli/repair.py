"""``gputrace repair``: save what can be saved of a broken trace, and say exactly what was lost or changed."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_gputrace.cli.commands import count
from pytest_gputrace.cli.terminal import say

if TYPE_CHECKING:
    import argparse

    from pytest_gputrace.cli.commands import Commands

__all__ = ["add"]


def add(commands: Commands) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser(
        "repair",
        help="write a new, valid file from a trace that is cut, unescaped, not finite, or holds several documents",
        description="Write a new, valid file with every event of FILE that can be saved, and print exactly what was lost "
        "or changed. FILE itself stays as it is.",
        epilog="exit code: 0 a new file was written, 1 nothing could be saved, 2 wrong use, FILE does not exist, or OUT "
        "does already, 130 interrupted. Try first what is wrong: gputrace check FILE",
    )
    parser.add_argument("file", type=Path, metavar="FILE", help="the broken trace, .json or .json.gz")
    parser.add_argument(
        "-o",
        "--output",
        type=Path,
        required=True,
        metavar="OUT",
        help="the new file, compressed when its name ends with .gz; it must not exist",
    )
    parser.add_argument(
        "--document", type=count, default=1, metavar="N", help="which of several documents in FILE to save (default: 1)"
    )
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    path, out = options.file, options.output
    if not path.is_file():
        what = "a folder; one file at a time" if path.is_dir() else "no regular file"
        print(f"gputrace repair: {path}: {what if path.exists() else 'there is no such file'}", file=sys.stderr)
        return 2
    if os.path.lexists(out):
        print(f"gputrace repair: {out} exists already; nothing is ever overwritten, give another name", file=sys.stderr)
        return 2
    from pytest_gputrace.repair import repair  # only now: it is heavy
    from pytest_gputrace.report.repaired import as_text

    try:
        repaired = repair(path, out, document=options.document)
    except OSError as error:
        print(f"gputrace repair: {path}: {error.strerror or error}", file=sys.stderr)
        return 1
    say(as_text(repaired))
    return 1 if repaired.out is None else 0
