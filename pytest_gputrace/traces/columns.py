"""Decoded events -> numpy columns, run by run."""

from __future__ import annotations

import contextlib
import math
import sys
from dataclasses import dataclass
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["NO_ID", "Columns", "Event", "EventBuilder", "from_any"]

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


@dataclass(frozen=True)
class Columns:
    """The events of a trace, one array each, in the order of the file.

    ``phase``, ``category`` and ``name`` number the texts in ``phases``, ``categories`` and ``names``. ``ts_us`` and
    ``dur_us`` are microseconds as they stand in the file, NaN where there are none. ``pid``, ``tid`` and ``flow`` (the
    event's ``id``) are the file's numbers; a text is numbered in ``ids``, as ``-2 - index``, and `NO_ID` means none. So
    do ``correlation``, ``device``, ``stream`` and ``size`` (``bytes``), from the arguments. ``gpu_us`` is what a SuperBench
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
    phases: list[str]
    categories: list[str]
    names: list[str]
    ids: list[str]
    gpu_us: NDArray[np.float64] | None = None
    calls: NDArray[np.int64] | None = None

    def __len__(self) -> int:
        return len(self.ts_us)

    def text_of(self, number: int) -> str | int | None:
        """The process, thread or flow that a number of ``pid``, ``tid`` or ``flow`` stands for."""
        if number == NO_ID:
            return None
        return self.ids[-2 - number] if number < NO_ID else int(number)


# In the order of the columns.
_TEXTS = ("ph", "cat", "name")
_NUMBERS = ("ts", "dur")
_IDS = ("pid", "tid", "id", "args.correlation", "args.device", "args.stream", "args.bytes")
_TYPES: dict[str, Any] = {
    **dict.fromkeys(_TEXTS, np.int32), **dict.fromkeys(_NUMBERS, np.float64), **dict.fromkeys(_IDS, np.int64)
}  # fmt: skip


class EventBuilder:
    """Takes runs of events and gives the columns of all of them."""

    def __init__(self) -> None:
        self._tables = {key: _Table() for key in _TEXTS}
        self._ids = _Table()
        self._runs: dict[str, list[NDArray[Any]]] = {key: [] for key in _TYPES}
        self.count = 0

    def add(self, events: list[Event]) -> None:
        """Add a run of events."""
        count = len(events)
        self.count += count
        for event in events:
            if event.args is None:
                event.args = _NO_ARGUMENTS
        for key in _TEXTS:
            table = self._tables[key]
            numbers = map(table.__getitem__, map(attrgetter(key), events))
            self._runs[key].append(np.fromiter(numbers, np.int32, count))
        for key in _NUMBERS:
            self._runs[key].append(np.fromiter(map(attrgetter(key), events), np.float64, count))
        for key in _IDS:
            values = list(map(attrgetter(key), events))
            self._runs[key].append(self._numbers(values))

    def columns(self) -> Columns:
        """The columns of all runs."""
        whole = {key: np.concatenate(runs) if runs else np.empty(0, _TYPES[key]) for key, runs in self._runs.items()}
        tables = [list(self._tables[key]) for key in _TEXTS]
        return Columns(*whole.values(), *tables, list(self._ids))  # type: ignore[arg-type, call-arg] # in the order of its fields

    def _numbers(self, values: list[Any]) -> NDArray[np.int64]:
        if set(map(type, values)) <= {int}:  # numpy takes the text "7" for the number
            with contextlib.suppress(OverflowError):
                numbers = np.fromiter(values, np.int64, len(values))
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
        if value is None:
            continue
        if isinstance(value, kinds) and not isinstance(value, bool) and _fits(key, value):
            values[key] = value
        else:
            odd.append(f"{key!r} is {_called(value)}")
    arguments = event.get("args")
    if isinstance(arguments, dict):
        values["args"] = Arguments(**{key: arguments[key] for key in Arguments.__struct_fields__ if key in arguments})
    elif arguments is not None:
        odd.append(f"'args' is {_called(arguments)}")
    return Event(**values), odd


_KINDS: dict[str, Any] = {
    "ph": str, "cat": str, "name": str, "pid": int | str, "tid": int | str, "ts": int | float, "dur": int | float,
    "id": int | str,
}  # fmt: skip


def _fits(key: str, value: Any) -> bool:
    return key not in _NUMBERS or abs(value) <= sys.float_info.max


def _called(value: Any) -> str:
    text = repr(value)
    return f"{type(value).__name__} {text if len(text) < 40 else text[:37] + '...'}"
