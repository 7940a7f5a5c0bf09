"""Which files are merged: what is given by name or in folders, each file once, and what is passed over.

Looks at paths only, never inside a file.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_gputrace.errors import MergeError
from pytest_gputrace.timeline.outcome import LeftOut
from pytest_gputrace.timeline.workers import LAST_RANK
from pytest_gputrace.traces.search import is_special, search

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

__all__ = ["Input", "collect"]

_LISTED = 8
# What profilers write beside their traces, or instead of them, as far as a name tells it.
_NOT_PLACEABLE = (
    ((".pickle", ".pickle.gz", ".pkl"), "a memory snapshot has no times on this axis"),
    ((".hatchet_msgpack",), 'a tree of Proton has no times; record with data="trace" and the format chrome_trace'),
    ((".nsys-rep", ".qdrep", ".ncu-rep"), "a report of NVIDIA Nsight, which is no Chrome trace"),
    ((".html",), "a web page; VizTracer's reports are merged as .json"),
)


@dataclass(frozen=True)
class Input:
    """A file to merge, its ``rank`` where somebody said it, and whether it was ``named`` itself, not found in a folder."""

    path: Path
    rank: int | None
    named: bool


def collect(
    inputs: Iterable[str | os.PathLike[str]], ranks: Mapping[int, Iterable[str | os.PathLike[str]]]
) -> tuple[list[Input], list[LeftOut]]:
    """The files to merge and what was passed over, both sorted by path, whatever the order in which they are given.

    A rank said for a file goes before the folder that the file was found in.

    Raises:
        UnknownPathError: a path does not exist.
        MergeError: there is nothing to merge, a file is of two ranks, or a rank is none.
    """
    copies: dict[str, list[Input]] = {}
    left_out: dict[str, LeftOut] = {}
    reasons: list[str] = []
    groups = [("", None, inputs), *((f"--rank {rank}: ", rank, paths) for rank, paths in sorted(ranks.items()))]
    for option, rank, given in groups:
        paths = [given] if isinstance(given, str | os.PathLike) else list(given)
        if rank is not None and not 0 <= rank <= LAST_RANK:
            reasons.append(f"{option}ranks go from 0 to {LAST_RANK:,}")
        elif rank is not None and not paths:
            reasons.append(f"{option}no file is given")
        for path in map(Path, paths):
            reasons += [option + why for why in _gather(path, rank, copies, left_out)]
    kept = [_kept(each, left_out, reasons) for each in copies.values()]
    there = {os.path.abspath(each.path) for each in kept}
    passed_over = sorted((each for path, each in left_out.items() if path not in there), key=_by_path)
    if not kept:
        reasons.append(_nothing(passed_over))
    if reasons:
        raise MergeError("not merged:\n" + "\n".join(f"  {reason}" for reason in reasons), reasons=reasons)
    return sorted(kept, key=_by_path), passed_over


def _gather(
    path: Path, rank: int | None, copies: dict[str, list[Input]], left_out: dict[str, LeftOut]
) -> Iterable[str]:
    """Note what one argument gives, by the file that is meant; yields what is wrong with it."""
    named = not os.path.isdir(path)
    found, ignored = search([path])
    for each in ignored:
        left_out.setdefault(os.path.abspath(each.path), LeftOut(Path(each.path), _why(each.path, each.why)))
    if named and is_special(path):
        yield f"{path}: no regular file; each file is read twice, so save it first"
    elif not found:
        left_out[os.path.abspath(path)] = LeftOut(path, "no trace is in it")
        if rank is not None:
            yield f"{path}: no trace is in it"
    for file in found:
        copies.setdefault(os.path.realpath(file.path), []).append(Input(file.path, rank, named))


def _kept(copies: Sequence[Input], left_out: dict[str, LeftOut], reasons: list[str]) -> Input:
    """The one of what means the same file, with what the others say of it."""
    best = min(copies, key=lambda each: (not each.named, _is_behind_link(each.path), str(each.path)))
    ranked = {each.rank: each for each in copies if each.rank is not None}
    plain = next((each for each in copies if each.rank is None and each.named), None)
    if len(ranked) > 1:
        told = " and ".join(f"--rank {rank} {each.path}" for rank, each in sorted(ranked.items())[:2])
        reasons.append(f"{best.path}: one file under two ranks: {told}")
    elif ranked and plain is not None:
        (rank, each), *_ = ranked.items()
        reasons.append(f"{best.path}: one file with a rank and without: --rank {rank} {each.path} and {plain.path}")
    kept = Input(best.path, min(ranked, default=None), best.named)
    for each in copies:
        if (path := os.path.abspath(each.path)) != os.path.abspath(best.path):
            left_out[path] = LeftOut(each.path, f"the same file as {best.path}")
    return kept


def _is_behind_link(path: Path) -> bool:
    return os.path.realpath(path) != os.path.abspath(path)


def _why(path: str, why: str) -> str:
    if why.startswith("unfinished"):
        return f"{why}; what a rank recorded may be lost here"
    for endings, what in _NOT_PLACEABLE:
        if path.lower().endswith(endings):
            return f"not placeable: {what}"
    return why


def _by_path(each: Input | LeftOut) -> str:
    return str(each.path)


def _nothing(passed_over: Sequence[LeftOut]) -> str:
    if not passed_over:
        return "there is nothing to merge: give files, or folders that hold some"
    told = "; ".join(f"{each.path}: {each.why}" for each in passed_over[:_LISTED])
    more = f"; and {len(passed_over) - _LISTED} more" if len(passed_over) > _LISTED else ""
    return f"there is nothing to merge. Passed over: {told}{more}"
