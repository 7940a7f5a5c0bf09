"""The quick look: everything that a lenient parser passes over is suspected, and ordinary traces are not."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from pytest_gputrace.traces import open_trace, strict
from pytest_gputrace.traces.suspicion import KeyPatterns, may_hide_something

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    "value",
    [
        b"1e999",
        b"1E+400",
        b"-12.5e308",
        b"[0,1e309]",
        b"9" * 310,
        b"9" * 700,
        b'"\xff"',
        b'"\\ud800"',
        b'"\\uDFFF"',
        b'"C:\\temp"',
    ],
)
def test_what_a_parser_passes_over_is_suspected(value: bytes) -> None:
    for pad in range(0, 160, 13):
        assert may_hide_something(b'{"args": {"x' + b"y" * pad + b'": ' + value + b"}}")


@pytest.mark.parametrize(
    "value",
    [
        b"1e99",
        b"1.5e-300",
        b"5171577480660.661",
        b'"0x7f3e123456"',
        b'"1e999"',
        b'"\xc3\xa9"',
        b'"\\u00e9 \\n"',
    ],
)
def test_what_is_right_is_not(value: bytes) -> None:
    assert not may_hide_something(b'{"ph": "X", "args": {"x": ' + value + b'}, "ts": 5.0}')


def event(**more: Any) -> str:
    return json.dumps({"ph": "X", "name": "a", "ts": 1, **more})


class TestKeyPatterns:
    def test_a_known_combination_is_not_new(self) -> None:
        patterns = KeyPatterns()
        first = patterns.new(event(args={"correlation": 1}).encode(), 1)
        assert first
        patterns.learn(first)
        many = ",\n".join(event(args={"correlation": number}) for number in range(100)).encode()
        assert patterns.new(many, 100) == set()

    @pytest.mark.parametrize(
        "other",
        [
            '{"ph": "X", "name": "a", "ts": 1, "ts": 2}',
            '{"ph": "X", "name": "a", "ts": 1, "args": {"x": 1, "x": 1}}',
            '{"ph": "X", "name": "a", "ts": 1, "args": {"a long key of bytes": 1, "a long key of bytez": 1}}',
            '{"ph": "X", "ph": "X", "name": "a", "ts": 1}',
        ],
    )
    def test_another_one_is(self, other: str) -> None:
        patterns = KeyPatterns()
        for known in (event(), event(args={"x": 1}), event(args={"x": 1, "y": 1})):
            patterns.learn(patterns.new(known.encode(), 1) or set())
        text = f"{event()}, {other}, {event()}".encode()
        assert patterns.new(text, 3) != set()

    @pytest.mark.parametrize("text", [b'{"ph" : "X"}', b'{"ph"\n: "X"}', b'{"' + b"k" * 100 + b'": 1}', b"{}", b""])
    def test_it_says_when_it_cannot_tell(self, text: bytes) -> None:
        assert KeyPatterns().new(text, 1) is None


def test_events_alike_are_looked_at_closely_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What keeps reading fast: of ten thousand events few reach the strict reader."""
    path = tmp_path / "trace.json"
    events = [
        {"ph": "X", "name": f"k{number % 7}", "ts": number, "args": {"correlation": number}} for number in range(10_000)
    ]
    path.write_text(json.dumps({"traceEvents": events}))
    read: list[int] = []

    def parse(text: str) -> Any:
        read.append(len(text))
        return real(text)

    real = strict.parse
    monkeypatch.setattr("pytest_gputrace.traces.trace.parse", parse)
    monkeypatch.setattr("pytest_gputrace.traces.pieces.RUN_BYTES", 20_000)
    monkeypatch.setattr("pytest_gputrace.traces.blocks._BLOCK_BYTES", 20_000)
    assert len(open_trace(path).events) == 10_000
    assert sum(read) < path.stat().st_size / 5
