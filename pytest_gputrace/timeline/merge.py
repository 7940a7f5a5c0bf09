"""``merge``: traces of many ranks and profilers -> one timeline. Reads every input twice, and holds none."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_gputrace.errors import MergeError, PublishError
from pytest_gputrace.timeline.deciding import decide
from pytest_gputrace.timeline.inputs import collect
from pytest_gputrace.timeline.outcome import LeftOut
from pytest_gputrace.timeline.output import write
from pytest_gputrace.timeline.placing import lost, not_placeable
from pytest_gputrace.timeline.survey import Survey, survey
from pytest_gputrace.timeline.watch import Watch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from pytest_gputrace.timeline.anchors import Bases
    from pytest_gputrace.timeline.inputs import Input
    from pytest_gputrace.timeline.outcome import Align, MergeResult

__all__ = ["merge"]

# Of each file, and of all: more tell no clock better, and are held while the clocks are compared.
_MOST_COLLECTIVES, _ALL_COLLECTIVES = 20_000, 600_000


def merge(
    inputs: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
    output: str | os.PathLike[str],
    *,
    ranks: Mapping[int, Iterable[str | os.PathLike[str]]] | None = None,
    align: Align = "anchor",
    assume_base: Bases | None = None,
    expect_ranks: int | None = None,
    allow_missing: bool = False,
    keep_source: bool = False,
    force: bool = False,
    jobs: int = 1,
    progress: Callable[[int, int, str], None] | None = None,
) -> MergeResult:
    """Write one trace from those of many ranks, nodes and profilers (Kineto, Proton, VizTracer), all on one axis of time.

    Every event keeps its time since 1970; processes, threads and ids are numbered anew, so that no two inputs share one.
    The result does not depend on the order of the inputs.

    Args:
        inputs: a file or a folder, or several; whose a file is, is told by what is inside, by its name and its folders.
        output: the new file, compressed when its name ends with .gz.
        ranks: more files, or folders, whose rank is said here.
        align: ``anchor`` trusts the clock of each node; ``collectives`` moves the clocks of the nodes so that the
            collectives of NCCL and RCCL end on all ranks together; ``first-event`` lets each file begin at one time.
        assume_base: for files that do not say it, what their times count from: nanoseconds since 1970.
        expect_ranks: how many ranks there must be; what the files say of their world when left out.
        allow_missing: write what is there, though ranks are absent or their files cannot be read.
        keep_source: keep the source code that VizTracer's reports hold.
        force: replace ``output`` where it exists.
        jobs: how many threads read and write; 0 for one a core.
        progress: called now and then with how many bytes of how many are done, and what is being done.

    Raises:
        MergeError: the files cannot be one timeline. What is in the way is told, all of it at once.
        UnknownPathError: an input does not exist.
        PublishError: ``output`` cannot be written, or exists.
    """
    output = Path(output)
    if os.path.lexists(output) and not force:
        raise PublishError(f"cannot write {output}: it exists; give another name, or replace it by force", path=output)
    paths = [inputs] if isinstance(inputs, str | os.PathLike) else list(inputs)
    given, left_out = collect(paths, ranks or {})
    watch = Watch([each.path for each in given], progress)
    if jobs < 0:
        raise ValueError(f"jobs={jobs}: give how many threads, or 0 for one a core")
    jobs = jobs or os.cpu_count() or 1
    collectives = min(_MOST_COLLECTIVES, _ALL_COLLECTIVES // len(given) + 1) if align == "collectives" else 0
    seen = _seen(given, output, watch, jobs, collectives=collectives, sources=keep_source)
    left_out += seen.left_out
    decision = decide(
        seen.surveys,
        {each.path: each for each in given},
        align=align,
        assume_base=assume_base or {},
        expect_ranks=expect_ranks,
        allow_missing=allow_missing,
    )
    reasons = [*seen.refused, *([] if allow_missing else seen.lost), *decision.reasons]
    if not decision.planned and not reasons:
        reasons = [f"{each.path}: {each.why}" for each in seen.left_out]
    if reasons:
        raise MergeError("not merged:\n" + "\n".join(f"  {reason}" for reason in reasons), reasons=reasons)
    return write(decision, output, left_out, force=force, jobs=jobs, watch=watch)


@dataclass
class _Seen:
    """What the inputs hold; of those that are left out, why; what is lost with a file, and what can never be allowed."""

    surveys: list[Survey] = field(default_factory=list)
    left_out: list[LeftOut] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)


def _seen(given: Sequence[Input], output: Path, watch: Watch, jobs: int, *, collectives: int, sources: bool) -> _Seen:
    def look(number: int) -> Survey | str:
        path = given[number].path
        try:
            return survey(path, collectives=collectives, sources=sources, progress=watch.of(path, "reading"))
        except OSError as error:
            return f"{path}: cannot be read: {error.strerror or error}"

    seen = _Seen()
    for each, found in zip(given, _each(look, len(given), jobs), strict=True):
        why = "" if isinstance(found, str) else not_placeable(found, named=each.named)
        reason = "" if why else found if isinstance(found, str) else lost(found)
        # What was written there before may lie in the folder, and be replaced; no trace may.
        is_older = isinstance(found, Survey) and found.format == "merged" and not each.named
        if os.path.realpath(each.path) == os.path.realpath(output):
            seen.refused += [] if is_older else [f"{each.path}: it is to be read and to be written"]
        elif why or reason:
            seen.lost += [reason] if reason else []
            seen.left_out.append(LeftOut(each.path, why or reason.removeprefix(f"{each.path}: ")))
        elif isinstance(found, Survey):
            seen.surveys.append(found)
    return seen


def _each(look: Callable[[int], Survey | str], count: int, jobs: int) -> Iterable[Survey | str]:
    if jobs == 1 or count < 2:
        yield from map(look, range(count))
        return
    pool = ThreadPoolExecutor(min(jobs, count), "gputrace-survey")
    try:
        yield from pool.map(look, range(count))
    finally:
        pool.shutdown(cancel_futures=True)
