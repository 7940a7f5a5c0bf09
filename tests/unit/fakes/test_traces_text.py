"""Each fault of a text is really in it, as Python's own parsers see it, and no near miss has one."""

from __future__ import annotations

import gzip
import json
import math
import zlib
from typing import TYPE_CHECKING, Any

import pytest

from pytest_gputrace.fakes import TraceFault, trace_faults

if TYPE_CHECKING:
    from pathlib import Path

TEXTS = [one for one in trace_faults.values() if one.family == "text" and not one.is_set]
# What Python's parser says at exactly the place, in versions 3.10 to 3.14; and what stands there.
GRAMMAR = {
    "unescaped_quote": b"hello",
    "control_byte": b"\x01",
    "raw_newline": b"\n",
    "bad_escape": b"\\U",
    "non_finite_argument": b"inf",
    "missing_comma": b"{",
    "bare_na": b"N/A",
    "plus_sign": b"+",
    "python_spelling": b"'",
}
# Told otherwise by some versions, so that what stands there is all there is to say.
STANDS = {
    "stray_comma": b"}",
    "stray_comma_in_list": b"]",
    "not_utf8": b"\xe9",
    "surrogate_bytes": b"\xed\xa0\x80",
    "half_surrogate": b"\\ud83d ",
    "swapped_surrogates": b"\\ude00\\ud83d",
    "windows_path": b"C:\\temp\\new.py",
    "nan": b"NaN",
    "infinity": b"Infinity",
    "minus_infinity": b"-Infinity",
    "overflowing_number": b"1e999",
    "overflowing_argument": b"-1E+400",
    "endless_digits": b"9" * 400,
    "non_finite_metadata": b"NaN",
    "duplicate_key": b'"ts": 5171577480700.000',
    "duplicate_key_escaped": b'"n\\u0061me": "twice"',
    "duplicate_argument": b'"External id": 77',
    "duplicate_root_key": b'"schemaVersion": 2',
    "number_in_list": b"17",
    "null_in_list": b"null",
    "trailing_nuls": b"\0\0",
    "leftover_end": b'"ts"',
    "two_documents": b"[{",
    "two_writers": b'{\n    "ph": "X"',
    "document_per_line": b'{"base',
    "byte_order_mark": b"\xef\xbb\xbf{",
    "number_root": b"42",
    "no_list_of_events": b"{",
    "events_not_a_list": b"{",
}
CUT = [
    "unclosed_list",
    "unclosed_object",
    "cut_in_name",
    "cut_in_number",
    "unclosed_root_list",
    "empty_file",
    "only_whitespace",
]
# What Python takes, although it is no trace.
LEGAL = {
    "windows_path", "number_root", "no_list_of_events", "events_not_a_list", "number_in_list", "null_in_list",
    "nameless_event", "number_as_name", "text_as_time", "list_as_arguments", "too_large",
}  # fmt: skip


def refuse(token: str) -> Any:
    raise ValueError(f"{token} is no JSON")


def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len(dict(pairs)) != len(pairs):
        raise ValueError("a key twice")
    return dict(pairs)


def finite(digits: str) -> float:
    if math.isinf(value := float(digits)):
        raise ValueError("too large")
    return value


def whole(digits: str) -> int:
    finite(digits)
    return int(digits)


def strictly(data: bytes) -> Any:
    value = json.loads(
        data.decode("utf-8"), parse_constant=refuse, object_pairs_hook=once, parse_float=finite, parse_int=whole
    )
    json.dumps(value, ensure_ascii=False).encode("utf-8")  # no half of a surrogate pair
    return value


def text_of(path: Path) -> bytes:
    data = path.read_bytes()
    if path.suffix == ".gz" and not data.startswith(b"\x1f\x8b"):
        raise ValueError("not compressed")
    return gzip.decompress(data) if path.suffix == ".gz" else data


@pytest.mark.parametrize("one", TEXTS, ids=str)
def test_a_strict_reader_refuses_it(one: TraceFault, tmp_path: Path) -> None:
    path = one.write(tmp_path / one.filename)
    if one.name in LEGAL:
        assert strictly(text_of(path)) is not None
    else:
        with pytest.raises((ValueError, EOFError, zlib.error, gzip.BadGzipFile, RecursionError)):
            strictly(text_of(path))


@pytest.mark.parametrize("one", TEXTS, ids=str)
def test_a_strict_reader_takes_the_near_miss(one: TraceFault, tmp_path: Path) -> None:
    value = strictly(text_of(one.near_miss(tmp_path / one.filename)))
    events = value["traceEvents"] if isinstance(value, dict) else value
    assert len(events) > 2
    assert all(isinstance(event, dict) and isinstance(event.get("name", event.get("ph")), str) for event in events)


@pytest.mark.parametrize("name", GRAMMAR)
def test_python_stumbles_at_the_same_byte(name: str, tmp_path: Path) -> None:
    one = trace_faults[name]
    data = one.write(tmp_path / one.filename).read_bytes()
    with pytest.raises(json.JSONDecodeError) as caught:
        json.loads(data)
    assert len(data.decode()[: caught.value.pos].encode()) == one.place.byte
    assert data[one.place.byte :].startswith(GRAMMAR[name])


@pytest.mark.parametrize("name", STANDS)
def test_it_stands_at_its_byte(name: str, tmp_path: Path) -> None:
    one = trace_faults[name]
    assert one.write(tmp_path / one.filename).read_bytes()[one.place.byte :].startswith(STANDS[name])


@pytest.mark.parametrize("name", CUT)
def test_a_cut_text_ends_at_its_byte(name: str, tmp_path: Path) -> None:
    one = trace_faults[name]
    assert one.place.byte == one.write(tmp_path / one.filename).stat().st_size


def test_every_text_fault_is_looked_at() -> None:
    named = {*GRAMMAR, *STANDS, *CUT, *LEGAL}
    packed = {one.name for one in TEXTS if one.filename.endswith(".gz")}
    assert {one.name for one in TEXTS} - named - packed == {"gzip_named_plain"}


@pytest.mark.parametrize("name", ["unescaped_quote", "half_surrogate", "infinity", "duplicate_argument", "cut_in_name"])
def test_its_event_is_the_one_with_its_byte(name: str, tmp_path: Path) -> None:
    one = trace_faults[name]
    before = one.write(tmp_path / one.filename).read_bytes()[: one.place.byte]
    assert before.count(b'\n    "ph": ') - 1 == one.place.event


@pytest.mark.parametrize(
    ("name", "key", "bad", "good"),
    [
        ("number_as_name", "name", 17, "17"),
        ("text_as_time", "ts", "5171577480671", 5171577480671),
        ("list_as_arguments", "args", ["External id", 1], None),
    ],
)
def test_values_of_a_wrong_type(name: str, key: str, bad: object, good: object, tmp_path: Path) -> None:
    one = trace_faults[name]
    for write, value in ((one.write, bad), (one.near_miss, good)):
        event = json.loads(write(tmp_path / one.filename).read_bytes())["traceEvents"][one.place.event]
        assert event.get(key) == value
        assert type(event.get(key)) is type(value)


def test_only_the_end_of_a_range_needs_no_name(tmp_path: Path) -> None:
    one = trace_faults["nameless_event"]
    bad, good = (json.loads(write(tmp_path / "t.json").read_bytes()) for write in (one.write, one.near_miss))
    assert "name" not in bad["traceEvents"][one.place.event]
    assert [event["ph"] for event in good["traceEvents"] if "name" not in event] == ["E"]


def test_a_path_reads_as_something_else(tmp_path: Path) -> None:
    one = trace_faults["windows_path"]
    names = [event["name"] for event in json.loads(one.write(tmp_path / "t.json").read_bytes())["traceEvents"]]
    assert names[one.place.event or 0] == "C:\temp\new.py"


def inflated(data: bytes) -> bytes:
    """As far as it goes, of the first member."""
    engine, text = zlib.decompressobj(wbits=31), b""
    try:
        for index in range(len(data)):
            text += engine.decompress(data[index : index + 1])
    except zlib.error:
        pass
    return text


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("truncated_gzip", "ended before the end-of-stream"),
        ("gzip_without_trailer", "ended before the end-of-stream"),
        ("bad_gzip_trailer", "CRC check failed"),
        ("damaged_gzip", "invalid block type"),
        ("bytes_after_gzip", "Not a gzipped file"),
        ("plain_named_gzip", "Not a gzipped file"),
    ],
)
def test_what_is_wrong_with_the_compression(name: str, said: str, tmp_path: Path) -> None:
    one = trace_faults[name]
    data = one.write(tmp_path / one.filename).read_bytes()
    with pytest.raises((EOFError, OSError, zlib.error), match=said):
        gzip.decompress(data)
    assert one.place.byte == len(inflated(data))
    good = one.near_miss(tmp_path / one.filename).read_bytes()
    assert gzip.decompress(good).startswith(inflated(data))


def test_appended_members_are_two_documents(tmp_path: Path) -> None:
    one = trace_faults["appended_gzip_members"]
    data = one.write(tmp_path / one.filename).read_bytes()
    text = gzip.decompress(data)
    assert inflated(data) == text[: one.place.byte]
    parts = [strictly(part) for part in (text[: one.place.byte], text[one.place.byte :])]
    assert [part["traceName"] for part in parts] == ["rank0.step0.json", "rank1.step0.json"]
    good = one.near_miss(tmp_path / one.filename).read_bytes()
    assert good.count(b"\x1f\x8b\x08") == 2


def test_wrong_wrapping_is_a_good_trace_but_for_its_name(tmp_path: Path) -> None:
    plain, packed = trace_faults["plain_named_gzip"], trace_faults["gzip_named_plain"]
    assert strictly(plain.write(tmp_path / plain.filename).read_bytes())
    assert strictly(gzip.decompress(packed.write(tmp_path / packed.filename).read_bytes()))


def test_the_large_one_is_small_on_disk(tmp_path: Path) -> None:
    one = trace_faults["too_large"]
    data = one.write(tmp_path / one.filename).read_bytes()
    assert len(data) < 4_000 < 1_000_000 < len(gzip.decompress(data))
    assert len(gzip.decompress(one.near_miss(tmp_path / one.filename).read_bytes())) < 100_000


def test_the_deep_one_is_deep(tmp_path: Path) -> None:
    one = trace_faults["nested_too_deep"]
    text = gzip.decompress(one.write(tmp_path / one.filename).read_bytes())
    start = text.index(b"[" * 100_000)
    assert text[start:].startswith(b"[" * 100_000 + b"]" * 100_000 + b", ")
    assert text[:start].count(b'\n    "ph": ') - 1 == one.place.event


def test_the_unreadable_one_cannot_be_opened(tmp_path: Path) -> None:
    one = trace_faults["unreadable_file"]
    path = one.write(tmp_path / "bad")
    with pytest.raises(OSError, match="symbolic links"):
        (path / str(one.place.file)).read_bytes()
    assert strictly((one.near_miss(tmp_path / "good") / str(one.place.file)).read_bytes())
