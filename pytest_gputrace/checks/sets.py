"""Rules about the files of a set: is every rank there, once, as itself, and as full as the others (family F)?

The files are sorted into groups, each the ranks of one recording; no rule compares across groups but that for copies.
"""

from __future__ import annotations

import itertools
import os
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
    "NEAR_NS",
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
_LISTED = 8
NEAR_NS = 60 * 10**9
"""Ranks that never wait for each other begin to record seconds apart, not minutes."""


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
        elif len(group) == 1 and any(_is_whole(other, expected) for other in groups):
            severity = (
                Severity.INFO
            )  # beside a recording of all ranks, a file of its own: a merged one, a note of one rank
        for window in _windows(group):
            looked.at += expected
            looked.hits += _missing_in(window, expected, severity)
    return looked


def _is_whole(group: list[FileFacts], expected: int) -> bool:
    return len({file.worker for file in group if file.worker is not None}) >= expected > 1


def _missing_in(window: list[FileFacts], expected: int, severity: Severity | None) -> Iterator[Hit]:
    there = {file.worker for file in window if file.worker is not None}
    ranks = {worker.rank for worker in there if worker.rank >= 0}
    if len(ranks) < len(there):  # of some only the local rank, or the coordinates, are known
        if len(there) < expected:
            what = f"{len(there)} of {expected} ranks have a file: {first(sorted(there))}"
            yield Hit(f"{_called(window)}: {what}", severity=severity)
    elif count := expected - sum(rank < expected for rank in ranks):
        missing = list(itertools.islice((rank for rank in itertools.count() if rank not in ranks), min(count, _LISTED)))
        more = f" and {count - len(missing)} more" if count > len(missing) else ""
        what = f"{count} of {expected} ranks have no file: {first(missing)}{more}"
        rank = missing[0] if count == 1 else None
        yield Hit(f"{_called(window)}: {what}", rank=rank, severity=severity)


def _windows(group: list[FileFacts]) -> list[list[FileFacts]]:
    """The files of each window, or each night, of a recording. One begins where a rank comes again, or a pause ends.

    Only where ranks come again: others may record one after the other.
    """
    known = [(file.span_ns, file.worker, file) for file in group if file.span_ns and file.worker]
    if len(known) < len(group) or len({worker for _, worker, _ in known}) == len(known):
        return [group]
    windows: list[list[FileFacts]] = []
    there: set[Worker] = set()
    latest = 0
    for (begin, end), worker, file in sorted(known, key=lambda each: each[0]):
        if not windows or worker in there or begin > latest + NEAR_NS:
            windows.append([])
            there = set()
        windows[-1].append(file)
        there.add(worker)
        latest = max(latest, end)
    return windows


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
    """Files that record the same time, each with one before it. Where no time is told, nobody knows."""
    longest: tuple[int, FileFacts] | None = None
    for (begin, end), file in sorted(
        ((file.span_ns, file) for file in files if file.span_ns), key=lambda each: each[0]
    ):
        # Copies are told by GT504; and each engine of a world of one has a rank 0.
        if longest is not None and begin < longest[0] and not _is_copy(file, longest[1]) and file.world_size != 1:
            yield longest[1], file
        if longest is None or end >= longest[0]:
            longest = end, file


def _is_copy(one: FileFacts, two: FileFacts) -> bool:
    return bool(one.digest) and one.digest == two.digest


def rank_disagrees(files: Sequence[FileFacts], settings: Settings) -> Looked:
    """GT503: the rank inside a file is another than its name or folder tells."""
    looked = Looked(0)
    for file in files:
        inside, claim = file.told_inside, file.claim
        if inside is None or (claim.rank is None and claim.local_rank is None):
            continue
        looked.at += 1
        is_smaller_world = bool(claim.tag) and claim.rank is not None and claim.rank >= (file.world_size or inside + 1)
        if is_smaller_world:  # of several in one job, as engines that serve one model side by side
            continue
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
    known = [file for file in _no_legacy_copies(files) if file.digest and file.format != "merged"]
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
            if file.told_inside is not None and not 0 <= file.told_inside < (file.world_size or 0):
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
    """The files of each recording; a merged one is all of its ranks, and none of them."""
    own = [file for file in _no_legacy_copies(files) if file.format != "merged"]
    # A file of which nothing could be read belongs to those that are called as it is.
    formats = {file.claim.group: file.format for file in own if file.events}
    groups: dict[tuple[str, str], list[FileFacts]] = defaultdict(list)
    for file in own:
        format = file.format if file.events else formats.get(file.claim.group, file.format)
        groups[format, file.claim.group].append(file)
    return _joined(list(groups.values()))


def _joined(groups: list[list[FileFacts]]) -> list[list[FileFacts]]:
    """Groups of other names that are one recording all the same: of one world, at one time, each of ranks of its own."""
    joined: dict[tuple[str, int], list[list[FileFacts]]] = defaultdict(list)
    whole: list[list[FileFacts]] = []
    for group in sorted(groups, key=lambda group: min(file.span_ns or (0, 0) for file in group)):
        sizes = {file.world_size for file in group}
        size = sizes.pop() if len(sizes) == 1 else None
        if size is None or size == 1 or any(file.told_inside is None or file.span_ns is None for file in group):
            whole.append(group)
            continue
        alike = joined[group[0].format, size]
        ranks, begin = {file.told_inside for file in group}, min(file.span_ns or (0, 0) for file in group)[0]
        for other in alike:
            latest = max((file.span_ns or (0, 0))[1] for file in other)
            if begin < latest + NEAR_NS and not ranks & {file.told_inside for file in other}:
                other += group
                break
        else:
            alike.append(list(group))
    return whole + [group for alike in joined.values() for group in alike]


def _no_legacy_copies(files: Sequence[FileFacts]) -> list[FileFacts]:
    """The files but legacy ones beside others: those are copies that the next writer replaces."""
    with_others = {os.path.dirname(file.path) for file in files if not file.claim.legacy}
    return [file for file in files if not file.claim.legacy or os.path.dirname(file.path) not in with_others]


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
