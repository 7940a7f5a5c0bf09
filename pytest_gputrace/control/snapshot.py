"""What lies in a folder at one moment, so that later it can be told which files are new.

Looks at names, sizes and times; of a file only the ends are read, and only where nothing else tells.
"""

from __future__ import annotations

import hashlib
import heapq
import os
import stat
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from pytest_gputrace.publish import PRIVATE_PREFIX
from pytest_gputrace.traces.search import NOT_TRACES, SUFFIXES

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

__all__ = ["ENDINGS", "FileState", "Snapshot"]

ENDINGS = (*SUFFIXES, ".pickle", ".hatchet_msgpack")
"""How the name of a file that a profiler wrote may end."""

_END_BYTES = 4096
# A folder of years on a disk far away keeps no start waiting; the newest are those that are touched again.
_MOST_MARKED = 1000


class FileState(NamedTuple):
    """What changes when a file is written or replaced."""

    size_bytes: int
    mtime_ns: int
    inode: int
    device: int = 0

    @property
    def identity(self) -> tuple[int, int]:
        """What stays the same under whatever name."""
        return self.device, self.inode


@dataclass(frozen=True)
class Snapshot:
    """The files of a folder and of all folders below it, by path, those left out that are still private.

    ``marks`` tell what was in them, by their identities.
    """

    files: Mapping[str, FileState] = field(default_factory=dict)
    marks: Mapping[tuple[int, int], bytes] = field(default_factory=dict)

    @classmethod
    def of(cls, folder: str | os.PathLike[str], *, marked: bool = False) -> Snapshot:
        """Look at ``folder``; one that is not there yet is empty. Folders behind symbolic links are not entered.

        With ``marked`` a file that is only touched later can be told from one that is written anew.
        """
        files = dict(_below(os.path.abspath(folder)))
        traces = [path for path in files if _is_of_a_profiler(path)] if marked else []
        newest = heapq.nlargest(_MOST_MARKED, traces, key=lambda path: files[path].mtime_ns)
        marks = {files[path].identity: _mark(path) for path in newest}
        return cls(files, {identity: mark for identity, mark in marks.items() if mark is not None})

    def since(self, before: Snapshot) -> dict[str, FileState]:
        """The files called as a profiler calls its own that are new or changed since ``before``, each once.

        One that has the size and the ends that it had is not new, whatever its name and its time are now.
        """
        known = {state.identity: state for state in before.files.values()}
        found: dict[tuple[int, int], tuple[str, FileState]] = {}
        for path, state in sorted(self.files.items()):
            if state.identity in found or not _is_of_a_profiler(path):
                continue
            old = known.get(state.identity)
            if old is None or not _is_as_it_was(path, state, old, before.marks.get(state.identity)):
                found[state.identity] = path, state
        return dict(found.values())

    def others(self, before: Snapshot) -> int:
        """How many files there are beside those."""
        return len(self.files) - len(self.since(before))


def _is_of_a_profiler(path: str) -> bool:
    name = os.path.basename(path)
    return name.endswith(ENDINGS) and name not in NOT_TRACES


def _is_as_it_was(path: str, state: FileState, old: FileState, mark: bytes | None) -> bool:
    if state.size_bytes != old.size_bytes:
        return False
    # A touch changes the time alone; a trace that is written anew has other times in it, or another checksum at its end.
    return state.mtime_ns == old.mtime_ns or (mark is not None and mark == _mark(path))


def _mark(path: str) -> bytes | None:
    """What is at both ends of a file; None where that cannot be read."""
    try:
        with open(path, "rb") as file:
            begin = file.read(_END_BYTES)
            file.seek(max(len(begin), os.fstat(file.fileno()).st_size - _END_BYTES))
            return hashlib.blake2b(begin + file.read(_END_BYTES), digest_size=16).digest()
    except OSError:
        return None


def _below(folder: str) -> Iterator[tuple[str, FileState]]:
    # What cannot be listed, or goes while it is looked at, is not there: the next look may find it.
    for parent, _, names in os.walk(folder):
        for name in names:
            if name.startswith(PRIVATE_PREFIX) or name.endswith(".tmp"):
                continue
            path = os.path.join(parent, name)
            try:
                # A link, as to the latest trace, is no file of its own.
                status = os.lstat(path)
            except OSError:
                continue
            if stat.S_ISREG(status.st_mode):
                yield path, FileState(status.st_size, status.st_mtime_ns, status.st_ino, status.st_dev)
