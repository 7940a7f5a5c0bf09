"""Faults of a file as a whole: it ends too early or too late, is several, is compressed badly, or is not there."""

from __future__ import annotations

import gzip
import json
import zlib

from pytest_gputrace.fakes.textedit import event_offset, in_name, small
from pytest_gputrace.fakes.tracefault import Case, Files, Link, fault, of_one, of_set
from pytest_gputrace.fakes.traces import FakeTrace

__all__: list[str] = []

_TRAILER = 8  # of a gzip member: its checksum and its length, four bytes each
_LARGE = 1_000_000


def _text() -> bytes:
    return small().text().encode()


def _packed(data: bytes) -> bytes:
    return gzip.compress(data, mtime=0)


def _other() -> bytes:
    """Another rank's trace, a little longer."""
    return FakeTrace(rank=1, world_size=2, steps=1, kernels_per_step=2).text().encode()


def _cut_at(end: int, event: int | None = None) -> Case:
    data = _text()
    return of_one(data[:end], data + b" \r\n\t\n", event=event, byte=end)


@fault("text", near="spaces follow the end")
def unclosed_list() -> Case:
    """The text ends after the last event, the list still open."""
    return _cut_at(_text().index(b"\n  ]"))


@fault("text", near="spaces follow the end")
def unclosed_object() -> Case:
    """The text ends after the list, the root still open."""
    return _cut_at(_text().rindex(b"\n}"))


@fault("text", near="spaces follow the end")
def cut_in_name() -> Case:
    """The text ends in the middle of an event's name: its writer was killed."""
    data, event = _text(), small().index(cat="kernel")
    return _cut_at(data.index(b"sm90", event_offset(data, event)) + 4, event)


@fault("text", near="spaces follow the end")
def cut_in_number() -> Case:
    """The text ends in the middle of a number."""
    data, event = _text(), small().index(cat="kernel")
    return _cut_at(data.index(b'"ts": ', event_offset(data, event)) + len(b'"ts": 51715774.'), event)


@fault("text", near="it is")
def unclosed_root_list() -> Case:
    """A bare list of events is not closed."""
    data = json.dumps(FakeTrace.event_list(steps=1).events).encode()
    return of_one(data[:-1], data, byte=len(data) - 1)


@fault("text", near="line feeds do")
def trailing_nuls() -> Case:
    """NULs fill the file up to a whole block."""
    data = _text()
    return of_one(data + bytes(512), data + b"\n" * 512, byte=len(data))


@fault("text", near="the longer one alone")
def leftover_end() -> Case:
    """A shorter trace was written over a longer one, whose end is still there."""
    data, longer = _text(), _other()
    rest = longer.index(b'"ts"', len(data) + 1)  # so that what is left begins in the middle of an event
    return of_one(data + longer[rest:], longer, byte=len(data))


@fault("text", near="the first one's, whole")
def two_writers() -> Case:
    """Two ranks write one file: in the middle of an event of the one, an event of the other begins."""
    data, other = _text(), _other()
    event = small().index(cat="kernel")
    byte = data.index(b'"dur"', event_offset(data, event))
    return of_one(data[:byte] + other[event_offset(other, event) :], data, event=event, byte=byte)


@fault("text", near="a bare list of both ones' events")
def two_documents() -> Case:
    """The file holds two traces, one after the other."""
    data = FakeTrace.event_list().text().encode()
    both = json.dumps(FakeTrace.event_list(steps=4).events).encode()
    return of_one(data + b"\n" + data, both, byte=len(data) + 1)


@fault("text", near="one document on one line")
def document_per_line() -> Case:
    """The file holds one document a line, one for each stream, as an early Proton wrote it."""
    data = FakeTrace.proton().text().encode()
    return of_one(data + data, data, byte=len(data))


@fault("text", near="a name begins with that character")
def byte_order_mark() -> Case:
    """The text begins with a byte order mark."""
    return of_one(b"\xef\xbb\xbf" + _text(), in_name("\ufeffname".encode())[0], byte=0)


@fault("text", near="it begins with empty lines")
def empty_file() -> Case:
    """The file has 0 bytes."""
    return of_one(b"", b"\n\n" + _text(), byte=0)


@fault("text", near="they stand around a trace")
def only_whitespace() -> Case:
    """The file holds nothing but spaces and line feeds."""
    return of_one(b" \n\t\r\n", b" \n\t\r\n" + _text() + b" \n", byte=5)


@fault("text", near="an empty member stands before a trace", filename="trace.json.gz")
def empty_gzip() -> Case:
    """The file holds an empty text, compressed."""
    return of_one(_packed(b""), _packed(b"") + _packed(_text()), byte=0)


@fault("text", near="a trace", filename="trace.json.gz")
def empty_file_named_gzip() -> Case:
    """The file has 0 bytes, under a compressed file's name."""
    return of_one(b"", _packed(_text()), byte=0)


@fault("text", near="they are whole", filename="trace.json.gz")
def truncated_gzip() -> Case:
    """The compressed data end too early."""
    whole = _packed(_text())
    cut = whole[: len(whole) * 2 // 3]
    return of_one(cut, whole, byte=len(_inflated(cut)))


@fault("text", near="they are whole", filename="trace.json.gz")
def gzip_without_trailer() -> Case:
    """The compressed data end just before their checksum."""
    whole = _packed(_text())
    return of_one(whole[:-_TRAILER], whole, byte=len(_text()))


@fault("text", near="zeros follow it", filename="trace.json.gz")
def bad_gzip_trailer() -> Case:
    """The checksum of the compressed data is wrong."""
    whole = _packed(_text())
    wrong = whole[:-_TRAILER] + bytes([whole[-_TRAILER] ^ 1]) + whole[-_TRAILER + 1 :]
    return of_one(wrong, whole + bytes(64), byte=len(_text()))


@fault("text", near="they are whole", filename="trace.json.gz")
def damaged_gzip() -> Case:
    """A block of the compressed data is of a kind that does not exist."""
    engine = zlib.compressobj(wbits=31)
    half = len(_text()) // 2
    head = engine.compress(_text()[:half]) + engine.flush(zlib.Z_FULL_FLUSH)  # ends on a whole byte
    rest = engine.compress(_text()[half:]) + engine.flush()
    return of_one(head + b"\x07" + rest[1:], head + rest, byte=half)


@fault("text", near="zeros follow them", filename="trace.json.gz")
def bytes_after_gzip() -> Case:
    """Other bytes follow the compressed data."""
    whole = _packed(_text())
    return of_one(whole + b"leftover", whole + bytes(512), byte=len(_text()))


@fault("text", near="two members that hold one document together", filename="trace.json.gz")
def appended_gzip_members() -> Case:
    """Two ranks appended their compressed traces to one file: it inflates into two documents."""
    data = _text()
    half = len(data) // 2
    return of_one(_packed(data) + _packed(_other()), _packed(data[:half]) + _packed(data[half:]), byte=len(data))


@fault("text", near="compressed", filename="trace.json.gz")
def plain_named_gzip() -> Case:
    """The file is plain text under a compressed file's name."""
    return of_one(_text(), _packed(_text()), byte=0)


@fault("text", near="plain text")
def gzip_named_plain() -> Case:
    """The file is compressed under a plain name."""
    return of_one(_packed(_text()), _text(), byte=0)


@fault("text", near="one that stays below it", filename="trace.json.gz")
def too_large() -> Case:
    """A file of 3 KB inflates to 1 MB: too much for a limit of 100,000 bytes."""
    trace = small()
    trace.events[trace.index(cat="cpu_op")]["args"]["note"] = " " * _LARGE
    return of_one(_packed(trace.text().encode()), _packed(_text()))


@fault("text", near="the file itself", filename="run")
def unreadable_file() -> Case:
    """A link leads to itself: opening it fails."""
    first, second = (FakeTrace(rank=rank, world_size=2, steps=1).text().encode() for rank in range(2))
    bad: Files = {"rank0.json": first, "rank1.json": Link("rank1.json")}
    return of_set(bad, {"rank0.json": first, "rank1.json": second}, rank=1, file="rank1.json")


def _inflated(data: bytes) -> bytes:
    return zlib.decompressobj(wbits=31).decompress(data)
