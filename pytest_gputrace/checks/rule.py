"""What a rule about traces is. A rule looks at one trace, or at a set of files, and says at how many things it looked."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pytest_gputrace.checks.facts import FileFacts
    from pytest_gputrace.checks.view import View
    from pytest_gputrace.model import Severity

__all__ = ["Hit", "Looked", "Rule", "Settings"]


@dataclass(frozen=True)
class Settings:
    """What a check is asked for.

    ``select`` and ``ignore`` hold codes or their beginnings, as ruff takes them; an empty ``select`` means all.
    ``max_bytes`` bounds the text of one file, inflated. ``max_duration_us`` is what no event can last,
    ``causality_tolerance_us`` how far a kernel may begin before its launch.
    """

    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    expect_ranks: int | None = None
    expect_gpu: bool = False
    max_bytes: int | None = None
    # No profiler's buffer holds a day, and a counter that wrapped gives centuries.
    max_duration_us: float = 86_400e6
    # What files of whole microseconds may lose by rounding.
    causality_tolerance_us: float = 1.0

    def wants(self, code: str) -> bool:
        """Whether findings of this code are asked for."""
        selected = not self.select or code.startswith(self.select)
        return selected and not self.ignores(code)

    def ignores(self, code: str) -> bool:
        """Whether findings of this code are to be left out."""
        return bool(self.ignore) and code.startswith(self.ignore)


@dataclass(frozen=True)
class Hit:
    """One thing a rule found. ``severity`` is the rule's own when left out; ``file`` is told by rules about sets."""

    message: str
    event: int | None = None
    byte: int | None = None
    file: str | None = None
    rank: int | None = None
    severity: Severity | None = None


@dataclass
class Looked:
    """What a rule saw: at how many things it looked, and what it found. To look at nothing is "not checked"."""

    at: int
    hits: list[Hit] = field(default_factory=list)


@dataclass(frozen=True)
class Rule:
    """One rule: a stable code, a name, what a finding says in one line, and how much it weighs.

    ``look`` is at one trace, ``compare`` at the files of a set. Rules about the text of a file have neither: reading
    finds what they name. A ``one_rank`` rule reckons with one rank and one profiler, and looks at nothing of a merged
    file: of several at once it would be wrong, or right about one of them only.
    """

    code: str
    name: str
    title: str
    severity: Severity
    look: Callable[[View, Settings], Looked] | None = None
    compare: Callable[[Sequence[FileFacts], Settings], Looked] | None = None
    one_rank: bool = False
