"""The ``gputrace`` command: parse, call the library, print. One module for each command.

Exit codes: 0 clean, 1 something was found or failed, 2 wrong use, 130 interrupted. ``profile`` has that of the load it
ran where that failed, 3 where the profile did, and 143 when it was terminated.
"""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from pytest_gputrace.cli import check, doctor, merge, profile, repair, rules, show
from pytest_gputrace.cli.terminal import package_version
from pytest_gputrace.errors import GputraceError

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["main"]

_INTERRUPTED = 130  # what a shell makes of SIGINT


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; returns the exit code."""
    parser = argparse.ArgumentParser(
        prog="gputrace",
        description="Keep, prove and check GPU profiler traces.",
        epilog="gputrace COMMAND --help tells all of a command.",
    )
    parser.add_argument("--version", action="version", version=f"gputrace {package_version('pytest-gputrace')}")
    commands = parser.add_subparsers(dest="command", required=True)
    for command in (check, show, merge, profile, repair, rules, doctor):
        command.add(commands)
    options = parser.parse_args(arguments)
    try:
        code: int = options.run(options)
    except KeyboardInterrupt:
        print(f"gputrace {options.command}: interrupted", file=sys.stderr)
        return _INTERRUPTED
    except GputraceError as error:
        print(f"gputrace {options.command}: {error}", file=sys.stderr)
        return 2
    return code
