"""The data that every room shares: who a worker is, what a capture is, what a check found.

Frozen dataclasses of builtins only; no behaviour beyond a capture's mark, which fakes write and checks read.
"""

from __future__ import annotations

import enum
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from urllib.parse import quote, unquote

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["Capture", "Finding", "Mark", "Severity", "WorkerId"]


@dataclass(frozen=True)
class WorkerId:
    """Who one process of a job is.

    ``rank`` is global over the job, ``local_rank`` counts on the node (some launchers give every worker 0), ``node``
    is the readable node label that goes into names. ``coordinates`` are the parallel dimensions that exist, by their
    usual short names (``DP``, ``PP``, ``CP``, ``TP``, ``EP``).

    Raises:
        ValueError: a number is negative, the rank lies outside its world, or the node is empty.
    """

    node: str
    rank: int
    local_rank: int
    world_size: int
    local_world_size: int | None = None
    restart: int = 0
    coordinates: Mapping[str, int] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        if not self.node:
            raise ValueError("WorkerId: node is empty; give the node a label")
        if not 0 <= self.rank < self.world_size:
            raise ValueError(f"WorkerId: rank {self.rank} is not in a world of {self.world_size}")
        if self.local_rank < 0 or self.restart < 0:
            raise ValueError(f"WorkerId: local_rank {self.local_rank} and restart {self.restart} must not be negative")
        if self.local_world_size is not None and not self.local_rank < self.local_world_size:
            raise ValueError(f"WorkerId: local_rank {self.local_rank} is not in a node of {self.local_world_size}")
        object.__setattr__(self, "coordinates", dict(self.coordinates))

    @property
    def tag(self) -> str:
        """The parallel coordinates that exist, such as ``DP1-CP0-TP2``; empty when there are none."""
        return "-".join(f"{name}{value}" for name, value in self.coordinates.items())


_NUMBER = "([0-9]{1,18})"  # far above any rank, and far below what int() refuses
_MARK = re.compile(f"gputrace-mark/([^/]+)/{_NUMBER}/([^/]*)/{_NUMBER}/{_NUMBER}-of-{_NUMBER}")


def _quoted(text: str) -> str:
    return quote(text, safe="", errors="surrogatepass")  # a name that the system could not decode is still a name


def _unquoted(text: str) -> str:
    return unquote(text, errors="surrogatepass")


@dataclass(frozen=True, order=True)
class Capture:
    """One profile: what one worker recorded for one configuration in one round."""

    node: str
    rank: int
    configuration: str
    round: int = 0

    def __str__(self) -> str:
        text = f"{self.configuration or '(no configuration)'} on {self.node} rank {self.rank}"
        return f"{text} round {self.round}" if self.round else text

    def mark(self, index: int = 0, total: int = 1) -> str:
        """The event name that proves, inside a file, that this capture was written there.

        A capture carries ``total`` marks, ``index`` from 0: a file that holds some of them holds half a capture. The
        text is printable ASCII without quotes or backslashes, which every profiler writes unchanged, so it may be
        used as it is with ``torch.profiler.record_function``.
        """
        fields = _quoted(self.node), self.rank, _quoted(self.configuration), self.round
        return "gputrace-mark/{}/{}/{}/{}/".format(*fields) + f"{index}-of-{total}"


@dataclass(frozen=True)
class Mark:
    """One mark read back from a file."""

    capture: Capture
    index: int
    total: int

    @classmethod
    def parse(cls, text: str) -> Mark | None:
        """The mark that ``text`` is, or ``None`` when it is any other event name."""
        match = _MARK.fullmatch(text)
        if match is None:
            return None
        node, rank, configuration, round_, index, total = match.groups()
        try:
            capture = Capture(_unquoted(node), int(rank), _unquoted(configuration), int(round_))
        except UnicodeDecodeError:  # no mark of ours has such bytes
            return None
        return cls(capture, int(index), int(total))


class Severity(str, enum.Enum):
    """How much a finding weighs."""

    ERROR = "error"
    WARNING = "warning"
    INFO = "info"


@dataclass(frozen=True)
class Finding:
    """One thing a check found, with everything needed to act on it.

    ``code`` is stable; ``byte`` is an offset into the decoded file, ``event`` an index into its event list.
    """

    code: str
    severity: Severity
    message: str
    file: str | None = None
    node: str | None = None
    rank: int | None = None
    event: int | None = None
    byte: int | None = None
