"""Texts made to be misread: braces that end no list, commas before nothing, what is nested without an end."""

from __future__ import annotations

import gzip
import json
import math
from typing import TYPE_CHECKING, Any

import pytest

from pytest_gputrace.traces import open_trace, pieces
from pytest_gputrace.traces.blocks import Blocks
from pytest_gputrace.traces.scanner import Scanner
from pytest_gputrace.traces.tally import tally
from pytest_gputrace.traces.vocabulary import steps

if TYPE_CHECKING:
    from pathlib import Path

    from pytest_gputrace.traces import Trace

E = '{"ph":"X","cat":"kernel","name":"k","pid":0,"tid":7,"ts":1,"dur":1}'
RECORD = '{"cpu_time":1.0,"gpu_time":2.0,"name":"a","start_time":3.0}'


def opened(folder: Path, text: str | bytes, name: str = "trace.json") -> Trace:
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return open_trace(path)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (f"[{E}", f"}},{E}]"),
        (f'{{"traceEvents":[{E}', '} garbage ],"baseTimeNanoseconds":5}'),
        ('{"traceEvents":[', f"}}, {E}, {E}]}}"),
        ("[", "}]"),
        ("[", "}\\x90]"),
        (f'{{"traceEvents":[{E}', '}],"a":1}'),
        (f'{{"traceEvents":[{E}', f'}}, {E}], "a": [1]}}'),
        (f"[{RECORD}", f"}},{RECORD}]"),
    ],
)
@pytest.mark.parametrize("size", [16, 64, 1 << 18])
def test_a_brace_does_not_end_the_list_of_events(
    before: str, after: str, size: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The first keys tell the format.
    monkeypatch.setattr(pieces, "RUN_BYTES", max(size, len(RECORD) + 2) if RECORD in before else size)
    monkeypatch.setattr("pytest_gputrace.traces.blocks._BLOCK_BYTES", size)
    trace = opened(tmp_path, before + after)
    assert [(problem.kind, problem.byte) for problem in trace.problems] == [("grammar", len(before))]
    assert not trace.whole
    assert len(trace.events) == before.count('"name"')


@pytest.mark.parametrize("before", ["[", f"[{E},", '{"traceEvents": [', f"[{E}, ", f'{{"traceEvents":[{E} ,\n'])
@pytest.mark.parametrize("long", [False, True])
def test_a_comma_with_nothing_before_it_is_found(
    before: str, long: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pieces, "RUN_BYTES", 100)
    monkeypatch.setattr("pytest_gputrace.traces.blocks._BLOCK_BYTES", 100)
    event = E[:-1] + ',"args":{"a":"' + "x" * 500 * long + '"}}'
    [problem] = opened(tmp_path, f"{before},{event}]").problems
    assert (problem.kind, problem.byte) == ("grammar", len(before))
    assert "is there a comma too many?" in problem.message


@pytest.mark.parametrize("size", [16, 200, 1 << 18])
def test_what_is_found_does_not_depend_on_the_pieces(
    size: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pieces, "RUN_BYTES", size)
    monkeypatch.setattr("pytest_gputrace.traces.blocks._BLOCK_BYTES", size)
    begin = f'{{"traceEvents": [{E}, '
    trace = opened(tmp_path, f'{begin}, "name":1 {E}, {E}, {E}], "a": 1}}')
    assert [(problem.kind, problem.byte) for problem in trace.problems] == [("grammar", len(begin))]
    trace = opened(tmp_path, f'[{E}, {{"ph": "X", "name": "a", "cat": {"1" * 305}}}, {E}, {E}]')
    assert [problem.message for problem in trace.problems] == ["'cat' is a number of 305 characters"]
    trace = opened(tmp_path, f'[{E}, {{"ph": "X", "name": "a", "cat": {"1" * 310}}}, {E}, {E}]')
    assert [problem.kind for problem in trace.problems] == ["number"]


@pytest.mark.parametrize(
    "text",
    [
        '{"traceEvents":[{"name":"x","args":' + "[" * 1500,
        f'[{E},{{"name":"x","args":' + "[" * 1500 + "}" * 1500 + "}]",
        f'[{E},{{"name":"x","args":' + '{"a":' * 1500,
        '{"traceEvents":[' + "[" * 1500,
    ],
)
def test_what_is_deep_may_be_broken_too(text: str, tmp_path: Path) -> None:
    trace = opened(tmp_path, text)
    assert not trace.whole
    assert {problem.kind for problem in trace.problems} & {"cut", "grammar"}


def test_what_is_too_deep_takes_no_memory_of_its_own() -> None:
    scanner = Scanner('[{"name": "a", "args": ' + '{"a": ' * 3000)
    scanner.scan()
    assert len({id(frame) for frame in scanner.stack}) < 1100 < len(scanner.stack)


@pytest.mark.parametrize("number", ["9" * 5000, "\u0663"])
def test_a_number_of_a_device_that_is_none_is_passed_over(number: str, tmp_path: Path) -> None:
    tree = '[{"frame": {"name": "ROOT", "type": "x"}, "metrics": {}}, {"CUDA": {"0": {"arch": "90"}, "%s": {}}}]'
    assert [device.id for device in opened(tmp_path, tree % number).devices] == [0]


@pytest.mark.parametrize(
    ("name", "content"), [("a.json", b"[]"), ("b.json", gzip.compress(b"[]", mtime=0)), ("c.json.gz", b"[]")]
)
def test_a_trace_knows_whether_its_file_is_compressed(name: str, content: bytes, tmp_path: Path) -> None:
    assert opened(tmp_path, content, name).zipped is (content != b"[]")


def test_an_empty_gzip_member_costs_little(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is left of the file after each is copied, so little may be held."""
    read: list[int] = []
    path = tmp_path / "trace.json.gz"
    path.write_bytes(gzip.compress(b"[]", mtime=0) + gzip.compress(b"") * 5000)
    assert b"".join(Blocks(path, progress=read.append)) == b"[]"
    assert max(read) <= 1 << 14


SECRET = "hunter2secret"


@pytest.mark.parametrize(
    "text",
    [
        f'{{"metadata":{{"env":{{"HF_TOKEN":"pw"{SECRET}"}}}},"traceEvents":[{E}]}}',
        f'{{"traceEvents":[{E}],"metadata":{{"env":{{"HF_TOKEN":"pw"{SECRET}"}}}}}}',
        f'{{"traceEvents":[{E}],{SECRET}}}',
        f'{{"traceEvents":[{E},],"{SECRET}":1}}',
        f'{{"traceEvents":[{E}]}} {SECRET}',
        f"[{E}] {SECRET}",
        f'{{"traceEvents":[{E}],"env":{{"{SECRET}":1,"{SECRET}":2}}}}',
        f'{{"env":{{"{SECRET}":1,"{SECRET}":2}},"traceEvents":[{E}]}}',
        f'{{"traceEvents":[{E}],"env":"C:\\temp\\{SECRET}.py"}}',
        f'{{"env":"C:\\temp\\{SECRET}.py","traceEvents":[{E}]}}',
        f'{{"env":"{SECRET}\\q\\ud800\x01","traceEvents":[{E}]}}',
        f'{{"{SECRET}": 1, "env"',
        f'{{"{SECRET}": 1, {SECRET}',
        SECRET,
    ],
)
def test_what_stands_around_the_events_is_never_shown(text: str, tmp_path: Path) -> None:
    problems = opened(tmp_path, text).problems
    assert problems
    assert not any(SECRET[:3] in problem.message + problem.where for problem in problems)


@pytest.mark.parametrize("number", ["1e999", "7" * 20 + "e300"])
def test_a_number_around_the_events_is_not_shown(number: str, tmp_path: Path) -> None:
    [problem] = opened(tmp_path, f'{{"traceEvents":[{E}],"pin":{number}}}').problems
    assert problem.message == "a number: no double holds it, readers get Infinity"


@pytest.mark.parametrize(
    ("value", "called"),
    [
        ({"HF_TOKEN": "hunter2"}, "an object"),
        (["hunter2"], "a list"),
        (1.5, "float 1.5"),
    ],
)
def test_a_value_of_the_wrong_type_is_not_shown_as_a_whole(value: Any, called: str, tmp_path: Path) -> None:
    event = json.loads(E) | {"pid": value}
    assert [problem.message for problem in opened(tmp_path, json.dumps([event])).problems] == [f"'pid' is {called}"]


def test_a_long_text_in_place_of_a_time_is_not_shown(tmp_path: Path) -> None:
    [problem] = opened(tmp_path, json.dumps([json.loads(E) | {"ts": "x" * 100}])).problems
    assert problem.message == "'ts' is a text of 100 characters"


def test_dialects_that_harm_nobody_are_taken_as_they_are(tmp_path: Path) -> None:
    event = json.loads(E) | {"args": "__stripped__", "pid": 3.0, "tid": 4.0}
    text = json.dumps({"traceEvents": [event], "distributedInfo": {"rank": "3", "world_size": 8.0}})
    trace = opened(tmp_path, text)
    assert trace.problems == ()
    assert (trace.events.pid.tolist(), trace.events.tid.tolist()) == ([3], [4])
    assert (trace.rank, trace.world_size) == (3, 8)


@pytest.mark.parametrize("bad", ['"args":{"a":NaN}', '"args":{"a":1e999}', '"ph":"X"', '"ph":"X","args":[NaN]'])
def test_what_is_wrong_with_every_event_is_counted_in_full(
    bad: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pieces, "RUN_BYTES", 20_000)
    monkeypatch.setattr("pytest_gputrace.traces.blocks._BLOCK_BYTES", 20_000)
    scanned: list[int] = []
    scan = Scanner.scan

    def counted(self: Scanner) -> Any:
        scanned.append(len(self.text))
        return scan(self)

    monkeypatch.setattr(Scanner, "scan", counted)
    events = [f"{E[:-1]},{bad}}}"] * 2000 + [E, "5", '{"ts": 1}']
    text = "[" + ",".join(events) + "]"
    trace = opened(tmp_path, text)
    assert sum(scanned) < len(text)
    expected = {problem.kind: problem.more for problem in Scanner(text).scan().problems}
    assert {problem.kind: problem.more for problem in trace.problems if problem.kind != "type"} == expected
    assert len(trace.events) == 2003
    assert math.isnan(trace.events.ts_us[2001])


@pytest.mark.parametrize(
    "text",
    ['"a\tb"', '"\\q"', '"\\ud800"', '"C:\\temp\\x.py"', "nan", "[" * 5000 + "]" * 5000, "5,", "01", "9" * 5000],
)
def test_what_only_the_strict_reader_can_tell_is_left_to_it(text: str) -> None:
    assert tally(f'{{"name": {text}}}'.encode()) is None


def test_a_step_of_thousands_of_digits_is_none(tmp_path: Path) -> None:
    names = ["ProfilerStep#3", "ProfilerStep#" + "9" * 5000, "ProfilerStep#\u0663"]
    events = [json.loads(E) | {"cat": "user_annotation", "name": name} for name in names]
    assert steps(opened(tmp_path, json.dumps(events)).events) == {3: 0}
