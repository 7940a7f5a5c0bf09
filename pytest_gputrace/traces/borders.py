"""Where each event begins in the text of a run."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from pytest_gputrace.traces.scratch import Scratch

__all__ = ["starts_of"]

_OPEN, _COMMA, _CLOSE, _QUOTE, _BACKSLASH, _LAST_SPACE = 123, 44, 125, 34, 92, 32
_SPACE = b" \t\r\n"
# More space than this between two events, and they are not told apart.
_MOST_SPACE = 200


def starts_of(data: bytes, scratch: Scratch, count: int) -> NDArray[np.intp] | None:
    """Where each of the ``count`` values of ``data``, as in a JSON list, begins; None where they may not all be objects.

    Each event but the first stands behind a comma. So where no more braces do than there are events, they are the
    events: no object in a list of an event's own is among them, and no brace in a text.
    """
    if not data.lstrip(_SPACE).startswith(b"{") or not data.rstrip(_SPACE).endswith(b"}"):
        return None
    text = scratch.text
    opens = np.flatnonzero(np.equal(text, _OPEN, out=scratch.flags(0, len(text))))
    before = _before(text, opens[1:])
    if before is None:
        return None
    starts = opens[1:][text[before] == _COMMA]
    if len(starts) != count - 1:
        starts = _outermost(text)[1:]
    commas = _before(text, starts)
    last = None if commas is None or len(starts) != count - 1 else _before(text, commas)
    if last is None or (text[last] != _CLOSE).any():  # something else than an object is before it
        return None
    return np.concatenate([opens[:1], starts])


def _outermost(text: NDArray[np.uint8]) -> NDArray[np.intp]:
    """Where each brace is that stands in no other and in no text; slower, and right whatever there is."""
    quotes = np.flatnonzero(text == _QUOTE)
    slashes = np.zeros(len(quotes), np.intp)
    after_slash = np.flatnonzero(text[quotes - 1] == _BACKSLASH)
    while len(after_slash):
        slashes[after_slash] += 1
        after_slash = after_slash[text[quotes[after_slash] - 1 - slashes[after_slash]] == _BACKSLASH]
    quotes = quotes[slashes % 2 == 0]
    braces = np.flatnonzero((text == _OPEN) | (text == _CLOSE))
    braces = braces[quotes.searchsorted(braces) % 2 == 0]
    is_open = text[braces] == _OPEN
    depths = np.cumsum(np.where(is_open, 1, -1))
    outermost: NDArray[np.intp] = braces[is_open & (depths == 1)]
    return outermost


def _before(text: NDArray[np.uint8], places: NDArray[np.intp]) -> NDArray[np.intp] | None:
    """Where the last byte before each place is that is no space."""
    found = places - 1
    spaces = np.flatnonzero(text[found] <= _LAST_SPACE)
    for _ in range(_MOST_SPACE):
        if not len(spaces):
            return found
        found[spaces] -= 1
        spaces = spaces[text[found[spaces]] <= _LAST_SPACE]
    return None
