"""Trace files <-> columns: streamed, strict, of bounded memory. `open_trace` is the only door."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pytest_gputrace.traces.trace import Device, Trace, open_trace

__all__ = ["Device", "Trace", "open_trace"]


def __getattr__(name: str) -> Any:
    """Load numpy when a trace is to be read, not when text is."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from pytest_gputrace.traces import trace

    return getattr(trace, name)
