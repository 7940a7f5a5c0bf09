"""Places in a text that a lenient parser may pass over.

Bytes that are not UTF-8, half a surrogate, a Windows path, a number that no double holds. What is no such place is seldom
named, what is always.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from pytest_gputrace.traces.scratch import Scratch

__all__ = ["hidden_places"]

# A number with fewer digits in a row and an exponent of two is finite, whatever they are.
_LONGEST_DIGITS = 200
_LONG = re.compile(rb"[0-9]{%d}" % _LONGEST_DIGITS)
# Every sixteenth byte is looked at: of so many digits eight in a row are among them.
_STEP = 16
_EXPONENT = re.compile(rb"[eE]\+?[0-9]{3}")
# What stands before a number outside of any text; empty where the number is longer than the window that is looked at.
_BEFORE_A_NUMBER = (b"", b"[", b":", b",", b" ", b"\t", b"\r", b"\n", b"-")
_WINDOW = 32
_SHORTEST = len("9e999")
_PLUS = 43
# An escape of half a pair: a first half without a second, or a second one; each pair is passed over as a whole.
_ESCAPE = re.compile(
    rb"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(?P<half>u[dD][89a-fA-F])|.)", re.DOTALL
)
_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")
# As the strict reader sees it, or more: a drive, a backslash, a letter that it escapes.
_PATH = re.compile(rb"[A-Za-z]:\\[bfnrt][^\x00-\x2c]")


def hidden_places(data: bytes, scratch: Scratch) -> list[int]:
    """Where each such place is, or may be."""
    places = list(_numbers(data, scratch))
    if not data.isascii():
        places += _undecodable(data)
    if b"\\" in data:
        places += [match.start() for match in _PATH.finditer(data)]
        if _SURROGATE.search(data):
            places += [match.start() for match in _ESCAPE.finditer(data) if match["half"]]
    return sorted(places)


def _undecodable(data: bytes) -> Iterator[int]:
    start = 0
    while True:
        try:
            data[start:].decode("utf-8")
        except UnicodeDecodeError as error:
            start += error.start
            yield start
            # One place an event is enough.
            start = max(start + 1, data.find(b'"', start))
        else:
            return


def _numbers(data: bytes, scratch: Scratch) -> Iterator[int]:
    text = scratch.text
    if len(text) < _SHORTEST:
        return
    if _eight_in_a_row(text[::_STEP] - np.uint8(48) < 10):
        yield from (match.start() for match in _LONG.finditer(data))
    letters, digits = scratch.flags(0, len(text) - 1), scratch.flags(1, len(text) - 1)
    bytes_ = letters.view(np.uint8)
    np.bitwise_or(text[1:], np.uint8(32), out=bytes_)
    np.equal(bytes_, 101, out=letters)
    bytes_ = digits.view(np.uint8)
    np.subtract(text[:-1], np.uint8(48), out=bytes_)
    letters &= np.less(bytes_, 10, out=digits)
    places = np.flatnonzero(letters[:-1]) + 1
    after = text[places + 1]
    for place in places[(after - np.uint8(48) < 10) | (after == _PLUS)].tolist():
        if _EXPONENT.match(data, place):
            before = data[max(0, place - _WINDOW) : place].rstrip(b"0123456789.")
            if before[-1:] in _BEFORE_A_NUMBER:
                yield place


def _eight_in_a_row(flags: NDArray[np.bool_]) -> bool:
    for apart in (1, 2, 4):
        flags = flags[apart:] & flags[:-apart]
    return bool(flags.any())
