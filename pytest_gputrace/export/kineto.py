"""Kineto's raw results -> the records that ``events()`` would have given, without the objects in between.

For every event torch makes a FunctionEvent of some forty attributes and links them all into a tree. A record needs
eight answers of the raw event, and of the tree only which events torch merges and whose GPU time sums into whose.
What is computed here follows ``torch/autograd/profiler.py`` and ``profiler_util.py`` (torch 2.5 to 2.14); where it
differs from them by one bit it is wrong, and tests hold it to them. Must not touch a file, nor import torch.
"""

from __future__ import annotations

import itertools
from bisect import bisect_right
from operator import index
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from pytest_gputrace.export.records import Record

__all__ = ["UNREADABLE_NAME", "Dialect", "Symbols", "UnknownToRawPath", "kineto_records"]

_MEMORY = "[memory]"
_OUT_OF_MEMORY = "[OutOfMemory]"
_MEMORY_NAMES = frozenset({_MEMORY, _OUT_OF_MEMORY})
# What events() leaves out, by name. Memory events come back as records of their own where no CPU event holds them.
_LEFT_OUT = frozenset(
    {
        _MEMORY, _OUT_OF_MEMORY, "profiler::_record_function_enter", "profiler::_record_function_enter_new",
        "profiler::_record_function_exit", "aten::is_leaf", "aten::output_nr", "aten::_version",
    }
)  # fmt: skip


UNREADABLE_NAME = "<not UTF-8>"
"""The name of an event whose own one is no text. ``events()`` fails as a whole for one of these."""

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

    Everything but shapes and argument values is read at once; those as the records are taken. Two kinds of profile for
    which ``events()`` raises are read all the same: operators nested deeper than Python's recursion limit, and names
    that are not UTF-8, for which `UNREADABLE_NAME` stands.

    Args:
        results: ``kineto_results`` of a stopped ``torch.autograd.profiler.profile``.
        dialect: how this version of torch reads them.
        symbols: of torch.
        gpu: whether the profile recorded a CUDA or HIP device (``use_device``); without it every GPU time is 0.

    Raises:
        UnknownToRawPath: the results hold what only ``events()`` can read.
    """
    events: Sequence[Any] = results.events()
    if not events:
        return iter(())
    rows = _Rows(events, results.trace_start_ns(), dialect, symbols)
    rows.follow_links(dialect, symbols)
    rows.add_memory(dialect)
    tree = _Tree(rows)
    return rows.records(tree, tree.gpu_times(rows) if gpu else [0.0] * len(rows.names))


class _Answers(NamedTuple):
    """What every raw event says of itself, as columns."""

    names: list[str]
    start_ns: list[int]
    end_ns: list[int]
    first_thread: list[int]
    last_thread: list[int]
    is_async: list[bool]
    links: list[int]
    device: list[int]
    hidden: list[bool]


def _ask(events: Sequence[Any], dialect: Dialect) -> _Answers:
    """Ask every event everything.

    In chunks: all questions of one event, then the next, costs Python's loop; one question of all events, then the
    next, loses every event from the processor's cache in between.
    """
    kind = type(events[0])
    questions: list[Callable[[Any], Any]] = [
        kind.start_ns, kind.end_ns, kind.start_thread_id, kind.end_thread_id, kind.is_async,
        kind.linked_correlation_id,
    ]  # fmt: skip
    names: list[str] = []
    columns: list[list[Any]] = [[] for _ in questions]
    device: list[int] = []
    hidden: list[bool] = []
    for at in range(0, len(events), _CHUNK_EVENTS):
        chunk = events[at : at + _CHUNK_EVENTS]
        try:
            names += list(map(kind.name, chunk))
        except UnicodeDecodeError:
            names += map(_readable_name, chunk)
        for column, question in zip(columns, questions, strict=True):
            column.extend(map(question, chunk))
        # As numbers: to compare those takes a fraction of the time of comparing torch's enum.
        device.extend(map(index, map(kind.device_type, chunk)))
        hidden.extend(map(kind.is_hidden_event, chunk) if dialect.hides_events else [False] * len(chunk))
    return _Answers._make([names, *columns, device, hidden])


class _Rows:
    """The events that ``events()`` keeps, as columns: one row each, in the order of the results."""

    def __init__(self, events: Sequence[Any], trace_start_ns: int, dialect: Dialect, symbols: Symbols) -> None:
        answers = _ask(events, dialect)
        spelled = {name: _spelled(name, symbols) for name in set(answers.names)}
        self.apart: list[tuple[str, Any]] = []
        if not _MEMORY_NAMES.isdisjoint(spelled):
            named = zip(answers.names, events, strict=True)
            self.apart = [(name, event) for name, event in named if name in _MEMORY_NAMES]
        self.kind: Any = type(events[0])
        self.trace_start_ns = trace_start_ns
        self.events: Sequence[Any] = events
        if not _LEFT_OUT.isdisjoint(spelled) or any(answers.hidden):
            keep = [
                name not in _LEFT_OUT and not hidden for name, hidden in zip(answers.names, answers.hidden, strict=True)
            ]
            self.events = list(itertools.compress(events, keep))
            answers = _Answers._make(list(itertools.compress(column, keep)) for column in answers)
        self.names = [spelled[name] for name in answers.names]
        self.start_ns, self.end_ns, self.links = answers.start_ns, answers.end_ns, answers.links
        # As torch does it: microseconds first, so that a duration carries the rounding of both its ends.
        self.start_us = [(ns - trace_start_ns) / 1000 for ns in self.start_ns]
        self.end_us = [(ns - trace_start_ns) / 1000 for ns in self.end_ns]
        self.threads = answers.first_thread
        cpu = index(symbols.cpu)
        self.on_cpu = [device == cpu for device in answers.device]
        # An event that ends on another thread has no place among the parents and children of its own.
        self.in_tree = [
            on_cpu and not crossing and first == last
            for on_cpu, crossing, first, last in zip(
                self.on_cpu, answers.is_async, answers.first_thread, answers.last_thread, strict=True
            )
        ]
        self.kernels: dict[int, list[float]] = {}

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

    def add_memory(self, dialect: Dialect) -> None:
        """Add a row of no duration for each allocation that no CPU event holds, and for each one that failed."""
        if not self.apart:
            return
        allocations = [event for name, event in self.apart if name == _MEMORY]
        failures = [event for name, event in self.apart if name == _OUT_OF_MEMORY]
        for event in self._held_by_none(allocations, dialect) + failures:
            self.names.append(event.name())
            self.start_us.append((event.start_ns() - self.trace_start_ns) / 1000)
            self.end_us.append(self.start_us[-1])
            self.threads.append(event.start_thread_id())
            self.on_cpu.append(True)
            self.in_tree.append(True)

    def _held_by_none(self, allocations: Sequence[Any], dialect: Dialect) -> list[Any]:
        """The allocations within no CPU event, on whatever thread."""
        bounds: list[tuple[float, float]] = [
            bound for bound, cpu in zip(zip(self.start_ns, self.end_ns, strict=True), self.on_cpu, strict=True) if cpu
        ]
        if dialect.memory_in_us:
            bounds = [(start / 1000 * 1000, end / 1000 * 1000) for start, end in bounds]
        bounds.sort()
        starts = [start for start, _ in bounds]
        latest_ends = list(itertools.accumulate((end for _, end in bounds), max))
        alone = []
        for event in allocations:
            time_ns = event.start_ns()
            before = bisect_right(starts, time_ns)
            if not before or latest_ends[before - 1] < time_ns:
                alone.append(event)
        return alone

    def records(self, tree: _Tree, gpu_times: list[float]) -> Iterator[Record]:
        """The records, their shapes and argument values read when they are taken."""
        rows = [row for row in tree.order if self.on_cpu[row] and row not in tree.merged]
        kept = len(self.events)
        shapes: Iterator[Any]
        values: Iterator[Any]
        if len(tree.order) == kept:
            asked = [self.events[row] for row in rows]
            shapes, values = map(self.kind.shapes, asked), map(self.kind.concrete_inputs, asked)
        else:  # memory has no event behind it that could be asked
            shapes = (self.events[row].shapes() if row < kept else [] for row in rows)
            values = (self.events[row].concrete_inputs() if row < kept else None for row in rows)
        return zip(
            [self.end_us[row] - self.start_us[row] for row in rows],
            [gpu_times[row] for row in rows],
            shapes,
            values,
            [self.names[row] for row in rows],
            [self.start_us[row] for row in rows],
            strict=True,
        )


class _Tree:
    """The order of the rows, their parents, and which were merged into theirs.

    An event is merged into its parent of the same name when it is the only child. Torch repeats this until nothing
    changes. Once is enough: parents come before their children, and a merge changes nothing for a row that was looked
    at before.
    """

    def __init__(self, rows: _Rows) -> None:
        start_us, end_us, names, in_tree = rows.start_us, rows.end_us, rows.names, rows.in_tree
        keys = list(zip(start_us, [-end for end in end_us], strict=True))
        self.order = sorted(range(len(keys)), key=keys.__getitem__)
        self.merged: set[int] = set()
        parents = self._parents = [-1] * len(keys)
        children = [0] * len(keys)
        open_on: dict[int, list[int]] = {thread: [] for thread in set(rows.threads)}
        alike = []
        for row in self.order:
            if not in_tree[row]:
                continue
            stack = open_on[rows.threads[row]]
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
                rows.kernels[parent] = rows.kernels.get(row, [])

    def _survivor(self, row: int) -> int:
        """The nearest parent that was not merged into its own."""
        parent = self._parents[row]
        while parent in self.merged:
            parent = self._parents[parent]
        self._parents[row] = parent
        return parent

    def gpu_times(self, rows: _Rows) -> list[float]:
        """Of each row, the microseconds of its kernels and of those of all its children."""
        children: dict[int, list[int]] = {}
        for row in self.order:
            if self._parents[row] >= 0 and row not in self.merged:
                children.setdefault(self._survivor(row), []).append(row)
        totals = [0.0] * len(self.order)
        for row in reversed(self.order):  # children come after their parents in the order
            if rows.in_tree[row] and row not in self.merged:
                total = sum(rows.kernels.get(row, ())) + sum([totals[child] for child in children.get(row, ())])
                totals[row] = 1.0 * total
        return totals


def _readable_name(event: Any) -> str:
    """The name of an event, or what stands for one that torch cannot give: with stacks its bytes are garbage at times."""
    try:
        return str(event.name())
    except UnicodeDecodeError:
        return UNREADABLE_NAME


def _spelled(name: str, symbols: Symbols) -> str:
    """A name as ``events()`` has it: demangled, and all steps of a schedule called the same."""
    if len(name) > 1:  # a single letter is a mangled type too
        name = symbols.demangle(name)
    return "ProfilerStep*" if name.startswith("ProfilerStep#") else name
