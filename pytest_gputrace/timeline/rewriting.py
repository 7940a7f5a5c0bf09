"""Rewrites events of one input as its plan says: other times, processes, threads and ids; all else stays as it is spelled.

A compiled function does this for ordinary runs of events, Python for all others, and the results mean the same.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from decimal import Context, Decimal, InvalidOperation
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from pytest_gputrace.timeline.eventids import ID_PHASES
from pytest_gputrace.timeline.exact import floor_ns
from pytest_gputrace.timeline.plan import Flows
from pytest_gputrace.timeline.rawtext import raw_text
from pytest_gputrace.traces.compiled.splicing import Numbers, Track, splicer
from pytest_gputrace.traces.vocabulary import lane_of

if TYPE_CHECKING:
    from pytest_gputrace.timeline.plan import Id, Plan

__all__ = ["Rewriter", "Written"]

# All digits of a double, and those that a time has in front of them; what is smaller still is none.
_CONTEXT = Context(prec=1000, Emin=-400, Emax=400)
_MOST_KINDS = 1 << 12
_EVENTS = msgspec.json.Decoder(list[dict[str, msgspec.Raw]])
_ENCODER = msgspec.json.Encoder()
_TOKEN = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"|[{}\[\]]|[^\s,:{}\[\]"]+', re.DOTALL)
_TRACK, _MISSING = ("pid", "tid", "cat"), (b"", b"", b"")
_METADATA = b'"M"'
# An instant of the whole trace is one of its process among those of other ranks.
_INSTANTS, _OF_ALL, _OF_PROCESS = (b'"i"', b'"I"'), b'"g"', msgspec.Raw(b'"p"')
_WITH_ID = frozenset(b'"%c"' % phase for phase in ID_PHASES.encode())


class Written(NamedTuple):
    """Rewritten events, parted by a comma and a line's end; how many they are, and how many metadata events are left out.

    ``flows`` are those of the events that are written.
    """

    text: bytes
    events: int
    metadata: int
    flows: Flows


class Rewriter:
    """Rewrites the events of one input. Several threads may use it at once."""

    def __init__(self, plan: Plan) -> None:
        clock, ids = plan.clock, plan.ids
        self._plan = plan
        self._delta_us = _CONTEXT.scaleb(Decimal(clock.delta_ns), -3)
        self._splicer = splicer(
            Numbers(*clock, ids.add, ids.known),
            (Track(*track, *where) for track, where in plan.tracks.items()),
            ids.prefix,
            ID_PHASES,
        )
        # Many events, few kinds of them.
        self._place = lru_cache(_MOST_KINDS)(self._placed)

    def run(self, text: bytes) -> Written:
        """Whole events, parted by commas, rewritten; metadata events are left out.

        Raises:
            ValueError: these are not the events for which the plan was made.
        """
        spliced = self._splicer.run(text, is_raw=False) if self._splicer else None
        if not spliced:
            text = raw_text(text)
            spliced = self._splicer.run(text, is_raw=True) if self._splicer else None
        if spliced:
            return Written(spliced.text, spliced.events, spliced.metadata, Flows(*spliced.flows))
        try:
            return self._run(text)
        except ValueError as error:
            raise ValueError("the file has changed since it was surveyed") from error

    def _run(self, text: bytes) -> Written:
        events = _events(text)
        phases = [bytes(event.get("ph", b"")) for event in events]
        for event, phase in zip(events, phases, strict=True):
            if phase != _METADATA:
                self._rewrite(event, phase)
        kept = [event for event, phase in zip(events, phases, strict=True) if phase != _METADATA]
        counts = Counter(phases)
        flows = Flows(counts[b'"s"'], counts[b'"t"'], counts[b'"f"'])
        return Written(_joined(kept), len(kept), counts[_METADATA], flows)

    def _rewrite(self, event: dict[str, msgspec.Raw], phase: bytes) -> None:
        pid, tid, category = map(bytes, map(event.get, _TRACK, _MISSING))
        event["pid"], event["tid"] = self._place(pid, tid, category, phase)
        if "ts" in event:
            self._move(event)
        if phase in _WITH_ID and "id" in event:
            event["id"] = self._id(event["id"])
        if phase in _INSTANTS and bytes(event.get("s", b"")) == _OF_ALL:
            event["s"] = _OF_PROCESS
        if "bind_id" in event:
            event["bind_id"] = self._id(event["bind_id"], binds=True)
        if "id2" in event and bytes(event["id2"]).startswith(b"{"):
            [ids] = _events(bytes(event["id2"]))
            ids.update({key: self._id(ids[key]) for key in ("global", "local") if key in ids})
            event["id2"] = msgspec.Raw(_joined([ids]))

    def _placed(self, pid: bytes, tid: bytes, category: bytes, phase: bytes) -> tuple[msgspec.Raw, msgspec.Raw]:
        lane = lane_of(_text(category), _text(phase))
        try:
            where = self._plan.tracks[_id_of(pid), _id_of(tid), lane]
        except (KeyError, TypeError) as error:
            raise ValueError("no such track") from error
        return msgspec.Raw(b"%d" % where.pid), msgspec.Raw(b"%d" % where.tid)

    def _move(self, event: dict[str, msgspec.Raw]) -> None:
        time_us = _decimal(event["ts"])
        if time_us is None:
            return
        if not self._plan.clock.drift_ppt:
            event["ts"] = _plain(_CONTEXT.add(time_us, self._delta_us))
        else:
            self._stretch(event, time_us)

    def _stretch(self, event: dict[str, msgspec.Raw], time_us: Decimal) -> None:
        clock = self._plan.clock
        start_ns = clock.at(floor_ns(time_us))
        event["ts"] = _microseconds(start_ns)
        dur_us = _decimal(event["dur"]) if "dur" in event else None
        if dur_us is not None:
            event["dur"] = _microseconds(clock.at(floor_ns(_CONTEXT.add(time_us, dur_us))) - start_ns)

    def _id(self, spelled: msgspec.Raw, *, binds: bool = False) -> msgspec.Raw:
        old = _id_of(bytes(spelled))
        if not isinstance(old, int | str) or isinstance(old, bool):
            return spelled
        return msgspec.Raw(raw_text(json.dumps(self._plan.ids.of(old, binds=binds)).encode()))


def _events(text: bytes) -> list[dict[str, msgspec.Raw]]:
    """The fields of each event, values as they are spelled."""
    try:
        return _EVENTS.decode(b"[" + text + b"]")
    except (msgspec.DecodeError, RecursionError):  # half a character, or nested deeper than msgspec goes
        return _split(text)


def _split(text: bytes) -> list[dict[str, msgspec.Raw]]:
    events: list[dict[str, msgspec.Raw]] = []
    depth = start = 0
    key: str | None = None
    for token in _TOKEN.finditer(text):
        word = token[0]
        if depth == 0 and word != b"{":
            raise ValueError("no event")
        is_opening, is_closing = word in b"{[", word in b"}]"
        depth += is_opening - is_closing
        if depth == 1 and is_opening:
            events.append({})
        elif depth == 1 and key is not None:
            events[-1][key] = msgspec.Raw(text[start : token.end()] if is_closing else word)
            key = None
        elif depth == 1:
            key = _text(word)
        elif depth == 2 and is_opening:
            start = token.start()
    if depth:
        raise ValueError("half an event")
    return events


def _joined(events: list[dict[str, msgspec.Raw]]) -> bytes:
    try:
        return b",\n".join(map(_ENCODER.encode, events))
    except UnicodeEncodeError:  # half a character in a key
        return b",\n".join(map(_spelled_out, events))


def _spelled_out(event: dict[str, msgspec.Raw]) -> bytes:
    members = (raw_text(json.dumps(key).encode()) + b":" + bytes(value) for key, value in event.items())
    return b"{" + b",".join(members) + b"}"


def _text(spelled: bytes) -> str:
    value = json.loads(spelled or b"null")
    return value if isinstance(value, str) else ""


def _id_of(spelled: bytes) -> Id | Any:
    """A process, a thread or an id: what is a whole number counts as one, however it is spelled."""
    value = json.loads(spelled or b"null")
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _decimal(spelled: msgspec.Raw) -> Decimal | None:
    try:
        return Decimal(str(spelled, "ascii"))
    except (InvalidOperation, UnicodeDecodeError):
        return None


def _plain(time_us: Decimal) -> msgspec.Raw:
    text = str(time_us)  # sooner than `format`
    return msgspec.Raw(format(time_us, "f") if "E" in text else text)


def _microseconds(time_ns: int) -> msgspec.Raw:
    return _plain(_CONTEXT.scaleb(Decimal(time_ns), -3))
