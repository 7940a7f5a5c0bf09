"""The two sorts of records that a list of events holds: those of Chrome traces, and those of SuperBench's event lists.

Both are decoded by msgspec in the usual case, and from whatever JSON gave in the other.
"""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING, Any, Protocol

import msgspec
import numpy as np

from pytest_gputrace.traces.columns import Columns, Event, EventBuilder, from_any

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["ChromeRecords", "EventList", "Records"]

Odd = tuple[int, str]
"""The row of an event, and what about it is not as a trace has it."""


class Records(Protocol):
    """How the events of one format are decoded, put into columns, and asked for what the columns leave out."""

    builder: EventBuilder

    def decode(self, data: bytes) -> list[Any]:
        """The records of a JSON list."""

    def add(self, records: list[Any]) -> list[Odd]:
        """Put records into the columns; what is odd about them."""

    def columns(self) -> Columns:
        """The columns of all records."""

    def arguments(self, record: Any) -> dict[str, Any]:
        """The arguments of one record, of whatever JSON gave."""


class ChromeRecords:
    """The events of a Chrome trace."""

    def __init__(self) -> None:
        self.builder = EventBuilder()

    def decode(self, data: bytes) -> list[Any]:
        """The events of a JSON list."""
        return _decoded(_EVENTS, data)

    def add(self, records: list[Any]) -> list[Odd]:
        """Put events into the columns; what is odd about them."""
        odd: list[Odd] = []
        if records and not isinstance(records[0], Event):
            read = list(map(from_any, records))
            odd = [(row, what) for row, (_, odds) in enumerate(read, self.builder.count) for what in odds]
            records = [event for event, _ in read]
        self.builder.add(records)
        return odd

    def columns(self) -> Columns:
        """The columns of all events."""
        return self.builder.columns()

    def arguments(self, record: Any) -> dict[str, Any]:
        """The arguments of one event."""
        arguments = record.get("args") if isinstance(record, dict) else None
        return arguments if isinstance(arguments, dict) else {}


class Record(msgspec.Struct, gc=False):
    """What is decoded of one record of SuperBench."""

    name: str = ""
    start_time: float = math.nan
    cpu_time: float = math.nan
    gpu_time: float = math.nan


class EventList:
    """The records of a SuperBench event list: operators of the CPU, and how long a GPU worked for each."""

    def __init__(self) -> None:
        self.builder = EventBuilder()
        self._gpu_us: list[NDArray[np.float64]] = []

    def decode(self, data: bytes) -> list[Any]:
        """The events of a JSON list."""
        return _decoded(_RECORDS, data)

    def add(self, records: list[Any]) -> list[Odd]:
        """Put events into the columns; what is odd about them."""
        odd: list[Odd] = []
        if records and not isinstance(records[0], Record):
            read = list(map(_from_any, records))
            odd = [(row, what) for row, (_, odds) in enumerate(read, self.builder.count) for what in odds]
            records = [record for record, _ in read]
        self._gpu_us.append(np.fromiter((record.gpu_time for record in records), np.float64, len(records)))
        self.builder.add(
            [Event(ph="X", cat="cpu_op", name=item.name, ts=item.start_time, dur=item.cpu_time) for item in records]
        )
        return odd

    def columns(self) -> Columns:
        """The columns of all events."""
        gpu_us = np.concatenate(self._gpu_us) if self._gpu_us else np.empty(0, np.float64)
        return dataclasses.replace(self.builder.columns(), gpu_us=gpu_us)

    def arguments(self, record: Any) -> dict[str, Any]:
        """The arguments of one event."""
        if not isinstance(record, dict):
            return {}
        return {key: value for key, value in record.items() if key not in Record.__struct_fields__}


_EVENTS = msgspec.json.Decoder(list[Event])
_RECORDS = msgspec.json.Decoder(list[Record])
# The columns' words for what a record calls otherwise.
_KEYS = {"name": "name", "start_time": "ts", "cpu_time": "dur", "gpu_time": "dur"}


def _decoded(decoder: msgspec.json.Decoder[Any], data: bytes) -> list[Any]:
    try:
        records: list[Any] = decoder.decode(data)
    except msgspec.ValidationError:  # a value of another type than is usual
        records = msgspec.json.decode(data, type=list[Any])
    return records


def _from_any(record: Any) -> tuple[Record, list[str]]:
    if not isinstance(record, dict):  # the strict reader has said so, and where
        return Record(), []
    values: dict[str, Any] = {}
    odd: list[str] = []
    for key, column in _KEYS.items():
        event, odds = from_any({column: record.get(key)})
        odd += [what.replace(repr(column), repr(key), 1) for what in odds]
        values[key] = getattr(event, column)
    return Record(**values), odd
