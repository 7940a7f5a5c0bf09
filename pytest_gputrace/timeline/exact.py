"""Times as they stand in a file, to the last digit: microseconds as decimal text -> whole nanoseconds."""

from __future__ import annotations

import json
from decimal import ROUND_FLOOR, Context, Decimal
from typing import Any

import msgspec

__all__ = ["earliest_ns", "floor_ns"]

# More digits than a number of a file may have and still be a time.
_CONTEXT = Context(prec=400)


class _Timed(msgspec.Struct, gc=False):
    ph: str = ""
    ts: msgspec.Raw = msgspec.Raw(b"null")


# How null, a text, an object and a list begin.
_NO_NUMBER = (b"n", b'"', b"{", b"[", b"t", b"f")
_TIMED = msgspec.json.Decoder(list[_Timed])


def floor_ns(ts_us: Decimal) -> int:
    """The whole nanosecond in which a time in microseconds lies."""
    return int(_CONTEXT.multiply(ts_us, Decimal(1000)).to_integral_value(ROUND_FLOOR, _CONTEXT))


def earliest_ns(text: bytes, first_us: float) -> int:
    """The earliest time, metadata events left out, of some events whose smallest, as a double, is ``first_us``."""
    return min(floor_ns(ts) for ts in _times(text) if float(ts) == first_us)


def _times(text: bytes) -> list[Decimal]:
    data = b"[" + text + b"]"
    try:
        texts = [bytes(event.ts) for event in _TIMED.decode(data) if event.ph != "M"]
        return [Decimal(text.decode()) for text in texts if text[:1] not in _NO_NUMBER]
    except msgspec.ValidationError:  # a value of another type than is usual
        events: list[Any] = json.loads(data, parse_float=Decimal, parse_int=Decimal)
        return [event["ts"] for event in events if event.get("ph") != "M" and isinstance(event.get("ts"), Decimal)]
