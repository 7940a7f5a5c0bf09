"""Finds what needs no repair, at the speed of C: runs of whole events, and single ones."""

from __future__ import annotations

import contextlib
import json
import re
from typing import TYPE_CHECKING, Any

import msgspec

from pytest_gputrace.repair.values import NeedsMore
from pytest_gputrace.traces.judging import judge
from pytest_gputrace.traces.strict import DECODER
from pytest_gputrace.traces.suspicion import Look

if TYPE_CHECKING:
    from pytest_gputrace.repair.window import Window

__all__ = ["RUN_BYTES", "Runs", "sound"]

RUN_BYTES = 1 << 18
"""About how much text of events is looked at at a time."""

_SHORTEST = 1 << 12
_TRIES = 8
# What the strict reader says of text that is valid JSON, which is not touched.
_LEFT = frozenset({"path", "event"})
# Half a surrogate pair, digits or an exponent that could go beyond a double: Python's parser takes them.
_HIDDEN = re.compile(rb"\\u[dD][89a-fA-F]|[0-9]{200}|[0-9.][eE]\+?[0-9]{3}")
_USUAL = 1 << 13
_BYTE = re.compile(r"\(byte (\d+)\)")
# What a parser says of a text that ends too early: it stops at the end, or a few letters before it.
_NEAR_THE_END = 12


class _Event(msgspec.Struct, gc=False):
    """An event of which nothing is wanted but that its grammar holds."""


_DECODER = msgspec.json.Decoder(list[_Event])


class Runs:
    """Finds runs of sound events; ``until`` is the byte before which there can be none."""

    def __init__(self) -> None:
        self._look = Look()
        self._size = RUN_BYTES
        self.until = 0

    def next(self, window: Window, place: int) -> tuple[bytes, int] | None:
        """A run of sound events at ``place`` in the window, and how many they are: long where the text is sound."""
        end = min(place + self._size, len(window.data))
        self.until = window.start + end
        run, count = self._decoded(window, place, end)
        if not count or not self._is_sound(run, count):
            self._size = max(self._size // 4, _SHORTEST)
            return None
        self._size = min(self._size * 2, RUN_BYTES)
        return run, count

    def _decoded(self, window: Window, place: int, end: int) -> tuple[bytes, int]:
        data = window.data
        for _ in range(_TRIES):
            end = data.rfind(b"},", place, end)
            if end < 0:
                break
            run = data[place : end + 1]
            try:
                count = len(_DECODER.decode(b"[" + run + b"]"))
            except (msgspec.ValidationError, RecursionError):
                break
            except msgspec.DecodeError as error:
                stopped = _BYTE.search(str(error))
                if stopped and int(stopped[1]) < len(run):
                    self.until = window.start + place + int(stopped[1])
                    break
            else:
                self.until = window.start + end + 1
                return run, count
        return b"", 0

    def _is_sound(self, run: bytes, count: int) -> bool:
        """Whether nothing is in it that the decoder lets pass, nor a whole document taken for an event."""
        if b'"traceEvents"' in run:
            return False
        for suspect in self._look.suspects(run, count):
            found = judge(b'{"traceEvents": [' + run[suspect.start : suspect.stop] + b"]}")
            if any(problem.kind not in _LEFT for problem in found):
                return False
            if not found:
                self._look.learn(suspect)
        return True


def sound(text: str, place: int, *, whole: bool) -> tuple[dict[str, Any], int] | None:
    """The object at ``place`` and where it ends, when nothing is wrong with it.

    Raises:
        NeedsMore: it goes on beyond ``text``.
    """
    # A part first: what the parser raises counts the lines of all text that it was given.
    for part in (text[place : place + _USUAL], text[place:]):
        try:
            value, end = DECODER.raw_decode(part)
        except json.JSONDecodeError as error:
            if error.pos < len(part) - _NEAR_THE_END and not error.msg.startswith("Unterminated string"):
                return None
        except (ValueError, RecursionError):
            return None
        else:
            return (value, place + end) if _is_sound(part[:end].encode("latin-1")) else None
    if not whole:
        raise NeedsMore(intact=True)
    return None


def _is_sound(piece: bytes) -> bool:
    """Whether nothing is in it that the parser lets pass; a closer look may find that it is, after all."""
    if _HIDDEN.search(piece):
        return False
    if piece.isascii():
        return True
    with contextlib.suppress(ValueError):
        text = piece.decode()
        if "\\u" in text:  # it was read as latin-1: a key that is escaped once and once is not was taken for two
            DECODER.decode(text)
        return True
    return False
