"""What a person wants to know first of a trace, and of a folder of them. Computes; judges nothing, prints nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pytest_gputrace.overview.many import compare, glances
    from pytest_gputrace.overview.trace import look

__all__ = ["compare", "glances", "look"]

_HOMES = {"compare": "many", "glances": "many", "look": "trace"}


def __getattr__(name: str) -> Any:
    """Load numpy when there is something to compute."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import importlib

    return getattr(importlib.import_module(f"pytest_gputrace.overview.{_HOMES[name]}"), name)
