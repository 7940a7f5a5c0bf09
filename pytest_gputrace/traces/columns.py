"""Decoded events -> numpy columns, run by run."""

from __future__ import annotations

import contextlib
import math
import sys
from array import array
from dataclasses import dataclass
from itertools import chain, compress, repeat
from operator import ne
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from pytest_gputrace.traces.compiled import Scan, Scanned

__all__ = ["NO_ID", "Columns", "Event", "EventBuilder", "called", "from_any"]

NO_ID = -1
"""What stands in a column of ids for an event that has none."""


class Arguments(msgspec.Struct, gc=False, frozen=True):
    """The arguments that place an event: which launch, which device and stream; and how much it moves.

    Of any type: what is neither a whole number nor a text counts as none.
    """

    correlation: Any = NO_ID
    device: Any = NO_ID
    stream: Any = NO_ID
    bytes: Any = NO_ID
    group: Any = msgspec.field(name="Process Group Name", default=NO_ID)


_NO_ARGUMENTS = Arguments()


class Event(msgspec.Struct, gc=False):
    """What is decoded of an event; ``args`` holds no more than `Arguments`."""

    ph: str = ""
    cat: str = ""
    name: str = ""
    pid: int | str = NO_ID
    tid: int | str = NO_ID
    ts: float = math.nan
    dur: float = math.nan
    id: int | str = NO_ID
    args: Arguments | None = _NO_ARGUMENTS


class _Table(dict[Any, int]):
    """Numbers for values, in order of appearance."""

    def __missing__(self, value: Any) -> int:
        number = self[value] = len(self)
        return number

    def numbers(self, values: list[Any]) -> NDArray[np.int32]:
        return np.fromiter(map(self.__getitem__, values), np.int32, len(values))

    def numbers_of_letters(self, values: list[str]) -> NDArray[np.int32]:
        """The same, sooner where all of them are of one letter each, as phases are."""
        letters = "".join(values)
        if len(letters) != len(values) or "" in values or not letters.isascii():
            return self.numbers(values)
        codes = np.frombuffer(letters.encode(), np.uint8)
        table = np.zeros(128, np.int32)
        for code in dict.fromkeys(letters):
            table[ord(code)] = self[code]
        return table[codes]


class _Numbered:
    """The numbers in a table of texts that have codes in a scan, given in order of appearance as the table's own are."""

    def __init__(self, table: _Table) -> None:
        self._table = table
        self._numbers: NDArray[np.int32] = np.empty(0, np.int32)

    def of(self, codes: NDArray[Any], scan: Scan) -> NDArray[np.int32]:
        """The number of each text."""
        if len(self._numbers) < scan.count():
            more = np.full(2 * scan.count() - len(self._numbers), _NOT_NUMBERED, np.int32)
            self._numbers = np.concatenate([self._numbers, more])
        numbers = self._numbers.take(codes)
        new = codes[numbers == _NOT_NUMBERED]
        if not len(new):
            return numbers
        appeared, first = np.unique(new, return_index=True)
        for code in appeared[np.argsort(first)].tolist():
            self._numbers[code] = self._table[scan.text(code)]
        return self._numbers.take(codes)


_NOT_NUMBERED = -1


@dataclass(frozen=True, repr=False)
class Columns:
    """The events of a trace, one array each, in the order of the file.

    ``phase``, ``category`` and ``name`` number the texts in ``phases``, ``categories`` and ``names``. ``ts_us`` and
    ``dur_us`` are microseconds as they stand in the file, NaN where there are none. ``pid``, ``tid`` and ``flow`` (the
    event's ``id``) are the file's numbers; a text is numbered in ``ids``, as ``-2 - index``, and `NO_ID` means none. So
    do ``correlation``, ``device``, ``stream``, ``size`` (``bytes``) and ``group`` (``Process Group Name``), from the arguments. ``gpu_us`` is what a SuperBench
    event list says of the GPU's time, ``calls`` how often a tree's node was called; both are None in other formats.
    """

    phase: NDArray[np.int32]
    category: NDArray[np.int32]
    name: NDArray[np.int32]
    ts_us: NDArray[np.float64]
    dur_us: NDArray[np.float64]
    pid: NDArray[np.int64]
    tid: NDArray[np.int64]
    flow: NDArray[np.int64]
    correlation: NDArray[np.int64]
    device: NDArray[np.int64]
    stream: NDArray[np.int64]
    size: NDArray[np.int64]
    group: NDArray[np.int64]
    phases: list[str]
    categories: list[str]
    names: list[str]
    ids: list[str]
    gpu_us: NDArray[np.float64] | None = None
    calls: NDArray[np.int64] | None = None

    def __len__(self) -> int:
        return len(self.ts_us)

    def __repr__(self) -> str:
        return f"<Columns of {len(self)} events>"

    def where(
        self, *, phase: str | None = None, category: str | None = None, name: str | None = None
    ) -> NDArray[np.bool_]:
        """Which events have this phase, category and name."""
        mask = np.ones(len(self), np.bool_)
        for word, table, column in (
            (phase, self.phases, self.phase), (category, self.categories, self.category), (name, self.names, self.name)
        ):  # fmt: skip
            if word is not None:
                mask &= column == (table.index(word) if word in table else -1)
        return mask

    def text_of(self, number: int) -> str | int | None:
        """The process, thread or flow that a number of ``pid``, ``tid`` or ``flow`` stands for."""
        if number == NO_ID:
            return None
        return self.ids[-2 - number] if number < NO_ID else int(number)


class _Column:
    """An array that grows. What is not filled yet takes no memory, so it may grow by much."""

    def __init__(self, kind: Any) -> None:
        self._array: NDArray[Any] = np.empty(_FIRST_SIZE, kind)
        self._count = 0

    def add(self, values: Any) -> None:
        end = self._count + len(values)
        if end > len(self._array):
            size = len(self._array) * (8 if len(self._array) < _LARGE_SIZE else 2)
            grown = np.empty(max(size, end), self._array.dtype)
            grown[: self._count] = self._array[: self._count]
            self._array = grown
        self._array[self._count : end] = values
        self._count = end

    def values(self) -> NDArray[Any]:
        """What was added."""
        return self._array[: self._count]

    def clear(self) -> None:
        """Start again, in the same memory."""
        self._count = 0


_SHOWN = 40
_FIRST_SIZE = 1 << 12
_LARGE_SIZE = 1 << 20
# In the order of the columns, and of the fields of an event and its arguments.
_TEXTS = ("ph", "cat", "name")
_NUMBERS = ("ts", "dur")
_IDS = ("pid", "tid", "id")
_ARGUMENTS = Arguments.__struct_fields__
_FIELDS = Event.__struct_fields__


class EventBuilder:
    """Takes runs of events and gives the columns of all of them."""

    def __init__(self) -> None:
        self._new_tables()
        kinds = [(_TEXTS, np.int32), (_NUMBERS, np.float64), (_IDS, np.int64), (_ARGUMENTS, np.int64)]
        self._columns = {key: _Column(kind) for keys, kind in kinds for key in keys}
        self.count = 0

    def add(self, events: list[Event]) -> None:
        """Add a run of events."""
        count = len(events)
        self.count += count
        values = list(chain.from_iterable(map(msgspec.structs.astuple, events)))
        fields = {key: values[index :: len(_FIELDS)] for index, key in enumerate(_FIELDS)}
        for key, table in zip(_TEXTS, self._tables, strict=True):
            numbers = table.numbers_of_letters if key == "ph" else table.numbers
            self._columns[key].add(numbers(fields[key]))
        for key in _NUMBERS:
            self._columns[key].add(np.array(fields[key], np.float64))
        for key in _IDS:
            self._columns[key].add(self._numbers(fields[key]))
        self._add_arguments(fields["args"])

    def add_scanned(self, scanned: Scanned) -> None:
        """Add a run of events that are columns already."""
        self.count += scanned.count
        for column, values in zip(self._columns.values(), self._arrays(scanned), strict=True):
            column.add(values)

    def _arrays(self, scanned: Scanned) -> list[NDArray[Any]]:
        """The columns of a run, by this builder's numbers for texts; they hold until the next scan."""
        scan = scanned.scan
        *numbered, numbered_ids = self._numbered
        arrays: list[NDArray[Any]] = [
            numbers.of(codes, scan) for codes, numbers in zip(scanned.texts, numbered, strict=True)
        ]
        arrays += scanned.times
        for ids in scanned.ids:
            texts = np.flatnonzero(ids < NO_ID)
            if len(texts):
                ids[texts] = -2 - numbered_ids.of(-2 - ids[texts], scan).astype(np.int64)
            arrays.append(ids)
        return arrays

    def columns(self) -> Columns:
        """The columns of all runs."""
        arrays = [column.values() for column in self._columns.values()]
        tables = [list(table) for table in self._tables]
        return Columns(*arrays, *tables, list(self._ids))  # type: ignore[arg-type, call-arg] # in the order of its fields

    def _new_tables(self) -> None:
        self._tables = [_Table() for _ in _TEXTS]
        self._ids = _Table()
        self._number_anew()

    def _number_anew(self) -> None:
        self._numbered = [_Numbered(table) for table in (*self._tables, self._ids)]

    def _add_arguments(self, values: list[Arguments | None]) -> None:
        """Most events have none of these arguments, and cost no more than the look that tells."""
        has_some = list(map(ne, values, repeat(_NO_ARGUMENTS)))
        rows = list(compress(range(len(values)), has_some))
        some = [value or _NO_ARGUMENTS for value in compress(values, has_some)]
        flat = list(chain.from_iterable(map(msgspec.structs.astuple, some)))
        for index, key in enumerate(_ARGUMENTS):
            column = np.full(len(values), NO_ID, np.int64)
            numbers = flat[index :: len(_ARGUMENTS)]
            is_odd = bool in set(map(type, numbers))
            column[rows] = self._numbers([NO_ID if type(n) is bool else n for n in numbers] if is_odd else numbers)
            self._columns[key].add(column)

    def _numbers(self, values: list[Any]) -> NDArray[np.int64]:
        with contextlib.suppress(TypeError, OverflowError):
            # An array of Python's takes whole numbers alone, where numpy takes a text "7" for one.
            numbers = np.frombuffer(array("q", values), np.int64)
            if not (numbers < NO_ID).any():
                return numbers
        return np.fromiter(map(self._number, values), np.int64, len(values))

    def _number(self, value: Any) -> int:
        if type(value) is int and -1 <= value < 2**63:
            return value
        return -2 - self._ids[str(value)] if type(value) in (int, str) else NO_ID


def from_any(event: Any) -> tuple[Event, list[str]]:
    """An event of whatever JSON gave, and what about it is not as a trace has it, in words."""
    if not isinstance(event, dict):  # the strict reader has said so, and where
        return Event(), []
    odd: list[str] = []
    values: dict[str, Any] = {}
    for key, kinds in _KINDS.items():
        value = event.get(key)
        if value is None or _is_beyond(value):
            continue
        if key in _IDS and type(value) is float and value.is_integer():
            value = int(value)
        if isinstance(value, kinds) and not isinstance(value, bool):
            values[key] = value
        else:
            odd.append(f"{key!r} is {called(value)}")
    arguments = event.get("args")
    if isinstance(arguments, dict):
        values["args"] = Arguments(**{field: arguments[key] for field, key in _IN_FILE.items() if key in arguments})
    # A recorder of Chrome writes "__stripped__" in place of arguments.
    elif arguments is not None and not isinstance(arguments, str) and not _is_beyond(arguments):
        odd.append(f"'args' is {called(arguments)}")
    return Event(**values), odd


_IN_FILE = dict(zip(Arguments.__struct_fields__, Arguments.__struct_encode_fields__, strict=True))
_KINDS: dict[str, Any] = {
    "ph": str, "cat": str, "name": str, "pid": int | str, "tid": int | str, "ts": int | float, "dur": int | float,
    "id": int | str,
}  # fmt: skip


def _is_beyond(value: Any) -> bool:
    """Whether it is a number that no double holds: of which the strict reader has told."""
    return type(value) in (int, float) and not abs(value) <= sys.float_info.max


def called(value: Any) -> str:
    """A value in words: what it is, and the value itself where it is short."""
    if value is None:
        return "null"
    if isinstance(value, dict | list):
        return "an object" if isinstance(value, dict) else "a list"
    text = repr(value)
    if len(text) < _SHOWN:
        return f"{type(value).__name__} {text}"
    return f"a text of {len(value)} characters" if isinstance(value, str) else f"a number of {len(text)} characters"
