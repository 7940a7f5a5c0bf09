"""Which files of a folder are traces: one rule, and what was passed over by it.

Looks at names and at what kind of file each is, never inside.
"""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_gputrace.errors import UnknownPathError
from pytest_gputrace.publish import PRIVATE_PREFIX

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

__all__ = ["NOT_TRACES", "SUFFIXES", "Found", "Ignored", "search"]

SUFFIXES = (".json", ".json.gz", ".chrome_trace", ".chrome_trace.gz", ".hatchet", ".hatchet.gz")
NOT_TRACES = ("gputrace-test.json", "results.json")
"""Files that lie among traces and are none: the manifest of a test, and the result of a SuperBench run."""


@dataclass(frozen=True)
class Ignored:
    """A file or folder that was passed over, and why."""

    path: str
    why: str


@dataclass(frozen=True)
class Found:
    """A file to read."""

    path: Path


def search(paths: Iterable[str | os.PathLike[str]]) -> tuple[list[Found], list[Ignored]]:
    """The files to read, each once, and what was passed over.

    A file that is named is read whatever it is called. Of a folder it is every file in it and in all folders below
    whose name ends with one of `SUFFIXES`, sorted by path; folders behind symbolic links are not entered. Passed over
    are unfinished files (``.gputrace-*``, ``*.tmp``), the files of `NOT_TRACES`, and what is no regular file.

    Raises:
        UnknownPathError: a path does not exist.
    """
    found: dict[str, Found] = {}
    ignored: list[Ignored] = []
    for given in paths:
        path = Path(given)
        if os.path.isdir(path):
            for file, why in sorted(_below(path, ignored)):
                if why:
                    ignored.append(Ignored(str(file), why))
                else:
                    found.setdefault(os.path.abspath(file), Found(file))
        elif os.path.lexists(path):
            found.setdefault(os.path.abspath(path), Found(path))
        else:
            raise UnknownPathError(f"{path}: there is no such file or folder")
    return list(found.values()), [each for each in ignored if os.path.abspath(each.path) not in found]


def _below(folder: Path, ignored: list[Ignored]) -> Iterator[tuple[Path, str]]:
    """Every file below ``folder`` and why it is passed over, empty where it is not."""

    def unreadable(error: OSError) -> None:
        ignored.append(Ignored(str(error.filename), f"cannot be listed: {error.strerror}"))

    for parent, folders, names in os.walk(folder, onerror=unreadable):
        yield from ((Path(parent, name), "a link to a folder") for name in folders if Path(parent, name).is_symlink())
        for name in names:
            path = Path(parent, name)
            yield path, _why_not(path)


def _why_not(path: Path) -> str:
    if path.name.startswith(PRIVATE_PREFIX) or path.name.endswith(".tmp"):
        return "unfinished: its writer was killed, or still writes"
    if path.name in NOT_TRACES:
        return "no trace, but a file that lies among them"
    if not path.name.endswith(SUFFIXES):
        return "not called like a trace"
    return "no regular file" if is_special(path) else ""


def is_special(path: Path) -> bool:
    """A pipe, a socket or a device, which cannot be read to an end. A broken link is not: it is a file that is lost."""
    try:
        mode = path.stat().st_mode
    except OSError:
        return False
    return not stat.S_ISREG(mode)
