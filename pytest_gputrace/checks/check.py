"""Check trace files: find them, run the rules on each, in several processes where asked, then on all of them as a set."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from typing import TYPE_CHECKING

from pytest_gputrace.checks.one import Checked, check_one, finding, unreadable
from pytest_gputrace.checks.outcome import Progress, Report
from pytest_gputrace.checks.rule import Settings
from pytest_gputrace.checks.rules import RULES
from pytest_gputrace.claims import claim
from pytest_gputrace.errors import SelectionError
from pytest_gputrace.traces.search import search

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from pytest_gputrace.traces.search import Found, Ignored

__all__ = ["check", "chosen_codes", "judge"]

_KILLED = "the process that read it, or one beside it, was killed; out of memory? Try --jobs 1 or --max-bytes"


def check(
    paths: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
    *,
    select: str | Sequence[str] = (),
    ignore: str | Sequence[str] = (),
    expect_ranks: int | None = None,
    expect_gpu: bool = False,
    jobs: int = 1,
    max_bytes: int | None = None,
    progress: Callable[[Progress], None] | None = None,
) -> Report:
    """Hold trace files to every rule, each by itself and all of them as a set.

    Args:
        paths: a file or a folder, or several; see `pytest_gputrace.traces.search.search` for what of a folder is read.
        select: codes of rules, their beginnings (``GT3``) or names, in a list or between commas; all when left out.
            What keeps a file from being read is told all the same.
        ignore: codes to leave out of these.
        expect_ranks: how many ranks each recording must have. Without it a missing rank is told as information where
            the files say how many there were.
        expect_gpu: a trace without anything of a GPU is an error.
        jobs: how many files are read at a time, each in a process of its own; 0 for one a core.
        max_bytes: read no further than this into the text of a file, inflated.
        progress: called now and then, with how far the check is.

    Raises:
        UnknownPathError: a path does not exist.
        SelectionError: no rule has a code that is selected or ignored, or none is left.
    """
    if isinstance(paths, str | os.PathLike):
        paths = [paths]
    settings = Settings(*chosen_codes(select, ignore), expect_ranks, expect_gpu, max_bytes)
    found, ignored = search(paths)
    return judge(found, settings, jobs=jobs, ignored=ignored, progress=progress)


def judge(
    found: Sequence[Found],
    settings: Settings,
    *,
    jobs: int = 1,
    ignored: Sequence[Ignored] = (),
    progress: Callable[[Progress], None] | None = None,
) -> Report:
    """The same for files that were found already."""
    checked = _all(found, settings, jobs or os.cpu_count() or 1, _Bar(found, progress))
    # In an order of their own, and what several links lead to once.
    facts = list(
        {each.facts.identity: each.facts for each in sorted(checked, key=lambda each: each.facts.path)}.values()
    )
    findings, looked_at = [], {}
    for code, rule in RULES.items():
        if rule.compare is not None and settings.wants(code):
            looked = rule.compare(facts, settings)
            looked_at[code] = looked.at
            findings += [finding(rule, hit) for hit in looked.hits]
    return Report(tuple(each.report for each in checked), tuple(findings), looked_at, tuple(ignored))


def chosen_codes(select: str | Sequence[str], ignore: str | Sequence[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Codes, beginnings of codes and names of rules, as codes: those selected, and those ignored.

    Raises:
        SelectionError: no rule has one of them, or all that are selected are ignored.
    """
    selected, ignored = _codes(select), _codes(ignore)
    settings = Settings(selected, ignored)
    if not any(map(settings.wants, RULES)):
        raise SelectionError("all rules that are selected are ignored, so nothing would be checked")
    return selected, ignored


def _codes(codes: str | Sequence[str]) -> tuple[str, ...]:
    names = {rule.name: code for code, rule in RULES.items()}
    asked = [code.strip() for code in codes.split(",")] if isinstance(codes, str) else codes
    wanted = tuple(names.get(code.lower(), code.upper()) for code in asked)
    for code, given in zip(wanted, asked, strict=True):
        if not code or not any(known.startswith(code) for known in RULES):
            raise SelectionError(f"no rule has the code or name {given!r}; all of them: gputrace rules GT")
    return wanted


def _all(found: Sequence[Found], settings: Settings, jobs: int, bar: _Bar) -> list[Checked]:
    alone = jobs == 1 or len(found) < 2
    done = dict(_one_by_one(found, settings, bar) if alone else _at_once(found, settings, jobs, bar))
    return [done[index] for index in range(len(found))]


def _one_by_one(found: Sequence[Found], settings: Settings, bar: _Bar) -> Iterator[tuple[int, Checked]]:
    for index, file in enumerate(found):
        yield index, check_one(file, settings, bar.reading(file))
        bar.done(file)


def _at_once(found: Sequence[Found], settings: Settings, jobs: int, bar: _Bar) -> Iterator[tuple[int, Checked]]:
    # Not forked: the caller may have threads. The largest first, so that no process is left with it at the end.
    context = multiprocessing.get_context("spawn")
    order = sorted(range(len(found)), key=lambda index: -_size(found[index]))
    others = set(multiprocessing.active_children())
    with ProcessPoolExecutor(min(jobs, len(found)), mp_context=context) as pool:
        with _interrupts_held():
            waiting = {pool.submit(check_one, found[index], settings): index for index in order}
        try:
            answered = False
            for future in as_completed(waiting):
                file = found[waiting[future]]
                try:
                    checked = future.result()
                except BrokenProcessPool:
                    if not answered:  # no process can be started here: a script that is run again by each
                        checked = check_one(file, settings)
                    else:
                        checked = unreadable(file, claim(file.path), _KILLED, settings)
                else:
                    answered = True
                yield waiting[future], checked
                bar.done(file)
        except BaseException:  # whoever waits has given up: so do those that read
            for process in set(multiprocessing.active_children()) - others:
                process.terminate()
            raise


@contextlib.contextmanager
def _interrupts_held() -> Iterator[None]:
    """Ctrl-C goes to every process of a terminal; those begun in here leave it to this one."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


class _Bar:
    """Counts files and bytes for whoever watches."""

    def __init__(self, found: Sequence[Found], watcher: Callable[[Progress], None] | None) -> None:
        self._watcher = watcher
        self._files, self._bytes = len(found), sum(map(_size, found)) if watcher else 0
        self._done_files = self._done_bytes = 0

    def reading(self, file: Found) -> Callable[[int], None] | None:
        if self._watcher is None:
            return None
        read = 0

        def more(count: int) -> None:
            nonlocal read
            read += count
            self._tell(file, read)

        return more

    def done(self, file: Found) -> None:
        self._done_files += 1
        self._done_bytes += _size(file) if self._watcher else 0
        self._tell(file, 0)

    def _tell(self, file: Found, read: int) -> None:
        if self._watcher is not None:
            self._watcher(Progress(self._done_files, self._files, self._done_bytes + read, self._bytes, file.path.name))


def _size(file: Found) -> int:
    try:
        return file.path.stat().st_size
    except OSError:
        return 0
