"""Kineto's raw results -> the records that ``events()`` would have given, without the objects in between.

For every event torch makes a FunctionEvent of some forty attributes and links them all into a tree. A record needs
eight answers of the raw event, and of the tree only which events torch merges and whose GPU time sums into whose.
What is computed here follows ``torch/autograd/profiler.py`` and ``profiler_util.py`` (torch 2.5 to 2.14); where it
differs from them by one bit it is wrong, and tests hold it to them. Must not touch a file, nor import torch.
"""

from __future__ import annotations

import itertools
from bisect import bisect_right
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from pytest_gputrace.export.records import Record

__all__ = ["Dialect", "Symbols", "UnknownToRawPath", "kineto_records"]

_MEMORY = "[memory]"
_OUT_OF_MEMORY = "[OutOfMemory]"
# What events() leaves out, by name. Memory events come back as records of their own where no CPU event holds them.
_LEFT_OUT = frozenset(
    {
        _MEMORY, _OUT_OF_MEMORY, "profiler::_record_function_enter", "profiler::_record_function_enter_new",
        "profiler::_record_function_exit", "aten::is_leaf", "aten::output_nr", "aten::_version",
    }
)  # fmt: skip


_CHUNK_EVENTS = 256  # about what the second-level cache holds


class UnknownToRawPath(Exception):  # noqa: N818  # a signal to take events(), not an error
    """These results hold something that only ``events()`` knows how to read."""


class Dialect(NamedTuple):
    """What differs between the versions of torch in how ``events()`` reads the results."""

    memory_in_us: bool
    """A memory event is compared with the bounds of CPU events as microseconds of the epoch, to 0.25 us or so."""
    hides_events: bool
    """An event may say that it is hidden, and is left out."""
    overhead_apart: bool
    """An event of the profiler's own overhead takes no kernels."""


class Symbols(NamedTuple):
    """What the reading needs of torch."""

    cpu: Any
    """``torch.autograd.DeviceType.CPU``"""
    cuda: Any
    """``torch.autograd.DeviceType.CUDA``, which HIP events carry too"""
    demangle: Callable[[str], str]


def kineto_records(results: Any, *, dialect: Dialect, symbols: Symbols, gpu: bool) -> Iterator[Record]:
    """The records of the CPU events in ``results``, equal to and in the order of those made from ``events()``.

    Everything but shapes and argument values is read at once; those as the records are taken.

    Args:
        results: ``kineto_results`` of a stopped ``torch.autograd.profiler.profile``.
        dialect: how this version of torch reads them.
        symbols: of torch.
        gpu: whether the profile recorded a CUDA or HIP device (``use_device``); without it every GPU time is 0.

    Raises:
        UnknownToRawPath: the results hold what only ``events()`` can read.
    """
    everything: Sequence[Any] = results.events()
    if not everything:
        return iter(())
    of = type(everything[0])
    rows = _Rows(everything, of, results.trace_start_ns(), dialect, symbols)
    rows.follow_links(dialect, symbols)
    rows.add_memory(everything, of, dialect)
    rows.build_tree()
    return rows.records(of, rows.gpu_times() if gpu else [0.0] * len(rows.order))


class _Rows:
    """The events that ``events()`` keeps, as columns: one row each, in the order of the results."""

    def __init__(
        self, everything: Sequence[Any], of: Any, trace_start_ns: int, dialect: Dialect, symbols: Symbols
    ) -> None:
        names, starts, ends, first, last, is_async, links, devices, hidden = _ask(everything, of, dialect)
        keep = [name not in _LEFT_OUT and not hide for name, hide in zip(names, hidden, strict=True)]
        self.raw_names = names
        self.trace_start_ns = trace_start_ns
        spelled = {name: _spelled(name, symbols) for name in set(names)}
        self.events: list[Any] = list(itertools.compress(everything, keep))
        self.names = [spelled[name] for name in itertools.compress(names, keep)]
        self.start_ns = list(itertools.compress(starts, keep))
        self.end_ns = list(itertools.compress(ends, keep))
        # As torch does it: microseconds first, so that a duration carries the rounding of both its ends.
        self.start_us = [(ns - trace_start_ns) / 1000 for ns in self.start_ns]
        self.end_us = [(ns - trace_start_ns) / 1000 for ns in self.end_ns]
        self.threads = list(itertools.compress(first, keep))
        self.on_cpu = [device == symbols.cpu.value for device in itertools.compress(devices, keep)]
        # An event that ends on another thread has no place among the parents and children of its own.
        crosses = [alone or start != end for alone, start, end in zip(is_async, first, last, strict=True)]
        self.in_tree = [
            on_cpu and not crossing
            for on_cpu, crossing in zip(self.on_cpu, itertools.compress(crosses, keep), strict=True)
        ]
        self.links = list(itertools.compress(links, keep))
        self.kernels: dict[int, list[float]] = {}
        self.order: list[int] = []
        self.parents: list[int] = []
        self.merged: set[int] = set()

    def follow_links(self, dialect: Dialect, symbols: Symbols) -> None:
        """Give each operator the kernels it launched, and put runtime calls on their operator's thread."""
        linked: dict[int, list[int]] = {}
        for row, link in enumerate(self.links):
            if link:
                linked.setdefault(link, []).append(row)
        if not linked:
            return
        if min(linked) < 0:
            raise UnknownToRawPath("an event with a negative linked correlation id")
        for row, link in enumerate(self.links):
            if link or not self.in_tree[row]:
                continue
            event = self.events[row]
            if dialect.overhead_apart and event.activity_type() == "overhead":
                continue
            for other in linked.get(event.correlation_id(), ()):
                if self.on_cpu[other]:
                    self.threads[other] = self.threads[row]
                elif self.events[other].device_type() == symbols.cuda:
                    self.kernels.setdefault(row, []).append(self.end_us[other] - self.start_us[other])
                else:
                    raise UnknownToRawPath("a linked event on a device that is neither CPU nor CUDA")

    def add_memory(self, everything: Sequence[Any], of: Any, dialect: Dialect) -> None:
        """Add a row of no duration for each allocation that no CPU event holds, and for each one that failed."""
        named = list(zip(self.raw_names, everything, strict=True))
        allocations = [event for name, event in named if name == _MEMORY]
        if allocations:
            allocations = self._outside(allocations, of, dialect)
        for event in allocations + [event for name, event in named if name == _OUT_OF_MEMORY]:
            self.names.append(event.name())
            self.start_us.append((event.start_ns() - self.trace_start_ns) / 1000)
            self.end_us.append(self.start_us[-1])
            self.threads.append(event.start_thread_id())
            self.on_cpu.append(True)
            self.in_tree.append(True)

    def _outside(self, allocations: Sequence[Any], of: Any, dialect: Dialect) -> list[Any]:
        """The allocations within no CPU event, on whatever thread."""
        bounds: list[tuple[float, float]] = [
            bound for bound, cpu in zip(zip(self.start_ns, self.end_ns, strict=True), self.on_cpu, strict=True) if cpu
        ]
        if dialect.memory_in_us:
            bounds = [(start / 1000 * 1000, end / 1000 * 1000) for start, end in bounds]
        bounds.sort()
        starts = [start for start, _ in bounds]
        latest_ends = list(itertools.accumulate((end for _, end in bounds), max))
        outside = []
        for event in allocations:
            time_ns = of.start_ns(event)
            before = bisect_right(starts, time_ns)
            if not before or latest_ends[before - 1] < time_ns:
                outside.append(event)
        return outside

    def build_tree(self) -> None:
        """Order the rows, find parents, and merge an event into its parent of the same name when it is the only child.

        Torch repeats its merging until nothing changes. Once is enough: parents come before their children, and a
        merge changes nothing for a row that was looked at before.
        """
        start_us, end_us, names, in_tree = self.start_us, self.end_us, self.names, self.in_tree
        keys = list(zip(start_us, [-end for end in end_us], strict=True))
        self.order = sorted(range(len(keys)), key=keys.__getitem__)
        parents = self.parents = [-1] * len(keys)
        children = [0] * len(keys)
        open_on: dict[int, list[int]] = {thread: [] for thread in set(self.threads)}
        alike = []
        for row in self.order:
            if not in_tree[row]:
                continue
            stack = open_on[self.threads[row]]
            start, end = start_us[row], end_us[row]
            while stack:
                parent = stack[-1]
                parent_end = end_us[parent]
                if start < parent_end and end <= parent_end:
                    parents[row] = parent
                    children[parent] += 1
                    if names[row] == names[parent]:
                        alike.append(row)
                    break
                stack.pop()
            stack.append(row)
        for row in alike:
            parent = self._survivor(row)
            if children[parent] == 1:
                self.merged.add(row)
                children[parent] = children[row]
                self.kernels[parent] = self.kernels.get(row, [])

    def _survivor(self, row: int) -> int:
        """The nearest parent that was not merged into its own."""
        parent = self.parents[row]
        while parent in self.merged:
            parent = self.parents[parent]
        self.parents[row] = parent
        return parent

    def gpu_times(self) -> list[float]:
        """Of each row, the microseconds of its kernels and of those of all its children."""
        children: dict[int, list[int]] = {}
        for row in self.order:
            if self.parents[row] >= 0 and row not in self.merged:
                children.setdefault(self._survivor(row), []).append(row)
        totals = [0.0] * len(self.order)
        for row in reversed(self.order):  # children come after their parents in the order
            if self.in_tree[row] and row not in self.merged:
                total = sum(self.kernels.get(row, ())) + sum([totals[child] for child in children.get(row, ())])
                totals[row] = 1.0 * total
        return totals

    def records(self, of: Any, gpu_times: list[float]) -> Iterator[Record]:
        """The records, their shapes and argument values read when they are taken."""
        rows = [row for row in self.order if self.on_cpu[row] and row not in self.merged]
        # Memory has no event behind it that could be asked.
        events = self.events + [None] * (len(self.order) - len(self.events))
        asked = [events[row] for row in rows]
        shapes: Iterator[Any] = map(of.shapes, asked)
        values: Iterator[Any] = map(of.concrete_inputs, asked)
        if len(events) > len(self.events):
            shapes = ([] if event is None else event.shapes() for event in asked)
            values = (None if event is None else event.concrete_inputs() for event in asked)
        return zip(
            [self.end_us[row] - self.start_us[row] for row in rows],
            [gpu_times[row] for row in rows],
            shapes,
            values,
            [self.names[row] for row in rows],
            [self.start_us[row] for row in rows],
            strict=True,
        )


def _ask(events: Sequence[Any], of: Any, dialect: Dialect) -> list[list[Any]]:
    """A column for each thing to know of every event.

    Asked in chunks: all questions of one event, then the next, costs Python's loop; each question of all events, the
    next, and so on loses every event from the processor's cache in between.
    """
    questions: list[Callable[[Any], Any]] = [
        of.name, of.start_ns, of.end_ns, of.start_thread_id, of.end_thread_id, of.is_async, of.linked_correlation_id,
    ]  # fmt: skip
    columns: list[list[Any]] = [[] for _ in questions]
    devices: list[int] = []
    hidden: list[bool] = []
    device_number = attrgetter("value")  # comparing numbers takes a third of the time of comparing torch's enum
    for at in range(0, len(events), _CHUNK_EVENTS):
        chunk = events[at : at + _CHUNK_EVENTS]
        for column, question in zip(columns, questions, strict=True):
            column.extend(map(question, chunk))
        devices.extend(map(device_number, map(of.device_type, chunk)))
        hidden.extend(map(of.is_hidden_event, chunk) if dialect.hides_events else itertools.repeat(False, len(chunk)))
    return [*columns, devices, hidden]


def _spelled(name: str, symbols: Symbols) -> str:
    """A name as ``events()`` has it: demangled, and all steps of a schedule called the same."""
    if len(name) > 1:  # a single letter is a mangled type too
        name = symbols.demangle(name)
    return "ProfilerStep*" if name.startswith("ProfilerStep#") else name
