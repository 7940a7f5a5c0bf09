"""Whose trace a file is: what its inside, its name and its folders say of rank, node and the set it belongs to.

Works on text alone; opens nothing.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path, PurePath

from pytest_gputrace.errors import NamingError
from pytest_gputrace.layout import recognise
from pytest_gputrace.naming import is_legacy_name, parse_name

__all__ = ["Claim", "claim"]

_RANK = re.compile(r"(?:^|[^A-Za-z])(?:global[-_]?)?rank[-_=.]?(?P<rank>[0-9]{1,9})(?![0-9])", re.IGNORECASE)
_LOCAL_RANK = re.compile(r"local[-_]?rank[-_=.]?(?P<rank>[0-9]{1,9})(?![0-9])", re.IGNORECASE)
_LEGACY_RANK = re.compile(r"-(?P<rank>[0-9]{1,9})\.json$")
_NODES = "nodes"
# What differs between the files of one set: ranks, nodes, process ids, times.
_NUMBERED = re.compile(r"(?P<word>rank|node|worker|host|gpu|device|pid)(?P<mark>[-_=.]?)[0-9]+", re.IGNORECASE)
_LONG_NUMBER = re.compile(r"[0-9]{5,}")
_PID_BEFORE_TIME = re.compile(r"_[0-9]+(?=\.#\.pt\.trace)")


@dataclass(frozen=True)
class Claim:
    """What a path says. ``rank`` is global, ``local_rank`` counts on ``node``; None or empty where it says nothing.

    Files of one ``group`` are the ranks of one recording, ``attempt`` the repeats of it on a rank; ``legacy`` ones are
    copies that the next writer replaces.
    """

    rank: int | None
    local_rank: int | None
    node: str
    group: str
    attempt: int = 1
    legacy: bool = False


def claim(path: Path, inside: str) -> Claim:
    """Read a path; ``inside`` is the part of it below the folder that was searched."""
    folder = recognise(path.parent)
    local_rank = None if folder is None else folder.local_rank
    place = PurePath(inside).parent
    node = _node(path)
    base = "/".join(
        "*" if at and place.parts[at - 1] == _NODES else _general(part) for at, part in enumerate(place.parts)
    )
    try:
        own = parse_name(path.name)
    except NamingError:
        pass
    else:
        group = f"{base}/{own.model}/{own.configuration}"
        return Claim(own.rank, local_rank, own.node.text or node, group, own.attempt)
    if is_legacy_name(path.name):
        match = _LEGACY_RANK.search(path.name)
        told = local_rank if match is None else int(match["rank"])
        return Claim(None, told, node, f"{base}/{_LEGACY_RANK.sub('-#.json', path.name)}", legacy=True)
    return Claim(*_ranks(path, local_rank), node, f"{base}/{_general(path.name)}")


def _ranks(path: Path, folder_rank: int | None) -> tuple[int | None, int | None]:
    """The global and the local rank that a name, or else its folder, tells by the word."""
    if local := _LOCAL_RANK.search(path.name):
        return None, int(local["rank"])
    if match := _RANK.search(path.name):
        return int(match["rank"]), folder_rank
    if folder_rank is not None:  # an executor's folder tells the local one
        return None, folder_rank
    match = _RANK.fullmatch(path.parent.name)
    return (int(match["rank"]) if match else None), None


def _node(path: Path) -> str:
    """The node, where results were gathered as ``nodes/<host>/...``, as SuperBench's runner does."""
    parts = path.absolute().parts
    for at in range(len(parts) - 2, 0, -1):
        if parts[at - 1] == _NODES:
            return parts[at]
    return ""


def _general(name: str) -> str:
    """A name with that taken out which differs from rank to rank."""
    name = _LONG_NUMBER.sub("#", _NUMBERED.sub(r"\g<word>\g<mark>#", name))
    return _PID_BEFORE_TIME.sub("_#", name)
