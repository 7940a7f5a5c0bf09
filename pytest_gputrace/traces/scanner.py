"""Goes through JSON text token by token: slowly, but on where it can, and with the place of everything that is wrong.

Knows byte, event and name. Of text only: no files, no captures. A message quotes what stands in the list of events; what
stands around it may be an environment, with its secrets, and is never shown.
"""

from __future__ import annotations

import contextlib
import json
import math
import re
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, NoReturn

__all__ = ["ESCAPE", "PATH", "UNDECODABLE", "Document", "EventName", "Kind", "Problem", "Scanner"]

# What is left of a number or a word when the text ends in the middle of it.
_CUT_TOKEN = re.compile(r"[-+.eE]|t|tr|tru|f|fa|fal|fals|n|nu|nul")
Kind = Literal[
    "empty", "cut", "grammar", "second", "trailing", "bom", "control", "utf-8", "surrogate", "escape", "duplicate", "number",
    "root", "event", "type", "deep", "path", "gzip", "wrapping", "large",
]  # fmt: skip


class EventName(NamedTuple):
    """What tells an event: its name, category and phase, where it has them as texts."""

    name: str | None
    cat: str | None = None
    ph: str | None = None


@dataclass(frozen=True)
class Problem:
    """One thing that is wrong with a text.

    ``kind`` is what it is about: nothing there (``empty``), a text that ends too early (``cut``) or goes on too long
    (a ``second`` document, other ``trailing`` bytes), the ``grammar`` otherwise, bytes and escapes inside texts, a key
    twice, a ``number`` that no double holds, what a trace must be made of (``root``, ``event``, ``type`` of a value,
    ``deep`` nesting), a ``path`` that only looks wrong, what is around the text (``gzip``, the ``wrapping``), or a text
    ``large`` beyond a limit. ``byte`` is an offset into the text as UTF-8; ``where`` is the event in words; ``more``
    counts further problems of the same kind.
    """

    kind: Kind
    message: str
    byte: int
    event: int | None = None
    where: str = ""
    more: int = 0


@dataclass
class Document:
    """What could be read: the problems, how many events were begun, and their names in order."""

    problems: list[Problem] = field(default_factory=list)
    events: int = 0
    names: list[EventName] = field(default_factory=list)


UNDECODABLE = re.compile("[\udc80-\udcff]")
# A drive, a backslash that is an escape, a word: "C:\temp" reads as a tab and "emp". "Note:\n" has letters before.
PATH = re.compile(r"(?<![A-Za-z0-9])[A-Za-z]:(?:\\[bfnrt][\w-]+)+(?:\\|\.\w|(?=\"))")
ESCAPE = re.compile(
    r"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"
    r"|(?P<lone>u[dD][89a-fA-F][0-9a-fA-F]{2})"
    r"|u[0-9a-fA-F]{4}|[\"\\/bfnrt]|(?P<bad>.))",
    re.DOTALL,
)


_SPACE = re.compile(r"[ \t\n\r]*")
_STRING = re.compile(r'"([^"\\]*(?:\\.[^"\\]*)*)"', re.DOTALL)
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_LITERAL = re.compile(r"(?:true|false|null)(?![\w])")
_NON_FINITE = re.compile(r"[-+]?(?:nan|inf|infinity)(?![\w])", re.IGNORECASE)
_CONTROL = re.compile(r"[\x00-\x1f]")
_BOM = "\ufeff"
_NAMES = {"{": "an object", "[": "a list", '"': "a text", "t": "true", "f": "false", "n": "null"}
_DIGITS = "-0123456789"
_SHOWN = 80
# What Python's own parser and orjson follow, about.
_DEEPEST = 1000


class _Stop(Exception):  # noqa: N818  # a signal within this module: nothing after this place can be read
    pass


@dataclass
class _Frame:
    """An object or a list that is open; ``is_events`` marks the list of events, no ``keys`` one that is too deep for them."""

    bracket: str
    is_events: bool = False
    key: str | None = None
    keys: set[str] | None = field(default_factory=set)


# One for all that is too deep to be read: text may open as many as it has bytes.
_TOO_DEEP = {bracket: _Frame(bracket, keys=None) for bracket in "[{"}


@dataclass
class _Note:
    """The first problem of one kind: what, where, in which event, after how many; and how many there are."""

    message: str
    position: int
    event: int | None
    begun: int
    count: int = 0


class Scanner:
    """Goes through a text once, token by token, and notes what is wrong."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.document = Document()
        self.stack: list[_Frame] = []
        self.fields: dict[str, str] = {}
        self.event: int | None = None
        self.has_events = False
        self.deepest, self.deepest_at = 0, 0
        self.position, self.expect = 0, "value"
        self.root = ""
        self.after_text = False
        self.notes: dict[Kind, _Note] = {}

    def scan(self) -> Document:
        """Read to the end, or as far as can be read."""
        with contextlib.suppress(_Stop):
            self._document()
        if self.event is not None:
            self._end_event()
        if self.deepest > _DEEPEST and not self.notes:
            advice = "readers give up there; was a value written into itself?"
            self._note("deep", self.deepest_at, f"values nested {self.deepest} deep; {advice}")
        self.document.problems = [self._problem(kind, note) for kind, note in self.notes.items()]
        return self.document

    def _document(self) -> None:
        position = self._start()
        self._value(position)
        position, expect = self.position, self.expect
        while expect != "end":
            position = self._space(position)
            if position == len(self.text):
                self._cut()
            _STEPS[expect](self, position)
            position, expect = self.position, self.expect
        if not self.has_events:
            self._note("root", 0, f"{self.root} with no list of events; {_EXPECTED}")
        position = self._space(position)
        if position < len(self.text):
            self._trailing(position)

    def _start(self) -> int:
        start = len(_BOM) if self.text.startswith(_BOM) else 0
        if start:
            self._note("bom", 0, "a byte order mark; JSON has none, write the file as plain UTF-8")
        position = self._space(start)
        if position == len(self.text):
            self._stop(
                "empty", position, "nothing: the file holds no JSON value; was its writer killed, the disk full?"
            )
        char = self.text[position]
        self.root = _NAMES.get(char, "a number" if char in _DIGITS else "no JSON value")
        return position

    # Each step reads what must come at ``position`` and leaves the next position and what is expected there.

    def _value(self, position: int) -> None:
        self._begin_value(position)
        char = self.text[position]
        if char in "[{":
            self._open(char, position)
        elif char == '"':
            text, end = self._string(position)
            self._end_value(end, text)
        elif match := _LITERAL.match(self.text, position):
            self._end_value(match.end())
        elif match := _NON_FINITE.match(self.text, position):
            self._note("number", position, f"{match[0]}: JSON has no such number; write null")
            self._end_value(match.end())
        elif match := _NUMBER.match(self.text, position):
            if math.isinf(float(match[0])):
                number = match[0] if len(match[0]) <= 24 else f"a number of {len(match[0])} characters"
                number = self._quoted(number, "a number")
                self._note("number", position, f"{number}: no double holds it, readers get Infinity")
            self._end_value(match.end())
        else:
            self._unexpected(position, "a value")

    def _item(self, position: int) -> None:
        if self.text[position] == "]":
            self._close(position)
        else:
            self._value(position)

    def _first_key(self, position: int) -> None:
        if self.text[position] == "}":
            self._close(position)
        else:
            self._key(position)

    def _key(self, position: int) -> None:
        if self.text[position] != '"':
            self._unexpected(position, "a key in quotes")
        key, self.position = self._string(position)
        self.after_text = True
        frame = self.stack[-1]
        if frame.keys is not None:
            if key in frame.keys:
                what = self._quoted(f"key {_shown(key)}", "a key")
                advice = "readers keep one of the values; write each key once"
                self._note("duplicate", position, f"{what} twice in one object; {advice}")
            frame.keys.add(key)
        frame.key = key
        self.expect = "colon"

    def _colon(self, position: int) -> None:
        if self.text[position] != ":":
            self._unexpected(position, '":"')
        self.position, self.expect = position + 1, "value"

    def _comma(self, position: int) -> None:
        frame, char = self.stack[-1], self.text[position]
        close = "]" if frame.bracket == "[" else "}"
        if char == close:
            self._close(position)
        elif char == ",":
            self.position, self.expect = position + 1, "value" if close == "]" else "key"
        else:
            self._unexpected(position, f'"," or "{close}"')

    def _open(self, bracket: str, position: int) -> None:
        depth = len(self.stack)
        events = bracket == "[" and (depth == 0 or (depth == 1 and self.stack[0].key == "traceEvents"))
        self.has_events |= events
        self.stack.append(_Frame(bracket, events) if depth <= _DEEPEST else _TOO_DEEP[bracket])
        if depth >= self.deepest:
            self.deepest, self.deepest_at = depth + 1, position
        self.position, self.expect = position + 1, "item" if bracket == "[" else "first key"

    def _close(self, position: int) -> None:
        frame = self.stack.pop()
        in_list = len(self.stack) == 1 and self.stack[0].is_events
        if in_list and frame.bracket == "{" and not self.fields.keys() & {"name", "ph"}:
            self._note("event", position, f"an event without a name; {_EXPECTED}")
        self._end_value(position + 1)

    def _begin_value(self, position: int) -> None:
        self.after_text = False
        char = self.text[position]
        if self.stack and self.stack[-1].is_events and char not in ",:]}":
            self.event = self.document.events
            self.document.events += 1
            self.fields = {}
            what = _NAMES.get(char, "a number" if char in _DIGITS else "")
            if char != "{" and what:
                self._note("event", position, f"{what} in the list of events; {_EXPECTED}")

    def _end_value(self, end: int, text: str | None = None) -> None:
        self.position, self.expect = end, "comma" if self.stack else "end"
        self.after_text = text is not None
        if not self.stack:
            return
        if self.stack[-1].is_events:
            self._end_event()
        elif text is not None and self._is_event(len(self.stack) - 1):
            key = self.stack[-1].key
            if key in EventName._fields:
                self.fields[str(key)] = text

    def _is_event(self, depth: int) -> bool:
        return depth > 0 and self.stack[depth - 1].is_events and self.stack[depth].bracket == "{"

    def _end_event(self) -> None:
        self.document.names.append(EventName(*(self.fields.get(key) for key in EventName._fields)))
        self.event, self.fields = None, {}

    def _string(self, position: int) -> tuple[str, int]:
        match = _STRING.match(self.text, position)
        if match is None:
            self._cut()
        body, start = match[1], position + 1
        if control := _CONTROL.search(body):
            what = f"control character 0x{ord(control[0]):02x} as it is; inside a text it must be escaped"
            self._note("control", start + control.start(), what)
        if bad := UNDECODABLE.search(body):
            what = self._quoted(f"byte 0x{ord(bad[0]) - 0xDC00:02x}", "a byte that")
            self._note("utf-8", start + bad.start(), f"{what} is not UTF-8; write the file as UTF-8")
        if "\\" in body:
            self._escapes(body, start)
        if path := PATH.search(body + '"'):
            what = self._quoted(f"{_shown(path[0])}: ", "") + "a Windows path whose backslashes read as escapes?"
            self._note("path", start + path.start(), f"{what} Write each as two")
        try:
            return str(json.loads(match[0], strict=False)), match.end()
        except ValueError:
            return body, match.end()

    def _escapes(self, body: str, start: int) -> None:
        for match in ESCAPE.finditer(body):
            if match["lone"]:
                what = self._quoted(f"\\{match['lone']}", "an escape that")
                advice = "no UTF-8 text can hold it"
                self._note("surrogate", start + match.start(), f"{what} is half a surrogate pair; {advice}")
            elif match["bad"]:
                what = self._quoted(_shown(match[0]), "a backslash with what follows it")
                self._note("escape", start + match.start(), f"{what} is no JSON escape; write a backslash as two")

    # What is wrong, and where.

    def _unexpected(self, position: int, expected: str) -> NoReturn:
        if _CUT_TOKEN.fullmatch(self.text, position):
            self._cut()
        if self.text[position] == "\0":
            count = len(self.text) - position - len(self.text[position:].lstrip("\0"))
            what = f"{count} zero bytes where {expected} must come: a hole that a crash of the node or a copy left"
            self._stop("grammar", position, what)
        # Behind a bracket the list of events may have ended.
        found = self.text[position : position + 20].split("\n", 1)[0].partition("]")
        shown = _shown("".join(found[:2]) or self.text[position])
        message = f"{self._quoted(f'found {shown}', 'something else')} where {expected} must come"
        if self.after_text and self.expect in ("colon", "comma"):
            message += "; is a quote in the text before it not escaped?"
        elif self.text[position] in ",]}" and self.expect in ("value", "item", "key", "first key"):
            message += "; is there a comma too many?"
        self._stop("grammar", position, message)

    def _cut(self) -> NoReturn:
        open_ = "".join(frame.bracket for frame in self.stack[:8])
        what = f"the text ends with {open_} still open; was its writer killed, the disk full?"
        self._stop("cut", len(self.text), what)

    def _trailing(self, position: int) -> NoReturn:
        if self.text[position] in "[{":
            what = "a second JSON document begins; two writers? Each needs a file of its own"
            self._stop("second", position, what)
        what = "zero bytes" if self.text[position] == "\0" else "something"
        advice = "two writers? Each needs a file of its own"
        self._stop("trailing", position, f"{what} after the end of the document; {advice}")

    def _quoted(self, quoted: str, unquoted: str) -> str:
        """What quotes the text within the list of events, and what does not outside of it."""
        return quoted if any(frame.is_events for frame in self.stack[:2]) else unquoted

    def _stop(self, kind: Kind, position: int, message: str) -> NoReturn:
        self._note(kind, position, message)
        raise _Stop

    def _note(self, kind: Kind, position: int, message: str) -> None:
        """Keep the first problem of each kind, and count the others."""
        note = self.notes.setdefault(kind, _Note(message, position, self.event, self.document.events))
        note.count += 1

    def _problem(self, kind: Kind, note: _Note) -> Problem:
        byte = len(self.text[: note.position].encode("utf-8", "surrogateescape"))
        return Problem(kind, note.message, byte, note.event, self._where(note.event, note.begun), note.count - 1)

    def _where(self, event: int | None, begun: int) -> str:
        names = self.document.names
        if event is not None and (name := names[event].name) is not None:
            return f"event {event} ({_shown(name)})"
        for index in range(min(begun, len(names)) - 1, -1, -1):
            if (name := names[index].name) is not None:
                return f"{f'event {event}, ' if event is not None else ''}after event {index} ({_shown(name)})"
        return "" if event is None else f"event {event}"

    def _space(self, position: int) -> int:
        match = _SPACE.match(self.text, position)
        return position if match is None else match.end()


_EXPECTED = 'expected a list of objects with "name", or an object with "traceEvents"'
_STEPS = {
    "value": Scanner._value,
    "item": Scanner._item,
    "first key": Scanner._first_key,
    "key": Scanner._key,
    "colon": Scanner._colon,
    "comma": Scanner._comma,
}


def _shown(text: str) -> str:
    """A piece of text for a message: in quotes, printable, not too long."""
    short = text if len(text) <= _SHOWN else f"{text[: _SHOWN - 3]}..."
    return f'"{"".join(char if char.isprintable() else _spelled(ord(char)) for char in short)}"'


def _spelled(code: int) -> str:
    if 0xDC80 <= code <= 0xDCFF:  # an undecodable byte, as surrogateescape keeps it
        return f"\\x{code - 0xDC00:02x}"
    return f"\\u{code:04x}"
