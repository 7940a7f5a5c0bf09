"""Which events may have a key twice: a quick look that never misses one.

A trace of millions of events has a few dozen combinations of keys. Each key is known by its last bytes, each event by the
sum of its keys' numbers. Where the keys of one event end differently, one and all of the same sum are without a
duplicate; others are parsed. The look is taken by numpy, at about the speed of memory.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from pytest_gputrace.traces.scratch import BEFORE

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from pytest_gputrace.traces.scratch import Scratch

__all__ = ["Keys", "Patterns"]

_QUOTE, _COLON, _LAST_SPACE = 34, 58, 32
_WORD = 8
_BETWEEN = b", \t\r\n"
# Combinations that are remembered of one file; beyond them something else than a trace is read.
_MOST_PATTERNS = 4096
_LITTLE_ENDIAN = np.dtype("<u8")
_ONES = np.uint64(0x0101010101010101)
_QUOTES = _ONES * np.uint64(_QUOTE)
_SALT = np.uint64(0x2545F4914F6CDD1D)  # an empty key counts too
_HIGH_BITS = _ONES * np.uint64(0x80)
# What to keep of eight bytes, by the exponent of a double that has its highest bit where the last quote is: the bytes after it.
_ABOVE = np.full(1023 + 64, 2**64 - 1, np.uint64)
for _byte in range(_WORD):
    _ABOVE[1023 + 8 * _byte + 7] = (2**64 - 1) >> (8 * _byte + 8) << (8 * _byte + 8)


class Keys(NamedTuple):
    """What the keys of some events tell: a first event of each combination that is ``new``, and those that have a key twice.

    A new combination has none twice in whatever event; but nothing else is known of its events.
    """

    new: dict[int, int]
    repeating: list[int]


class Patterns:
    """The combinations of keys that the events of one file were found to have."""

    def __init__(self) -> None:
        self._known: NDArray[np.uint64] = np.empty(0, np.uint64)

    def look(self, data: bytes, scratch: Scratch, starts: NDArray[np.intp]) -> Keys | None:
        """Look at the events, each from one of ``starts`` on; None where it cannot tell.

        Among those that have a key twice are those that nest too deep to tell.
        """
        ends = _ends_of_keys(scratch)
        if ends is None or not len(ends):
            return None
        first = ends.searchsorted(starts)
        if first[-1] == len(ends):
            return None
        numbers = _numbers(scratch, ends)
        sums = np.add.reduceat(numbers, first)
        keys = Keys({}, [])
        for rows in self._unknown(sums):
            row = int(rows[0])
            last = int(first[row + 1]) if row + 1 < len(first) else len(ends)
            if _all_differ(data, ends[first[row] : last], numbers[first[row] : last]):
                keys.new[int(sums[row])] = row
            else:
                keys.repeating.extend(int(row) for row in rows if _repeats(_event(data, starts, int(row))))
        return keys

    def learn(self, new: Iterable[int]) -> None:
        """Remember combinations that were new."""
        if len(self._known) < _MOST_PATTERNS:
            self._known = np.union1d(self._known, np.fromiter(new, np.uint64))

    def _unknown(self, sums: NDArray[np.uint64]) -> list[NDArray[np.intp]]:
        """The events with a sum that is not known, those of one sum together."""
        at = self._known.searchsorted(sums)
        known = self._known.take(at, mode="clip") == sums if len(self._known) else np.zeros(len(sums), np.bool_)
        rows = np.flatnonzero(~known)
        if not len(rows):
            return []
        order = rows[np.argsort(sums[rows], kind="stable")]
        return np.split(order, np.flatnonzero(np.diff(sums[order])) + 1)


def _ends_of_keys(scratch: Scratch) -> NDArray[np.intp] | None:
    """Where the closing quote of each key is; None where a colon may stand apart from it.

    What looks like one within a text does no harm: it is one key more, and hides none.
    """
    text, after = scratch.text[:-1], scratch.text[1:]
    quotes = np.equal(text, _QUOTE, out=scratch.flags(0, len(text)))
    flags = np.less_equal(after, _LAST_SPACE, out=scratch.flags(1, len(text)))
    flags &= quotes
    apart = np.flatnonzero(flags)
    while len(apart):
        apart = apart[apart + 1 < len(text)] + 1
        if (after[apart] == _COLON).any():
            return None
        apart = apart[after[apart] <= _LAST_SPACE]
    np.equal(after, _COLON, out=flags)
    flags &= quotes
    return np.flatnonzero(flags)


def _numbers(scratch: Scratch, ends: NDArray[np.intp]) -> NDArray[np.uint64]:
    """One number for each key, of its last 16 bytes, or all where it has fewer."""
    padded = scratch.padded
    words: NDArray[np.uint64] = np.ndarray((len(padded) - _WORD + 1,), _LITTLE_ENDIAN, padded.data, 0, (1,))
    at = ends + (BEFORE - _WORD)
    last, is_long = _within_key(words[at])
    long = np.flatnonzero(is_long)
    before, _ = _within_key(words[at[long] - _WORD])
    last[long] ^= _mixed(before)
    return _mixed(last)


def _within_key(words: NDArray[np.uint64]) -> tuple[NDArray[np.uint64], NDArray[np.bool_]]:
    """Eight bytes each, without the last quote in them and what stands before it; and which have no quote."""
    marks = words ^ _QUOTES  # a quote becomes a zero byte, and a zero byte's high bit is set when one is taken away
    marks -= _ONES
    marks &= _HIGH_BITS
    # A double's exponent tells the highest bit. Bytes beyond ASCII count as quotes too: less of the key is looked at.
    exponents = marks.astype(np.float64).view(np.int64)
    exponents >>= 52
    words &= _ABOVE[exponents]
    return words, marks == 0


def _mixed(values: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """A number that depends on every bit of each value, so that sums of different keys differ."""
    values = (values ^ (values >> np.uint64(32)) ^ _SALT) * np.uint64(0x9E3779B97F4A7C15)
    values = (values ^ (values >> np.uint64(29))) * np.uint64(0xBF58476D1CE4E5B9)
    values ^= values >> np.uint64(32)
    return values


def _all_differ(data: bytes, ends: NDArray[np.intp], numbers: NDArray[np.uint64]) -> bool:
    """Whether no two keys of an event end alike, nor is one spelled with escapes, so that another spelling may be it."""
    if len(set(numbers.tolist())) < len(numbers):
        return False
    return not any(b"\\" in data[data.rfind(b'"', 0, end) + 1 : end] for end in ends.tolist())


def _event(data: bytes, starts: NDArray[np.intp], row: int) -> bytes:
    return data[starts[row] : starts[row + 1] if row + 1 < len(starts) else len(data)].rstrip(_BETWEEN)


def _repeats(text: bytes) -> bool:
    """Whether a value has a key twice, or nests too deep to tell."""
    try:
        _PARSER.decode(text.decode("utf-8", "surrogateescape"))
    except (ValueError, RecursionError):
        return True
    return False


def _unique(pairs: list[tuple[str, Any]]) -> None:
    if len({key for key, _ in pairs}) < len(pairs):
        raise ValueError("duplicate key")


_PARSER = json.JSONDecoder(object_pairs_hook=_unique)
