"""Which worker a new file belongs to, as its name tells, or else its first lines.

Knows the names that this package and serving engines give. It reads no more of a file than its beginning.
"""

from __future__ import annotations

import gzip
import json
import os
import re
import zlib
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_gputrace.claims import claim
from pytest_gputrace.control.verdict import natural
from pytest_gputrace.errors import NamingError
from pytest_gputrace.traces.root import whole_number
from pytest_gputrace.windownames import parse_window_name

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pytest_gputrace.naming import Field

__all__ = ["Owner", "is_named_for", "joined", "owner", "rank_inside"]

DIMENSIONS = ("DP", "PP", "CP", "TP", "EP")
# "TP-0-DP-1" of SGLang, "DP1-TP0" of TokenSpeed, "dp0_pp0_tp1" of vLLM, but neither "dcp0" nor "http2".
_COORDINATE = re.compile(rf"(?<![A-Za-z])({'|'.join(DIMENSIONS)})[-_=.]?([0-9]{{1,9}})(?![0-9])", re.IGNORECASE)
_STAGE = re.compile(r"-([A-Z][A-Z_]+)(?=\.[a-z])")
_ENDING = re.compile(
    r"(?:[._-](?:pt|trace|torch|viztracer|proton|memory))*\.(?:json|chrome_trace|hatchet_msgpack|hatchet|pickle)(?:\.gz)?$"
)
_PROFILERS = (
    ("rpd", re.compile(r"^rpd-")),
    ("viztracer", re.compile(r"viztracer", re.IGNORECASE)),
    ("memory", re.compile(r"\.pickle$|[._-]memory[._-]", re.IGNORECASE)),
    ("proton", re.compile(r"\.proton\b|\.chrome_trace|\.hatchet", re.IGNORECASE)),
)
_OF_WORKER = r"-(?:TP-[0-9]|(?:DP[0-9]+-)?(?:CP[0-9]+-)?TP[0-9])"  # of SGLang; of TokenSpeed
_PREFIX = re.compile(rf"(.+?){_OF_WORKER}")
# SGLang begins their names with a time of their own, and tells of the coordinates TP alone.
_STRAYS = ("memory", "rpd")
_FRONT_END = ".async_llm."  # of vLLM
_DISTRIBUTED = re.compile(r'"distributedInfo"\s*:\s*(?=\{)')
_HEAD_BYTES = 1 << 20


@dataclass(frozen=True)
class Owner:
    """Who wrote a file, and with what. ``label`` names the worker; where nothing ``told`` of one, it is the file's name.

    ``profile`` is there for names of our own alone; ``rank`` is the global one. ``prefix`` is what the
    names of one profile of SGLang or TokenSpeed begin with; of a front end ``is_worker`` is False.
    """

    label: str
    profiler: str
    stage: str | None = None
    rank: int | None = None
    coordinates: tuple[tuple[str, int], ...] = ()
    profile: Field | None = None
    told: bool = True
    prefix: str = ""
    is_worker: bool = True

    def at(self, rank: int) -> Owner:
        """The same file, of which is now told whose it is."""
        return replace(self, label=f"rank {rank}", rank=rank, told=True)


def owner(path: str, folder: str) -> Owner:
    """Whose the file is that came somewhere below ``folder``. What that is called itself tells nothing."""
    name = os.path.basename(path)
    try:
        own = parse_window_name(name)
    except NamingError:
        pass
    else:
        coordinates = tuple(own.coordinates.items())
        return Owner(own.tag, own.profiler, own.stage, own.rank, coordinates, own.profile)
    profiler = next((word for word, pattern in _PROFILERS if pattern.search(name)), "torch")
    stages = _STAGE.search(name)
    stage = stages[1] if stages else None
    said = claim(Path(os.sep, os.path.relpath(path, folder)))
    coordinates = _coordinates(name)
    if _FRONT_END in name:  # whatever its host is called
        return Owner(_ENDING.sub("", name), profiler, stage, told=False, is_worker=False)
    if said.rank is not None:
        return Owner(f"rank {said.rank}", profiler, stage, said.rank, coordinates)
    if coordinates:
        label = _label(coordinates) + (f"-node={said.node}" if said.node else "")
        prefix = _PREFIX.match(name) if profiler not in _STRAYS else None
        return Owner(label, profiler, stage, None, coordinates, prefix=prefix[1] if prefix else "")
    return Owner(_ENDING.sub("", name), profiler, stage, told=False)


def is_named_for(path: str, profile_id: str) -> bool:
    """Whether TokenSpeed gives this name to a file of the profile with this id, and not of one whose id is longer."""
    return re.match(re.escape(profile_id) + _OF_WORKER, os.path.basename(path)) is not None


def joined(owners: Mapping[str, Owner]) -> dict[str, Owner]:
    """The owners of files by their paths, after a look at all of them together.

    Where one file of a name tells its rank inside, the others of that name are its worker's too. Where files of one
    rank tell different coordinates, as those of vLLM's data-parallel engines do, each of which counts its ranks from
    0, they are of different workers. SGLang's snapshots of memory tell fewer coordinates than its traces.
    """
    places: dict[str, set[tuple[tuple[str, int], ...]]] = {}
    for each in owners.values():
        if each.profile is None and each.coordinates:
            places.setdefault(each.label, set()).add(each.coordinates)
    stems = {_ENDING.sub("", path): each.rank for path, each in owners.items() if each.rank is not None}
    settled = {path: _settled(path, each, places, stems) for path, each in owners.items()}
    return settled | _adopted(settled)


def _adopted(owners: Mapping[str, Owner]) -> dict[str, Owner]:
    """Those of the strays whose coordinates no trace has, each with the next worker that has these among others."""
    workers = {each.label: each for each in owners.values() if each.coordinates and each.profiler not in _STRAYS}
    found: dict[str, Owner] = {}
    taken: set[tuple[str, str, str | None]] = set()
    for path, each in sorted(owners.items()):
        if each.profile is not None or each.profiler not in _STRAYS or each.label in workers or not each.coordinates:
            continue
        for label in sorted(workers, key=natural):
            slot = label, each.profiler, each.stage
            if slot not in taken and set(each.coordinates) < set(workers[label].coordinates):
                taken.add(slot)
                found[path] = replace(
                    each, label=label, rank=workers[label].rank, coordinates=workers[label].coordinates
                )
                break
    return found


def _settled(
    path: str, given: Owner, places: Mapping[str, set[tuple[tuple[str, int], ...]]], stems: Mapping[str, int]
) -> Owner:
    if not given.told and (rank := stems.get(_ENDING.sub("", path))) is not None:
        return given.at(rank)
    if given.profile is None and given.coordinates and given.rank is not None and len(places[given.label]) > 1:
        return replace(given, label=f"{_label(given.coordinates)}-rank{given.rank}", rank=None)
    return given


def rank_inside(path: str) -> int | None:
    """The rank that a trace of torch tells in its first lines, where it is one of several."""
    try:
        with gzip.open(path) if path.endswith(".gz") else open(path, "rb") as file:
            head = file.read(_HEAD_BYTES).decode("utf-8", "replace")
    except (OSError, EOFError, zlib.error):
        return None
    match = _DISTRIBUTED.search(head)
    if match is None:
        return None
    try:
        value, _ = json.JSONDecoder().raw_decode(head, match.end())
    except (ValueError, RecursionError):
        return None
    inside: dict[str, Any] = {"distributedInfo": value}
    world_size = whole_number(inside, ("distributedInfo", "world_size"))
    return whole_number(inside, ("distributedInfo", "rank")) if world_size is not None and world_size > 1 else None


def _coordinates(name: str) -> tuple[tuple[str, int], ...]:
    # The last one of a dimension counts: a profile's id, which comes first, may look like one.
    found = {match[1].upper(): int(match[2]) for match in _COORDINATE.finditer(name)}
    return tuple((dimension, found[dimension]) for dimension in DIMENSIONS if dimension in found)


def _label(coordinates: tuple[tuple[str, int], ...]) -> str:
    return "-".join(f"{dimension}{number}" for dimension, number in coordinates)
