"""The ids that tie events together, wherever an event has them: ``id``, ``id2``, ``bind_id``."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from pytest_gputrace.timeline.plan import HEX_BIND_ID, HEX_ID, signed
from pytest_gputrace.traces.arguments import run_texts

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from numpy.typing import NDArray

    from pytest_gputrace.traces.arguments import Source

__all__ = ["ID_PHASES", "all_ids", "numbers", "other_ids"]

ID_PHASES = "stfbneSTpFNOD"
"""Phases whose ``id`` ties events together: arrows, asynchronous ranges, objects."""

_WHOLE = re.compile(r"-?[0-9]{1,30}")


class _Event(msgspec.Struct, gc=False):
    ph: Any = None
    id: Any = None
    id2: Any = None
    bind_id: Any = None


_EVENTS = msgspec.json.Decoder(list[_Event])


def other_ids(text: bytes) -> Iterator[int | str]:
    """``id2`` of asynchronous ranges, and ``bind_id`` of the second sort of arrows, of some events."""
    for event in _EVENTS.decode(b"[" + text + b"]"):
        yield from _others(event)


def all_ids(source: Source) -> NDArray[np.int64]:
    """Every number that ties events of a file together, sorted, each once. Memory is that of all of them.

    Raises:
        OSError: the file cannot be read.
        ValueError: it has changed since it was opened.
    """
    known, new = np.empty(0, np.int64), [np.empty(0, np.int64)]
    for text in run_texts(source):
        ids: list[int | str] = []
        for event in _EVENTS.decode(b"[" + text + b"]"):
            ids += _others(event)
            if isinstance(event.ph, str) and len(event.ph) == 1 and event.ph in ID_PHASES:
                ids += _whole(event.id)
        new.append(np.unique(np.array(list(numbers(ids)), np.int64)))
        if sum(map(len, new)) > len(known):  # seldom, as they become more
            known, new = np.unique(np.concatenate([known, *new])), []
    return np.unique(np.concatenate([known, *new]))


def numbers(ids: Iterable[int | str]) -> Iterator[int]:
    """The numbers that ids stand for; texts of other things are passed over."""
    for each in ids:
        if isinstance(each, int):
            yield signed(each)
        elif HEX_ID.fullmatch(each):
            yield signed(int(each, 16))
        elif _WHOLE.fullmatch(each):
            yield signed(int(each))


def _others(event: _Event) -> Iterator[int | str]:
    if isinstance(event.bind_id, str) and HEX_BIND_ID.fullmatch(event.bind_id):
        yield int(event.bind_id, 16)
    for each in (event.bind_id, *(event.id2.values() if isinstance(event.id2, dict) else ())):
        yield from _whole(each)


def _whole(value: Any) -> Iterator[int | str]:
    if isinstance(value, float) and value.is_integer():
        yield int(value)
    elif isinstance(value, int | str) and not isinstance(value, bool):
        yield value
