"""Faults of a text's build: its grammar, its root, what stands in the list of events, and how deep it goes."""

from __future__ import annotations

import gzip
import json
from typing import TYPE_CHECKING

from pytest_gputrace.fakes.textedit import MARK, event_offset, put, small
from pytest_gputrace.fakes.tracefault import Case, fault, of_one

if TYPE_CHECKING:
    from pytest_gputrace.fakes.traces import FakeTrace

__all__: list[str] = []

_DEEP, _NOT_DEEP = 100_000, 100


def _kernel_dur(raw: bytes, good: bytes) -> Case:
    """A kernel whose duration is written as ``raw``."""
    trace = small()
    event = trace.index(cat="kernel")
    trace.events[event]["dur"] = MARK
    data, byte = put(trace, raw)
    return of_one(data, put(trace, good)[0], event=event, byte=byte)


@fault("text", near="a comma and a brace stand in its name")
def stray_comma() -> Case:
    """A comma follows the last key of an event."""
    trace = small()
    event = trace.index(ph="f", cat="ac2g")
    data = trace.text().encode()
    byte = data.index(b"\n  }", event_offset(data, event))
    named = small()
    named.events[named.index(cat="cpu_op")]["name"] = "lambda: {1, 2,}"
    return of_one(data[:byte] + b"," + data[byte:], named.text().encode(), event=event, byte=byte + len(b",\n  "))


@fault("text", near="a comma and a bracket stand in a name")
def stray_comma_in_list() -> Case:
    """A comma follows the last event."""
    data = small().text().encode()
    byte = data.index(b"\n  ]")
    named = small()
    named.events[named.index(cat="cpu_op")]["name"] = "f([1, 2,],)"
    return of_one(data[:byte] + b"," + data[byte:], named.text().encode(), byte=byte + len(b",\n  "))


@fault("text", near="all on one line, without a space after a comma")
def missing_comma() -> Case:
    """There is no comma between two events."""
    trace = small()
    data = trace.text().encode()
    byte = event_offset(data, trace.index(cat="kernel"))
    start = data.rindex(b",", 0, byte)
    packed = json.dumps(trace.document, separators=(",", ":")).encode()
    return of_one(data[:start] + data[start + 1 :], packed, byte=byte - 1)


@fault("text", near="0")
def bare_na() -> Case:
    """A duration is N/A, without quotes."""
    return _kernel_dur(b"N/A", b"0")


@fault("text", near="one with an exponent")
def plus_sign() -> Case:
    """A number begins with a plus, which JSON does not know."""
    return _kernel_dur(b"+12.5", b"1.25e+1")


@fault("text", near="single quotes stand in a name")
def python_spelling() -> Case:
    """The text is Python's own spelling of the document, not JSON."""
    good = small()
    good.events[good.index(cat="cpu_op")]["name"] = "{'name': None, 'last': True}"
    return of_one(str(small().document).encode(), good.text().encode(), byte=1)


@fault("text", near="the root is the bare list of events, with times from the epoch")
def number_root() -> Case:
    """The root is a number."""
    return of_one(b"42\n", json.dumps(_epoch(small()).events).encode(), byte=0)


@fault("text", near="events come first")
def no_list_of_events() -> Case:
    """The root is an object that has no list of events, as rocprofiler writes it."""
    bad = {"rocprofiler-sdk-tool": [{"metadata": {"pid": 4000}, "buffer_records": {"kernel_dispatch": []}}]}
    good = small()
    good.document = {"traceEvents": good.events, **good.document}
    return of_one(json.dumps(bad, indent=2).encode(), good.text().encode(), byte=0)


@fault("text", near="an object elsewhere has a key traceEvents, too")
def events_not_a_list() -> Case:
    """The value of `traceEvents` is an object, no list."""
    trace, good = small(), small()
    trace.document["traceEvents"] = dict(enumerate(trace.events))
    good.document = {"user": {"traceEvents": {"0": 1}}, **good.document}
    return of_one(trace.text().encode(), good.text().encode(), byte=0)


def _instead(raw: object, good: object) -> Case:
    """A value in the list of events that is no event; the look-alike has it in an event's arguments."""
    trace = small()
    event = trace.index(cat="kernel")
    trace.events.insert(event, MARK)
    data, byte = put(trace, json.dumps(raw).encode())
    harmless = small()
    harmless.events[event]["args"]["grid"] = good
    return of_one(data, harmless.text().encode(), event=event, byte=byte)


@fault("text", near="in a list of an event's arguments")
def number_in_list() -> Case:
    """A number stands in the list of events."""
    return _instead(17, [17, 1, 1])


@fault("text", near="in a list of an event's arguments")
def null_in_list() -> Case:
    """A null stands in the list of events."""
    return _instead(None, [None, None, 1])


def _changed(key: str, bad: object, good: object) -> Case:
    """An operation with another value of one key; None takes the key away."""
    traces = small(), small()
    event = traces[0].index(cat="cpu_op")
    for trace, value in zip(traces, (bad, good), strict=True):
        trace.events[event][key] = value
        if value is None:
            del trace.events[event][key]
    data = traces[0].text().encode()
    return of_one(data, traces[1].text().encode(), event=event)


@fault("text", near="the end of a range, which needs no name")
def nameless_event() -> Case:
    """A range in the list of events has no name."""
    bad, good = small(), small()
    event = bad.index(cat="cpu_op")
    del bad.events[event]["name"]
    row = good.events[event]
    begin = {"ph": "B", "name": "range", "pid": row["pid"], "tid": row["tid"], "ts": row["ts"] + 26.0}
    good.events[event + 1 : event + 1] = [begin, {**begin, "ph": "E", "ts": row["ts"] + 28.0}]
    del good.events[event + 2]["name"]
    return of_one(bad.text().encode(), good.text().encode(), event=event)


@fault("text", near="the number as a text")
def number_as_name() -> Case:
    """A name is a number."""
    return _changed("name", 17, "17")


@fault("text", near="a whole number, without a decimal")
def text_as_time() -> Case:
    """A time is a text."""
    trace = small()
    whole = round(trace.events[trace.index(cat="cpu_op")]["ts"])
    return _changed("ts", str(whole), whole)


@fault("text", near="it has none")
def list_as_arguments() -> Case:
    """The arguments of an event are a list."""
    return _changed("args", ["External id", 1], None)


@fault("text", near="100 of them", filename="trace.json.gz")
def nested_too_deep() -> Case:
    """An argument is 100,000 lists one in the other: parsers give up."""
    trace = small()
    event = trace.index(cat="cpu_op")
    trace.events[event]["args"]["Concrete Inputs"] = MARK
    data, _ = put(trace, b"[" * _DEEP + b"]" * _DEEP)
    good = put(trace, b"[" * _NOT_DEEP + b"]" * _NOT_DEEP)[0]
    return of_one(gzip.compress(data, mtime=0), gzip.compress(good, mtime=0), event=event)


def _epoch(trace: FakeTrace) -> FakeTrace:
    """The same trace as torch 2.1 has it: whole microseconds from the epoch, and no base."""
    base_us = trace.document.pop("baseTimeNanoseconds") // 1000
    for event in trace.events:
        event["ts"] = base_us + round(event["ts"])
        if "dur" in event:
            event["dur"] = round(event["dur"])
    return trace
