"""A damaged trace file -> a new valid one, and what was lost or changed on the way. `repair` is the only door."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pytest_gputrace.repair.outcome import Change, Repaired
    from pytest_gputrace.repair.repairing import repair

__all__ = ["Change", "Repaired", "repair"]


def __getattr__(name: str) -> Any:
    """Load msgspec and numpy when a file is to be repaired, not before."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from pytest_gputrace.repair import outcome, repairing

    return getattr(repairing if name == "repair" else outcome, name)
