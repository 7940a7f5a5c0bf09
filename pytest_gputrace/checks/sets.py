"""Rules about the files of a set: is every rank there, once, as itself, and as full as the others (family F)?

The files are sorted into groups, each the ranks of one recording; no rule compares across groups but that for copies.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from statistics import median, multimode
from typing import TYPE_CHECKING

from pytest_gputrace.checks.rule import Hit, Looked
from pytest_gputrace.checks.words import first
from pytest_gputrace.model import Severity

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from pytest_gputrace.checks.facts import FileFacts, Worker
    from pytest_gputrace.checks.rule import Settings

__all__ = [
    "double_rank",
    "empty_rank",
    "missing_rank",
    "mixed_jobs",
    "rank_disagrees",
    "same_capture",
    "uneven_completeness",
    "uneven_steps",
]

_COMPLETENESS_APART = 0.1
_UNKNOWN = "unknown"


def missing_rank(files: Sequence[FileFacts], settings: Settings) -> Looked:
    """GT501: an expected rank has no file. Without a number to expect, what the files say of their world is told."""
    looked = Looked(0)
    groups = [group for group in _groups(files) if any(file.worker for file in group)]
    if settings.expect_ranks is not None and not groups:
        message = (
            f"{settings.expect_ranks} ranks expected, and no file says whose it is, neither inside nor by its name"
        )
        return Looked(settings.expect_ranks, [Hit(message)])
    for group in groups:
        expected, severity = settings.expect_ranks, None
        if expected is None:
            worlds = {file.world_size for file in group if file.world_size is not None}
            if len(worlds) != 1 or len(group) < 2:
                continue
            expected, severity = worlds.pop(), Severity.INFO
        looked.at += expected
        there = {file.worker for file in group if file.worker is not None}
        ranks = {worker.rank for worker in there if worker.rank >= 0}
        if len(ranks) < len(there):  # of some only the local rank is known
            if len(there) < expected:
                what = f"{len(there)} of {expected} ranks have a file: {first(sorted(there))}"
                looked.hits.append(Hit(f"{_called(group)}: {what}", severity=severity))
        elif missing := sorted(set(range(expected)) - ranks):
            what = f"{len(missing)} of {expected} ranks have no file: {first(missing)}"
            rank = missing[0] if len(missing) == 1 else None
            looked.hits.append(Hit(f"{_called(group)}: {what}", rank=rank, severity=severity))
    return looked


def double_rank(files: Sequence[FileFacts], settings: Settings) -> Looked:
    """GT502: two files of one rank that record the same time. Windows one after another are two files by right."""
    looked = Looked(0)
    for group in _groups(files):
        by_worker: dict[Worker, list[FileFacts]] = defaultdict(list)
        for file in group:
            if file.worker is not None:
                by_worker[file.worker].append(file)
        looked.at += len(by_worker) if len(group) > 1 else 0
        for worker, own in sorted(by_worker.items()):
            meeting = list(_of_one_time(own))
            if meeting:
                names = first(dict.fromkeys(file.path for pair in meeting for file in pair))
                last = meeting[-1][1]
                what = f"{worker} is in files of the same time: {names}"
                looked.hits.append(Hit(what, file=last.path, rank=rank_of(last)))
    return looked


def _of_one_time(files: list[FileFacts]) -> Iterator[tuple[FileFacts, FileFacts]]:
    """Files that record the same time, each with one before it; where a file tells no time, so may all of its attempt."""
    by_attempt: dict[int, list[FileFacts]] = defaultdict(list)
    for file in files:
        by_attempt[file.claim.attempt].append(file)
    for alike in by_attempt.values():
        longest: FileFacts | None = None
        for file in sorted(alike, key=lambda file: file.span_ns or (0, 0)):
            if longest is None or longest.span_ns is None or file.span_ns is None:
                meets = longest is not None
            else:
                meets = file.span_ns[0] < longest.span_ns[1]
            # Copies are told by GT504.
            if longest is not None and meets and not (file.digest and file.digest == longest.digest):
                yield longest, file
            if longest is None or (file.span_ns or (0, 0))[1] >= (longest.span_ns or (0, 0))[1]:
                longest = file


def rank_disagrees(files: Sequence[FileFacts], settings: Settings) -> Looked:
    """GT503: the rank inside a file is another than its name or folder tells."""
    looked = Looked(0)
    for file in files:
        inside, claim = file.told_inside, file.claim
        if inside is None or (claim.rank is None and claim.local_rank is None):
            continue
        looked.at += 1
        if claim.rank is not None and claim.rank != inside:
            what = f"the file says rank {inside}, its name or folder rank {claim.rank}"
        elif claim.local_rank is not None and inside < claim.local_rank:
            what = f"the file says rank {inside}, its folder local rank {claim.local_rank}, which is never the greater"
        else:
            continue
        looked.hits.append(
            Hit(f"{what}; was it copied, or written under another worker's name?", file=file.path, rank=inside)
        )
    return looked


def same_capture(files: Sequence[FileFacts], settings: Settings) -> Looked:
    """GT504: two files hold the same events at the same times."""
    own = [file for file in files if not file.claim.legacy] or list(files)
    known = [file for file in own if file.digest]
    looked = Looked(len(known) if len(known) > 1 else 0)
    by_digest: dict[tuple[str, str], list[FileFacts]] = defaultdict(list)
    for file in known:
        by_digest[file.format, file.digest].append(file)
    for copies in by_digest.values():
        if len(copies) > 1:
            names = first(file.path for file in copies)
            what = f"{len(copies)} files hold one capture: {names}; is one a copy, under another rank's name?"
            looked.hits.append(Hit(what, file=copies[1].path, rank=rank_of(copies[1])))
    return looked


def empty_rank(files: Sequence[FileFacts], settings: Settings) -> Looked:
    """GT505: one rank has no GPU events, others of its recording have."""
    looked = Looked(0)
    for group in of_several(files):
        looked.at += len(group)
        full = [file for file in group if file.gpu_events]
        looked.hits += [
            Hit(
                f"{file.worker} has no GPU event, {len(full)} of {len(group)} files of its recording have up to "
                f"{max(each.gpu_events for each in full)}",
                file=file.path,
                rank=rank_of(file),
            )
            for file in group
            if full and not file.gpu_events
        ]
    return looked


def uneven_steps(files: Sequence[FileFacts], settings: Settings) -> Looked:
    """GT506: ranks differ in how many steps have GPU work."""

    def steps(file: FileFacts) -> int:
        return sum(count > 0 for count in file.gpu_steps.values())

    return _uneven(files, lambda file: bool(file.gpu_steps), steps, "steps with GPU work")


def uneven_completeness(files: Sequence[FileFacts], settings: Settings) -> Looked:
    """GT507: far fewer launches of one rank have a kernel than of the others."""
    looked = Looked(0)
    for group in of_several(files):
        launching = [file for file in group if file.launches]
        if len(launching) < 2:
            continue
        looked.at += len(launching)
        shares = {file.path: file.completed / file.launches for file in launching}
        middle = median(shares.values())
        for file in launching:
            usual = middle if len(shares) > 2 else median(share for path, share in shares.items() if path != file.path)
            if file.gpu_events and shares[file.path] < usual - _COMPLETENESS_APART:
                what = f"{file.worker}: {file.completed} of {file.launches} launches have a kernel ({shares[file.path]:.0%})"
                looked.hits.append(Hit(f"{what}, on the other ranks {usual:.0%}", file=file.path, rank=rank_of(file)))
    return looked


def mixed_jobs(files: Sequence[FileFacts], settings: Settings) -> Looked:
    """GT510: files of one group are from worlds of different sizes, or from a rank outside its world."""
    looked = Looked(0)
    for group in _groups(files):
        told = [file for file in group if file.world_size is not None]
        looked.at += len(told)
        for file in told:
            if file.told_inside is not None and not file.told_inside < (file.world_size or 0):
                what = f"rank {file.told_inside} is not in its world of {file.world_size}"
                looked.hits.append(Hit(what, file=file.path, rank=file.told_inside))
        sizes = Counter(file.world_size for file in told)
        if len(sizes) > 1:
            usual = sizes.most_common(1)[0][0]
            odd = next(file for file in told if file.world_size != usual)
            what = f"its world has {odd.world_size} ranks, that of others {usual}; are files of two jobs in one folder?"
            looked.hits.append(Hit(what, file=odd.path, rank=rank_of(odd)))
    return looked


def _uneven(
    files: Sequence[FileFacts], counts: Callable[[FileFacts], bool], number: Callable[[FileFacts], int], what: str
) -> Looked:
    looked = Looked(0)
    for group in of_several(files):
        counted = [file for file in group if counts(file) and file.gpu_events]
        if len(counted) < 2:
            continue
        looked.at += len(counted)
        usual = max(multimode(number(file) for file in counted))
        looked.hits += [
            Hit(f"{file.worker} has {number(file)} {what}, the others {usual}", file=file.path, rank=rank_of(file))
            for file in counted
            if number(file) != usual
        ]
    return looked


def _groups(files: Sequence[FileFacts]) -> list[list[FileFacts]]:
    """The files of each recording; legacy copies only where there is nothing else."""
    own = [file for file in files if not file.claim.legacy] or files
    # A file of which nothing could be read belongs to those that are called as it is.
    formats = {file.claim.group: file.format for file in own if file.format != _UNKNOWN}
    groups: dict[tuple[str, str], list[FileFacts]] = defaultdict(list)
    for file in own:
        format = formats.get(file.claim.group, _UNKNOWN) if file.format == _UNKNOWN else file.format
        groups[format, file.claim.group].append(file)
    return list(groups.values())


def of_several(files: Sequence[FileFacts]) -> Iterator[list[FileFacts]]:
    """The whole files of each recording that several workers wrote."""
    for group in _groups(files):
        whole = [file for file in group if file.whole and file.worker is not None]
        if len({file.worker for file in whole}) > 1:
            yield whole


def _called(group: Sequence[FileFacts]) -> str:
    """A group in words: one of its files, and how many more."""
    return group[0].path + (f" and {len(group) - 1} more like it" if len(group) > 1 else "")


def rank_of(file: FileFacts) -> int | None:
    return file.worker.rank if file.worker is not None and file.worker.rank >= 0 else None
