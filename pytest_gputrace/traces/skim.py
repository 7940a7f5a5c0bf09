"""Skims JSON text for its brackets and keys, without decoding a value: where the list of events begins, where each ends.

Goes on over numbers and escapes that a parser stops at. Broken grammar may lead it astray: who uses what it finds must
judge the text up to there.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["first_keys", "item_ends", "list_of_events"]

# A text that does not end is a quote alone, the last token there is.
_TOKEN = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"(?P<colon>[ \t\r\n]*:)?|[\[{\]},]|"', re.DOTALL)
_EVENTS = b'"traceEvents"'


def list_of_events(text: bytes) -> int | None:
    """Where the list of events opens in the text of an object; None where it has not come yet."""
    depth, ready = 0, -1
    for token, first in _tokens(text):
        if first == b"[" and depth == 1 and ready >= 0 and not text[ready : token.start()].strip():
            return token.start()
        if first in b"[{":
            depth += 1
        elif first in b"]}":
            depth -= 1
        elif first == b'"' and depth == 1:
            ready = token.end() if token["colon"] is not None and token[0].startswith(_EVENTS) else -1
    return None


def first_keys(text: bytes) -> tuple[set[bytes], bool]:
    """The keys of the object that ``text`` begins with, those of objects inside left out, and whether it ends in here."""
    keys: set[bytes] = set()
    depth = 0
    for token, first in _tokens(text):
        if first in b"[{":
            depth += 1
        elif first in b"]}":
            depth -= 1
        elif first == b'"' and depth == 1 and token["colon"] is not None:
            keys.add(token[0][1 : token[0].rindex(b'"')])
        if depth <= 0:
            return keys, True
    return keys, False


def item_ends(text: bytes) -> tuple[list[int], int | None]:
    """Where each item of a list ends whose opening bracket came before ``text``; and where the list does, if it does.

    The last item is known to end by a comma or by the list's end.
    """
    ends: list[int] = []
    depth = 0
    for token, first in _tokens(text):
        if first in b"[{":
            depth += 1
        elif first in b"]}":
            depth -= 1
            if depth < 0:
                return [*ends, token.start()], token.start()
        elif first == b"," and depth == 0:
            ends.append(token.start())
    return ends, None


def _tokens(text: bytes) -> Iterator[tuple[re.Match[bytes], bytes]]:
    for token in _TOKEN.finditer(text):
        if token[0] == b'"':
            return
        yield token, token[0][:1]
