"""What a check says about one exporter: what was expected, what was found instead, under which fault."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

__all__ = ["Judgement", "joined", "listed", "short"]

_TEXT_LIMIT = 100


@dataclass(frozen=True)
class Judgement:
    """The outcome of one check, or of one run of it.

    ``looked_at`` is how many things were judged (to have judged nothing is no pass), ``problems`` what broke the
    promise, one per line; empty when it was kept. ``injected`` are the faults, ``folder`` where to look.
    """

    expected: str
    looked_at: int
    problems: tuple[str, ...] = ()
    injected: tuple[str, ...] = ()
    folder: Path | None = None

    @property
    def ok(self) -> bool:
        """Whether something was judged and nothing was wrong."""
        return self.looked_at > 0 and not self.problems


def joined(judgements: Sequence[Judgement]) -> Judgement:
    """The judgement of several runs: the first that failed, with what was looked at in all of them."""
    looked_at = sum(each.looked_at for each in judgements)
    told = next((each for each in judgements if each.problems), judgements[0])
    return dataclasses.replace(told, looked_at=looked_at)


def short(text: str, limit: int = _TEXT_LIMIT) -> str:
    """``text`` on one line, printable, and shortened in the middle: configurations here may fill a whole name."""
    text = "".join(letter if letter.isprintable() else ascii(letter)[1:-1] for letter in text)
    return text if len(text) <= limit else f"{text[: limit // 2]}...{text[-limit // 3 :]} ({len(text)} characters)"


def listed(texts: Iterable[str], limit: int) -> list[str]:
    """The first ``limit`` of ``texts``, and how many more there are."""
    every = list(texts)
    return every if len(every) <= limit else [*every[:limit], f"and {len(every) - limit} more"]
