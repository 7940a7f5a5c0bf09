"""``gputrace merge``: the traces of many ranks and profilers on one timeline; wrong use is told before a file is read."""

from __future__ import annotations

import argparse
import contextlib
import gzip
import os
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_gputrace.cli.commands import count, jobs
from pytest_gputrace.cli.progress import ProgressLine
from pytest_gputrace.cli.terminal import say
from pytest_gputrace.errors import GputraceError, MergeError, PublishError, UnknownPathError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pytest_gputrace.cli.commands import Commands
    from pytest_gputrace.timeline.inputs import Input
    from pytest_gputrace.timeline.outcome import MergeResult

__all__ = ["add", "refuse_output"]

_USAGE = """%(prog)s [PATH ...] [--rank N FILE ...]... -o OUT [--force]
           [--align anchor|collectives|first-event] [--assume-base FILE=NS]...
           [--expect-ranks N] [--allow-missing] [--keep-source] [--jobs N]"""
_LONGEST_NAME = 255
_MARK = b'{"gputrace_merge"'
_MOST_NS = 1 << 63


def add(commands: Commands) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser(
        "merge",
        help="one timeline from the traces of many ranks, nodes and profilers",
        usage=_USAGE,
        description="Write one trace that opens in Perfetto from any mix of Kineto and Proton traces and VizTracer reports, "
        "plain or gzip, of many ranks and nodes. Every event keeps its time; processes, threads and arrows of two files "
        "never meet. The order of the files does not matter, and memory does not grow with their size.",
        epilog="exit code: 0 the timeline was written, 1 the files cannot be one, or the disk is full, and nothing was "
        "written, 2 wrong use, a path that does not exist, or OUT does already, 130 interrupted. "
        "Examples: gputrace merge traces -o timeline.json.gz; "
        "gputrace merge --rank 0 viz0.json proton0.json --rank 1 viz1.json proton1.json -o timeline.json.gz",
    )
    _add_files(parser)
    _add_times(parser)
    _add_ranks(parser)
    parser.add_argument(
        "--keep-source",
        action="store_true",
        help="keep the text of the programs that VizTracer puts into its reports (file_info); left out otherwise",
    )
    parser.add_argument(
        "--jobs", type=jobs, default=1, metavar="N", help="N threads at once; 0 for one per core (default: 1)"
    )
    parser.set_defaults(run=_run)


def _add_files(parser: argparse.ArgumentParser) -> None:
    files = parser.add_argument_group("files")
    files.add_argument(
        "paths",
        nargs="*",
        metavar="PATH",
        help="a trace, or a folder, searched as gputrace check does; whose a file is, is told by what is inside, then "
        "by its name and folder. Before --rank",
    )
    files.add_argument(
        "--rank",
        dest="ranks",
        nargs="+",
        action=_RankFiles,
        default={},
        metavar=("N", "FILE"),
        help="files, or folders, that are of rank N; once for each rank",
    )
    files.add_argument(
        "-o", "--output", type=Path, required=True, metavar="OUT", help="the timeline, compressed when it ends with .gz"
    )
    files.add_argument("--force", action="store_true", help="replace OUT where it exists, once the new one is complete")


def _add_times(parser: argparse.ArgumentParser) -> None:
    times = parser.add_argument_group("times")
    times.add_argument(
        "--align",
        choices=("anchor", "collectives", "first-event"),
        default="anchor",
        help="anchor: by the wall clock that each file tells. collectives: then correct the clocks of nodes, so that NCCL "
        "and RCCL kernels end on all ranks together. first-event: every file begins at one time (default: anchor)",
    )
    times.add_argument(
        "--assume-base",
        type=_file_base,
        action="append",
        default=[],
        metavar="FILE=NS",
        help="what the times of a file count from that does not say it: whole nanoseconds since 1970; may be given again",
    )


def _add_ranks(parser: argparse.ArgumentParser) -> None:
    ranks = parser.add_argument_group("completeness")
    ranks.add_argument(
        "--expect-ranks",
        type=count,
        metavar="N",
        help="how many ranks there must be, 0 to N-1 (default: what the files say themselves)",
    )
    ranks.add_argument(
        "--allow-missing",
        action="store_true",
        help="write what is there though ranks are absent or files cannot be read, and say in OUT, too, what is not",
    )


class _RankFiles(argparse.Action):
    """Collects ``--rank N FILE...`` as files by rank."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: str | Sequence[Any] | None,
        option_string: str | None = None,
    ) -> None:
        number, *files = list(values or ())
        how = "first the rank's number, then its files: --rank 0 viz.json proton.json"
        if not re.fullmatch(r"[0-9]{1,9}", number):
            raise argparse.ArgumentError(self, f"{number!r} is no rank; {how}")
        if not files:
            raise argparse.ArgumentError(self, f"rank {int(number)} has no file; {how}")
        known: dict[int, list[str]] = getattr(namespace, self.dest)
        setattr(namespace, self.dest, {**known, int(number): [*known.get(int(number), ()), *files]})


def _file_base(text: str) -> tuple[str, int]:
    file, equals, base_ns = text.rpartition("=")
    if not file or not equals or not re.fullmatch(r"[0-9]{1,19}", base_ns) or int(base_ns) >= _MOST_NS:
        raise argparse.ArgumentTypeError(
            f"{text!r} is no FILE=NS; give whole nanoseconds since 1970, such as viz.json=1796028603480660661"
        )
    return file, int(base_ns)


def _run(options: argparse.Namespace) -> int:
    try:
        _refuse_wrong_use(options)
    except MergeError as error:
        return _refused("the files given cannot be merged:", error, 2)
    try:
        result = _merged(options)
    except MergeError as error:
        return _refused("not merged, nothing was written:", error, 1)
    except PublishError as error:
        print(f"gputrace merge: {error}", file=sys.stderr)
        return 2 if isinstance(error.__cause__, FileExistsError) else 1
    from pytest_gputrace.report.merged import as_text

    say(as_text(result))
    return 0


def _refused(words: str, error: MergeError, code: int) -> int:
    from pytest_gputrace.report.wording import printable

    lines = [f"gputrace merge: {words}", *(f"  {printable(reason)}" for reason in error.reasons)]
    print("\n".join(lines), file=sys.stderr)
    return code


def _merged(options: argparse.Namespace) -> MergeResult:
    from pytest_gputrace.checks.outcome import Progress
    from pytest_gputrace.timeline.merge import merge  # only now: it is heavy

    with contextlib.closing(ProgressLine()) as line:
        return merge(
            options.paths,
            options.output,
            ranks=options.ranks,
            align=options.align,
            assume_base=dict(options.assume_base),
            expect_ranks=options.expect_ranks,
            allow_missing=options.allow_missing,
            keep_source=options.keep_source,
            force=options.force,
            jobs=options.jobs,
            progress=lambda done, total, what: line.show(Progress(0, 1, done, total, what)),
        )


def _refuse_wrong_use(options: argparse.Namespace) -> None:
    """Look at names and at what is there, never inside a trace.

    Raises:
        MergeError: the files given cannot be meant so.
        GputraceError: a path does not exist, or the timeline cannot go where it shall.
    """
    from pytest_gputrace.timeline.inputs import collect

    given, _ = collect(options.paths, options.ranks)
    _refuse_bases(options.assume_base, given)
    refuse_output(options.output, given, force=options.force)


def _refuse_bases(bases: Iterable[tuple[str, int]], given: Iterable[Input]) -> None:
    known = {os.path.realpath(each.path) for each in given}
    assumed: dict[str, int] = {}
    for file, base_ns in bases:
        path = os.path.realpath(file)
        if path not in known:
            raise UnknownPathError(f"--assume-base {file}={base_ns}: {file} is not among the files to merge")
        if assumed.setdefault(path, base_ns) != base_ns:
            raise GputraceError(f"--assume-base: two bases for {file}, {assumed[path]} and {base_ns}")


def refuse_output(output: Path, given: Iterable[Input], *, force: bool) -> None:
    """Look at where a timeline shall go.

    Raises:
        PublishError: it cannot go there, or, without ``force``, would replace what is there.
    """

    def refuse(why: str) -> None:
        raise PublishError(f"{output}{why}", path=output)

    if len(os.fsencode(output.name)) > _LONGEST_NAME:
        refuse(": the name is too long for a file")
    if output.is_dir():
        refuse(" is a folder; give the name of a file in it")
    if not output.name.endswith((".json", ".json.gz")):
        refuse(": a timeline is a .json or a .json.gz; give such a name")
    if not output.parent.is_dir():
        refuse(f": there is no folder {output.parent}")
    if not os.path.lexists(output):
        return
    if output.exists() and not output.is_file():
        refuse(" is no regular file, and nothing else is ever replaced")
    same = [each for each in given if os.path.realpath(each.path) == os.path.realpath(output)]
    # A timeline of an earlier merge may lie in the folder that is merged again.
    if any(each.named or not _is_timeline(output) for each in same):
        refuse(" is one of the files to merge; give another name")
    if not force:
        refuse(" exists already; give another name, or --force to replace it")


def _is_timeline(path: Path) -> bool:
    with contextlib.suppress(OSError, EOFError):
        with path.open("rb") as file:
            zipped = file.read(2) == b"\x1f\x8b"
        with gzip.open(path) if zipped else path.open("rb") as file:
            return file.read(len(_MARK)) == _MARK
    return False
