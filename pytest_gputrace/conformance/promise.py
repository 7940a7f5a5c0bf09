"""What a check of the contract is, and how a module of them puts its own together."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pytest_gputrace.conformance.judgement import Judgement
    from pytest_gputrace.conformance.trial import Trial

__all__ = ["ContractCheck", "Family"]

_Run: TypeAlias = "Callable[[Trial], Judgement]"


@dataclass(frozen=True)
class ContractCheck:
    """One promise an exporter is held to.

    ``title`` is the promise in one line, ``needs`` the capabilities without which it is not asked for, ``least`` the
    smallest `Sizes` that it means anything for, ``consumer`` whether there must be one, ``control`` whether its
    legacy bytes are compared with those of a legacy exporter.
    """

    id: str
    title: str
    run: _Run
    needs: tuple[str, ...] = ()
    least: Mapping[str, int] = field(default_factory=dict, hash=False)
    consumer: bool = False
    control: bool = False

    def __str__(self) -> str:
        return f"{self.id}: {self.title}"


class Family:
    """The checks of one module, in the order in which they are written down."""

    def __init__(self) -> None:
        self.checks: list[ContractCheck] = []

    def check(
        self,
        id: str,
        title: str,
        *,
        needs: tuple[str, ...] = (),
        consumer: bool = False,
        control: bool = False,
        **least: int,
    ) -> Callable[[_Run], _Run]:
        """Take a function in as the check ``id``."""

        def take(run: _Run) -> _Run:
            self.checks.append(ContractCheck(id, title, run, needs, least, consumer, control))
            return run

        return take
