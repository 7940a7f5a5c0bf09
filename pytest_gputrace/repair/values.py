"""One JSON value that may be damaged -> the same as strict JSON, with a note for every change.

Where a quote inside a text is not escaped, several ends of the text are possible. One attempt takes one of them for each
text; `pytest_gputrace.repair.attempts` goes through them.
"""

from __future__ import annotations

import json
import math
import re
from typing import TYPE_CHECKING, NoReturn

from pytest_gputrace.repair.search import KEY, WS
from pytest_gputrace.repair.strings import Note, mended

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_gputrace.repair.search import Landmarks

__all__ = ["Broken", "NeedsMore", "TooShort", "Values", "led"]

_SEPARATORS = re.compile(r"[ \t\r\n,]*")
_SPACE = re.compile(WS)
_TO_QUOTE = re.compile(r'[^"\\]*(?:\\.[^"\\]*)*"', re.DOTALL)
# What must follow the quote that ends a text.
_AFTER = {
    "key": re.compile(rf"{WS}:"),
    "{": re.compile(rf"{WS}(?:[}}\]]|,{WS}(?:{KEY}|[}}{{,]))"),
    "[": re.compile(rf'{WS}(?:[}}\]]|,{WS}["0-9\-\[{{tfnNIT\]}},])'),
}
# What is held ends before that can be told.
_OPEN_END = re.compile(rf'{WS}(?:,{WS}(?:"(?:[^"\\]|\\.)*\\?(?:"{WS})?)?)?\Z')
_OPEN_KEY = re.compile(rf"{WS}\Z")
_KEY = re.compile(KEY)
_SCALAR = re.compile(r'[^ \t\r\n,:\]}\[{"]+')
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_NOT_FINITE = re.compile(r"[-+]?(?:nan|inf|infinity)", re.IGNORECASE)
_LITERALS = ("true", "false", "null")
_WORDS = {
    "None": "null", "N/A": "null", "n/a": "null", "NA": "null", "undefined": "null", "True": "true", "False": "false"
}  # fmt: skip
# Bytes that never reached the disk read as NUL.
_HOLE = "\0" * 16
# How far a text goes on behind a quote that is not escaped.
_LONGEST = 1 << 14
_DEEPEST = 100


class Broken(Exception):  # noqa: N818  # a signal: another way to read the text, or none
    """What stands at ``place`` cannot be read."""

    def __init__(self, place: int) -> None:
        super().__init__(f"at {place}")
        self.place = place


class NeedsMore(Exception):  # noqa: N818  # a signal: read on, and try again
    """The value goes on beyond the text that is held; ``intact`` says that nothing is wrong with it so far."""

    def __init__(self, *, intact: bool) -> None:
        super().__init__("the text that is held ends here")
        self.intact = intact


class TooShort(Broken):
    """The whole text ends before the value does; ``intact`` says that nothing else is wrong with it."""

    def __init__(self, place: int, *, intact: bool) -> None:
        super().__init__(place)
        self.intact = intact


class Values:
    """One attempt to read ``text``; ``skips`` says of each text inside how many possible ends to pass over.

    ``literal`` takes every quote that is not escaped for the end of a text.
    """

    def __init__(self, text: str, *, whole: bool, skips: list[int], landmarks: Landmarks, in_list: bool) -> None:
        self.text, self.whole, self.landmarks, self.in_list = text, whole, landmarks, in_list
        self.notes: list[Note] = []
        self.literal = False
        self.steps = 0
        self.chosen: list[int] = []
        self._skips = skips
        self._open: list[str] = []

    def value(self, place: int, key: str | None = None) -> tuple[str, int]:
        """The value at ``place`` as strict JSON, and where it ends."""
        self.steps += 1
        if place == len(self.text):
            self.short()
        char = self.text[place]
        if char == "{":
            members, end = self.members(place)
            return members, end
        if char == "[":
            return self._items(place)
        if char == '"':
            return self._string(place, "[" if key is None else "{")
        return self._scalar(place)

    def members(self, place: int, known: Callable[[str, str, int], None] | None = None) -> tuple[str, int]:
        """The object at ``place``; ``known`` is told each key, the value written, and where the key stands."""
        self._enter("{", place)
        found: dict[str, tuple[str, str]] = {}
        at = place + 1
        while True:
            gap, after, char = self.gap(at)
            if char == "}":
                self.commas(gap, at, 0)
                close, at = led(gap, 0) + "}", after + 1
                break
            if char == '"' and ("," in gap or not found):
                self.commas(gap, at, 1 if found else 0)
                key, written, value, at = self.member(after)
                if known:
                    known(key, value, after)
                lead = led(gap, 1 if found else 0)
                if key in found:
                    self.repeated(after)
                    lead = found[key][0]
                found[key] = lead, written
            elif self._is_outside(char, after, gap):
                self.notes.append(Note("bracket", at, 'no "}" at the end of an object', '"}"'))
                close = "}"
                break
            else:
                raise Broken(after)
        self._open.pop()
        return "".join(["{", *(lead + written for lead, written in found.values()), close]), at

    def member(self, place: int) -> tuple[str, str, str, int]:
        """The key at ``place``, the member and its value as they are written, and where it ends."""
        written, end = self._string(place, "key")
        plain = written.isascii() and "\\" not in written
        key = written[1:-1] if plain else json.loads(written.encode("latin-1"))
        space = self._space(end)
        start = self._space(space + 1)
        value, after = self.value(start, key)
        return key, written + self.text[end:start] + value, value, after

    def repeated(self, place: int, wrote: str = "the last of its values") -> None:
        """Note a key that stands twice in one object."""
        self.notes.append(Note("duplicate", place, "a key that stood there before", wrote))

    def gap(self, place: int) -> tuple[str, int, str]:
        """Space and commas from ``place`` on, where they end, and the character there."""
        match = _SEPARATORS.match(self.text, place)
        assert match is not None  # it may be empty
        if match.end() == len(self.text):
            self.short()
        return match[0], match.end(), self.text[match.end()]

    def commas(self, gap: str, place: int, wanted: int) -> None:
        """Note the commas in ``gap`` that are too many; one too few is no gap between two values."""
        count = gap.count(",")
        if count < wanted:
            raise Broken(place)
        if count > wanted:
            self.notes.append(Note("comma", place + gap.rindex(","), "a comma too many", "nothing"))

    def short(self, *, intact: bool = True) -> NoReturn:
        """The text that is held ends here."""
        intact = intact and not self.notes and not any(self._skips)
        if not self.whole:
            raise NeedsMore(intact=intact)
        raise TooShort(len(self.text), intact=intact)

    def _enter(self, bracket: str, place: int) -> None:
        if len(self._open) == _DEEPEST:
            raise Broken(place)
        self._open.append(bracket)

    def _items(self, place: int) -> tuple[str, int]:
        self._enter("[", place)
        parts = ["["]
        at = place + 1
        while True:
            gap, after, char = self.gap(at)
            wanted = 1 if len(parts) > 1 else 0
            if char == "]":
                self.commas(gap, at, 0)
                parts.append(led(gap, 0) + "]")
                at = after + 1
                break
            if "{" in self._open and (char == "}" or (wanted and self._is_key(after))):
                self.notes.append(Note("bracket", at, 'no "]" at the end of a list', '"]"'))
                parts.append("]")
                break
            self.commas(gap, at, wanted)
            value, at = self.value(after)
            parts.append(led(gap, wanted) + value)
        self._open.pop()
        return "".join(parts), at

    def _is_key(self, place: int) -> bool:
        return _KEY.match(self.text, place) is not None

    def _is_outside(self, char: str, place: int, gap: str) -> bool:
        """Whether what comes cannot belong to the object that is open, but to what is around it."""
        if char == "]":
            return "[" in self._open or self.in_list
        return char == "{" and self.in_list and "," in gap and self.landmarks.is_event(self.text, place)

    def _string(self, place: int, context: str) -> tuple[str, int]:
        """The text at ``place``: its first end that makes sense, but for those that are to be passed over."""
        skip = self._skips[len(self.chosen)] if context != "key" and len(self.chosen) < len(self._skips) else 0
        wanted, at, border = skip, place + 1, 0
        while True:
            match = _TO_QUOTE.match(self.text, at)
            if match is None:
                self.short(intact=at == place + 1)
            at = match.end()
            if self._ends(at, context):
                if not wanted:
                    break
                wanted -= 1
            if context == "key" or self.literal:
                raise Broken(at)
            border = border or self.landmarks.border(self.text, place, place + _LONGEST)
            if at > border:
                raise Broken(at)
            self.steps += 1
        if context != "key":
            self.chosen.append(skip)
        body = self.text[place + 1 : at - 1]
        if _HOLE in body:  # what stands before it and behind it are not one text
            raise Broken(place)
        return f'"{mended(body, place + 1, self.notes)}"', at

    def _ends(self, place: int, context: str) -> bool:
        if _AFTER[context].match(self.text, place):
            return True
        if not (_OPEN_KEY if context == "key" else _OPEN_END).match(self.text, place):
            return False
        if not self.whole:
            self.short(intact=not any(self._skips))
        return True

    def _scalar(self, place: int) -> tuple[str, int]:
        match = _SCALAR.match(self.text, place)
        if match is None:
            raise Broken(place)
        token = match[0]
        if match.end() == len(self.text):
            self.short()
        if token in _LITERALS:
            return token, match.end()
        if _NUMBER.fullmatch(token):
            if math.isfinite(float(token)):
                return token, match.end()
            self.notes.append(Note("number", place, "a number that no double holds", "null"))
        elif token[0] == "+" and _NUMBER.fullmatch(token, 1) and math.isfinite(float(token)):
            self.notes.append(Note("plus", place, "a plus sign before a number", "the number"))
            return token[1:], match.end()
        elif _NOT_FINITE.fullmatch(token):
            self.notes.append(Note("number", place, token, "null"))
        elif token in _WORDS:
            self.notes.append(Note("word", place, token, _WORDS[token]))
        else:
            raise Broken(place)
        return _WORDS.get(token, "null"), match.end()

    def _space(self, place: int) -> int:
        match = _SPACE.match(self.text, place)
        assert match is not None  # it may be empty
        if match.end() == len(self.text):
            self.short()
        return match.end()


def led(gap: str, wanted: int) -> str:
    """What stands between two values, with the commas that are wanted there."""
    return gap if gap.count(",") == wanted else "," * wanted + gap.replace(",", "")
