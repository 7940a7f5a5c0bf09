"""Finds what needs no repair, at the speed of C: runs of whole events, and single ones."""

from __future__ import annotations

import contextlib
import json
import re
from typing import TYPE_CHECKING, Any

import msgspec

from pytest_gputrace.repair.values import NeedsMore
from pytest_gputrace.traces.suspicion import KeyPatterns, may_hide_something

if TYPE_CHECKING:
    from pytest_gputrace.repair.window import Window

__all__ = ["RUN_BYTES", "Runs", "sound"]

RUN_BYTES = 1 << 18
"""About how much text of events is looked at at a time."""

_TRIES = 8
_BYTE = re.compile(r"\(byte (\d+)\)")
# What a parser says of a text that ends too early: it stops at the end, or a few letters before it.
_NEAR_THE_END = 12


class _Event(msgspec.Struct, gc=False):
    """An event of which nothing is wanted but that its grammar holds."""


_DECODER = msgspec.json.Decoder(list[_Event])


def _refuse(token: str) -> Any:
    raise ValueError(token)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        raise ValueError("duplicate key")
    return value


_STRICT = json.JSONDecoder(parse_constant=_refuse, object_pairs_hook=_unique)


class Runs:
    """Finds runs of sound events; ``until`` is the byte before which there can be none."""

    def __init__(self) -> None:
        self._patterns = KeyPatterns()
        self.until = 0

    def next(self, window: Window, place: int) -> tuple[bytes, int] | None:
        """The longest run of sound events at ``place`` in the window, and how many they are."""
        data, end = window.data, len(window.data)
        self.until = window.start + end
        for _ in range(_TRIES):
            end = data.rfind(b"},", place, end)
            if end < 0:
                break
            run = data[place : end + 1]
            try:
                count = len(_DECODER.decode(b"[" + run + b"]"))
            except (msgspec.ValidationError, RecursionError):
                return None
            except msgspec.DecodeError as error:
                stopped = _BYTE.search(str(error))
                if stopped and int(stopped[1]) < len(run):
                    self.until = window.start + place + int(stopped[1])
                    return None
                continue
            self.until = window.start + end + 1
            return (run, count) if self._is_sound(run, count) else None
        return None

    def _is_sound(self, run: bytes, count: int) -> bool:
        """Whether nothing is in it that the decoder lets pass, nor a whole document taken for an event."""
        if b'"traceEvents"' in run or may_hide_something(run):
            return False
        patterns = self._patterns.new(run, count)
        if patterns is not None and not patterns:
            return True
        try:
            _STRICT.decode("[" + run.decode() + "]")
        except (ValueError, RecursionError):
            return False
        self._patterns.learn(patterns or set())
        return True


def sound(text: str, place: int, *, whole: bool) -> tuple[dict[str, Any], int] | None:
    """The object at ``place`` and where it ends, when nothing is wrong with it.

    Raises:
        NeedsMore: it goes on beyond ``text``.
    """
    try:
        value, end = _STRICT.raw_decode(text, place)
    except json.JSONDecodeError as error:
        unfinished = error.pos >= len(text) - _NEAR_THE_END or error.msg.startswith("Unterminated string")
        if unfinished and not whole:
            raise NeedsMore(intact=True) from None
        return None
    except (ValueError, RecursionError):
        return None
    piece = text[place:end].encode("latin-1")
    if not may_hide_something(piece):
        with contextlib.suppress(ValueError):
            # The text is latin-1 here: a key that is escaped once and once is not would be taken for two.
            if piece.isascii() or b"\\u" not in piece or _STRICT.decode(piece.decode()):
                return value, end
    return None
