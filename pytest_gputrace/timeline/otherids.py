"""The ids of an event beside ``id``: ``id2`` of asynchronous ranges, ``bind_id`` of the second sort of arrows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["other_ids"]


class _Event(msgspec.Struct, gc=False):
    id2: Any = None
    bind_id: Any = None


_EVENTS = msgspec.json.Decoder(list[_Event])


def other_ids(text: bytes) -> Iterator[int | str]:
    """Those of some events."""
    for event in _EVENTS.decode(b"[" + text + b"]"):
        found = [event.bind_id, *(event.id2.values() if isinstance(event.id2, dict) else ())]
        for each in found:
            if isinstance(each, float) and each.is_integer():
                yield int(each)
            elif isinstance(each, int | str) and not isinstance(each, bool):
                yield each
