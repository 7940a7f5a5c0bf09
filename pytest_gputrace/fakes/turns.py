"""Lets the workers of a run go one after another, and notes which files each of them touched.

Works in the test's own process: a worker only waits for its gate, which the forks inherit.
"""

from __future__ import annotations

import os
from collections import deque
from typing import TYPE_CHECKING

from pytest_gputrace.errors import ClusterError
from pytest_gputrace.fakes.snapshot import differences, settled_snapshot

if TYPE_CHECKING:
    from collections.abc import Container, Sequence
    from pathlib import Path

    from pytest_gputrace.fakes.snapshot import Snapshot

__all__ = ["Turns"]


class Turns:
    """One gate for each worker, opened when the worker before it has ended.

    Args:
        order: the workers' places in the run.
        folders: where to look for files.
        without: a folder below them that is passed over.

    Raises:
        ClusterError: there are not enough file descriptors for the gates.
    """

    def __init__(self, order: Sequence[int], folders: Sequence[Path], without: Path) -> None:
        self.current: int | None = None
        self.touched: dict[int, tuple[str, ...]] = {}
        self.gates: dict[int, int] = {}
        self._waiting = deque(order)
        self._folders, self._without = folders, without
        self._before: Snapshot | None = None
        try:
            for index in order:
                self.gates[index] = os.eventfd(0)
        except OSError as error:
            self.close()
            raise ClusterError(
                f"turns=True needs a file descriptor for each of {len(order)} workers: {error}"
            ) from error

    def advance(self, over: Container[int]) -> None:
        """Call the next worker, if the one before it is ``over``; who ended before it was called has no turn."""
        if self.current is not None:
            if self.current not in over:
                return
            self._look()
            self.current = None
        while self._waiting:
            index = self._waiting.popleft()
            if index not in over:
                if self._before is None:
                    self._before = settled_snapshot(self._folders, self._without)
                self.current = index
                os.eventfd_write(self.gates[index], 1)
                return

    def _look(self) -> None:
        assert self.current is not None
        assert self._before is not None
        now = settled_snapshot(self._folders, self._without)
        self.touched[self.current] = differences(self._before, now)
        self._before = now

    def close(self) -> None:
        """Give the descriptors back."""
        for gate in self.gates.values():
            os.close(gate)
        self.gates = {}
