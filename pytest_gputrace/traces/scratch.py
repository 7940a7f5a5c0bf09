"""Room for the bytes and flags of a run, used again for the next one: asking the system for it costs more than the look."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["BEFORE", "Scratch"]

BEFORE = 16
"""How many bytes, quotes all of them, stand before the text in `Scratch.padded`."""


class Scratch:
    """The text of one run at a time, and arrays of flags as long."""

    def __init__(self) -> None:
        self.padded: NDArray[np.uint8] = np.empty(BEFORE, np.uint8)
        self.text: NDArray[np.uint8] = self.padded[BEFORE:]
        self._flags = np.empty((2, 0), np.bool_)

    def load(self, data: bytes) -> None:
        """Take the text of a run."""
        if len(self.padded) < BEFORE + len(data):
            self.padded = np.full(BEFORE + len(data) * 5 // 4, ord('"'), np.uint8)
            self._flags = np.empty((2, len(self.padded)), np.bool_)
        self.text = self.padded[BEFORE : BEFORE + len(data)]
        self.text[:] = np.frombuffer(data, np.uint8)

    def flags(self, number: int, size: int) -> NDArray[np.bool_]:
        """The first or second array of flags, of this size, with whatever is in it."""
        flags: NDArray[np.bool_] = self._flags[number, :size]
        return flags
