"""Puts raw bytes into the text of a trace, at a place that is known: what no JSON writer would write.

Knows of bytes and of Kineto's layout only.
"""

from __future__ import annotations

from pytest_gputrace.fakes.traces import FakeTrace

__all__ = ["MARK", "event_offset", "in_args", "in_name", "put", "small"]

MARK = "PLACE"
"""A text that is later replaced, quotes and all, by raw bytes."""
_EVENT = b"\n  {\n"


def small() -> FakeTrace:
    """The smallest trace that has everything: one step of one kernel and one copy."""
    return FakeTrace(steps=1, kernels_per_step=1)


def put(trace: FakeTrace, raw: bytes) -> tuple[bytes, int]:
    """The text of ``trace`` with ``raw`` in the place of the text `MARK`, and the byte where that is."""
    data, marked = trace.text().encode(), f'"{MARK}"'.encode()
    if data.count(marked) != 1:
        raise ValueError(f"the text holds the mark {data.count(marked)} times, not once")
    return data.replace(marked, raw), data.index(marked)


def in_name(raw: bytes) -> tuple[bytes, int, int]:
    """A text in which ``raw`` is the name of an operation; the byte where the name begins, and the event."""
    trace = small()
    event = trace.index(cat="cpu_op", name="aten::copy_")
    trace.events[event]["name"] = MARK
    data, byte = put(trace, b'"' + raw + b'"')
    return data, byte + 1, event


def in_args(raw: bytes) -> tuple[bytes, int, int]:
    """A text in which ``raw`` is a value among the arguments of a copy; its byte and its event."""
    trace = small()
    event = trace.index(cat="gpu_memcpy")
    trace.events[event]["args"]["memory bandwidth (GB/s)"] = MARK
    return *put(trace, raw), event


def event_offset(data: bytes, event: int) -> int:
    """The byte at which an event begins in a text in Kineto's layout."""
    position = -1
    for _ in range(event + 1):
        position = data.index(_EVENT, position + 1)
    return position + _EVENT.index(b"{")
