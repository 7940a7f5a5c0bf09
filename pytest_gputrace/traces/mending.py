"""Decodes events that a parser refuses though their grammar holds, as far as they can be.

Numbers that no double holds become none; bytes and escapes that are no text become U+FFFD, or the character after the
backslash; what is nested too deep is left out. The strict reader has said what is wrong, and where.
"""

from __future__ import annotations

import contextlib
import json
import re
import sys
from typing import Any

from pytest_gputrace.traces.skim import item_ends

__all__ = ["DECODER", "items", "lenient"]

_TOKEN = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"|[-+]?(?:nan|inf|infinity)(?![\w])', re.DOTALL | re.IGNORECASE)
_ESCAPE = re.compile(
    r"(?P<good>\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|u(?![dD][89a-fA-F])[0-9a-fA-F]{4}|[\"\\/bfnrt]))"
    r"|\\u[dD][89a-fA-F][0-9a-fA-F]{2}|\\(?P<bad>.)",
    re.DOTALL,
)
_BRACKET = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"|[\[{]|[\]}]', re.DOTALL)
_DEEPEST = 8
# Every longer one is beyond a double; Python refuses to read those of thousands of digits.
_LONGEST_NUMBER = len("-") + sys.float_info.max_10_exp + 1


def items(text: bytes, until: int | None = None) -> list[Any]:
    """The items of a list whose brackets are left out of ``text``: those that are whole before byte ``until``."""
    part = text if until is None else text[:until]
    if until is None:
        try:
            value: list[Any] = lenient(b"[" + part + b"]")
        except RecursionError:
            pass
        else:
            return value
    ends = item_ends(part)[0]
    starts = [0, *(end + 1 for end in ends)]
    found = [_item(part[start:end]) for start, end in zip(starts, ends, strict=False)]
    last = part[starts[-1] :]
    if until is None:
        return [*found, _item(last)]
    whole = _item(last) if last.lstrip(b" \t\r\n").startswith(b"{") else None
    return found if whole is None else [*found, whole]


def lenient(text: bytes) -> Any:
    """A JSON value, mended.

    Raises:
        ValueError: the grammar is broken.
        RecursionError: it is nested too deep.
    """
    return DECODER.decode(_TOKEN.sub(_mended, text.decode("utf-8", "replace").removeprefix("\ufeff")))


def _item(text: bytes) -> Any:
    with contextlib.suppress(ValueError, RecursionError):
        try:
            return lenient(text)
        except RecursionError:
            return lenient(_shallow(text))
    return None


def _shallow(text: bytes) -> bytes:
    """``text`` with null in place of what is nested too deep."""
    shown = text.decode("utf-8", "replace")
    parts: list[str] = []
    depth = taken = 0
    for token in _BRACKET.finditer(shown):
        if token[0] in "[{":
            depth += 1
            if depth == _DEEPEST:
                parts.append(shown[taken : token.start()] + "null")
        elif token[0] in "]}":
            if depth == _DEEPEST:
                taken = token.end()
            depth -= 1
    return "".join([*parts, shown[taken:]]).encode("utf-8", "replace")


def _mended(token: re.Match[str]) -> str:
    if not token[0].startswith('"'):
        return "null"
    return _ESCAPE.sub(_escape, token[0]) if "\\" in token[0] else token[0]


def _escape(match: re.Match[str]) -> str:
    if match["good"]:
        return match["good"]
    return "\ufffd" if match["bad"] is None else match["bad"]


def _float(digits: str) -> float | None:
    value = float(digits)
    return value if abs(value) != float("inf") else None


def _int(digits: str) -> int | None:
    value = int(digits) if len(digits) <= _LONGEST_NUMBER else None
    return value if value is not None and abs(value) <= sys.float_info.max else None


DECODER = json.JSONDecoder(strict=False, parse_float=_float, parse_int=_int, parse_constant=lambda _: None)
