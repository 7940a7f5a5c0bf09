"""The factory of fake serving engines, each in a folder of its own, none of which outlives its test."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

import pytest

from pytest_gputrace.fakes.engine import FakeEngine
from pytest_gputrace.fakes.validate import did_you_mean

if TYPE_CHECKING:
    from contextlib import ExitStack
    from pathlib import Path

__all__ = ["EngineFactory"]

_OPTIONS = tuple(name for name in inspect.signature(FakeEngine).parameters if name != "root")


class EngineFactory:
    """Starts engines below ``folder``; ``end`` ends them with the test."""

    def __init__(self, folder: Path, end: ExitStack) -> None:
        self._folder, self._end = folder, end
        self._count = 0

    def __call__(self, **options: Any) -> FakeEngine:
        """Start an engine.

        Args:
            options: those of `FakeEngine`, without ``root``.

        Raises:
            pytest.UsageError: an option is unknown or cannot be used.
            ControlError: it does not start.
        """
        if "root" in options:
            raise pytest.UsageError("gputrace_engine: root is chosen by the fixture; use FakeEngine for another one")
        for option in options:
            if option not in _OPTIONS:
                hint = did_you_mean(option, _OPTIONS) or "."
                what = f"there is no option {option!r}{hint} The options are {', '.join(_OPTIONS)}"
                raise pytest.UsageError(f"gputrace_engine: {what}")
        root = self._folder / f"engine{self._count}"
        try:
            engine = FakeEngine(root, **options)
        except (TypeError, ValueError) as error:
            raise pytest.UsageError(f"gputrace_engine: {error}") from error
        self._count += 1
        return self._end.enter_context(engine)
