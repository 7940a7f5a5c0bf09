"""A quick look over the bytes of some events: may anything in them be what a lenient parser lets pass?

What decodes the events (msgspec) refuses broken grammar everywhere, but reads on over a number that no double holds, bytes
that are not UTF-8, and a key that comes twice, where it does not need the value. Whoever is suspected here is read by
the strict reader; who is not is clean. The look is taken by numpy, at about the speed of memory.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["KeyPatterns", "may_hide_something"]

_QUOTE, _COLON = 34, 58
# A number of fewer digits is finite, whatever they are; and so is one whose exponent has two.
_LONGEST_DIGITS = 300
_SHAPE = bytes.maketrans(b"123456789E", b"000000000e")
_LONG = b"0" * _LONGEST_DIGITS
_EXPONENTS = (b"0e000", b"0e+000")
# What stands before a number outside of any text; empty where the number is longer than the window that is looked at.
_BEFORE_A_NUMBER = (b"", b"[", b":", b",", b" ", b"\t", b"\r", b"\n", b"-")
_WINDOW = 32
_ESCAPED_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")
# A colon after the quote and some space: the keys are not where `KeyPatterns` looks for them.
_APART = re.compile(rb'"[ \t\r\n]+:')
_WORD = 8
_LONGEST_KEY = 64


def may_hide_something(data: bytes) -> bool:
    """Whether ``data`` may hold bytes that are not UTF-8, half a surrogate, a Windows path or a number beyond a double."""
    if not data.isascii():
        try:
            data.decode("utf-8")
        except UnicodeDecodeError:
            return True
    if b"\\" in data and (b":\\" in data or _ESCAPED_SURROGATE.search(data)):
        return True
    shape = data.translate(_SHAPE)
    return _LONG in shape or any(_large_exponent(data, shape, exponent) for exponent in _EXPONENTS)


def _large_exponent(data: bytes, shape: bytes, exponent: bytes) -> bool:
    """Whether a number has such an exponent; hexadecimal text has the like, and is not a number."""
    at = shape.find(exponent)
    while at >= 0:
        before = data[max(0, at - _WINDOW) : at + 1].rstrip(b"0123456789.")
        if before[-1:] in _BEFORE_A_NUMBER:
            return True
        at = shape.find(exponent, at + 1)
    return False


class KeyPatterns:
    """Which keys the events of a file have, each combination once.

    A trace of millions of events has a few dozen combinations of keys. Each is recognised by the sum of its keys'
    hashes; one that was not seen before must be looked at by a parser that knows duplicate keys, one that was cannot
    hold any.
    """

    def __init__(self) -> None:
        self._known: set[int] = set()

    def new(self, data: bytes, events: int) -> set[int] | None:
        """The combinations in ``data``, the text of ``events`` events, that are not known; None where it cannot tell."""
        if b'" ' in data and _APART.search(data):
            return None
        text = np.frombuffer(data, np.uint8)
        quotes = np.flatnonzero(text == _QUOTE)
        if len(quotes) < 2 or quotes[-1] + 1 >= len(text):
            return None
        at = np.flatnonzero(text[quotes + 1] == _COLON)
        at = at[at > 0]
        ends, opens = quotes[at], quotes[at - 1]
        lengths = ends - opens - 1
        if not len(ends) or lengths.max() > _LONGEST_KEY:
            return None
        hashes = _hashes(text, opens, lengths)
        starts = self._first_keys(data, text, opens, hashes)
        if len(starts) != events:
            return None
        sums = np.add.reduceat(hashes, starts)
        return set(np.unique(sums).tolist()) - self._known

    def learn(self, combinations: set[int]) -> None:
        """Remember combinations that were found to be without a duplicate."""
        self._known |= combinations

    @staticmethod
    def _first_keys(
        data: bytes, text: NDArray[np.uint8], opens: NDArray[np.intp], hashes: NDArray[np.uint64]
    ) -> NDArray[np.intp]:
        """Which keys are the first ones of an event: those equal to the very first, with the same bytes before."""
        lead = int(opens[0]) - data.find(b"{")
        candidates = np.flatnonzero(hashes == hashes[0])
        candidates = candidates[opens[candidates] >= lead]
        before = text[opens[0] - lead : opens[0]]
        same = np.ones(len(candidates), np.bool_)
        for offset in range(lead):
            same &= text[opens[candidates] - lead + offset] == before[offset]
        return candidates[same]


def _hashes(text: NDArray[np.uint8], opens: NDArray[np.intp], lengths: NDArray[np.intp]) -> NDArray[np.uint64]:
    """One number for each key, of all its bytes and its length."""
    padded = np.concatenate([text, np.zeros(_WORD, np.uint8)])
    words: NDArray[np.uint64] = np.lib.stride_tricks.as_strided(
        padded[:_WORD].view(np.uint64), shape=(len(text),), strides=(1,)
    )
    hashes: NDArray[np.uint64] = _mixed(lengths.astype(np.uint64))
    todo = np.arange(len(opens))
    for offset in range(0, _LONGEST_KEY, _WORD):
        word = words[opens[todo] + 1 + offset]
        left = lengths[todo] - offset
        hashes[todo] = _mixed(hashes[todo] ^ (word & _MASKS[np.minimum(left, _WORD)]))
        todo = todo[left > _WORD]
        if not len(todo):
            break
    return hashes


_MASKS = np.array([(1 << (8 * count)) - 1 for count in range(_WORD + 1)], np.uint64)


def _mixed(values: NDArray[np.uint64]) -> Any:
    """A number that depends on every bit of each value, so that sums of different keys differ."""
    values = (values ^ (values >> np.uint64(32))) * np.uint64(0x9E3779B97F4A7C15)
    values = (values ^ (values >> np.uint64(29))) * np.uint64(0xBF58476D1CE4E5B9)
    return values ^ (values >> np.uint64(32))
