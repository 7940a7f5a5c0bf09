"""Where to go on after something that cannot be read: what the begin of an event, of a document, the end of a list look like."""

from __future__ import annotations

import re
from typing import Literal, NamedTuple

__all__ = ["EVENT_KEYS", "KEY", "LIST", "ROOT_KEYS", "WS", "Landmark", "Landmarks", "document_in", "member_in"]

WS = r"[ \t\r\n]*"
KEY = rf'"(?:[^"\\]|\\.){{0,256}}"{WS}:'

EVENT_KEYS = frozenset({
    "ph", "cat", "name", "pid", "tid", "ts", "dur", "id", "args", "bp", "s", "cname", "tts", "tdur", "sf", "stack", "esf",
    "estack", "id2", "scope", "bind_id", "flow_in", "flow_out",
})  # fmt: skip
"""The keys an event has in the Chrome format."""

ROOT_KEYS = frozenset({
    "schemaVersion", "traceEvents", "displayTimeUnit", "baseTimeNanoseconds", "deviceProperties", "distributedInfo",
    "traceName", "trace_id", "host_name", "with_stack", "record_shapes", "profile_memory", "with_flops", "with_modules",
    "cupti_version", "cuda_runtime_version", "cuda_driver_version", "roctracer_version", "hip_runtime_version",
    "hip_driver_version", "viztracer_metadata", "file_info", "systemTraceEvents", "stackFrames", "metadata",
})  # fmt: skip
"""The keys that stand around the list of events in the traces of Kineto, Proton and VizTracer."""

# Those that a document begins with, and nothing within one does.
_FIRST_KEYS = frozenset({
    "schemaVersion", "traceEvents", "displayTimeUnit", "baseTimeNanoseconds", "deviceProperties", "viztracer_metadata",
    "file_info",
})  # fmt: skip

LIST = re.compile(rf'"traceEvents"{WS}:{WS}\[')


def _any_of(keys: frozenset[str]) -> str:
    return "|".join(map(re.escape, sorted(keys)))


_Kind = Literal["event", "end", "document"]
_KINDS: tuple[_Kind, ...] = ("event", "end", "document")


class Landmark(NamedTuple):
    """What begins at ``place``: the next ``event``, the ``end`` of the list, another ``document``."""

    kind: _Kind
    place: int


class Landmarks:
    """What to look for in one document; ``keys`` are those of its events, ``root`` is how it begins: ``{`` or ``[``."""

    def __init__(self, keys: frozenset[str], root: str) -> None:
        self.keys = EVENT_KEYS | keys
        self._in_list = root == "["
        event = rf'\{{{WS}"(?:{_any_of(self.keys)})"{WS}:'
        document = rf'\{{{WS}"(?:{_any_of(_FIRST_KEYS - self.keys)})"{WS}:'
        self._event, self._list = re.compile(event), re.compile(rf"\[{WS}{event}")
        self._document = re.compile(document)
        lists = "(?!)"  # never
        after = r"(?:\Z|[\[{])"
        if self._in_list:
            end = after
            lists = rf"[^: \t\r\n]{WS}(?P<list>\[{WS}{event})"
        else:
            end = rf'(?:,{WS}"(?!(?:{_any_of(self.keys)})")[^"\\]{{1,64}}"{WS}:|\}}{WS}{after})'
        document = rf"{lists}|(?P<document>{document})"
        self._any = re.compile(rf"[,}}]{WS}(?P<event>{event})|\}}{WS}(?P<end>\]){WS}{end}|{document}")
        member = rf',{WS}"(?:{_any_of(ROOT_KEYS - self.keys)})"{WS}:'
        self._border = re.compile(rf"[,}}]{WS}{event}|{document}|{member}")

    def next(self, text: str, place: int) -> Landmark | None:
        """The first landmark at ``place`` or after it."""
        match = self._any.search(text, place)
        if match is None:
            return None
        for kind in _KINDS:
            if match[kind] is not None:
                return Landmark(kind, match.start(kind))
        return Landmark("document", match.start("list"))

    def is_event(self, text: str, place: int) -> bool:
        """Whether an event seems to begin there."""
        return self._event.match(text, place) is not None

    def is_document(self, text: str, place: int, gap: str) -> bool:
        """Whether another document seems to begin there, where an event should after ``gap``."""
        if self._in_list and "," not in gap and self._list.match(text, place):
            return True
        return self._document.match(text, place) is not None

    def border(self, text: str, place: int, end: int) -> int:
        """Where, between ``place`` and ``end``, something begins that no text of an event reaches into; else ``end``."""
        match = self._border.search(text, place, end)
        return end if match is None else match.start()


def document_in(text: str, place: int) -> int | None:
    """Where a document begins at ``place`` or after it."""
    match = _DOCUMENT.search(text, place)
    return None if match is None else match.start()


def member_in(text: str, place: int) -> int | None:
    """Where a member begins, comma included, that stands around the events of a trace; none of another document."""
    match = _MEMBER.search(text, place)
    return None if match is None or match["document"] else match.start()


_DOCUMENT = re.compile(rf'\{{{WS}"(?:{_any_of(_FIRST_KEYS)})"{WS}:')
_MEMBER = re.compile(rf'(?P<document>{_DOCUMENT.pattern})|,{WS}"(?:{_any_of(ROOT_KEYS)})"{WS}:')
