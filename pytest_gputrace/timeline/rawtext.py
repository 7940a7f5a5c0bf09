r"""Spells text in JSON as every viewer reads it: characters themselves, not ``\uXXXX``.

Perfetto 52 shows the six letters of such an escape, or fails on the whole file where it stands for half a character.
"""

from __future__ import annotations

import json
import re
from functools import lru_cache

__all__ = ["raw_text"]

# Both halves of a character, one unit, or any other escape: that of a backslash too, which no "u" behind it belongs to.
_ESCAPE = re.compile(rb"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|[^u])", re.DOTALL)


def raw_text(text: bytes) -> bytes:
    """JSON text in which no escape stands for a printable character, or a whole one."""
    if b"\\u" not in text:
        return text
    return _ESCAPE.sub(lambda match: _raw(match[0]), text)


@lru_cache(maxsize=1 << 12)
def _raw(escape: bytes) -> bytes:
    if escape[1:2] != b"u":
        return escape
    character: str = json.loads(b'"%b"' % escape)
    if "\ud800" <= character <= "\udfff":
        return escape  # half of one, which UTF-8 cannot spell
    return json.dumps(character, ensure_ascii=False)[1:-1].encode()
