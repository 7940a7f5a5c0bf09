"""At the end of a run, the traces of each test become one timeline, and what came of that is told in the summary.

Registered with --gputrace-merge only, and in the controller alone. A timeline that fails, fails the run and nothing else.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pytest_gputrace.plugin.folders import RUN
from pytest_gputrace.plugin.options import SETTINGS, TIMELINE_SUFFIXES

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from pytest_gputrace.report.captures import ItemRecord
    from pytest_gputrace.timeline.outcome import MergeResult

__all__ = ["MergingHooks"]

_NAME = "timeline.json.gz"
_PLACEABLE = ("kineto", "proton", "viztracer")
_NOTES = 3


class MergingHooks:
    """The hook. ``records`` are what the tests reported, ``lines`` what it has to say."""

    def __init__(self, config: pytest.Config, records: list[ItemRecord], lines: list[str]) -> None:
        self._config, self._records, self._lines = config, records, lines

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Merge, when all tests are over and before the summary is written."""
        if self._config.option.collectonly:
            return
        if session.exitstatus == pytest.ExitCode.INTERRUPTED:
            self._lines.append("timeline: not merged: the run was interrupted")
            return
        try:
            good = self._merge()
        except Exception as error:  # noqa: BLE001  # whatever it is, the summary of the tests must come
            self._lines.append(_failed(error))
            good = False
        if not good and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def _merge(self) -> bool:
        from pytest_gputrace.report.wording import printable

        settings = self._config.stash[SETTINGS]
        run = settings.folder / self._config.stash[RUN]
        tests = sorted(path for path in run.glob("*") if path.is_dir())
        folders = [folder for folder in tests if _holds_traces(folder)]
        if not folders:
            self._lines.append(
                "timeline: nothing to merge: no test kept a trace of Kineto, Proton or VizTracer in its folder"
            )
            return True
        into = settings.timelines
        if into is not None and into.name.endswith(TIMELINE_SUFFIXES) and len(folders) > 1:
            self._lines.append(
                f"timeline: not merged: {len(folders):,} tests kept traces, and {printable(str(into))} is one file; "
                "name a folder: --gputrace-merge=FOLDER"
            )
            return False
        names = {record["folder"]: record["test"] for record in self._records}
        good = True
        for folder in folders:
            told, merged = _timeline(folder, _target(into, folder))
            self._lines += [printable(names.get(str(folder), folder.name)), *(f"  {printable(line)}" for line in told)]
            good = good and merged
        return good


def _holds_traces(folder: Path) -> bool:
    """Whether anything below has a place on a timeline; of what cannot be read, whoever merges it says so."""
    from pytest_gputrace.traces.search import search
    from pytest_gputrace.traces.streaming import stream_trace

    found, _ = search([folder])
    try:
        return any(stream_trace(each.path, lambda _run: None).format in _PLACEABLE for each in found)
    except OSError:
        return True


def _target(into: Path | None, folder: Path) -> Path:
    if into is None:
        return folder / _NAME
    return into if into.name.endswith(TIMELINE_SUFFIXES) else into / f"{folder.name}.json.gz"


def _timeline(folder: Path, target: Path) -> tuple[Sequence[str], bool]:
    """What to say of one test, and whether its timeline was written."""
    from pytest_gputrace.errors import MergeError
    from pytest_gputrace.timeline.merge import merge

    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        return _written(merge([folder], target)), True
    except MergeError as error:
        # Nothing is allowed to be missing here: what a test recorded is whole or it is not.
        first, *more = [reason.partition("; --allow-missing")[0] for reason in error.reasons or [str(error)]]
        return [f"timeline: not merged: {first}", *(f"  {reason}" for reason in _first(more))], False
    except Exception as error:  # noqa: BLE001  # the timelines of other tests must come
        return [_failed(error)], False


def _written(result: MergeResult) -> list[str]:
    from pytest_gputrace.report.wording import count

    ranks = len({each.rank for each in result.inputs if each.rank is not None})
    words = f"timeline: {count(len(result.inputs), 'file')}" + (f" of {count(ranks, 'rank')}" if ranks else "")
    left = sum(_might_be_a_trace(each.path) for each in result.left_out)
    words += f" -> {result.path}" + (f"; {count(left, 'file')} left out, why: gputrace_merge in it" if left else "")
    return [words, *(f"  {note}" for note in _first(result.notes))]


def _might_be_a_trace(path: Path) -> bool:
    """Not the logs and manifests that lie in every folder of a test."""
    from pytest_gputrace.traces.search import NOT_TRACES, SUFFIXES

    return path.name.endswith((*SUFFIXES, ".tmp")) and path.name not in NOT_TRACES


def _first(lines: Sequence[str]) -> list[str]:
    more = len(lines) - _NOTES
    return list(lines) if more <= 0 else [*lines[:_NOTES], f"and {more:,} more"]


def _failed(error: Exception) -> str:
    from pytest_gputrace.report.wording import printable

    return f"timeline: not merged: {type(error).__name__}: {printable(str(error))}"
