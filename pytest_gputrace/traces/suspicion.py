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

_QUOTE, _COLON, _PLUS, _ZERO, _LOWER_E = 34, 58, 43, 48, 101
# A number of fewer digits is finite, whatever they are.
_LONGEST_DIGITS = 300
# What stands before an exponent, back to where the number began outside of any text.
_IN_A_NUMBER = re.compile(rb"[\[:,\s]-?[0-9.]+$")
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
    text = np.frombuffer(data, np.uint8)
    digit = (text - _ZERO) < 10
    return _long_run(digit) or _large_exponent(data, text, digit)


def _large_exponent(data: bytes, text: NDArray[np.uint8], digit: NDArray[np.bool_]) -> bool:
    """Whether a number has an exponent of three digits or more; hexadecimal text has the like, and is not a number."""
    exponent = (text[1:-3] | 0x20) == _LOWER_E
    positive = digit[2:-2] | (text[2:-2] == _PLUS)
    found = np.flatnonzero(digit[:-4] & exponent & positive & digit[3:-1] & digit[4:]) if len(text) > 4 else ()
    return any(_IN_A_NUMBER.search(data, max(0, at - _LONGEST_DIGITS), at + 1) for at in found)


def _long_run(digit: NDArray[np.bool_]) -> bool:
    """Whether there may be a run of so many digits: it would fill a block of half as many, wherever it begins."""
    block = _LONGEST_DIGITS // 2
    whole = len(digit) // block * block
    return bool(digit[:whole].reshape(-1, block).all(axis=1).any())


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
