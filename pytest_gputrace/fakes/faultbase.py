"""What every fault is: a frozen description that knows whom it selects and what it does, when, and in which process."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from pytest_gputrace.fakes.validate import check_who

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from contextlib import AbstractContextManager
    from pathlib import Path

    from pytest_gputrace.fakes.job import Job
    from pytest_gputrace.fakes.moments import Record

__all__ = ["AtWork", "Fault", "Who", "trace_dirs"]

_SHOWN_CHARACTERS = 300


@dataclass(frozen=True, repr=False)
class Who:
    """Which workers a fault strikes: those that agree with every field given. Nodes are ``node0``, ``node1``, ..."""

    node: str | None = None
    rank: int | None = None
    configuration: str | None = None

    def __call__(self, job: Job) -> bool:
        """Whether ``job`` is meant."""
        mine = (job.worker.node, job.worker.rank, job.configuration)
        return all(want in (None, have) for want, have in zip(dataclasses.astuple(self), mine, strict=True))

    def __str__(self) -> str:
        given = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        return f"Who({', '.join(f'{name}={_shown(value)}' for name, value in given.items() if value is not None)})"

    __repr__ = __str__


class AtWork(Protocol):
    """A fault in one run: what its workers enter around their call. It may hold what they share."""

    def applied(self, job: Job) -> AbstractContextManager[Record | None]:
        """The fault at work in this process."""


@dataclass(frozen=True, repr=False)
class Fault:
    """Base of all faults; by itself it does nothing.

    ``strikes_at_setup`` says that it is done when the run begins, ``kills`` that its workers die by SIGKILL,
    ``side_by_side`` that it needs workers that run at the same time, ``may_be_idle`` that a run in which it struck
    nobody proves something all the same.
    """

    who: Callable[[Job], bool] | None = dataclasses.field(default=None, kw_only=True)
    strikes_at_setup: ClassVar[bool] = False
    kills: ClassVar[bool] = False
    side_by_side: ClassVar[bool] = False
    may_be_idle: ClassVar[bool] = False

    def __post_init__(self) -> None:
        check_who(self._name(), self.who)

    def selects(self, job: Job) -> bool:
        """Whether this worker is struck."""
        return self.who is None or self.who(job)

    def hostnames(self, names: Sequence[str]) -> list[str]:
        """The host names of the nodes, changed or not."""
        return list(names)

    def before_start(self, jobs: Sequence[Job]) -> None:
        """What happens to the folders before any worker starts; ``jobs`` are those it selects."""

    def around_run(self, jobs: Sequence[Job]) -> AbstractContextManager[AtWork]:
        """What the test's own process does around the run, after every ``before_start`` and before the first fork.

        It is left however the run ends. It yields what the workers enter: the fault itself, or one that also holds
        the memory they share.
        """
        return contextlib.nullcontext(self)

    def applied(self, job: Job) -> AbstractContextManager[Record | None]:
        """The fault at work in this process, around the call of an exporter."""
        return contextlib.nullcontext()

    def advice(self, jobs: Sequence[Job]) -> str:
        """Why it may have struck none of ``jobs``, and what to do about it."""
        return "what it waits for did not come"

    @classmethod
    def _name(cls) -> str:
        return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in cls.__name__).lstrip("_")

    def __str__(self) -> str:
        given = [
            f"{field.name}={_shown(value)}"
            for field in dataclasses.fields(self)
            if (value := getattr(self, field.name)) != field.default
        ]
        return f"{self._name()}({', '.join(given)})"

    __repr__ = __str__


def _shown(value: Any) -> str:
    """As it was written; a function by its name, for its address is another in each run."""
    if isinstance(value, functools.partial):
        return f"partial({_shown(value.func)})"
    name = getattr(value, "__name__", None)
    if callable(value) and isinstance(name, str):
        return name
    text = repr(value)
    if text == object.__repr__(value):
        return f"{type(value).__name__}()"
    return text if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]}... ({len(text)} characters)"


def trace_dirs(jobs: Sequence[Job]) -> list[Path]:
    """The trace folders of ``jobs``, each once."""
    return list(dict.fromkeys(job.trace_dir for job in jobs))
