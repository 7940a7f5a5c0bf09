"""A fake serving engine: a front end and its schedulers as real processes, profiled by the real session.

The one fake that drives ``control``. The name that tests use is resolved on first use.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pytest_gputrace.fakes.engine.fake import FakeEngine

__all__ = ["FakeEngine"]


def __getattr__(name: str) -> Any:
    if name != "FakeEngine":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = importlib.import_module(f"{__name__}.fake").FakeEngine
    globals()[name] = value
    return value
