"""JSON text, read as strictly as its standard is written.

A clean text costs one call of the standard library; any suspicion leads to the scanner, which decides. Knows of text
only: no files, no captures.
"""

from __future__ import annotations

import json
import re
from typing import Any

from pytest_gputrace.traces.scanner import ESCAPE, PATH, UNDECODABLE, Document, EventName, Problem, Scanner

__all__ = ["Document", "EventName", "Problem", "parse"]

# Digits or an exponent that could go beyond a double (1.8e308), undecodable bytes, a path: each is looked at closely.
# Hexadecimal text has digits and an "e" too, but no number begins behind a letter or a quote.
_SUSPECT = re.compile(rf"[0-9]{{200}}|(?<![\w.\"])[0-9][0-9.]*[eE]\+?[0-9]{{3}}|{UNDECODABLE.pattern}|{PATH.pattern}")


def parse(text: str) -> Document:
    """Read ``text``, decoded from UTF-8 with ``surrogateescape``: a SuperBench event list or a Chrome trace."""
    document = _quickly(text)
    return Scanner(text).scan() if document is None else document


def _refuse(token: str) -> Any:
    raise ValueError(token)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        raise ValueError("duplicate key")
    return value


_DECODER = json.JSONDecoder(parse_constant=_refuse, object_pairs_hook=_unique)


def _quickly(text: str) -> Document | None:
    """The document, or ``None`` where anything asks for a closer look."""
    if _SUSPECT.search(text) or ("\\ud" in text.lower() and any(m["lone"] for m in ESCAPE.finditer(text))):
        return None
    try:
        value = _DECODER.decode(text)
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
