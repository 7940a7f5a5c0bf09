"""The names of the files of a profile: ``(profile, worker, stage, attempt, profiler)`` <-> one portable file name.

A window is what one worker recorded between a start and a stop. Its files are called::

    name       = profile "-" tag ["-" stage] [".a" attempt] "." profiler ending
    profile    = field                     as in `pytest_gputrace.naming`: lower-case text, or head "~" digest
    tag        = part *( "-" part )        coordinates, node, rank: in this order, at least one of them
    coordinate = 1*8( A-Z ) number         such as "TP1"; each once, and none is called "RANK"
    node       = "node=" field             a digest where the text ends as a rank or an attempt does
    rank       = "rank" number             the global rank
    stage      = plain | head "~" digest   plain: A-Z *( A-Z | 0-9 | "_" ), and no coordinate
    attempt    = 2, 3, ...                 present when the name was already taken

Why no two windows can meet: ``=`` stands in a name once at most, right after ``node``. Profile and node are in small
letters, coordinates and stages begin with a capital, no plain stage has the form of a coordinate, and no node ends as what
may follow it. So each part begins and ends at one place only. All characters are ASCII that NTFS, SMB and exFAT take. A
name that would be too long keeps all but the heads of profile and node.

Where a file system folds case, the names of one profile stay apart if they have a rank. Without it they may meet, as node
``n-prefill`` does with stage ``PREFILL`` on node ``n``; the later file is the next attempt then, and nothing is lost.

This module computes names. It must not look at the disk.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_gputrace.errors import NamingError
from pytest_gputrace.naming import DEFAULT_LIMIT, Field, encode_field

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = [
    "ENDINGS",
    "PROFILERS",
    "WindowName",
    "parse_window_name",
    "stage_field",
    "window_name",
    "worker_tag",
]

PROFILERS = ("torch", "memory", "proton", "viztracer")
"""Who wrote a file, as it stands in its name."""
ENDINGS = (".json", ".json.gz", ".pickle", ".chrome_trace", ".hatchet", ".hatchet_msgpack")
"""What a name ends with."""

_NUMBER = "(?:0|[1-9][0-9]{0,17})"
_DIGEST = "~[a-z2-7]{16}"
_DIGEST_LENGTH = 17
# So short that no common limit has a node shortened again, and its files have one tag.
_NODE_MAX = 64
_STAGE_MAX = 64
_COORDINATE = rf"(?!RANK[0-9])[A-Z]{{1,8}}{_NUMBER}"
# Lazy: a plain node ends where what may follow it begins.
_NODE = rf"node=(?:[a-z0-9._-]*{_DIGEST}|[a-z0-9._-]+?)"
_RANK = rf"rank{_NUMBER}"
_TAG = rf"(?:{_COORDINATE}(?:-{_COORDINATE})*(?:-{_NODE})?(?:-{_RANK})?|{_NODE}(?:-{_RANK})?|{_RANK})"
_PARTS = re.compile(
    rf"(?P<coordinates>(?:{_COORDINATE}(?:-|\Z))*)(?:(?P<node>{_NODE})(?:-(?=rank)|\Z))?(?P<rank>{_RANK})?"
)
_PLAIN_STAGE = r"(?![A-Z]{1,8}[0-9]+(?![A-Z0-9_]))[A-Z][A-Z0-9_]*(?![A-Z0-9_~])"
_STAGE = rf"{_PLAIN_STAGE}|[A-Z][A-Z0-9_]*{_DIGEST}"
_NAME = re.compile(
    rf"(?P<profile>[a-z0-9._-]*{_DIGEST}|[a-z0-9_][a-z0-9._-]*)-(?P<tag>{_TAG})(?:-(?P<stage>{_STAGE}))?"
    rf"(?:\.a(?P<attempt>[2-9]|[1-9][0-9]+))?\.(?P<profiler>{'|'.join(PROFILERS)})"
    rf"(?P<ending>{'|'.join(map(re.escape, ENDINGS))})"
)
# A node that ends so would be read as another node with a rank, or as another attempt.
_GOES_ON = re.compile(r".*(?:-rank[0-9]+|\.a[0-9]+)", re.DOTALL)
# A hidden file, an option on a command line, a home folder in a shell, a device of Windows.
_BAD_START = re.compile(r"[.~-]|(?:con|prn|aux|nul|com[0-9]|lpt[0-9])\.")


@dataclass(frozen=True)
class WindowName:
    """The name of a window's file taken apart. ``stage`` is as `stage_field` gives it."""

    profile: Field
    tag: str
    coordinates: dict[str, int]
    node: Field | None
    rank: int | None
    stage: str | None
    attempt: int
    profiler: str
    ending: str


def worker_tag(
    *, coordinates: Mapping[str, int] | None = None, node: str | None = None, rank: int | None = None
) -> str:
    """Which worker of a job, by all that is known of it, as ``DP1-TP2-node=n0-rank5``.

    Args:
        coordinates: its place in each parallel dimension that exists, in the order that the tag shall have.
        node: the label of its node, any text.
        rank: its global rank.

    Raises:
        NamingError: nothing is known, or a coordinate or the rank is none.
    """
    parts = [_coordinate(name, number) for name, number in (coordinates or {}).items()]
    if node is not None:
        parts.append(f"node={_node_field(node)}")
    if rank is not None:
        parts.append(f"rank{_whole(rank, 'rank')}")
    if not parts:
        raise NamingError("nothing tells this worker from others; give its coordinates, its node or its rank")
    return "-".join(parts)


def window_name(
    profile_id: str,
    tag: str,
    *,
    stage: str | None,
    profiler: str,
    ending: str,
    attempt: int = 1,
    limit: int = DEFAULT_LIMIT,
) -> str:
    """The name of one file of a window, by the grammar of the module docstring.

    Args:
        profile_id: any text.
        tag: as `worker_tag` gives it.
        stage: any text, or None for a window of all stages.
        profiler: one of `PROFILERS`.
        ending: one of `ENDINGS`.
        attempt: 1 for the first file of this name; 2, 3, ... when earlier ones are already there.
        limit: bytes the name may have, see `pytest_gputrace.naming.name_limit`.

    Returns:
        An ASCII name of at most ``limit`` bytes, the same for the same arguments on every machine.

    Raises:
        NamingError: ``limit`` has no room for it, or an argument is none of those above.
    """
    if attempt < 1:
        raise NamingError(f"attempt must be 1 or more, not {attempt}")
    if profiler not in PROFILERS or ending not in ENDINGS:
        raise NamingError(f"{profiler + ending!r} ends no name; the profilers are {', '.join(PROFILERS)}, "
                          f"the endings {', '.join(ENDINGS)}")  # fmt: skip
    before, node, after = _around_node(tag)
    after += f"-{stage_field(stage)}" if stage is not None else ""
    after += f".a{attempt}" if attempt > 1 else ""
    after += f".{profiler}{ending}"
    room = limit - len(f"-{before}{after}")
    least = _DIGEST_LENGTH * (1 if node is None else 2)
    if room < least:
        raise NamingError(
            f"a name of {limit} bytes has no room for {tag}; the shortest one needs {limit - room + least}; "
            "write to a file system with longer names"
        )
    # The node is placed first: people look for a worker, and all files of a folder have the profile in common.
    shown = "" if node is None else _shortened(node, room - _DIGEST_LENGTH)
    return f"{_profile_field(profile_id, room - len(shown))}-{before}{shown}{after}"


def parse_window_name(name: str) -> WindowName:
    """Take the name of a window's file apart.

    Raises:
        NamingError: ``name`` is none.
    """
    match = _NAME.fullmatch(name)
    parts = None if match is None else _parts(match["tag"])
    if match is None or parts is None:
        raise NamingError(
            f"{name!r} is not the name of a window; expected <profile>-<worker>[-<STAGE>][.aN].<profiler>.json"
        )
    coordinates, node, rank = parts
    return WindowName(
        profile=_field(match["profile"]),
        tag=match["tag"],
        coordinates=coordinates,
        node=None if node is None else _field(node),
        rank=rank,
        stage=match["stage"],
        attempt=int(match["attempt"] or "1"),
        profiler=match["profiler"],
        ending=match["ending"],
    )


def stage_field(stage: str) -> str:
    """A stage as it stands in a name: itself in most cases, else a head and a digest of its exact text."""
    if len(stage) <= _STAGE_MAX and re.fullmatch(_PLAIN_STAGE, stage):
        return stage
    head = re.sub(r"[^A-Z0-9_]+", "_", stage.upper().encode("ascii", "ignore").decode("ascii")).lstrip("_0123456789")
    return f"{head[: _STAGE_MAX - _DIGEST_LENGTH] or 'STAGE'}{encode_field(stage, limit=0)}"


def _parts(tag: str) -> tuple[dict[str, int], str | None, int | None] | None:
    """Coordinates, node and rank of a tag; None where it is none."""
    match = _PARTS.fullmatch(tag)
    if match is None or not re.fullmatch(_TAG, tag):
        return None
    found = re.findall(r"([A-Z]+)([0-9]+)", match["coordinates"])
    coordinates = {name: int(number) for name, number in found}
    node, rank = match["node"], match["rank"]
    if len(coordinates) < len(found):
        return None
    return coordinates, node and node.removeprefix("node="), None if rank is None else int(rank.removeprefix("rank"))


def _around_node(tag: str) -> tuple[str, str | None, str]:
    """A tag in three: what is before its node, the node, what is after it."""
    parts = _parts(tag)
    if parts is None:
        raise NamingError(
            f"{tag!r} is no tag of a worker; expected one as worker_tag() gives it, such as DP0-TP1-rank1"
        )
    node = parts[1]
    if node is None:
        return tag, None, ""
    before, _, rest = tag.partition("node=")
    return f"{before}node=", node, rest.removeprefix(node)


def _coordinate(name: str, number: int) -> str:
    part = f"{name}{_whole(number, name)}"
    if not re.fullmatch(r"[A-Z]+", name) or not re.fullmatch(_COORDINATE, part):
        raise NamingError(
            f"{part!r} is no coordinate of a worker; expected 1 to 8 letters A-Z other than RANK, such as TP, and a number"
        )
    return part


def _node_field(node: str) -> str:
    field = encode_field(node, limit=_NODE_MAX)
    # Without a head: that of a short text would be the text.
    return encode_field(node, limit=0) if _GOES_ON.fullmatch(field) else field


def _profile_field(profile_id: str, limit: int) -> str:
    field = encode_field(profile_id, limit=limit)
    return f"profile{encode_field(profile_id, limit=0)}"[-limit:] if _BAD_START.match(field) else field


def _shortened(encoded: str, limit: int) -> str:
    """A field of at most so many bytes."""
    head, tilde, digest = encoded.partition("~")
    return f"{head[: limit - _DIGEST_LENGTH]}~{digest}" if tilde else encode_field(encoded, limit=limit)


def _field(encoded: str) -> Field:
    head, tilde, digest = encoded.partition("~")
    return Field(head, digest if tilde else None)


def _whole(number: object, name: str) -> int:
    if type(number) is not int or not 0 <= number < 10**18:
        raise NamingError(f"{name} is {number!r}; expected a whole number from 0")
    return number
