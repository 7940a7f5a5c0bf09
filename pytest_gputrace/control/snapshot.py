"""What lies in a folder at one moment, so that later it can be told which files are new.

Looks at names, sizes and times, never inside a file.
"""

from __future__ import annotations

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


class FileState(NamedTuple):
    """What changes when a file is written or replaced."""

    size_bytes: int
    mtime_ns: int
    inode: int


@dataclass(frozen=True)
class Snapshot:
    """The files of a folder and of all folders below it, by path, those left out that are still private."""

    files: Mapping[str, FileState] = field(default_factory=dict)

    @classmethod
    def of(cls, folder: str | os.PathLike[str]) -> Snapshot:
        """Look at ``folder``; one that is not there yet is empty. Folders behind symbolic links are not entered."""
        return cls(dict(_below(os.path.abspath(folder))))

    def since(self, before: Snapshot) -> dict[str, FileState]:
        """The files called as a profiler calls its own that are new or changed since ``before``, each once.

        One that got another name meanwhile, and is as it was, is not new.
        """
        known = set(before.files.values())
        found: dict[int, tuple[str, FileState]] = {}
        for path, state in sorted(self.files.items()):
            old = before.files.get(path)
            is_moved = old is None and state in known
            if old != state and not is_moved and _is_of_a_profiler(path):
                found.setdefault(state.inode, (path, state))
        return dict(found.values())

    def others(self, before: Snapshot) -> int:
        """How many files there are beside those."""
        return len(self.files) - len(self.since(before))


def _is_of_a_profiler(path: str) -> bool:
    name = os.path.basename(path)
    return name.endswith(ENDINGS) and name not in NOT_TRACES


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
                yield path, FileState(status.st_size, status.st_mtime_ns, status.st_ino)
