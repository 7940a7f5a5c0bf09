"""What became of one rank's part of a profile, and how it is told to people."""

from __future__ import annotations

import os
import re
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Literal, get_args

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

__all__ = ["RankVerdict", "Verdict", "after", "all_texts", "natural", "shown"]

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
        verdict = cls(**{**given, "files": tuple(given.get("files", ()))})
        if verdict.verdict not in get_args(Verdict) or not all_texts((verdict.rank, verdict.message, *verdict.files)):
            raise TypeError("no verdict has such values")
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
        return line


def all_texts(values: Iterable[object]) -> bool:
    """Whether what came as JSON is texts."""
    return all(isinstance(value, str) for value in values)


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
