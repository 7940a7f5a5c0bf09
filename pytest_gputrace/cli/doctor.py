"""``gputrace doctor``: who this process is, and what it would write."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from pytest_gputrace.cli.terminal import package_version, say
from pytest_gputrace.errors import GputraceError
from pytest_gputrace.identity import identify
from pytest_gputrace.layout import recognise, resolve_configuration
from pytest_gputrace.naming import legacy_name, name_limit, qualified_name

if TYPE_CHECKING:
    import argparse

    from pytest_gputrace.cli.commands import Commands

__all__ = ["add"]


def add(commands: Commands) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser(
        "doctor",
        help="who this process is, where that is known from, and what it would write",
        description="Tell who this process is, where that is known from, and what files it would write. Run it under "
        "your launcher, for example: srun -N2 -n4 gputrace doctor",
    )
    parser.add_argument("--model", default="model", help="the model's name in the file names shown")
    parser.add_argument("--configuration", help="the configuration, where no rank folder gives it")
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    folder = recognise(os.getcwd())
    try:
        identity = identify(folder_rank=None if folder is None else folder.local_rank)
        configuration = resolve_configuration(options.configuration, folder)
    except GputraceError as error:
        print(f"gputrace doctor: {error}", file=sys.stderr)
        return 1
    worker = identity.worker
    lines = [identity.describe()]
    if folder is not None:
        lines.append(f"rank folder of configuration {folder.configuration}, local rank {folder.local_rank}")
    if configuration is None:
        lines.append("qualified file  none: no configuration is given, and the working directory is no rank folder")
    else:
        limit = name_limit(os.getcwd())
        name = qualified_name(model=options.model, configuration=configuration, worker=worker, limit=limit)
        lines.append(f"qualified file  {name}")
    lines.append(f"legacy file     {legacy_name(options.model, worker.local_rank)}")
    torch = package_version("torch") or "not installed: profiled() needs it, export_events() does not"
    lines.append(f"torch           {torch}")
    lines.append(f"traces          {_reader()}")
    say("\n".join(lines))
    return 0


def _reader() -> str:
    from pytest_gputrace.traces.compiled import is_available

    if os.environ.get("GPUTRACE_PURE") == "1":
        return "read by Python alone, since GPUTRACE_PURE=1"
    if is_available():
        return "read by the compiled reader"
    return "read by Python alone: there was no C compiler when the package was installed"
