"""Records -> bytes, once, for both files.

The bytes are those of ``json.dump(records, file, sort_keys=True)`` with the standard library, so that the legacy
file does not change by a byte. A chunk of finite, encodable records is encoded once and the same bytes go to both
files. Only a chunk with a value that strict JSON cannot hold is encoded a second time for the qualified file, with
``null`` in place of each non-finite number; the legacy file keeps its old ``NaN`` and ``Infinity`` tokens there.

Speed comes from doing per distinct value what ``json`` does per event: names, shapes and argument values repeat
thousands of times in a profile, so their text is looked up; the numbers of a chunk are written by orjson in one call
(both write the shortest text that reads back equal) except where the two spell a number differently.
"""

from __future__ import annotations

import itertools
import json
import marshal
import re
from json.encoder import encode_basestring_ascii
from typing import TYPE_CHECKING, Any, NamedTuple

import orjson

from pytest_gputrace.export.plain import LONE_SURROGATE, finite, plain
from pytest_gputrace.export.records import KEYS, Record

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

__all__ = ["CHUNK_RECORDS", "Chunk", "encode"]

CHUNK_RECORDS = 1024
"""Records encoded at a time: what bounds the memory above the event list."""

# A cache is emptied when it holds this many texts; a longer text than this is not kept. With their keys and the chunk
# under way that is some 11 MB where no two values of a profile are equal.
_CACHE_ENTRIES = 2048
_CACHE_TEXT = 512

_STRICT = json.JSONEncoder(sort_keys=True, allow_nan=False)
_LEGACY = json.JSONEncoder(sort_keys=True)
_BEYOND_A_DOUBLE = re.compile(r"\d{309}")
# Spelled differently by orjson and by repr(): below 1e-4 and from 1e16 on (here with room to spare).
_SMALL = (b"0.000", b"e", b"E")
_LARGE = 1e15


class Chunk(NamedTuple):
    """A piece of both files; ``legacy is qualified`` where one text serves both."""

    legacy: bytes
    qualified: bytes
    records: int
    non_finite: int


class _NotStrict(Exception):  # noqa: N818  # a signal within this module, not an error
    """This chunk holds something that strict JSON does not, or that needs a closer look."""


def encode(records: Iterable[Record]) -> Iterator[Chunk]:
    """Encode ``records`` into the pieces of one JSON list, in order, ``CHUNK_RECORDS`` at a time.

    Never raises for the content of a record: a value JSON has no form for becomes its text, the same in both files.
    """
    texts = _Texts()
    records = iter(records)
    lead = "["
    while batch := list(itertools.islice(records, CHUNK_RECORDS)):
        try:
            body = (lead + texts.of(batch)).encode("ascii")
            yield Chunk(body, body, len(batch), 0)
        except _NotStrict:
            yield _encode_closely(batch, lead)
        lead = ", "
    # An empty list has no first chunk to open it.
    end = b"[]" if lead == "[" else b"]"
    yield Chunk(end, end, 0, 0)


def _encode_closely(batch: Sequence[Record], lead: str) -> Chunk:
    """One value at a time, for both files apart."""
    legacy, qualified = [], []
    non_finite = 0
    for values in batch:
        record = dict(zip(KEYS, values, strict=True))
        simple = plain(record)
        strict, lost = finite(simple)
        non_finite += lost
        qualified.append(_STRICT.encode(strict))
        try:
            legacy.append(_LEGACY.encode(record))
        except (TypeError, ValueError, RecursionError):  # what json.dump would have died of
            legacy.append(_LEGACY.encode(simple))
    old, new = ((lead + ", ".join(records)).encode("ascii") for records in (legacy, qualified))
    return Chunk(old, new, len(batch), non_finite)


class _Texts:
    """The JSON text of what repeats, by value."""

    def __init__(self) -> None:
        self._names: dict[str, str] = {}
        self._values: dict[bytes, str] = {}

    def of(self, batch: Sequence[Record]) -> str:
        """The text of ``batch`` without the list's brackets; `_NotStrict` where one text cannot serve both files."""
        cpu, gpu, shapes, values, names, starts = zip(*batch, strict=True)
        columns = zip(
            _numbers(cpu),
            _numbers(gpu),
            self._value_texts(shapes),
            self._value_texts(values),
            self._name_texts(names),
            _numbers(starts),
            strict=True,
        )
        return ", ".join(
            [
                f'{{"cpu_time": {c}, "gpu_time": {g}, "input_shapes": {s}, "input_values": {v}, "name": {n}, '
                f'"start_time": {t}}}'
                for c, g, s, v, n, t in columns
            ]
        )

    def _name_texts(self, names: Sequence[Any]) -> list[str]:
        known, new = self._names.get, self._new_name
        try:
            return [known(name) or new(name) for name in names]
        except TypeError:  # not even hashable
            raise _NotStrict from None

    def _value_texts(self, values: Sequence[Any]) -> list[str]:
        known, new, key = self._values.get, self._new_value, marshal.dumps
        try:
            # Version 2 of marshal: equal values give equal bytes (later versions look at reference counts), and
            # 1, 1.0 and True give different ones.
            return [known(key(value, 2)) or new(value) for value in values]
        except ValueError:  # a type that marshal does not know
            raise _NotStrict from None

    def _new_name(self, name: Any) -> str:
        if type(name) is not str or LONE_SURROGATE.search(name):
            raise _NotStrict
        return _kept(self._names, name, encode_basestring_ascii(name))

    def _new_value(self, value: Any) -> str:
        try:
            text = _STRICT.encode(value)
        except (TypeError, ValueError, RecursionError):  # complex, bytes, ...; NaN, inf; nested too deep
            raise _NotStrict from None
        # marshal takes any buffer (a numpy scalar) for its bytes alone, so nothing but builtins may be remembered.
        if "\\ud" in text or _BEYOND_A_DOUBLE.search(text) or not _is_builtin(value):
            raise _NotStrict
        return _kept(self._values, marshal.dumps(value, 2), text)


_BUILTINS = frozenset({type(None), bool, int, float, str})


def _is_builtin(value: Any) -> bool:
    """Whether ``value`` is made of exactly the types that marshal and json agree on; it is not nested deep."""
    if type(value) in (list, tuple):
        return all(_is_builtin(item) for item in value)
    return type(value) in _BUILTINS


def _kept(cache: dict[Any, str], key: Any, text: str) -> str:
    if len(text) <= _CACHE_TEXT:
        if len(cache) >= _CACHE_ENTRIES:
            cache.clear()
        cache[key] = text
    return text


def _numbers(column: Sequence[Any]) -> Sequence[str]:
    """The text that ``json`` gives each number of a column."""
    if not {type(number) for number in column} <= {float, int}:  # a bool, a numpy scalar, None, a mock
        raise _NotStrict
    try:
        data = orjson.dumps(column)
    except TypeError:  # an int beyond 64 bits
        raise _NotStrict from None
    if b"null" in data:  # orjson's word for NaN and the infinities
        raise _NotStrict
    if any(part in data for part in _SMALL) or max(column) >= _LARGE or min(column) <= -_LARGE:
        return [repr(number) for number in column]
    return data[1:-1].decode("ascii").split(",")
