"""Whose each file is: which rank of the job, or which local rank of which node.

Works on what was told of the files; opens nothing. What cannot be told for sure is asked for, never guessed.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, TypeVar

from pytest_gputrace.claims import claim
from pytest_gputrace.timeline.processes import PROFILERS

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
    from pathlib import Path

    from pytest_gputrace.claims import Claim
    from pytest_gputrace.traces.formats import Format

__all__ = ["LAST_RANK", "Assigned", "Told", "Worker", "assign", "listed", "order"]

LAST_RANK = 2_000_000
"""No job has more; every rank up to here has process ids of its own on the timeline."""

_LISTED = 8
_ASK = "say it: --rank N FILE"
_CONFIRM = "was it copied, or is it another worker's? If the file is right:"
_HOST_PROFILERS_FIRST = ("viztracer", "kineto", "proton")
_LONGEST_HOST = 253  # of a name in DNS
_PART = re.compile(r"(?P<session>.+)\.part_(?P<part>[0-9]+)\.chrome_trace(?:\.gz)?")
_PROFILER_ENDING = re.compile(
    r"(?:[._-](?:pt|trace|kineto|torch|viztracer|viz|proton|part_[0-9]+))*\.(?:json|chrome_trace)(?:\.gz)?$",
    re.IGNORECASE,
)
_COORDINATE = re.compile(
    r"(?<![A-Za-z])(?P<word>[DTPCEMS]P|ETP|GPU|CUDA|device|worker|node|host|pid)[-_=.]?(?P<number>[0-9]+)",
    re.IGNORECASE,
)
_Item = TypeVar("_Item")
_Whose: TypeAlias = "list[Worker | None]"


@dataclass(frozen=True)
class Told:
    """What is told of a file: the rank ``given`` for it, what it tells ``inside``, what its path claims."""

    path: Path
    format: Format
    given: int | None
    inside: int | None
    world_size: int | None
    host: str
    claim: Claim


@dataclass(frozen=True, order=True)
class Worker:
    """One process of the job.

    By its global rank, or else by the local rank on a node or the tag in the names of its files; by none of them where it is
    the only one.
    """

    rank: int = -1
    node: str = ""
    local_rank: int = -1
    tag: str = ""

    @property
    def label(self) -> str:
        """Whom people mean; empty for the only worker, whom nothing names."""
        if self.rank >= 0:
            return f"rank {self.rank}"
        if self.local_rank >= 0:
            return f"local rank {self.local_rank}" + (f" on {self.node}" if self.node else "")
        return self.tag


class Assigned(NamedTuple):
    """Of each file whose it is and by which clock it was recorded, empty where nobody knows; and what is in the way."""

    workers: list[Worker]
    nodes: list[str]
    reasons: list[str]


def order(worker: Worker, format: Format, path: Path) -> tuple[Any, ...]:
    """What files are sorted by: the worker, what shows the host before what shows the GPU, the name."""
    first = _HOST_PROFILERS_FIRST
    which = first.index(format) if format in first else len(first)
    which_worker = worker.rank, _natural(worker.node), worker.local_rank, _natural(worker.tag)
    return *which_worker, which, _natural(path.name), str(path)


def _natural(text: str) -> list[Any]:
    """Text to sort by, in which 10 comes after 9."""
    return [int(part) if at % 2 else part for at, part in enumerate(re.split(r"([0-9]+)", text))]


def assign(files: Sequence[Told]) -> Assigned:
    """Whose each file is, from all of them together. Of a file for which there is a reason, the worker means nothing."""
    told = list(map(_rank, files))
    by_tag = _by_tag(files, [rank for rank, _ in told])
    for at, file in enumerate(files):
        if by_tag.get(file.claim.tag) == Worker(tag=file.claim.tag):  # what it tells of a rank, others tell of theirs
            told[at] = None, ""
    ranks = [rank for rank, _ in told]
    reasons = [reason for _, reason in told if reason]
    nodes = [file.claim.node for file in files]
    folders = [_rank_folder(file) for file in files]
    hosts = _hosts(files, folders)
    whose = _by_local_rank(files, ranks, folders, list(map(_clock, nodes, hosts)))
    whose = [by_tag.get(file.claim.tag, worker) for file, worker in zip(files, whose, strict=True)]
    _join_others(files, whose)
    reasons += [_unknown(file) for file, worker in zip(files, whose, strict=True) if worker is None]
    reasons += list(_several_windows(files)) or _several_at_once(files, whose)
    reasons += _on_two_nodes(files, whose)
    clocks = map(_clock, _shared(whose, nodes), _shared(whose, hosts))
    return Assigned([worker or Worker() for worker in whose], list(clocks), reasons)


def _unknown(file: Told) -> str:
    if (local := file.claim.local_rank) is not None:
        return f"{file.path}: local rank {local}, and nothing tells for sure whose that is; {_ASK}"
    return f"{file.path}: nothing tells its rank; {_ASK}"


def _rank(file: Told) -> tuple[int | None, str]:
    """The global rank that is told of a file, and who disagrees."""
    given, inside, claimed, local = file.given, file.inside, file.claim.rank, file.claim.local_rank
    alone = file.world_size == 1 and (given, claimed, local) != (None, None, None)
    if inside is not None and (inside < 0 or alone):  # each engine of a service is rank 0 of a world of its own
        inside = None
    # In the folder of a node ranks may be counted from the node's first.
    counts_on_node = bool(file.claim.node) and claimed is not None and inside is not None and claimed < inside
    rank = next((each for each in (given, inside, claimed) if each is not None), None)
    why = ""
    if rank is not None and rank > LAST_RANK:
        why = f"rank {rank} cannot be, ranks go to {LAST_RANK:,}"
    elif inside is None:
        pass
    elif given is not None and given != inside:
        why = f"--rank says {given}, the file itself rank {inside}; is it the wrong file?"
    elif given is None and claimed is not None and claimed != inside and not counts_on_node:
        why = f"the file itself says rank {inside}, its name or folder rank {claimed}; {_CONFIRM} --rank {inside} FILE"
    elif given is None and claimed is None and local is not None and inside < local:
        told = f"the file itself says rank {inside}, its name or folder local rank {local}, which is never the greater"
        why = f"{told}; {_CONFIRM} --rank {inside} FILE"
    return rank, why and f"{file.path}: {why}"


def _by_tag(files: Sequence[Told], ranks: Sequence[int | None]) -> dict[str, Worker]:
    """The worker of each tag whose files tell a rank.

    A tag is of one process. Where those of two tell the same rank, and coordinates say that they are two, each is known by
    its tag: the engines of a service each count in a world of their own.
    """
    told: dict[str, set[int]] = defaultdict(set)
    for file, rank in zip(files, ranks, strict=True):
        if file.claim.tag:
            told[file.claim.tag].update(() if rank is None else (rank,))
    times = Counter(rank for own in told.values() for rank in own)
    if any(count > 1 for count in times.values()) and all(tag[0].isupper() for tag in told):
        return {tag: Worker(tag=tag) for tag in told}
    known = {tag: _only(own) for tag, own in told.items()}
    return {tag: Worker(rank) for tag, rank in known.items() if rank is not None}


def _hosts(files: Sequence[Told], folders: Sequence[Path | None]) -> list[str]:
    """The host of each file, also where only its neighbours tell it: those of its node, or in the folder of its rank."""
    hosts = ["".join(filter(str.isprintable, file.host[:_LONGEST_HOST])) for file in files]
    hosts = _shared([file.claim.node or None for file in files], hosts)
    return _shared(folders, hosts)


def _folder(file: Told) -> Path:
    return file.path.absolute().parent


def _rank_folder(file: Told) -> Path | None:
    """The folder, where it tells a rank itself, so that all in it is of one worker."""
    folder = _folder(file)
    told = claim(folder / "-")
    return None if told.rank is None and told.local_rank is None else folder


def _shared(keys: Iterable[Hashable], texts: Sequence[str]) -> list[str]:
    """The texts, and where one is empty that of the others with its key, when it is the only one. None is no key."""
    keys = list(keys)
    known: dict[Hashable, set[str]] = defaultdict(set)
    for key, text in zip(keys, texts, strict=True):
        if text and key is not None:
            known[key].add(text)
    return [text or _only(known.get(key, ())) or "" for key, text in zip(keys, texts, strict=True)]


def _only(items: Iterable[_Item]) -> _Item | None:
    """The only one of them, or None."""
    different = set(items)
    return different.pop() if len(different) == 1 else None


def _clock(node: str, host: str) -> str:
    """A node by its folder and the host that files tell: pods may have equal names, and a folder may hold two hosts."""
    return f"{node} ({host})" if node and host and node != host else node or host


def _by_local_rank(
    files: Sequence[Told], ranks: Sequence[int | None], folders: Sequence[Path | None], clocks: Sequence[str]
) -> _Whose:
    """The workers so far: by the rank, or by the local rank; joined where one file tells the one, and one the other."""
    whose: _Whose = [None if rank is None else Worker(rank) for rank in ranks]
    known: dict[Hashable, set[Worker]] = defaultdict(set)
    for file, worker, *places_of in zip(files, whose, folders, clocks, strict=True):
        if worker is not None:
            for place in filter(None, places_of):
                known[place, file.claim.local_rank].add(worker)
    places = {(clock or None, file.claim.local_rank)
              for file, worker, clock in zip(files, whose, clocks, strict=True) if worker is not None}  # fmt: skip
    several = len(set(filter(None, clocks))) > 1
    only_clock = "" if several else _only(filter(None, clocks)) or ""
    for at, (file, clock) in enumerate(zip(files, clocks, strict=True)):
        local = file.claim.local_rank
        if whose[at] is not None or local is None:
            continue
        same = known.get((folders[at], local)) or known.get((clock, local))
        if same:
            whose[at] = _only(same)
        elif (clock or not several) and not any(
            _may_be(there, clock or None) and _may_be(number, local) for there, number in places
        ):
            whose[at] = Worker(node=clock or only_clock, local_rank=local)
    return whose


def _may_be(one: object, two: object) -> bool:
    return one is None or two is None or one == two


def _join_others(files: Sequence[Told], whose: _Whose) -> None:
    """Give the files of which nothing was told so far to whom they belong for sure; others stay with nobody."""
    _join_tags(files, whose)
    if not any(whose):
        if not list(_clashes(files)) and not _disagree(files):
            whose[:] = [Worker()] * len(files)
        return
    # In this order: what is called alike may lie among files of other ranks.
    others = [at for at, worker in enumerate(whose) if worker is None]
    _join(files, whose, others, _alike)
    others = [at for at in others if files[at].claim.local_rank is None]  # which asks for more than a neighbour
    _join(files, whose, others, _folder)
    if all(file.world_size in (None, 1) for file in files):
        _join(files, whose, others, lambda file: "all")


def _join_tags(files: Sequence[Told], whose: _Whose) -> None:
    """Give the files of a tag to whose is called alike, as TokenSpeed calls them; to the tag where no rank is told."""
    known = {file.claim.tag for file, worker in zip(files, whose, strict=True) if worker is not None}
    untold = [at for at, file in enumerate(files) if file.claim.tag and file.claim.tag not in known]
    _join(files, whose, untold, _alike)
    for at in untold:
        whose[at] = whose[at] or Worker(tag=files[at].claim.tag)


def _alike(file: Told) -> tuple[Path, str]:
    """What is the same of all files of a worker in one folder that are called alike but for who wrote them."""
    return _folder(file), _PROFILER_ENDING.sub("", file.path.name)


def _join(files: Sequence[Told], whose: _Whose, others: Sequence[int], key: Callable[[Told], Hashable]) -> None:
    """Give files to the only worker that has others of their key, where its formats stay apart and no name disagrees."""
    by_key: dict[Hashable, set[Worker]] = defaultdict(set)
    of_worker: dict[Worker, list[Told]] = defaultdict(list)
    for file, worker in zip(files, whose, strict=True):
        if worker is not None:
            by_key[key(file)].add(worker)
            of_worker[worker].append(file)
    joining: dict[tuple[Worker, Format], list[int]] = defaultdict(list)
    for at in others:
        if whose[at] is None and (worker := _only(by_key.get(key(files[at]), ()))) is not None:
            joining[worker, files[at].format].append(at)
    for (worker, _), indices in joining.items():
        together = of_worker[worker] + [files[at] for at in indices]
        if not list(_clashes(together)) and not _disagree(together):
            for at in indices:
                whose[at] = worker


def _disagree(files: Sequence[Told]) -> bool:
    """Whether they are not of one worker by their names, as TP0 and TP1, or by the nodes in whose folders they are."""
    known: dict[str, str] = {}
    return len({file.claim.node for file in files if file.claim.node}) > 1 or any(
        known.setdefault(match["word"].lower(), match["number"]) != match["number"]
        for file in files
        for match in _COORDINATE.finditer(file.path.name)
    )


def _clashes(files: Sequence[Told]) -> Iterator[list[Told]]:
    """Of files of one worker those of one format, which would lie over each other; parts of one session do not."""
    by_format: dict[str, list[Told]] = defaultdict(list)
    for file in files:
        by_format[file.format].append(file)
    for alike in by_format.values():
        parts = [_PART.fullmatch(file.path.name) for file in alike]
        sessions = {(_folder(file), part and part["session"]) for file, part in zip(alike, parts, strict=True)}
        numbers = {int(part["part"]) for part in parts if part}
        if len(alike) > 1 and (len(sessions) > 1 or len(numbers) < len(alike)):
            yield alike


def _several_windows(files: Sequence[Told]) -> Iterator[str]:
    """Two profiles, or two stages of one, are not of one time, also where they are of different profilers."""
    windows = {file.claim.window: file.path for file in reversed(files) if file.claim.window}
    if len(windows) > 1:
        count = "two" if len(windows) == 2 else str(len(windows))
        names = listed(sorted(windows.values()))
        yield f"files of {count} recordings: {names}; merge one profile, and one stage of it, at a time"


def _several_at_once(files: Sequence[Told], whose: _Whose) -> Iterator[str]:
    by_worker: dict[Worker, list[Told]] = defaultdict(list)
    for file, worker in zip(files, whose, strict=True):
        if worker is not None:
            by_worker[worker].append(file)
    for worker, own in sorted(by_worker.items()):
        for alike in _clashes(own):
            count = "two" if len(alike) == 2 else str(len(alike))
            names = listed([file.path for file in alike])
            in_worlds_of_one = any(file.world_size == 1 and file.given is None for file in alike)
            ask = f"; each is its own world of one? {_ASK}" if in_worlds_of_one else ""
            kind = PROFILERS.get(alike[0].format, alike[0].format)
            yield f"{count} {kind} files of {worker.label}: {names}; merge one recording, or one window of it, at a time{ask}"


def _on_two_nodes(files: Sequence[Told], whose: _Whose) -> Iterator[str]:
    """A rank is on one node; files of one that lie in the folders of two are of different ones, or of two jobs."""
    nodes: dict[Worker, dict[str, Told]] = defaultdict(dict)
    for file, worker in zip(files, whose, strict=True):
        if worker is not None and worker.rank >= 0 and file.claim.node and file.given is None:
            nodes[worker].setdefault(file.claim.node, file)
    for worker, by_node in sorted(nodes.items()):
        if len(by_node) > 1:
            told = " and ".join(f"{file.path} on {node}" for node, file in sorted(by_node.items())[:2])
            yield f"{worker.label} is on two nodes: {told}; {_ASK}"


def listed(items: Sequence[object], joint: str = " and ") -> str:
    """The first of them, in words."""
    shown = [str(each) for each in items[:_LISTED]]
    if len(items) > _LISTED:
        return f"{', '.join(shown)} and {len(items) - _LISTED} more"
    return joint.join([", ".join(shown[:-1]), shown[-1]] if len(shown) > 1 else shown)
