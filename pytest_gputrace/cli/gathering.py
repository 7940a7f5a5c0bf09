"""What ``gputrace profile`` does with files once they are complete: check them, merge them, say what to do next."""

from __future__ import annotations

import contextlib
import glob
import os
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_gputrace.cli.progress import ProgressLine
from pytest_gputrace.errors import MergeError, NamingError
from pytest_gputrace.model import Severity
from pytest_gputrace.report.wording import count, printable

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pytest_gputrace.checks.outcome import Report

__all__ = ["checked", "merged", "next_commands"]

_SHOWN = 8
_EXPLAINED = 8
_OUT = "timeline.json.gz"


def checked(files: Sequence[str], expect_ranks: int | None) -> tuple[bool, list[str]]:
    """Hold the traces among ``files`` to every rule; whether no error was found, and lines for people.

    ``expect_ranks`` counts where the files tell that their ranks are 0 to that; an engine may have others.
    """
    from pytest_gputrace.checks.check import check
    from pytest_gputrace.claims import claim
    from pytest_gputrace.traces.search import SUFFIXES

    traces = [path for path in files if path.endswith(SUFFIXES)]
    if not traces:
        return True, []
    ranks = {claim(Path(path)).rank for path in traces}
    expected = expect_ranks if ranks == set(range(expect_ranks or 0)) else None
    with contextlib.closing(ProgressLine()) as line:
        report = check(traces, expect_ranks=expected, progress=line.show)
    return not report.count(Severity.ERROR), list(_findings(report))


def _findings(report: Report) -> Iterator[str]:
    from pytest_gputrace.checks.rules import RULES
    from pytest_gputrace.report.findings import label

    errors, warnings = report.count(Severity.ERROR), report.count(Severity.WARNING)
    found = ", ".join(
        [count(errors, "error") if errors else "no error"] + ([count(warnings, "warning")] if warnings else [])
    )
    yield f"check: {count(len(report.files), 'file')}, {count(sum(file.events for file in report.files), 'event')}: {found}"
    order = list(Severity)
    telling = sorted(
        (each for each in report.all_findings if each.severity is not Severity.INFO),
        key=lambda each: order.index(each.severity),
    )
    for each in telling[:_SHOWN]:
        where = f"{os.path.basename(each.file)}: " if each.file else ""
        yield f"  {printable(where)}{label(each.code, RULES)} [{each.severity.value}] {printable(each.message)}"
    if len(telling) > _SHOWN:
        yield f"  and {len(telling) - _SHOWN:,} more"
    if codes := list(dict.fromkeys(each.code for each in telling)):
        yield f"  why, and how to fix it: gputrace rules {' '.join(codes[:_EXPLAINED])}"


def merged(files: Sequence[str], out: Path, *, whole: bool) -> tuple[bool, list[str]]:
    """Put ``files`` on one timeline; of a profile that is not ``whole``, what is there. Whether it was, and lines."""
    from pytest_gputrace.checks.outcome import Progress
    from pytest_gputrace.report.merged import as_text
    from pytest_gputrace.timeline.merge import merge

    try:
        with contextlib.closing(ProgressLine()) as line:
            result = merge(
                files,
                out,
                allow_missing=not whole,
                progress=lambda done, total, what: line.show(Progress(0, 1, done, total, what)),
            )
    except MergeError as error:
        reasons = [f"  {printable(reason)}" for reason in error.reasons]
        more = [f"  and {len(reasons) - _SHOWN:,} more"] if len(reasons) > _SHOWN else []
        return False, ["merge: not merged, nothing was written:", *reasons[:_SHOWN], *more]
    return True, [f"merge: {as_text(result).splitlines()[0]}"]


def next_commands(files: Sequence[str], folder: Path, timeline: Path | None) -> list[str]:
    """What one would do next, to be copied."""
    which = _shell_words(files, folder)
    commands = [f"gputrace show {which}"]
    if timeline is not None:
        commands.append(f"open {shlex.quote(str(timeline))} in https://ui.perfetto.dev")
    elif len(stages := _stages(files)) > 1:
        begin = shlex.quote(_begin(files))
        commands += [f"gputrace merge {begin}*-{stage}.* -o {stage.lower()}.json.gz" for stage in stages]
    else:
        commands.append(f"gputrace merge {which} -o {_OUT}")
    return [f"{'' if number else 'next:':5} {command}" for number, command in enumerate(commands)]


def _stages(files: Sequence[str]) -> list[str]:
    """The stages that names of our own tell."""
    from pytest_gputrace.windownames import parse_window_name

    found = set()
    for path in files:
        with contextlib.suppress(NamingError):
            found.add(parse_window_name(os.path.basename(path)).stage)
    return sorted(filter(None, found))


def _shell_words(files: Sequence[str], folder: Path) -> str:
    """``files`` in the fewest words: the folder where nothing else is in it, else what all begin with."""
    from pytest_gputrace.control.snapshot import Snapshot

    if set(Snapshot.of(folder).files) <= set(files):
        return shlex.quote(str(folder))
    if len(files) == 1:
        return shlex.quote(files[0])
    begin = _begin(files)
    if os.path.basename(begin) and set(glob.glob(f"{glob.escape(begin)}*")) == set(files):
        return f"{shlex.quote(begin)}*"
    return " ".join(map(shlex.quote, files)) if len(files) <= _SHOWN else shlex.quote(str(folder))


def _begin(paths: Sequence[str]) -> str:
    return os.path.commonprefix(paths)  # noqa: RUF071  # names begin alike: in characters is what is meant
