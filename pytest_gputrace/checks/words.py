"""The words that rules share: names out of files, times with their unit, and how many more there are."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["first", "more", "number", "shown", "us"]

_LONGEST = 60
_SHOWN = 8
_UNITS: tuple[tuple[str, float], ...] = (
    ("years", 365.25 * 86_400e6), ("days", 86_400e6), ("h", 3_600e6), ("s", 1e6), ("ms", 1e3)
)  # fmt: skip


def shown(text: str) -> str:
    """A text out of a file for a message: in quotes, printable, not too long."""
    short = text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."
    return '"' + "".join(char if char.isprintable() else ascii(char)[1:-1] for char in short) + '"'


def us(time_us: float) -> str:
    """A time with a unit that one can read."""
    for unit, size in _UNITS:
        if abs(time_us) >= size:
            return f"{time_us / size:.4g} {unit}"
    return f"{time_us:.4g} us"


def more(count: int) -> str:
    """What follows the first of ``count`` alike."""
    return f" ({count - 1} more like it)" if count > 1 else ""


def number(count: int, noun: str, plural: str = "") -> str:
    """``1 event``, ``2 events``."""
    return f"{count} {noun}" if count == 1 else f"{count} {plural or noun + 's'}"


def first(things: Iterable[object]) -> str:
    """The first few, and how many more there are."""
    every = list(map(str, things))
    rest = f" and {len(every) - _SHOWN} more" if len(every) > _SHOWN else ""
    return ", ".join(every[:_SHOWN]) + rest
