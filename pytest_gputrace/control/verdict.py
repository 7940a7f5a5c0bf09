"""What became of one rank's part of a profile, and how it is told to people."""

from __future__ import annotations

import os
import re
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Literal, get_args

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["RankVerdict", "Verdict", "after", "as_list", "as_texts", "natural", "one_line", "shown"]

Verdict = Literal["ok", "failed", "missing", "growing", "truncated", "dead"]
"""What became of a rank.

``ok``: all its files are complete. ``failed``: it says so itself, or a file of it is complete and of no use.
``missing``: no file of it came, or not all. ``growing``: a file of it was still being written when time was up.
``truncated``: a file of it is cut, and nobody writes to it. ``dead``: its process ended.
"""

_LONGEST = 300
_WORTH_TELLING_S = 0.1


@dataclass(frozen=True)
class RankVerdict:
    """The verdict on one rank; ``rank`` is its tag, else ``rank 3``, and ``files`` are the paths of what is there."""

    rank: str
    verdict: Verdict
    message: str = ""
    files: tuple[str, ...] = ()

    @classmethod
    def from_json(cls, given: Mapping[str, Any]) -> RankVerdict:
        """Read one back.

        Raises:
            TypeError: it is none.
        """
        verdict = cls(**{**given, "files": as_texts(given.get("files", []))})
        as_texts([verdict.rank, verdict.message])
        if verdict.verdict not in get_args(Verdict):
            raise TypeError("there is no such verdict")
        return verdict

    def as_json(self) -> dict[str, Any]:
        """Builtins only, as `from_json` takes them."""
        return asdict(self) | {"files": list(self.files)}

    def describe(self) -> str:
        """One line: the rank, the verdict, what is behind it, and the names of its files."""
        line = f"{self.rank}: {self.verdict}"
        if self.message:
            line += f": {self.message}"
        if self.files:
            line += f" (files: {', '.join(shown(os.path.basename(path)) for path in self.files)})"
        return one_line(line)


def as_list(value: object) -> list[Any]:
    """What came as JSON, if it is a list.

    Raises:
        TypeError: it is none.
    """
    if not isinstance(value, list):
        raise TypeError(f"a list is expected, not {type(value).__name__}")
    return value


def as_texts(value: object) -> tuple[str, ...]:
    """The same of a list of texts."""
    texts = as_list(value)
    if not all(isinstance(text, str) for text in texts):
        raise TypeError("a text is expected")
    return tuple(texts)


def one_line(text: str) -> str:
    """A text that an engine may have sent, printable and on one line."""
    return "".join(char if char.isprintable() else ascii(char)[1:-1] for char in text)


def after(waited_s: float) -> str:
    """How long was waited, for the end of a sentence; nothing where nobody had to wait."""
    return f" after {waited_s:.3g} s" if waited_s >= _WORTH_TELLING_S else ""


def natural(text: str) -> list[tuple[int, str]]:
    """The key to sort texts by as people do: ``TP2`` before ``TP10``."""
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in re.split(r"([0-9]+)", text)]


def shown(text: str) -> str:
    """A name or path for a message: printable, and not longer than a line or two."""
    text = text.encode("utf-8", "backslashreplace").decode("utf-8")
    text = "".join(char if char.isprintable() else ascii(char)[1:-1] for char in text)
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST // 2]}...{text[-_LONGEST // 2 :]}"
