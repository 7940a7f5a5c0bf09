"""What a fault of a trace file is: how it and its legal look-alike are written, and where the fault is.

Knows nothing of what is wrong with a trace: the faults themselves stand in the modules of their families.
"""

from __future__ import annotations

import functools
import inspect
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

if TYPE_CHECKING:
    import os
    from collections.abc import Callable

__all__ = ["ALL", "Case", "Family", "Files", "Link", "Place", "TraceFault", "fault", "of_one", "of_set"]

Family = Literal["text", "numbers", "gpu", "secrets", "set", "merge"]


class Link(NamedTuple):
    """In a set of files: a symbolic link instead of a file."""

    target: str


@dataclass(frozen=True)
class Place:
    """Where a fault is; None where that says nothing.

    ``event`` counts from 0 in the list of events; of a fault that many events show, it is the first of them. ``byte``
    is an offset into the text, inflated: where who reads token by token first meets what cannot be. ``rank`` is the
    rank at fault, and ``file`` its file, in a set.
    """

    event: int | None = None
    byte: int | None = None
    rank: int | None = None
    file: str | None = None


Files = dict[str, "bytes | Link"]
"""What is written, by path below the folder; one of one file alone has no path."""
_THE_FILE = ""


class Case(NamedTuple):
    """One fault made: the files with it, those of its look-alike, and where it is."""

    bad: Files
    good: Files
    place: Place


def of_one(bad: bytes, good: bytes, *, event: int | None = None, byte: int | None = None) -> Case:
    """A fault of one file."""
    return Case({_THE_FILE: bad}, {_THE_FILE: good}, Place(event, byte))


def of_set(bad: Files, good: Files, *, rank: int | None = None, file: str | None = None) -> Case:
    """A fault of a folder of files."""
    return Case(bad, good, Place(rank=rank, file=file))


@dataclass(frozen=True)
class TraceFault:
    """One fault that a trace file, or a folder of them, can have.

    ``description`` says what is wrong, ``near`` what its look-alike, which is right, has instead. ``filename`` is a name
    that fits what is written: of a file, or of a folder where ``is_set``. The same bytes are written each time.
    """

    name: str
    family: Family
    description: str
    near: str
    filename: str
    _make: Callable[[], Case]

    @property
    def is_set(self) -> bool:
        """Whether it is about several files."""
        return "." not in self.filename

    @functools.cached_property
    def _case(self) -> Case:
        return self._make()

    @property
    def place(self) -> Place:
        """Where the fault is in what ``write`` writes."""
        return self._case.place

    def write(self, path: str | os.PathLike[str]) -> Path:
        """Write the fault to ``path``, a file, or a folder where ``is_set``; give the path back."""
        return self._put(Path(path), self._case.bad)

    def near_miss(self, path: str | os.PathLike[str]) -> Path:
        """Write the look-alike in which nothing is wrong."""
        return self._put(Path(path), self._case.good)

    def _put(self, path: Path, files: Files) -> Path:
        compressed = self.filename.endswith(".gz")
        if (path.suffix == ".gz") != compressed:
            ending = "must end in .gz" if compressed else "must not end in .gz"
            raise ValueError(f"{self.name}: the name of {str(path)!r} {ending}, or it has a second fault")
        for name, content in files.items():
            target = path / name if name else path
            target.parent.mkdir(parents=True, exist_ok=True)
            if isinstance(content, Link):
                target.unlink(missing_ok=True)
                target.symlink_to(content.target)
            else:
                target.write_bytes(content)
        return path

    def __str__(self) -> str:
        return self.name


ALL: dict[str, TraceFault] = {}
"""Every fault whose module was imported."""


def fault(family: Family, *, near: str, filename: str = "trace.json") -> Callable[[Callable[[], Case]], TraceFault]:
    """Make the function a fault of its own name, which its docstring describes."""

    def register(make: Callable[[], Case]) -> TraceFault:
        description = inspect.cleandoc(make.__doc__ or "").replace("\n", " ").rstrip(".")
        made = TraceFault(make.__name__, family, description, near, filename, make)
        if made.name in ALL:
            raise ValueError(f"the fault {made.name} is there already")
        ALL[made.name] = made
        return made

    return register
