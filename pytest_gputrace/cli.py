"""The ``gputrace`` command: parse, call the library, print. Exit codes: 0 clean, 1 a finding, 2 wrong use."""

from __future__ import annotations

import argparse
import difflib
import importlib.metadata
import os
import re
import sys
from typing import TYPE_CHECKING

from pytest_gputrace.errors import GputraceError
from pytest_gputrace.identity import identify
from pytest_gputrace.layout import recognise, resolve_configuration
from pytest_gputrace.naming import legacy_name, name_limit, qualified_name

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; returns the exit code."""
    parser = argparse.ArgumentParser(prog="gputrace", description="Keep, prove and check GPU profiler traces.")
    parser.add_argument("--version", action="version", version=f"gputrace {_version('pytest-gputrace')}")
    commands = parser.add_subparsers(dest="command", required=True)
    doctor = commands.add_parser(
        "doctor", help="who this process is, where that is known from, and what it would write"
    )
    doctor.add_argument("--model", default="model", help="the model's name in the file names shown")
    doctor.add_argument("--configuration", help="the configuration, where no rank folder gives it")
    doctor.set_defaults(run=_doctor)
    rules = commands.add_parser("rules", help="what a check of the contract asks, why, and how exporters fix it")
    rules.add_argument(
        "id",
        nargs="*",
        help="a check, such as CT102, or the begin of some, such as CT1; all with their titles when left out",
    )
    rules.set_defaults(run=_rules)
    options = parser.parse_args(arguments)
    try:
        code: int = options.run(options)
        sys.stdout.flush()
    except BrokenPipeError:  # the reader has seen enough: `gputrace rules | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # Python flushes once more at its end
        return 0
    return code


def _doctor(options: argparse.Namespace) -> int:
    """Run it under your launcher, for example ``srun -N2 -n4 gputrace doctor``."""
    folder = recognise(os.getcwd())
    try:
        identity = identify(folder_rank=None if folder is None else folder.local_rank)
        configuration = resolve_configuration(options.configuration, folder)
    except GputraceError as error:
        print(f"gputrace doctor: {error}", file=sys.stderr)
        return 1
    print(identity.describe())
    worker = identity.worker
    if folder is not None:
        print(f"rank folder of configuration {folder.configuration}, local rank {folder.local_rank}")
    if configuration is None:
        print("qualified file  none: no configuration is given, and the working directory is no rank folder")
    else:
        limit = name_limit(os.getcwd())
        name = qualified_name(model=options.model, configuration=configuration, worker=worker, limit=limit)
        print(f"qualified file  {name}")
    print(f"legacy file     {legacy_name(options.model, worker.local_rank)}")
    print(f"torch           {_version('torch') or 'not installed: profiled() needs it, export_events() does not'}")
    return 0


def _rules(options: argparse.Namespace) -> int:
    """Print the pages of the checks that are named, and lists of those whose begin is given."""
    from pytest_gputrace.conformance import CHECKS, page

    texts, problems = [], []
    for name in options.id or [""]:
        asked = name.upper()
        begun = [f"{check.id}  {check.title}" for check in CHECKS.values() if check.id.startswith(asked)]
        if asked in CHECKS:
            texts.append(page(asked).rstrip())
        elif begun:
            texts.append("\n".join(begun))
        elif re.fullmatch(r"GT\d*", asked):
            problems.append(
                f"{name} is no check: GT codes are findings of gputrace_check; see docs/reference/options.md"
            )
        else:
            near = difflib.get_close_matches(asked, list(CHECKS), n=1)
            hint = f"did you mean {near[0]}?" if near else "all of them: gputrace rules"
            problems.append(f"there is no {name}; {hint}")
    for problem in problems:
        print(f"gputrace rules: {problem}", file=sys.stderr)
    if problems:
        return 2
    print("\n\n".join(texts))
    return 0


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return ""
