"""JSON text, read as strictly as its standard is written.

A clean text costs one call of the standard library; any suspicion leads to the scanner, which decides. Knows of text
only: no files, no captures.
"""

from __future__ import annotations

import json
import re
from typing import Any

from pytest_gputrace.traces.scanner import ESCAPE, PATH, UNDECODABLE, Document, EventName, Problem, Scanner

__all__ = ["DECODER", "Document", "EventName", "Problem", "parse"]

_MANY_DIGITS = re.compile(r"[0-9]{200}")
_EXPONENT = re.compile(r"[eE]\+?[0-9]{3}")
# Hexadecimal text has digits and an "e" too, but no number begins behind a letter or a quote.
_NO_BEGIN = re.compile(r"[\w.\"]")
_LONGEST_NUMBER = 200


def parse(text: str) -> Document:
    """Read ``text``, decoded from UTF-8 with ``surrogateescape``: a SuperBench event list or a Chrome trace."""
    document = _quickly(text)
    return Scanner(text).scan() if document is None else document


def _is_suspect(text: str) -> bool:
    """Whether it may hold a number beyond a double (1.8e308), an undecodable byte or a path: each is looked at closely."""
    if ":\\" in text and PATH.search(text):
        return True
    if (not text.isascii() and UNDECODABLE.search(text)) or _MANY_DIGITS.search(text):
        return True
    for exponent in _EXPONENT.finditer(text):
        number = text[max(0, exponent.start() - _LONGEST_NUMBER) : exponent.start()]
        before = number.rstrip("0123456789.")
        if len(before) < len(number) and not _NO_BEGIN.fullmatch(before[-1:]):
            return True
    return False


def _refuse(token: str) -> Any:
    raise ValueError(token)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        raise ValueError("duplicate key")
    return value


DECODER = json.JSONDecoder(parse_constant=_refuse, object_pairs_hook=_unique)
"""Python's own, but that NaN, infinities and a key that comes twice are errors."""


def _quickly(text: str) -> Document | None:
    """The document, or ``None`` where anything asks for a closer look."""
    if _is_suspect(text) or ("\\ud" in text.lower() and any(m["lone"] for m in ESCAPE.finditer(text))):
        return None
    try:
        value = DECODER.decode(text)
    except (ValueError, RecursionError):
        return None
    events = value.get("traceEvents") if isinstance(value, dict) else value
    if not isinstance(events, list) or not all(isinstance(event, dict) for event in events):
        return None
    names = [EventName(*(_text(event.get(key)) for key in EventName._fields)) for event in events]
    if events is value and any(name.name is None and name.ph is None for name in names):
        return None
    return Document(events=len(events), names=names)


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None
