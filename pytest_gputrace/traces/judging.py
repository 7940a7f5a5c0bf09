"""The strict reader, asked about bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from pytest_gputrace.traces.strict import parse

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pytest_gputrace.traces.scanner import Problem

__all__ = ["is_clean", "judge", "stop_of"]

_STOPS = frozenset({"grammar", "cut", "second", "trailing"})


def judge(text: bytes) -> list[Problem]:
    """What is wrong with ``text``, as a whole document."""
    return parse(_decoded(text)).problems


def stop_of(problems: Iterable[Problem]) -> int | None:
    """The byte where the strict reader stopped; None where it read to the end."""
    return next((problem.byte for problem in problems if problem.kind in _STOPS), None)


def is_clean(text: bytes) -> bool:
    """Whether ``text`` is one JSON value without anything wrong: the quick way, whatever the value is."""
    try:
        msgspec.json.decode(text, type=msgspec.Raw)  # one value, and nothing after it
    except (msgspec.DecodeError, RecursionError):
        return False
    return not parse(f'[{{"name": "", "args": {_decoded(text)}}}]').problems


def _decoded(text: bytes) -> str:
    return text.decode("utf-8", "surrogateescape")
