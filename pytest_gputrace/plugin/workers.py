"""What only xdist calls: the run's name goes to every worker, the names of those that died come back."""

from __future__ import annotations

from typing import Any

import pytest

from pytest_gputrace.plugin.folders import RUN

__all__ = ["DEAD_WORKERS", "RUN_INPUT", "WorkerHooks"]

RUN_INPUT = "gputrace_run"
"""The key of the run's name in ``workerinput``."""

DEAD_WORKERS = pytest.StashKey[list[str]]()


class WorkerHooks:
    """The hooks of the controller. ``optionalhook``: without xdist nobody declares them."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: Any) -> None:
        """Hand the run's name over."""
        node.workerinput[RUN_INPUT] = self._config.stash[RUN]

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any, error: object) -> None:
        """Note a worker that died."""
        if error:
            self._config.stash[DEAD_WORKERS].append(str(node.gateway.id))
