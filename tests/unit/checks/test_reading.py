"""Every way in which a file is not the JSON it claims to be: code, byte, event, message; and what only looks like it."""

from __future__ import annotations

import gzip
import hashlib
import json
import os
from typing import TYPE_CHECKING, NamedTuple

import pytest

from pytest_gputrace.checks.reading import find, read, read_folder
from pytest_gputrace.model import Capture, Severity

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

CAPTURE = Capture("node0", 3, "model-benchmarks:gpt/fp16")
OTHER = Capture("node1", 7, "model-benchmarks:gpt/fp16")


def listed(*names: str) -> bytes:
    return json.dumps([{"name": name, "start_time": 1.5} for name in names]).encode()


def chrome(*names: str) -> bytes:
    return json.dumps({"traceEvents": [{"ph": "X", "name": name} for name in names]}).encode()


MARKS = tuple(CAPTURE.mark(index, 3) for index in range(3))
GOOD = listed(*MARKS)
FIRST = b'[{"name": "aten::mm"}, '
"""An event before the bad one, 23 bytes with its comma."""


class Bad(NamedTuple):
    data: bytes
    code: str
    byte: int
    event: int | None
    message: str
    suffix: str = ".json"


GZIPPED = gzip.compress(GOOD, mtime=0)
BAD = {
    "unescaped quote": Bad(
        FIRST + b'{"name": "my "op"", "a": 1}]', "GT201", 37, 1, "is a quote in the text before it not escaped?"
    ),
    "unescaped quote in a key": Bad(FIRST + b'{"na"me": 1}]', "GT201", 28, 1, "not escaped?"),
    "raw control byte": Bad(FIRST + b'{"name": "a\x01b"}]', "GT205", 34, 1, "control character 0x01"),
    "raw newline": Bad(FIRST + b'{"name": "a\nb"}]', "GT205", 34, 1, "control character 0x0a"),
    "not UTF-8": Bad(FIRST + b'{"name": "caf\xe9"}]', "GT206", 36, 1, "byte 0xe9 is not UTF-8"),
    "not UTF-8, offset in bytes": Bad(
        '[{"name": "é€😀"}, '.encode() + b'{"name": "\xff"}]', "GT206", 34, 1, "byte 0xff is not UTF-8"
    ),
    "not UTF-8 outside a text": Bad(FIRST + b"\xff]", "GT201", 23, 1, 'found "\\xff]" where a value must come'),
    "surrogate in UTF-8": Bad(FIRST + b'{"name": "\xed\xa0\x80"}]', "GT206", 33, 1, "byte 0xed is not UTF-8"),
    "UTF-16": Bad("[]".encode("utf-16"), "GT201", 0, None, "where a value must come"),
    "lone high surrogate": Bad(FIRST + b'{"name": "\\ud83d!"}]', "GT207", 33, 1, "\\ud83d is half a surrogate pair"),
    "lone low surrogate": Bad(FIRST + b'{"name": "x\\uDE00"}]', "GT207", 34, 1, "\\uDE00 is half a surrogate pair"),
    "pair the wrong way": Bad(FIRST + b'{"name": "\\ude00\\ud83d"}]', "GT207", 33, 1, "\\ude00 is half a surrogate pair; no UTF-8 text can hold it (1 more like it)"),
    "bad escape": Bad(FIRST + b'{"name": "C:\\Users"}]', "GT208", 35, 1, "is no JSON escape; write a backslash as two"),
    "cut escape": Bad(FIRST + b'{"name": "\\u12"}]', "GT208", 33, 1, "is no JSON escape"),
    "NaN": Bad(FIRST + b'{"gpu_time": NaN, "name": "late"}]', "GT204", 36, 1, 'event 1 ("late"): NaN: JSON has no such'),
    "Infinity": Bad(FIRST + b'{"name": "x", "t": Infinity}]', "GT204", 42, 1, "Infinity: JSON has no such number"),
    "-Infinity": Bad(FIRST + b'{"name": "x", "t": -Infinity}]', "GT204", 42, 1, "-Infinity: JSON has no such number"),
    "nan in C's spelling": Bad(FIRST + b'{"name": "x", "t": -nan}]', "GT204", 42, 1, "-nan: JSON has no such number"),
    "NaN deep in arguments": Bad(
        FIRST + b'{"name": "x", "input_values": [null, [1, NaN, NaN]]}]', "GT204", 64, 1, "write null (1 more like it)"
    ),
    "1e999": Bad(FIRST + b'{"name": "x", "t": 1e999}]', "GT204", 42, 1, "1e999: no double holds it"),
    "-1E+400": Bad(FIRST + b'{"name": "x", "t": -1E+400}]', "GT204", 42, 1, "-1E+400: no double holds it"),
    "just beyond a double": Bad(FIRST + b'{"name": "x", "t": 1.8e308}]', "GT204", 42, 1, "1.8e308: no double holds it"),
    "a long integer": Bad(
        FIRST + b'{"name": "x", "t": ' + b"9" * 5000 + b"}]", "GT204", 42, 1, "a number of 5000 characters: no double"
    ),
    "digits and a short exponent": Bad(
        FIRST + b'{"name": "x", "t": ' + b"9" * 250 + b"e60}]", "GT204", 42, 1, "a number of 253 characters"
    ),
    "leading zero": Bad(FIRST + b'{"name": "x", "t": 01}]', "GT201", 43, 1, 'found "1}]" where "," or "}" must come'),
    "number without digits": Bad(FIRST + b'{"name": "x", "t": -}]', "GT201", 42, 1, "where a value must come"),
    "stray comma": Bad(FIRST + b"]", "GT201", 23, None, "is there a comma too many?"),
    "two commas": Bad(FIRST + b', {"name": "x"}]', "GT201", 23, None, "is there a comma too many?"),
    "comma in an object": Bad(FIRST + b'{"name": "x",}]', "GT201", 36, 1, "is there a comma too many?"),
    "bare N/A": Bad(FIRST + b'{"name": "x", "t": N/A}]', "GT201", 42, 1, 'found "N/A}]" where a value must come'),
    "Python's None": Bad(FIRST + b'{"name": "x", "t": None}]', "GT201", 42, 1, 'found "None}]" where a value'),
    "single quotes": Bad(b"[{'name': 'x'}]", "GT201", 2, 0, "where a key in quotes must come"),
    "no colon": Bad(FIRST + b'{"name" "x"}]', "GT201", 31, 1, 'where ":" must come'),
    "duplicate key": Bad(FIRST + b'{"name": "x", "name": "y"}]', "GT209", 37, 1, 'key "name" twice in one object'),
    "duplicate key in escapes": Bad(
        FIRST + b'{"name": "x", "\\u006eame": 1}]', "GT209", 37, 1, 'key "name" twice in one object'
    ),
    "duplicate key in arguments": Bad(
        FIRST + b'{"name": "x", "args": {"a": 1, "a": 1}}]', "GT209", 54, 1, 'key "a" twice in one object'
    ),
    "wrong root: number": Bad(b"7", "GT215", 0, None, "a number with no list of events; expected a list of objects"),
    "wrong root: text": Bad(b'"trace"', "GT215", 0, None, "a text with no list of events"),
    "wrong root: null": Bad(b"null", "GT215", 0, None, "null with no list of events"),
    "wrong root: object": Bad(b'{"samples": []}', "GT215", 0, None, "an object with no list of events"),
    "traceEvents is no list": Bad(b'{"traceEvents": {"a": []}}', "GT215", 0, None, "an object with no list of events"),
    "traceEvents too deep": Bad(b'{"a": {"traceEvents": []}}', "GT215", 0, None, "an object with no list of events"),
    "not an event": Bad(FIRST + b'["x"]]', "GT216", 23, 1, "a list in the list of events"),
    "event without a name": Bad(FIRST + b'{"x": 1}]', "GT216", 30, 1, "an event without a name"),
    "name is no text": Bad(FIRST + b'{"name": 1}]', "GT216", 33, 1, "an event without a name"),
    "unclosed list": Bad(FIRST[:-2], "GT202", 21, None, "the text ends with [ still open"),
    "unclosed object": Bad(FIRST + b'{"name": "x"', "GT202", 35, 1, "the text ends with [{ still open"),
    "cut in a text": Bad(FIRST + b'{"name": "aten::ad', "GT202", 41, 1, 'event 1, after event 0 ("aten::mm")'),
    "cut in a word": Bad(FIRST + b'{"name": "x", "t": tru', "GT202", 45, 1, "the text ends with [{ still open"),
    "cut in a number": Bad(FIRST + b'{"name": "x", "t": 0.', "GT202", 44, 1, "the text ends with [{ still open"),
    "cut after a sign": Bad(FIRST + b'{"name": "x", "t": -', "GT202", 43, 1, "the text ends with [{ still open"),
    "cut in an exponent": Bad(FIRST + b'{"name": "x", "t": 1e', "GT202", 44, 1, "the text ends with [{ still open"),
    "a wrong word": Bad(FIRST + b'{"name": "x", "t": tru}', "GT201", 42, 1, 'found "tru}" where a value must come'),
    "closed wrongly": Bad(b'[{"name": "x"]}', "GT201", 13, 0, 'where "," or "}" must come'),
    "trailing bytes": Bad(GOOD + b"  garbage", "GT212", len(GOOD) + 2, None, "something after the end of the document"),
    "trailing NULs": Bad(GOOD + b"\0\0", "GT212", len(GOOD), None, "two writers?"),
    "trailing bracket": Bad(GOOD + b"]", "GT212", len(GOOD), None, "something after the end of the document; two writers?"),
    "several documents": Bad(GOOD + b"\n" + GOOD, "GT211", len(GOOD) + 1, None, "a second JSON document begins; two"),
    "byte order mark": Bad(b"\xef\xbb\xbf" + GOOD, "GT210", 0, None, "a byte order mark"),
    "empty file": Bad(b"", "GT203", 0, None, "an empty file, 0 bytes; was its writer killed, the disk full?"),
    "white space only": Bad(b" \n", "GT203", 2, None, "nothing: the file holds no JSON value"),
    "empty file, gzip": Bad(b"", "GT203", 0, None, "an empty file, 0 bytes", ".json.gz"),
    "nothing in gzip": Bad(gzip.compress(b""), "GT203", 0, None, "nothing: the file holds no JSON", ".json.gz"),
    "truncated gzip header": Bad(GZIPPED[:5], "GT202", 0, None, "the gzip stream ends too early", ".json.gz"),
    "truncated gzip trailer": Bad(GZIPPED[:-3], "GT202", len(GOOD), None, "the gzip stream ends too early", ".json.gz"),
    "bad gzip checksum": Bad(
        GZIPPED[:-8] + b"\0\0\0\0" + GZIPPED[-4:], "GT213", len(GOOD), None, "the gzip stream is damaged", ".json.gz"
    ),
    "bad gzip length": Bad(GZIPPED[:-4] + b"\1\1\1\1", "GT213", len(GOOD), None, "the gzip stream is damaged", ".json.gz"),
    "bytes after gzip": Bad(GZIPPED + b"more", "GT213", len(GOOD), None, "4 bytes or more after the end of the gzip", ".json.gz"),
    "a gzip member for each rank": Bad(
        GZIPPED + gzip.compress(GOOD), "GT211", len(GOOD), None, "did each rank append its stream?", ".json.gz"
    ),
    "gzip under a plain name": Bad(GZIPPED, "GT214", 0, None, "compressed by gzip under a plain name; call it .json.gz"),
    "plain under a gzip name": Bad(GOOD, "GT214", 0, None, "not compressed, though the name ends with .gz", ".json.gz"),
    "bad value inside gzip": Bad(
        gzip.compress(FIRST + b'{"name": "x", "t": NaN}]'), "GT204", 42, 1, "NaN: JSON has no such", ".json.gz"
    ),
    "inside traceEvents": Bad(
        b'{"schemaVersion": 1, "traceEvents": [{"name": "x"}, {"ph": "X", "args": NaN, "name": "y"}]}',
        "GT204", 72, 1, 'event 1 ("y"): NaN',
    ),
    "before traceEvents": Bad(b'{"x": NaN, "traceEvents": []}', "GT204", 6, None, "byte 6: NaN"),
    "after traceEvents": Bad(
        b'{"traceEvents": [{"name": "x"}], "t": NaN}', "GT204", 38, None, 'byte 38, after event 0 ("x"): NaN'
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD.values(), ids=BAD.keys())
def test_bad_file(tmp_path: Path, case: Bad) -> None:
    path = tmp_path / f"trace{case.suffix}"
    path.write_bytes(case.data)
    reading = read(path)
    assert not reading.ok
    finding = reading.findings[0]
    assert (finding.code, finding.severity) == (case.code, Severity.ERROR)
    assert case.message in finding.message
    assert finding.message.startswith(path.name)
    assert "\n" not in finding.message
    assert finding.file == str(path)
    assert (finding.byte, finding.event) == (case.byte, case.event)
    assert [other.code for other in reading.findings].count(case.code) == len(reading.findings)


GOOD_FILES = {
    "list": (GOOD, ".json"),
    "chrome": (chrome(*MARKS), ".json"),
    "gzip": (GZIPPED, ".json.gz"),
    "several members, one document": (gzip.compress(GOOD[:20]) + gzip.compress(GOOD[20:]), ".json.gz"),
    "gzip padded with zeros": (GZIPPED + b"\0" * 16, ".json.gz"),
    "white space around": (b" \r\n\t" + GOOD + b"\n\n", ".json"),
    "no event": (b"[]", ".json"),
    "no event, chrome": (b'{"traceEvents": []}', ".json"),
    "emoji as a surrogate pair": (listed("\U0001f600"), ".json"),
    "emoji in UTF-8": ('[{"name": "\U0001f600\ufeff"}]'.encode(), ".json"),
    "escaped backslash before ud800": (rb'[{"name": "C:\\ud800"}]', ".json"),
    "escaped backslashes of a path": (rb'[{"name": "C:\\temp\\new"}]', ".json"),
    "NaN in a text": (listed("NaN", "Infinity", "1e999", "9" * 400), ".json"),
    "the largest double": (b'[{"name": "x", "t": [1.7976931348623157e308, -1e308, 1e0005]}]', ".json"),
    "a small number": (b'[{"name": "x", "t": 1e-999}]', ".json"),
    "an integer of 2^64": (b'[{"name": "x", "t": 18446744073709551616}]', ".json"),
    "one key in two objects": (b'[{"name": "x", "args": {"name": 1}}, {"name": "x"}]', ".json"),
    "a colon and a newline": (b'[{"name": "Note:\\nall:\\tfine"}]', ".json"),
    "deep, not too deep": (b'[{"name": "x", "a": ' + b"[" * 100 + b"]" * 100 + b"}]", ".json"),
    "chrome event without a name": (b'{"traceEvents": [{"ph": "f", "id": 1}]}', ".json"),
}


@pytest.mark.parametrize(("data", "suffix"), GOOD_FILES.values(), ids=GOOD_FILES.keys())
def test_near_misses_stay_clean(tmp_path: Path, data: bytes, suffix: str) -> None:
    path = tmp_path / f"trace{suffix}"
    path.write_bytes(data)
    reading = read(path)
    assert reading.findings == ()
    assert reading.ok
    assert reading.sha256 == hashlib.sha256(data).hexdigest()


def test_windows_path_in_legal_escapes_is_a_warning(tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    path.write_bytes(rb'[{"name": "C:\temp\new.py"}]')
    reading = read(path)
    [finding] = reading.findings
    assert (finding.code, finding.severity, finding.byte) == ("GT217", Severity.WARNING, 11)
    assert "a Windows path whose backslashes read as escapes?" in finding.message
    assert reading.ok


def test_all_sorts_of_problems_are_told_each_once(tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    path.write_bytes(b'[{"name": "a\x01\x02", "a": NaN, "a": NaN}, {"name": "\\ud800", "b": 1e999},]')
    reading = read(path)
    assert [(finding.code, finding.byte) for finding in reading.findings] == [
        ("GT205", 12), ("GT204", 22), ("GT209", 27), ("GT207", 48), ("GT201", 69),
    ]  # fmt: skip
    assert "(2 more like it)" in reading.findings[1].message


@pytest.mark.parametrize("make", [listed, chrome])
def test_marks_are_read_from_names(tmp_path: Path, make: Callable[..., bytes]) -> None:
    path = tmp_path / "anything.json"
    path.write_bytes(make("aten::mm", *MARKS, OTHER.mark(1, 2), f" {MARKS[0]}"))
    reading = read(path)
    assert [(mark.capture, mark.index, mark.total) for mark in reading.marks] == [
        (CAPTURE, 0, 3), (CAPTURE, 1, 3), (CAPTURE, 2, 3), (OTHER, 1, 2),
    ]  # fmt: skip
    assert reading.captures == [CAPTURE, OTHER]
    assert reading.events == 6


def test_gpu_copies_and_ends_of_ranges_are_no_second_mark(tmp_path: Path) -> None:
    path = tmp_path / "kineto.json"
    events = [
        {"ph": "X", "cat": "user_annotation", "name": MARKS[0]},
        {"ph": "X", "cat": "gpu_user_annotation", "name": MARKS[0]},
        {"ph": "B", "name": MARKS[1]},
        {"ph": "E", "name": MARKS[1]},
        {"ph": "X", "name": MARKS[2]},
    ]
    path.write_text(json.dumps({"traceEvents": events}), encoding="utf-8")
    assert read(path).whole(CAPTURE)


def test_a_broken_file_tells_whose_it_is(tmp_path: Path) -> None:
    path = tmp_path / "cut.json"
    path.write_bytes(GOOD[:-60])
    reading = read(path)
    [finding] = reading.findings
    assert (finding.node, finding.rank) == ("node0", 3)
    assert finding.message.startswith("cut.json (model-benchmarks:gpt/fp16 on node0 rank 3): byte ")
    assert reading.captures == [CAPTURE]
    assert not reading.whole(CAPTURE)


@pytest.mark.parametrize(
    ("marks", "broken"),
    [
        (MARKS, ""),
        (MARKS[::-1], ""),
        (MARKS[:2], "2 of 3 marks (missing: 2)"),
        ((*MARKS, MARKS[1]), "a mark more than once (number 1)"),
        ((MARKS[0], MARKS[0]), "1 of 3 marks (missing: 1, 2) and a mark more than once (number 0)"),
        ((CAPTURE.mark(0, 1), CAPTURE.mark(0, 2)), "marks that disagree on how many there are (1, 2)"),
        ((CAPTURE.mark(0, 20),), "1 of 20 marks (missing: 1, 2, 3, 4, 5, 6, 7, 8 and 11 more)"),
        (
            (CAPTURE.mark(0, 10**15),),
            f"1 of {10**15} marks (missing: 1, 2, 3, 4, 5, 6, 7, 8 and {10**15 - 9} more)",
        ),
        ((CAPTURE.mark(0, 0),), "a mark beyond the last (number 0 of 0)"),
    ],
)
def test_broken_marks(tmp_path: Path, marks: tuple[str, ...], broken: str) -> None:
    path = tmp_path / "trace.json"
    path.write_bytes(listed(*marks))
    assert read(path).broken_marks() == broken
    assert read(path).whole(CAPTURE) == (not broken)


def test_legacy_is_told_by_the_name(tmp_path: Path) -> None:
    names = {
        "torch-profiler-sb-resnet50-0.json": True,
        "torch-profiler-sb-resnet50__cfg=a__node=node0-0.json": False,
        "node0_1000.1.pt.trace.json": False,
    }
    for name in names:
        (tmp_path / name).write_bytes(GOOD)
    assert {reading.name: reading.legacy for reading in read_folder(tmp_path)} == names


def test_find(tmp_path: Path) -> None:
    wanted = ["a.json", "sub/b.json.gz", "sub/.hidden/c.json", "link.json", "gone.json"]
    others = [
        ".gputrace-0123.json",
        "sub/.gputrace-x.json.gz",
        "gputrace-test.json",
        "results.json",
        "a.jsonl",
        "a.txt",
    ]
    for name in (*wanted[:3], *others, "far/d.json"):
        path = tmp_path / "root" / name if name != "far/d.json" else tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(GOOD)
    root = tmp_path / "root"
    (root / "link.json").symlink_to(root / "a.json")
    (root / "gone.json").symlink_to(root / "nowhere")
    (root / "folder").symlink_to(tmp_path / "far")
    (root / "dir.json").mkdir()
    os.mkfifo(root / "pipe.json")
    assert find(root) == sorted(root / name for name in wanted)
    assert find(tmp_path / "missing") == []


def test_a_file_that_cannot_be_read_is_a_finding(tmp_path: Path) -> None:
    path = tmp_path / "gone.json"
    path.symlink_to(tmp_path / "nowhere")
    reading = read(path)
    [finding] = reading.findings
    assert (finding.code, reading.sha256, reading.marks) == ("GT220", "", ())
    assert finding.message == "gone.json: byte 0: cannot be read: No such file or directory"
