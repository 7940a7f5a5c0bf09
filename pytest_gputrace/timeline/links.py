"""Arrows from VizTracer's frames to Proton's scopes: the report has where they start, the scopes say where they end."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import msgspec

from pytest_gputrace.timeline.survey import LINK_CATEGORY, LINK_NAME
from pytest_gputrace.traces.arguments import run_texts

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_gputrace.traces.arguments import Source

__all__ = ["link_ends"]


class _Arguments(msgspec.Struct, gc=False):
    scope_id: Any = None


class _Scope(msgspec.Struct, gc=False):
    ph: Any = None
    pid: msgspec.Raw = msgspec.Raw(b"null")
    tid: msgspec.Raw = msgspec.Raw(b"null")
    ts: msgspec.Raw = msgspec.Raw(b"null")
    args: _Arguments | None = None


_SCOPES = msgspec.json.Decoder(list[_Scope])


def link_ends(source: Source, wanted: set[int]) -> Iterator[bytes]:
    """The ends of arrows to those scopes of a Proton trace that are ``wanted``, as runs of events of that trace.

    What is found is taken out of ``wanted``.
    """
    for text in run_texts(source):
        if not wanted:
            return
        ends = []
        for scope in _SCOPES.decode(b"[" + text + b"]"):
            number = scope.args.scope_id if scope.args else None
            if scope.ph == "X" and type(number) is int and number in wanted:
                wanted.remove(number)
                ends.append(_end(scope, number))
        if ends:
            yield b",".join(ends)


def _end(scope: _Scope, number: int) -> bytes:
    event = {"ph": "f", "bp": "e", "cat": LINK_CATEGORY, "name": LINK_NAME, "id": number}
    place = b',"pid":%b,"tid":%b,"ts":%b}' % (bytes(scope.pid), bytes(scope.tid), bytes(scope.ts))
    return json.dumps(event).encode()[:-1] + place
