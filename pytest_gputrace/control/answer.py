"""What all workers together answer, with a verdict on each rank, as data that crosses HTTP."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, get_args

from pytest_gputrace.control.reply import Status
from pytest_gputrace.control.verdict import RankVerdict, as_list, as_texts, one_line

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["Answer"]


@dataclass(frozen=True)
class Answer:
    """The answer to a start, a stop or a question for the status.

    ``ok`` is False for ``refused``, where nothing was changed, and for ``failed``. ``ranks`` are there once a profile
    was stopped or a worker died; ``reasons`` say what is in the way, one thing each.
    """

    ok: bool
    status: Status
    message: str
    profile_id: str | None = None
    output_dir: str | None = None
    ranks: tuple[RankVerdict, ...] = ()
    reasons: tuple[str, ...] = ()

    def as_json(self) -> dict[str, Any]:
        """Builtins only, as `from_json` takes them."""
        lists = {"ranks": [each.as_json() for each in self.ranks], "reasons": list(self.reasons)}
        return asdict(self) | lists

    @classmethod
    def from_json(cls, given: Mapping[str, Any]) -> Answer:
        """Read one back.

        Raises:
            TypeError: it is none.
        """
        ranks = tuple(RankVerdict.from_json(each) for each in as_list(given.get("ranks", [])))
        answer = cls(**{**given, "ranks": ranks, "reasons": as_texts(given.get("reasons", []))})
        as_texts([answer.message, *(each for each in (answer.profile_id, answer.output_dir) if each is not None)])
        if type(answer.ok) is not bool or answer.status not in get_args(Status):
            raise TypeError("ok or status has a value that there is not")
        return answer

    def describe(self) -> str:
        """Lines for people: a line for each rank that is not ok, each other reason, and the message last."""
        lines = [each.describe() for each in self.ranks if each.verdict != "ok"]
        told = "\n".join([*lines, self.message])
        lines += [reason for reason in self.reasons if reason not in told]
        return "\n".join(map(one_line, [*lines, self.message]))
