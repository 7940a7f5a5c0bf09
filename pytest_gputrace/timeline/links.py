"""Arrows from VizTracer's frames to Proton's scopes: the report has where they start, the scopes say where they end."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import msgspec

from pytest_gputrace.timeline.exact import floor_ns
from pytest_gputrace.timeline.survey import LINK_CATEGORY, LINK_NAME
from pytest_gputrace.traces.arguments import run_texts

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_gputrace.timeline.plan import Clock
    from pytest_gputrace.traces.arguments import Source

__all__ = ["link_ends"]


class _Scope(msgspec.Struct, gc=False):
    ph: Any = None
    pid: msgspec.Raw = msgspec.Raw(b"null")
    tid: msgspec.Raw = msgspec.Raw(b"null")
    ts: Any = None
    dur: Any = None
    cat: Any = None
    args: Any = None


_SCOPE_CATEGORIES = ("scope", "metric")
# Times to the last digit.
_SCOPES = msgspec.json.Decoder(list[_Scope], float_hook=Decimal)


def link_ends(source: Source, clock: Clock, wanted: dict[int, int], late: list[int]) -> Iterator[bytes]:
    """The ends of arrows to those scopes of a Proton trace that are ``wanted``, as runs of events of that trace.

    ``wanted`` holds when each arrow starts, on the timeline, to which ``clock`` leads; what is found is taken out of it.
    An arrow ends where the scope begins, or, where the clocks of the profilers let it start a moment later, as soon
    after that as the scope allows: viewers drop one that ends before it starts. Those that do so all the same are ``late``.
    """
    for text in run_texts(source):
        if not wanted:
            return
        ends = []
        for scope in _SCOPES.decode(b"[" + text + b"]"):
            number = scope.args.get("scope_id") if isinstance(scope.args, dict) else None
            if (
                scope.ph == "X"
                and scope.cat in _SCOPE_CATEGORIES
                and type(number) is int
                and number in wanted
                and isinstance(scope.ts, int | Decimal)
            ):
                ends.append(_end(scope, number, clock, wanted.pop(number), late))
        if ends:
            yield b",".join(ends)


def _end(scope: _Scope, number: int, clock: Clock, start_ns: int, late: list[int]) -> bytes:
    begin_us = Decimal(scope.ts)
    late_us = Decimal(start_ns - clock.at(floor_ns(begin_us))) / 1000
    dur_us = Decimal(scope.dur) if isinstance(scope.dur, int | Decimal) else Decimal(0)
    late += [number] if late_us > dur_us else []
    end_us = begin_us + max(Decimal(0), min(late_us, dur_us))
    event = {"ph": "f", "bp": "e", "cat": LINK_CATEGORY, "name": LINK_NAME, "id": number}
    place = b',"pid":%b,"tid":%b,"ts":%b}' % (bytes(scope.pid), bytes(scope.tid), f"{end_us:f}".encode())
    return json.dumps(event).encode()[:-1] + place
