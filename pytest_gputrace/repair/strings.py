"""The inside of a text -> the same as strict JSON. A character stands for each byte, as latin-1 gives them."""

from __future__ import annotations

import re
from typing import NamedTuple

__all__ = ["Note", "mended"]


class Note(NamedTuple):
    """A change at a place of the text that is looked at; ``kind`` groups what is alike."""

    kind: str
    place: int
    found: str
    wrote: str


_HEX = "[0-9a-fA-F]"
# Everything that may have to change, and what must not be mistaken for it: good escapes.
_ODD = re.compile(
    rf"\\u[dD][89abAB]{_HEX}{{2}}\\u[dD][c-fC-F]{_HEX}{{2}}"
    rf"|(?P<surrogate>\\u[dD][89a-fA-F]{_HEX}{{2}})"
    rf"|\\u{_HEX}{{4}}|\\[\"\\/bfnrt]"
    r"|(?P<escape>\\)"
    r'|(?P<quote>")'
    r"|(?P<control>[\x00-\x1f])"
    r"|(?P<bytes>[\x80-\xff]+)"
)
_SUSPECT = re.compile(r'[\x00-\x1f\x80-\xff"\\]')
_CONTROLS = {"\n": "\\n", "\t": "\\t", "\r": "\\r", "\b": "\\b", "\f": "\\f"}


def mended(body: str, place: int, notes: list[Note]) -> str:
    """``body``, which stands at ``place``, with everything escaped or replaced that JSON refuses; each noted."""
    if not _SUSPECT.search(body):
        return body
    parts = []
    done = 0
    for match in _ODD.finditer(body):
        kind, found = match.lastgroup, match[0]
        if kind is None:
            continue
        if kind == "bytes":
            wrote = _mended_bytes(found, place + match.start(), notes)
        else:
            what, wrote, said = _mended(kind, found, body[match.end() :][:1])
            notes.append(Note(kind, place + match.start(), what, said))
        parts += [body[done : match.start()], wrote]
        done = match.end()
    return "".join([*parts, body[done:]])


def _mended(kind: str, found: str, after: str) -> tuple[str, str, str]:
    """What was found, in words; what is written instead, and that in words."""
    if kind == "quote":
        return "a quote that is not escaped", '\\"', '\\"'
    if kind == "control":
        wrote = _CONTROLS.get(found) or f"\\u{ord(found):04x}"
        return f"control character 0x{ord(found):02x} as it is", wrote, wrote
    if kind == "surrogate":
        return f"{found}, half a surrogate pair", "\\ufffd", "U+FFFD"
    # Of what follows a backslash no more than a letter is told: it may be anybody's secret.
    return (
        f"\\{after if after.isascii() and after.isprintable() else ''}, which is no escape",
        "\\\\",
        "the backslash twice",
    )


def _mended_bytes(found: str, place: int, notes: list[Note]) -> str:
    data = found.encode("latin-1")
    try:
        data.decode("utf-8")
    except UnicodeDecodeError as error:
        notes.append(Note("utf-8", place + error.start, f"byte 0x{data[error.start]:02x}, not UTF-8", "U+FFFD"))
    else:
        return found
    text = data.decode("utf-8", "replace")
    return text.encode("utf-8").decode("latin-1")
