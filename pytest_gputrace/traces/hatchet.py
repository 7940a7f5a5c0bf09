"""Reads a Proton tree (hatchet): one event a node, in the order in which the nodes begin.

A tree is as deep as the program's stack: nothing here recurses.
"""

from __future__ import annotations

import bisect
import json
import math
import re
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from pytest_gputrace.traces.columns import NO_ID, Arguments, Columns, Event, EventBuilder
from pytest_gputrace.traces.judging import is_clean, judge

if TYPE_CHECKING:
    from pytest_gputrace.traces.scanner import Problem

__all__ = ["Tree", "metrics_of", "read_tree"]

_SPACE = re.compile(r"[ \t\r\n]*")
_NODE = re.compile(r'\{[ \t\r\n]*"(?:frame|children|metrics)"')
_DECODER = json.JSONDecoder(strict=False, parse_constant=lambda _: None)
_SHOWN = 80
_WRAPPING = b'{"traceEvents": '
# The strict reader expects a list of events; a tree is none.
_OF_EVENTS = ("event", "root")


@dataclass
class _Node:
    position: int
    frame: dict[str, Any] = field(default_factory=dict)
    metrics: dict[str, Any] = field(default_factory=dict)

    def text(self, key: str) -> str:
        value = self.frame.get(key)
        return value if isinstance(value, str) else ""


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
    return Tree(columns=_columns(walk.nodes), devices=walk.devices, problems=problems)


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
        self.devices: dict[str, Any] = {}
        self._open: list[_Node] = []

    def run(self) -> None:
        """Walk to the end, or as far as can be walked."""
        position = self._space(self.text.find("[") + 1)
        while position < len(self.text):
            try:
                position = self._space(self._step(position))
            except (ValueError, RecursionError):
                return

    def _step(self, position: int) -> int:
        char = self.text[position]
        if char == "{" and (self._open or _NODE.match(self.text, position)):
            self._open.append(_Node(position))
            self.nodes.append(self._open[-1])
        elif char == "}" and self._open:
            self._open.pop()
        elif char == '"' and self._open:
            return self._member(position)
        elif char not in ",]":
            value, end = _DECODER.raw_decode(self.text, position)
            if isinstance(value, dict):
                self.devices = value
            return end
        return position + 1

    def _member(self, position: int) -> int:
        key, end = _DECODER.raw_decode(self.text, position)
        position = self._space(end)
        if self.text[position : position + 1] != ":":
            raise ValueError("no member")
        position = self._space(position + 1)
        if key == "children" and self.text[position : position + 1] == "[":
            return position + 1
        value, end = _DECODER.raw_decode(self.text, position)
        if key in ("frame", "metrics") and isinstance(value, dict):
            setattr(self._open[-1], key, value)
        return end

    def _space(self, position: int) -> int:
        match = _SPACE.match(self.text, position)
        return position if match is None else match.end()


def _columns(nodes: list[_Node]) -> Columns:
    builder = EventBuilder()
    builder.add([_event(node) for node in nodes])
    calls = [node.metrics.get("count") for node in nodes]
    numbers = [value if type(value) is int and 0 <= value < 2**63 else NO_ID for value in calls]
    return replace(builder.columns(), calls=np.array(numbers, np.int64))


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
    name = nodes[index].text("name")
    where = f"node {index} ({json.dumps(name[:_SHOWN])})" if name else f"node {index}"
    return replace(problem, event=index, where=where)
