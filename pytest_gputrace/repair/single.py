"""One event of a list: as it is where nothing is wrong with it, else mended."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from pytest_gputrace.repair.attempts import attempts
from pytest_gputrace.repair.runs import sound
from pytest_gputrace.repair.search import KEY, WS, Landmarks
from pytest_gputrace.repair.values import Broken, NeedsMore, TooShort, Values

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pytest_gputrace.repair.strings import Note
    from pytest_gputrace.repair.window import Window

__all__ = ["LARGEST", "Single", "Singles"]

LARGEST = 1 << 26
"""The longest single value that is read: what is longer counts as one that cannot be."""

_LARGEST_DAMAGED = 1 << 20
_MARGIN = 1 << 10
_NEEDED = frozenset({"ph", "pid"})
_SHAPES = 1000
_TIMES = ("ts", "dur")
# What may come after an event.
_FOLLOWS = re.compile(rf'{WS}(?:,[ \t\r\n,]*(?:[\]{{}}]|{KEY}|\Z)|\]{WS}(?:[}}\[{{]|,{WS}["{{]|\Z)|[{{}}]|\Z)')


class Single(NamedTuple):
    """An event as it is to be written; ``timeless`` names a time of it that is not finite."""

    text: str
    end: int
    keys: tuple[str, ...]
    notes: list[Note]
    timeless: str = ""


class Singles:
    """Reads events of one document. What the first sound one has, every other one is expected to have."""

    def __init__(self, window: Window, root: str) -> None:
        self._window, self._root = window, root
        self._usual: frozenset[str] | None = None
        self._shapes: set[tuple[str, ...]] = set()
        self._orders: set[tuple[str, ...]] = set()
        self.landmarks = Landmarks(frozenset(), root)

    def read(self, gap: int) -> Single:
        """The event that begins ``gap`` bytes ahead.

        Raises:
            TooShort: the text ends before it does.
            Broken: it cannot be read.
        """
        window = self._window
        while True:
            place, text = window.at + gap, window.text
            try:
                good = sound(text, place, whole=not window.more)
                if good is None:
                    return self._mended(place)
                return self._judged(Single(text[place : good[1]], good[1], tuple(good[0]), []), place)
            except NeedsMore as more:
                held = len(text) - place
                if held > (LARGEST if more.intact else _LARGEST_DAMAGED):
                    raise Broken(place) from None
                window.fill(gap + 2 * held)

    def learn(self, keys: tuple[str, ...]) -> None:
        """Keep which keys a sound event has, and in which order."""
        if self._usual is None:
            self._usual = (_NEEDED | {"name"}).intersection(keys)
            self.landmarks = Landmarks(frozenset(keys), self._root)
        if len(self._shapes) < _SHAPES and keys not in self._shapes:
            self._shapes.add(keys)
            self._orders.update(keys[:count] for count in range(1, len(keys) + 1))

    def learn_at(self, place: int) -> None:
        """Keep what the sound event at ``place`` has, if none was seen before."""
        if self._usual is None and (good := sound(self._window.text, place, whole=True)):
            self.learn(tuple(good[0]))

    def is_usual(self, keys: Iterable[str]) -> bool:
        """Whether an event with these keys is one, and not a part of something that cannot be read."""
        return (self._usual or frozenset()).issubset(keys)

    def values(self) -> Values:
        """A reader of single values, as the list of events has them."""
        return self._values([])

    def _values(self, skips: list[int]) -> Values:
        window = self._window
        return Values(window.text, whole=not window.more, skips=skips, landmarks=self.landmarks, in_list=True)

    def _judged(self, event: Single, place: int) -> Single:
        """A sound event as it is; but when it lacks what others have, it may be the begin of one with a quote in a text."""
        if self.is_usual(event.keys):
            self.learn(event.keys)
            return event
        try:
            return self._attempt(place, "order")
        except Broken:
            return event

    def _mended(self, place: int) -> Single:
        """First with every quote taken for what it is; then with keys in an order that sound events have, of the Chrome format, any."""
        literal = self._values([])
        literal.literal = True
        try:
            return self._read(literal, place, "usual")
        except Broken as broken:
            if _is_cut(broken):
                raise
        for expected in ("order", "chrome") if self._orders else ("chrome",):
            try:
                return self._attempt(place, expected)
            except Broken as broken:
                if _is_cut(broken):
                    raise
        return self._attempt(place, "usual")

    def _attempt(self, place: int, expected: str) -> Single:
        return attempts(self._values, lambda values: self._read(values, place, expected))

    def _read(self, values: Values, place: int, expected: str) -> Single:
        keys: list[str] = []
        timeless = ""

        def known(key: str, value: str, start: int) -> None:
            nonlocal timeless
            if expected == "chrome" and (key in keys or key not in self.landmarks.keys):
                raise Broken(start)
            keys.append(key)
            if expected == "order" and tuple(keys) not in self._orders:
                raise Broken(start)
            if key in _TIMES:  # the last of its values counts
                not_finite = value == "null" and values.notes and values.notes[-1].place > start
                timeless = key if not_finite else timeless.replace(key, "")

        text, end = values.members(place, known)
        unclosed = any(note.kind == "bracket" for note in values.notes)
        if unclosed and self._shapes and tuple(keys) not in self._shapes:  # it was not only its bracket that is missing
            raise Broken(end)
        if not self.is_usual(keys) or (expected == "chrome" and not _NEEDED.issubset(keys)):
            raise Broken(place)
        if not values.whole and len(values.text) - end < _MARGIN:
            raise NeedsMore(intact=False)
        if not _FOLLOWS.match(values.text, end):
            raise Broken(end)
        return Single(text, end, tuple(keys), values.notes, timeless)


def _is_cut(broken: Broken) -> bool:
    return isinstance(broken, TooShort) and broken.intact
