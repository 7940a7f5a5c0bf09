"""Numbers and names as a person reads them: short, with a unit, safe for a terminal."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["UNKNOWN", "columns", "count", "duration", "kernel", "percent", "printable", "rate", "shorten", "size"]

UNKNOWN = "unknown"
_DAY_S = 86400
_NARROW = 32
_TELLING = 10
"""A bare name no longer than this, such as Kernel2, tells nothing without its template arguments."""
_NAMESPACES = re.compile(r"\b[A-Za-z_]\w*::(?=[\w{(<~])")
_ANONYMOUS = "(anonymous namespace)::"


def duration(us: float | None) -> str:
    """Three or four digits and the unit that needs no more."""
    if us is None:
        return UNKNOWN
    if not us:
        return "0 us"
    if us >= 999.5e6:
        return f"{us / 1e6:,.0f} s" if us < _DAY_S * 1e6 else f"{us / 1e6 / _DAY_S:,.1f} days"
    for unit, each in (("s", 1e6), ("ms", 1e3)):
        if us >= 0.9995 * each:
            return f"{_digits(us / each)} {unit}"
    return f"{_digits(us)} us"


def size(count: float | None) -> str:
    """Bytes in decimal units, as rates of memory and networks are given."""
    if count is None:
        return UNKNOWN
    for unit, each in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= 0.9995 * each:
            return f"{_digits(count / each)} {unit}"
    return f"{count:.0f} B"


def rate(gb_per_s: float | None) -> str:
    """Bytes a second."""
    return UNKNOWN if gb_per_s is None else f"{size(gb_per_s * 1e9)}/s"


def percent(value: float | None) -> str:
    """A share, to a tenth."""
    return UNKNOWN if value is None else f"{value:.1f} %"


def count(number: int, noun: str) -> str:
    """A number and its noun."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def columns(rows: Sequence[Sequence[str]], *, indent: str = "  ") -> list[str]:
    """Rows as lines: what stands before the last column ends in line, the last column begins in line."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]  # none for no rows
    lines = []
    for row in rows:
        cells = [cell.rjust(width) for cell, width in zip(row[:-1], widths[:-1], strict=True)]
        lines.append((indent + "  ".join([*cells, row[-1]])).rstrip())
    return lines


def printable(text: str) -> str:
    """A name may hold anything, also what clears a terminal or looks like a line of ours."""
    return "".join(char if char.isprintable() else ascii(char)[1:-1] for char in text)


def shorten(text: str, width: int) -> str:
    """The begin and the end of a text that is too long."""
    text = printable(text)
    if len(text) <= width:
        return text
    end = max((width - 3) // 3, 0)
    return text[: max(width - 3 - end, 0)] + "..." + text[len(text) - end :]


def kernel(name: str, width: int) -> str:
    """A kernel's name without its arguments; where that is too long, without what tells kernels apart least."""
    text = printable(name)
    if not text.endswith(")") and "<" not in text:
        return shorten(text, width)
    text = _without(text.removeprefix("void ").replace(_ANONYMOUS, ""), "()", 0).replace(" >", ">").strip()
    if len(text) > width:
        text = _NAMESPACES.sub("", text.replace("::operator const", ""))
    bare = _without(text, "<>", 0)
    if len(text) > width:
        text = bare if width <= _NARROW and len(bare) > _TELLING else _without(text, "<>", 1)
    return shorten(text, width)


def _without(text: str, brackets: str, deeper: int) -> str:
    """A text without what stands in brackets deeper than ``deeper`` of them; a text they do not fit stays as it is."""
    opens, closes = tuple(brackets)
    kept, depth = [], 0
    for char in text:
        depth -= char == closes
        if depth < 0:
            return text
        if depth <= deeper and not (char in brackets and depth == deeper):
            kept.append(char)
        depth += char == opens
    return "".join(kept) if not depth else text


def _digits(value: float) -> str:
    return f"{value:.2f}" if value < 9.995 else f"{value:.1f}" if value < 99.95 else f"{value:.0f}"
