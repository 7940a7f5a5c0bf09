"""``gputrace profile``: a serving engine is profiled while a load runs; wrong use is told before anything is sent."""

from __future__ import annotations

import argparse
import contextlib
import math
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_gputrace.cli.commands import count
from pytest_gputrace.cli.merge import refuse_output as refuse_timeline
from pytest_gputrace.cli.terminal import keep_standard_error
from pytest_gputrace.errors import RequestError

if TYPE_CHECKING:
    from pytest_gputrace.cli.commands import Commands
    from pytest_gputrace.control.remote import RemoteProfile

__all__ = ["KINDS", "TOKEN_VARIABLE", "add"]

KINDS = ("sglang", "vllm", "tokenspeed", "trtllm", "gputrace")
TOKEN_VARIABLE = "GPUTRACE_CONTROL_TOKEN"

_USAGE = """%(prog)s --url URL --kind KIND --expect-ranks N --dir DIR
           [--activities A,B] [--num-steps N] [--start-step N] [--by-stage] [--stages A,B]
           [--with-stack] [--record-shapes] [--deadline S] [--profile-id ID]
           [--merge OUT] [--timeout S] [--token-file FILE] -- COMMAND ..."""
_LONGEST_S = 7 * 24 * 3600.0
_LONGEST_TOKEN = 8192


def add(commands: Commands) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser(
        "profile",
        help="profile a serving engine while a load runs: start, run, stop, wait for every rank's files, check, merge",
        usage=_USAGE,
        description="Start the profilers of a serving engine over HTTP, run COMMAND, stop them, wait until the files of "
        "every rank are complete in DIR, and check them. COMMAND has our input, output and environment; what we say "
        "goes to standard error. Where the profile cannot be started, COMMAND is run all the same. Ctrl-C, and a signal "
        "that ends us, goes to COMMAND; the profile is stopped and collected all the same, and a second Ctrl-C ends that.",
        epilog="exit code: COMMAND's own where it failed (128+N where signal N killed it, 127 not found, 126 not "
        "executable), else 3 when the profile failed, else 0; 2 wrong use, and nothing was started; 130 interrupted, "
        "143 terminated. Example: gputrace profile --url http://127.0.0.1:30000 --kind sglang --activities CPU,GPU "
        "--expect-ranks 8 --dir traces --merge timeline.json.gz -- python bench.py",
    )
    _add_engine(parser)
    _add_profile(parser)
    _add_files(parser)
    parser.add_argument("command_words", nargs=argparse.REMAINDER, metavar="-- COMMAND", help="the load, after --")
    parser.set_defaults(run=_run, wrong=parser.error)


def _add_engine(parser: argparse.ArgumentParser) -> None:
    engine = parser.add_argument_group("the engine")
    engine.add_argument("--url", required=True, help="where it listens, such as http://127.0.0.1:30000")
    engine.add_argument("--kind", required=True, choices=KINDS, help="what it is: how it is asked, and for what")
    engine.add_argument(
        "--token-file",
        type=Path,
        metavar="FILE",
        help=f"holds the token that the engine asks for (default: the variable {TOKEN_VARIABLE}, if it is set)",
    )
    engine.add_argument(
        "--timeout",
        type=_seconds,
        default=600.0,
        metavar="S",
        help="wait no longer than S seconds for an answer, and as long for the files; to stop may take an engine "
        "minutes (default: 600)",
    )


def _add_profile(parser: argparse.ArgumentParser) -> None:
    profile = parser.add_argument_group("the profile; what is left out is left to the engine")
    profile.add_argument(
        "--activities", type=_words, metavar="A,B", help="CPU, GPU, MEM, CUDA_PROFILER, PROTON, VIZTRACER"
    )
    profile.add_argument("--num-steps", type=count, metavar="N", help="record N steps (default: until COMMAND is over)")
    profile.add_argument("--start-step", type=_number, metavar="N", help="begin with the engine's step N")
    profile.add_argument("--by-stage", action="store_true", help="prefill and decode each in a file of its own")
    profile.add_argument("--stages", type=_words, metavar="A,B", help="with --by-stage: which ones")
    profile.add_argument("--with-stack", action="store_true", help="record Python's stacks")
    profile.add_argument("--record-shapes", action="store_true", help="record the shapes of arguments")
    profile.add_argument(
        "--deadline",
        type=_seconds,
        metavar="S",
        help="the engine stops by itself after S seconds, so that nothing records for ever (gputrace: after 600)",
    )
    profile.add_argument("--profile-id", metavar="ID", help="what the names of the files begin with")


def _add_files(parser: argparse.ArgumentParser) -> None:
    files = parser.add_argument_group("the files")
    files.add_argument("--expect-ranks", type=count, required=True, metavar="N", help="how many ranks there must be")
    files.add_argument(
        "--dir", type=Path, required=True, metavar="DIR", help="the folder they are written to, as seen from here"
    )
    files.add_argument("--merge", type=Path, metavar="OUT", help="put them on one timeline, as gputrace merge does")


def _run(options: argparse.Namespace) -> int:
    keep_standard_error()
    from pytest_gputrace.cli.load import not_runnable
    from pytest_gputrace.cli.profiling import ProfiledRun, tell

    command = options.command_words[1:]
    if options.command_words[:1] != ["--"] or not command:
        options.wrong("give the load after all else: -- COMMAND ...")
    fields = _fields(options)
    remote = _remote(options, fields)
    if result := not_runnable(command):
        tell(f"load: {result.words}", "profile: not started")
        return result.code
    run = ProfiledRun(
        remote, command, fields, expect_ranks=options.expect_ranks, merge=options.merge, timeout_s=options.timeout
    )
    return run.run()


def _fields(options: argparse.Namespace) -> dict[str, Any]:
    """What was asked for of the profile, and nothing else, so that an engine's own defaults hold."""
    asked = {
        "profile_id": options.profile_id,
        "activities": options.activities,
        "start_step": options.start_step,
        "num_steps": options.num_steps,
        "profile_by_stage": options.by_stage or None,
        "stages": options.stages,
        "with_stack": options.with_stack or None,
        "record_shapes": options.record_shapes or None,
        "deadline_s": options.deadline,
    }
    return {name: value for name, value in asked.items() if value is not None}


def _remote(options: argparse.Namespace, fields: dict[str, Any]) -> RemoteProfile:
    """The profile to be, once nothing more is known that could be wrong with it.

    Raises:
        GputraceError: it cannot be meant so.
    """
    from pytest_gputrace.control.client import ProfileClient
    from pytest_gputrace.control.remote import RemoteProfile

    folder: Path = options.dir
    if os.path.lexists(folder) and not folder.is_dir():
        raise RequestError(f"--dir {folder} is no folder")
    if options.merge is not None:
        if options.by_stage and len(options.stages or "12") > 1:
            raise RequestError(
                "--merge takes the files of one stage; merge each by gputrace merge, or name one by --stages"
            )
        refuse_timeline(options.merge, (), force=False)
    client = ProfileClient(options.url, kind=options.kind, token=_token(options.token_file), timeout_s=options.timeout)
    remote = RemoteProfile(client, folder)
    remote.refuse(fields)
    return remote


def _token(file: Path | None) -> str | None:
    if file is None:
        return os.environ.get(TOKEN_VARIABLE) or None
    try:
        with file.open(encoding="utf-8") as opened:
            token = opened.read(_LONGEST_TOKEN).strip()
    except (OSError, UnicodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is no text"
        raise RequestError(f"--token-file {file} cannot be read: {why}") from error
    if not token:
        raise RequestError(f"--token-file {file} is empty")
    return token


def _words(text: str) -> list[str]:
    words = [word.strip().upper() for word in text.split(",") if word.strip()]
    if not words:
        raise argparse.ArgumentTypeError(f"{text!r} names nothing; give words between commas")
    return words


def _number(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= 15):
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number from 0")
    return int(text)


def _seconds(text: str) -> float:
    with contextlib.suppress(ValueError):
        seconds = float(text)
        if math.isfinite(seconds) and 0 < seconds <= _LONGEST_S:
            return seconds
    raise argparse.ArgumentTypeError(f"{text!r} is no number of seconds, up to a week")
