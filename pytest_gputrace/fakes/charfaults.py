"""Faults inside texts and numbers: bytes, escapes and values that JSON does not have, and keys written twice."""

from __future__ import annotations

import json

from pytest_gputrace.fakes.textedit import MARK, event_offset, in_args, in_name, put, small
from pytest_gputrace.fakes.tracefault import Case, fault, of_one
from pytest_gputrace.fakes.traces import FakeTrace

__all__: list[str] = []


def _named(bad: bytes, wrong: bytes, good: bytes, after: int = 0) -> Case:
    """One name with the bad bytes, one with the good ones; the fault begins ``after`` bytes into ``wrong``."""
    data, byte, event = in_name(bad)
    return of_one(data, in_name(good)[0], event=event, byte=byte + bad.index(wrong) + after)


def _valued(bad: bytes, good: bytes) -> Case:
    data, byte, event = in_args(bad)
    return of_one(data, in_args(good)[0], event=event, byte=byte)


@fault("text", near="the quote is escaped")
def unescaped_quote() -> Case:
    """A quote inside a name is not escaped, as torch up to 2.13 writes it."""
    # The name ends at the first quote inside; what stands after it can be neither a comma nor a brace.
    return _named(b'say "hello" to all', b'"hello', b'say \\"hello\\" to all, and end in \\\\', 1)


@fault("text", near="it is escaped; lines end in CR LF, with tabs")
def control_byte() -> Case:
    """A control character stands in a name as it is."""
    data, byte, event = in_name(b"two\x01parts")
    good = in_name(b"two\\u0001\\tparts\\n")[0].replace(b"\n    ", b"\r\n\t")
    return of_one(data, good, event=event, byte=byte + 3)


@fault("text", near="it is escaped")
def raw_newline() -> Case:
    """A line feed stands in a name as it is."""
    return _named(b"two\nlines", b"\n", b"two\\nlines")


@fault("text", near="the same name in UTF-8")
def not_utf8() -> Case:
    """A name is written in Latin-1."""
    return _named(b"caf\xe9 au lait", b"\xe9", "caf\u00e9 \U0001f525".encode())


@fault("text", near="the last character before the surrogates")
def surrogate_bytes() -> Case:
    """A surrogate is written in UTF-8's manner, three bytes."""
    return _named(b"half \xed\xa0\x80 pair", b"\xed", "half \ud7ff pair".encode())


@fault("text", near="the whole pair, escaped")
def half_surrogate() -> Case:
    """An escape is half a surrogate pair."""
    return _named(b"half \\ud83d pair", b"\\ud83d", b"whole \\ud83d\\ude00 pair")


@fault("text", near="a backslash, escaped, before such letters")
def swapped_surrogates() -> Case:
    """The halves of a surrogate pair stand in the wrong order."""
    return _named(b"pair \\ude00\\ud83d", b"\\ude00", b"pair \\\\ude00\\\\ud83d")


@fault("text", near="each backslash is written as two")
def bad_escape() -> Case:
    """The backslashes of a Windows path are no escapes."""
    return _named(b"C:\\Users\\me", b"\\U", b"C:\\\\Users\\\\me")


@fault("text", near="slashes, doubled backslashes, and a colon before a line feed")
def windows_path() -> Case:
    """The backslashes of a Windows path happen to be escapes: they read as a tab and a line feed."""
    return _named(b"C:\\temp\\new.py", b"C:", b"C:/temp and D:\\\\temp\\\\new.py; Note:\\nnext")


@fault("text", near="null, and the text NaN")
def nan() -> Case:
    """The value of a VizTracer counter is NaN."""
    trace = FakeTrace.viztracer()
    event = len(trace.events)
    row = {"ph": "C", "pid": 4000, "tid": 4000, "ts": 2_900_000_090.5, "name": "loss", "args": {"loss": MARK}}
    trace.events.append(row)
    data, byte = put(trace, b"NaN")
    row["args"] = {"loss": 0.5, "state": "NaN"}
    return of_one(data, trace.text().encode(), event=event, byte=byte)


@fault("text", near="the largest number that a double holds is an argument")
def infinity() -> Case:
    """The duration of a kernel is Infinity."""
    trace, good = small(), small()
    event = trace.index(cat="kernel")
    trace.events[event]["dur"] = MARK
    good.events[event]["args"]["largest"] = 1.7976931348623157e308
    data, byte = put(trace, b"Infinity")
    return of_one(data, good.text().encode(), event=event, byte=byte)


@fault("text", near="one is -0.0")
def minus_infinity() -> Case:
    """An input of an operation in SuperBench's list is -Infinity."""
    trace = FakeTrace.event_list()
    event = 2
    trace.events[event]["input_values"] = [None, MARK]
    return of_one(put(trace, b"-Infinity")[0], put(trace, b"-0.0")[0], event=event, byte=put(trace, b"")[1])


@fault("text", near="an argument is 1e-999, which reads as 0")
def overflowing_number() -> Case:
    """A time is 1e999: no double holds it."""
    trace = small()
    event = trace.index(cat="kernel")
    trace.events[event]["ts"] = MARK
    data, byte = put(trace, b"1e999")
    return of_one(data, in_args(b"1e-999")[0], event=event, byte=byte)


@fault("text", near="the text inf")
def non_finite_argument() -> Case:
    """An argument is inf, as C++ prints it."""
    return _valued(b"inf", b'"inf"')


@fault("text", near="one of -1.5E+300")
def overflowing_argument() -> Case:
    """An argument is -1E+400, which no double holds."""
    return _valued(b"-1E+400", b"-1.5E+300")


@fault("text", near="one of 300 digits")
def endless_digits() -> Case:
    """An argument has 400 digits: no double holds it."""
    return _valued(b"9" * 400, b"9" * 300)


@fault("text", near="it is null")
def non_finite_metadata() -> Case:
    """A value at the root, of the user's metadata, is NaN."""
    trace = small()
    trace.document = {"schemaVersion": 1, "loss": [1.5, MARK], **trace.document}
    data, byte = put(trace, b"NaN")
    return of_one(data, put(trace, b"null")[0], byte=byte)


def _twice(second: bytes, good: bytes) -> Case:
    """A kernel's event with one more key before its duration."""
    data = small().text().encode()
    event = small().index(cat="kernel")
    byte = data.index(b'"dur"', event_offset(data, event))
    return of_one(data[:byte] + second + data[byte:], data[:byte] + good + data[byte:], event=event, byte=byte)


@fault("text", near="keys that differ in capitals, as in args")
def duplicate_key() -> Case:
    """An event has one key twice, with two values."""
    return _twice(b'"ts": 5171577480700.000,\n    ', b'"Ts": 5171577480700.000,\n    "correlation": 7,\n    ')


@fault("text", near="the key, and one with its backslash escaped")
def duplicate_key_escaped() -> Case:
    """A key is there twice, once spelled with an escape."""
    return _twice(b'"n\\u0061me": "twice",\n    ', b'"n\\\\u0061me": "once",\n    ')


@fault("text", near="one key in an object and in another inside it")
def duplicate_argument() -> Case:
    """Arguments have one key twice, with two values."""
    trace = small()
    data = trace.text().encode()
    event = trace.index(cat="kernel")
    byte = data.index(b'"correlation"', event_offset(data, event))
    second, inside = b'"External id": 77, ', b'"inner": {"External id": 77, "name": "x"}, '
    return of_one(data[:byte] + second + data[byte:], data[:byte] + inside + data[byte:], event=event, byte=byte)


@fault("text", near="the key is also in an object of the user's")
def duplicate_root_key() -> Case:
    """The root has a key twice: the user's metadata repeats it."""
    trace = small()
    data = trace.text().encode()
    byte = data.index(b'"deviceProperties"')
    user = json.dumps({"user": {"schemaVersion": 2}})[1:-1].encode() + b", "
    return of_one(data[:byte] + b'"schemaVersion": 2, ' + data[byte:], data[:byte] + user + data[byte:], byte=byte)
