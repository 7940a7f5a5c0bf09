"""Reads a Proton tree (hatchet): one event a node, in the order in which the nodes begin.

A tree is as deep as the program's stack: nothing here recurses.
"""

from __future__ import annotations

import bisect
import json
import math
import re
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from pytest_gputrace.traces.columns import NO_ID, Arguments, Columns, Event, EventBuilder, called
from pytest_gputrace.traces.judging import is_clean, judge, stop_of
from pytest_gputrace.traces.mending import DECODER
from pytest_gputrace.traces.scanner import Problem

if TYPE_CHECKING:
    from pytest_gputrace.traces.scanner import Kind

__all__ = ["Tree", "metrics_of", "read_tree"]

_SPACE = re.compile(r"[ \t\r\n]*")
_NODE = re.compile(r'\{[ \t\r\n]*"(?:frame|children|metrics)"')
_SHOWN = 80
_WRAPPING = b'{"traceEvents": '
# The strict reader expects a list of events; a tree is none.
_OF_EVENTS = ("event", "root")
# What the columns hold of a node, and what it must be.
_OF_FRAME: dict[str, tuple[type, ...]] = {"name": (str,), "type": (str,)}
_OF_METRICS: dict[str, tuple[type, ...]] = {"time (ns)": (int, float), "count": (int, float), "device_id": (int, str)}
_EXPECTED = "expected one tree, and a map of devices after it"


@dataclass
class _Node:
    position: int
    row: int
    keys: set[str] = field(default_factory=set)
    frame: dict[str, Any] = field(default_factory=dict)
    metrics: dict[str, Any] = field(default_factory=dict)

    def text(self, key: str) -> str:
        value = self.frame.get(key)
        return value if isinstance(value, str) else ""


class _Note(NamedTuple):
    """What is wrong with a node, or (without a ``row``) with what stands around the tree."""

    kind: Kind
    message: str
    position: int
    row: int | None = None


@dataclass
class Tree:
    """What a tree's file holds; ``devices`` is the map that follows the tree."""

    columns: Columns
    devices: dict[str, Any]
    problems: list[Problem]


def read_tree(text: bytes) -> Tree:
    """Read all of ``text``, as far as its grammar holds."""
    walk = _Walk(text.decode("utf-8", "surrogateescape"))
    walk.run()
    problems = [] if is_clean(text) else _problems(text, walk.nodes)
    problems += _noted(walk, stop_of(problems))
    return Tree(columns=_columns(walk.nodes), devices=walk.devices or {}, problems=problems)


def metrics_of(text: bytes) -> list[dict[str, Any]]:
    """The metrics of each node."""
    walk = _Walk(text.decode("utf-8", "surrogateescape"))
    walk.run()
    return [node.metrics for node in walk.nodes]


class _Walk:
    """Goes through the text of a tree from bracket to bracket, down to the frames and metrics, which are decoded."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.nodes: list[_Node] = []
        self.devices: dict[str, Any] | None = None
        self.notes: list[_Note] = []
        # The nodes and the lists that are open: None is a list, the first one the root.
        self._open: list[_Node | None] = [None]

    def run(self) -> None:
        """Walk to the end, or as far as can be walked."""
        position = self._space(self.text.find("[") + 1)
        while self._open and position < len(self.text):
            try:
                position = self._space(self._step(position))
            except (ValueError, RecursionError):
                return

    def _step(self, position: int) -> int:
        char, node = self.text[position], self._open[-1]
        if char == ",":
            return position + 1
        if node is None and char != "]":
            return self._item(position)
        if char == '"' and node is not None:
            return self._member(node, position)
        if node is not None:
            if char != "}":
                raise ValueError("no member")
            self._judge(node)
        self._open.pop()
        return position + 1

    def _item(self, position: int) -> int:
        """An item of the root or of a list of children."""
        is_root = len(self._open) == 1
        if self.text[position] == "{" and (not is_root or not self.nodes or _NODE.match(self.text, position)):
            if is_root and self.nodes:
                self.notes.append(_Note("root", f"a second tree; {_EXPECTED}", position))
            node = _Node(position, len(self.nodes))
            self.nodes.append(node)
            self._open.append(node)
            return position + 1
        value, end = DECODER.raw_decode(self.text, position)
        if not is_root:
            parent = self._open[-2]
            row = None if parent is None else parent.row
            what = f"{called(value)} among the children; expected objects with a frame"
            self.notes.append(_Note("event", what, position, row))
        elif isinstance(value, dict) and self.devices is None:
            self.devices = value
        else:
            self.notes.append(_Note("root", f"something else behind the tree; {_EXPECTED}", position))
        return end

    def _member(self, node: _Node, position: int) -> int:
        key, end = DECODER.raw_decode(self.text, position)
        position = self._space(end)
        if self.text[position : position + 1] != ":":
            raise ValueError("no member")
        position = self._space(position + 1)
        node.keys.add(key)
        if key == "children" and self.text[position : position + 1] == "[":
            self._open.append(None)
            return position + 1
        value, end = DECODER.raw_decode(self.text, position)
        if key in ("frame", "metrics") and isinstance(value, dict):
            setattr(node, key, value)
        elif key in ("frame", "metrics", "children"):
            self.notes.append(_Note("type", f"{key!r} is {called(value)}", node.position, node.row))
        return end

    def _judge(self, node: _Node) -> None:
        """Note what a node that is whole should have otherwise."""
        if "frame" not in node.keys:
            self.notes.append(_Note("event", "a node without a frame", node.position, node.row))
        for owner, wanted in ((node.frame, _OF_FRAME), (node.metrics, _OF_METRICS)):
            for key, kinds in wanted.items():
                value = owner.get(key)
                if value is not None and type(value) not in kinds:
                    self.notes.append(_Note("type", f"{key!r} is {called(value)}", node.position, node.row))

    def _space(self, position: int) -> int:
        match = _SPACE.match(self.text, position)
        return position if match is None else match.end()


def _columns(nodes: list[_Node]) -> Columns:
    builder = EventBuilder()
    builder.add([_event(node) for node in nodes])
    calls = [_calls(node.metrics.get("count")) for node in nodes]
    return replace(builder.columns(), calls=np.array(calls, np.int64))


def _calls(count: Any) -> int:
    return int(count) if type(count) in (int, float) and 0 <= count < 2**63 else NO_ID


def _event(node: _Node) -> Event:
    time_ns, device = node.metrics.get("time (ns)"), node.metrics.get("device_id")
    if isinstance(device, str) and device.isdecimal():
        device = int(device)
    return Event(
        cat=node.text("type"),
        name=node.text("name"),
        dur=_microseconds(time_ns),
        args=Arguments(device=NO_ID if device is None else device),
    )


def _microseconds(time_ns: Any) -> float:
    if type(time_ns) not in (int, float):
        return math.nan
    try:
        time_us = float(time_ns) / 1000
    except OverflowError:
        return math.nan
    return time_us if math.isfinite(time_us) else math.nan


def _problems(text: bytes, nodes: list[_Node]) -> list[Problem]:
    found = [problem for problem in judge(text) if problem.kind not in _OF_EVENTS]
    if not found:  # nested too deep, which the strict reader says of what is right otherwise
        wrapped = judge(_WRAPPING + text + b"}")
        found = [replace(problem, byte=problem.byte - len(_WRAPPING)) for problem in wrapped]
    starts = [node.position for node in nodes]
    return [_placed(problem, text, nodes, starts) for problem in found]


def _placed(problem: Problem, text: bytes, nodes: list[_Node], starts: list[int]) -> Problem:
    """The problem, told of the last node that begins before it."""
    position = len(text[: problem.byte].decode("utf-8", "surrogateescape"))
    index = bisect.bisect_right(starts, position) - 1
    if index < 0:
        return replace(problem, event=None, where="")
    return replace(problem, event=index, where=_where(nodes[index]))


def _where(node: _Node) -> str:
    name = node.text("name")
    return f"node {node.row} ({json.dumps(name[:_SHOWN])})" if name else f"node {node.row}"


def _noted(walk: _Walk, stop: int | None) -> list[Problem]:
    """The first note of each kind with how many more there are, of what stands before byte ``stop``."""
    found: dict[Kind, Problem] = {}
    end = len(
        walk.text
        if stop is None
        else walk.text.encode("utf-8", "surrogateescape")[:stop].decode("utf-8", "surrogateescape")
    )
    for note in sorted((note for note in walk.notes if note.position < end), key=lambda note: note.position):
        if note.kind in found:
            first = found[note.kind]
            found[note.kind] = replace(first, more=first.more + 1)
            continue
        byte = len(walk.text[: note.position].encode("utf-8", "surrogateescape"))
        where = "" if note.row is None else _where(walk.nodes[note.row])
        found[note.kind] = Problem(note.kind, note.message, byte, note.row, where)
    return list(found.values())
