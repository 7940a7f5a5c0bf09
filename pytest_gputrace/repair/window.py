"""The part of a text that is looked at: grows at one end as it is read, shrinks at the other as it is done with."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["Window"]


class Window:
    """``data`` holds the text from byte ``start`` on; ``at`` is where in ``data`` one is, ``more`` whether text follows.

    ``mended_from`` is the byte where the mended events begin that come right before this place, None where there are
    none. ``doubt`` is told where text begins that cannot be read; it raises when nothing behind it is to be trusted.
    """

    def __init__(self, blocks: Iterator[bytes], doubt: Callable[[int], None]) -> None:
        self._blocks = blocks
        self._doubt = doubt
        self._text: str | None = None
        self.data = b""
        self.start = 0
        self.at = 0
        self.more = True
        self.mended_from: int | None = None

    def distrust(self, byte: int) -> None:
        """From ``byte`` on something cannot be read; what was mended right before it may have been no better."""
        self._doubt(byte if self.mended_from is None else self.mended_from)

    @property
    def byte(self) -> int:
        """Where one is in the whole text."""
        return self.start + self.at

    @property
    def text(self) -> str:
        """``data`` with a character for each byte, so that places are the same in both."""
        if self._text is None:
            self._text = self.data.decode("latin-1")
        return self._text

    def fill(self, size: int) -> bool:
        """Hold at least ``size`` bytes from ``at`` on, where there are as many; whether any were read."""
        held = len(self.data) - self.at
        if held >= size or not self.more:
            return False
        parts = [self.data[self.at :]]
        while self.more and held < size:
            block = next(self._blocks, b"")
            self.more = bool(block)
            parts.append(block)
            held += len(block)
        grown = len(parts) > 2 or bool(parts[-1])
        self.data, self._text = b"".join(parts), None
        self.start += self.at
        self.at = 0
        return grown
