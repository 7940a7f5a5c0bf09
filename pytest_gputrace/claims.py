"""Whose trace a file is: what its inside, its name and its folders say of rank, node and the set it belongs to.

Works on text alone; opens nothing.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_gputrace.errors import NamingError
from pytest_gputrace.layout import recognise
from pytest_gputrace.naming import encode_field, is_legacy_name, parse_name
from pytest_gputrace.windownames import parse_window_name

if TYPE_CHECKING:
    from pathlib import Path

    from pytest_gputrace.windownames import WindowName

__all__ = ["Claim", "claim"]

_RANK = re.compile(
    r"(?:^|[^A-Za-z])(?P<word>(?:(?:global|world)[-_]?)?rank)[-_=.]?(?P<rank>[0-9]{1,9})(?![0-9])", re.IGNORECASE
)
_LOCAL_RANK = re.compile(r"local[-_]?rank[-_=.]?(?P<rank>[0-9]{1,9})(?![0-9])", re.IGNORECASE)
_LEGACY_RANK = re.compile(r"-(?P<rank>[0-9]{1,9})\.json$")
_WORD_BEFORE = re.compile(r"([A-Za-z]+)[-_.]?$")
_OTHER_RANKS = frozenset(
    {
        "dp",
        "tp",
        "pp",
        "cp",
        "ep",
        "mp",
        "sp",
        "etp",
        "data",
        "tensor",
        "pipeline",
        "context",
        "expert",
        "model",
        "node",
        "edp",
        "dcp",
        "pcp",
        # The rank of a matrix: adapters of a model are called after theirs.
        "lora",
        "low",
    }
)
_NODES = "nodes"
_NODE = re.compile(r"(?:node|host)(?:[-_=.]?[0-9][\w.-]*|[-_=.][\w.-]+|[a-rt-z])", re.IGNORECASE)  # not "hosts"
# What differs between the files of one recording: ranks, nodes, process ids, times.
_NUMBERED = re.compile(r"(?P<word>rank|node|worker|host|gpu|device|pid)(?P<mark>[-_=.]?)[0-9]+", re.IGNORECASE)
_DIMENSION = re.compile(r"(?<![A-Za-z])(?P<word>DP|TP|PP|CP|EP|ETP|MP|SP)(?P<mark>[-_=.]?)[0-9]+", re.IGNORECASE)
_MASK = r"\g<word>\g<mark>#"
_LONG_NUMBER = re.compile(r"[0-9]{5,}")
_HANDLER = re.compile(r"_[0-9]+\.[0-9]{5,}(\.pt\.trace\.json)(?:\.gz)?$")


@dataclass(frozen=True)
class Claim:
    """What a path says. ``rank`` is global, ``local_rank`` counts on ``node``; None or empty where it says nothing.

    Files of one ``group`` are the ranks of one recording, ``attempt`` the repeats of it on a rank; ``legacy`` ones are
    copies that the next writer replaces. ``tag`` is which worker wrote the file of a profile that a session recorded, also
    where that worker has no rank; ``window`` is which profile, and which stage of it, wherever the file is.
    """

    rank: int | None
    local_rank: int | None
    node: str
    group: str
    attempt: int = 1
    legacy: bool = False
    tag: str = ""
    window: str = ""


def claim(path: Path) -> Claim:
    """Read a path."""
    path = path.absolute()
    folder = recognise(path.parent)
    local_rank = None if folder is None else folder.local_rank
    node = _node(path)
    base = "/".join(
        "*" if at and path.parts[at - 1] == _NODES else _NUMBERED.sub(_MASK, part)
        for at, part in enumerate(path.parts[:-1])
    )
    try:
        own = parse_name(path.name)
    except NamingError:
        pass
    else:
        group = f"{base}/{own.model}/{own.configuration}"
        return Claim(own.rank, local_rank, own.node.text or node, group, own.attempt)
    try:
        window = parse_window_name(path.name)
    except NamingError:
        pass
    else:
        which = _window(window)
        node = node if window.node is None else str(window.node)
        group = f"{base}/{which}"
        return Claim(window.rank, local_rank, node, group, window.attempt, tag=window.tag, window=which)
    if is_legacy_name(path.name):
        match = _LEGACY_RANK.search(path.name)
        told = local_rank if match is None else int(match["rank"])
        return Claim(None, told, node, f"{base}/{_LEGACY_RANK.sub('-#.json', path.name)}", legacy=True)
    return Claim(*_ranks(path, local_rank, node), node, f"{base}/{_general(path.name)}")


def _window(name: WindowName) -> str:
    """Profile and stage, the same for all workers: beside a long tag the text of a profile may be a digest."""
    profile = name.profile
    digest = encode_field(profile.text, limit=0) if profile.digest is None else f"~{profile.digest}"
    return f"{digest}/{name.stage or ''}"


def _ranks(path: Path, folder_rank: int | None, node: str) -> tuple[int | None, int | None]:
    """The global and the local rank that a name, or else its folder, tells by the word."""
    if local := _LOCAL_RANK.search(path.name):
        return None, int(local["rank"])
    if (rank := _told(path.name)) is not None:
        return rank, folder_rank
    if folder_rank is not None:  # an executor's folder tells the local one
        return None, folder_rank
    rank = _told(path.parent.name)
    return (None, rank) if node else (rank, None)


def _told(name: str) -> int | None:
    """The rank that a name tells by the word; one of a dimension (``tp_rank_1``) or of a node is another number."""
    for match in _RANK.finditer(name):
        before = _WORD_BEFORE.search(name[: match.start("word")])
        if before is None or before[1].lower() not in _OTHER_RANKS:
            return int(match["rank"])
    return None


def _node(path: Path) -> str:
    """The node: results gathered as ``nodes/<host>/...``, as SuperBench's runner does, or a folder called after it."""
    parts = path.parts
    for at in range(len(parts) - 2, 0, -1):
        if parts[at - 1] == _NODES or _NODE.fullmatch(parts[at]):
            return parts[at]
    return ""


def _general(name: str) -> str:
    """A name with that taken out which differs from rank to rank."""
    if match := _HANDLER.search(name):  # torch's handler: the host, the process id and the time, and no more
        return f"*{match[1]}"
    name = _LONG_NUMBER.sub("#", _DIMENSION.sub(_MASK, _NUMBERED.sub(_MASK, name)))
    return name.removesuffix(".gz")
