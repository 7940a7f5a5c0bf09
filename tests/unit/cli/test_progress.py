"""The line that says how far a long run is."""

from __future__ import annotations

import io
import os
from typing import TYPE_CHECKING

import pytest

from pytest_gputrace.checks.outcome import Progress
from pytest_gputrace.cli.progress import ProgressLine, ReadingLine

if TYPE_CHECKING:
    from pathlib import Path


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class Clock:
    now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


HALF = Progress(3, 12, 600_000_000, 1_200_000_000, "rank3.json")


@pytest.fixture(autouse=True)
def _wide_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "120")


def drawn(stream: io.StringIO) -> list[str]:
    return stream.getvalue().split("\r")[1:]


def test_it_says_how_far_the_run_is() -> None:
    stream, clock = Terminal(), Clock()
    line = ProgressLine(stream, clock)
    clock.now_s += 1
    line.show(HALF)
    assert drawn(stream) == [" 50% [##########..........] 600 MB of 1.20 GB, 3 of 12 files, rank3.json\x1b[K"]
    line.close()
    assert drawn(stream)[1:] == ["\x1b[K"]


def test_a_short_run_shows_nothing() -> None:
    stream, clock = Terminal(), Clock()
    line = ProgressLine(stream, clock)
    for _ in range(4):
        line.show(HALF)
        clock.now_s += 0.12
    line.close()
    assert stream.getvalue() == ""


def test_it_is_drawn_five_times_a_second_at_most() -> None:
    stream, clock = Terminal(), Clock()
    line = ProgressLine(stream, clock)
    clock.now_s += 0.5
    for _ in range(1000):
        line.show(HALF)
        clock.now_s += 0.001
    assert len(drawn(stream)) == 5


@pytest.mark.parametrize("kind", ["pipe", "dumb terminal"])
def test_nothing_in_a_pipe_or_where_a_line_cannot_be_redrawn(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if kind == "dumb terminal":
        monkeypatch.setenv("TERM", "dumb")
    stream, clock = io.StringIO() if kind == "pipe" else Terminal(), Clock()
    line = ProgressLine(stream, clock)
    clock.now_s += 9
    line.show(HALF)
    line.close()
    assert stream.getvalue() == ""


def test_it_stays_on_one_line_whatever_a_name_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    stream, clock = Terminal(), Clock()
    line = ProgressLine(stream, clock)
    clock.now_s += 1
    line.show(Progress(0, 1, 10, 0, "\n\x1b[2J漢字" * 50))
    [text] = drawn(stream)
    assert text.startswith("  0% [....................] 10 B of 0 B, \\n\\x1b[2J\\u6f22")
    assert len(text) == 79 + len("\x1b[K")


def test_bytes_of_one_file_after_another_add_up(tmp_path: Path) -> None:
    paths = [tmp_path / "a.json", tmp_path / "b.json", tmp_path / "gone.json"]
    for path, size_bytes in zip(paths, (100, 300), strict=False):
        path.write_bytes(b" " * size_bytes)
    stream, clock = Terminal(), Clock()
    reading = ReadingLine(ProgressLine(stream, clock), paths)
    read = reading.of(1, paths[1])
    clock.now_s += 1
    read(60)
    clock.now_s += 1
    read(40)
    assert [text.split(" of ")[0] for text in drawn(stream)] == [
        " 40% [########............] 160 B",
        " 50% [##########..........] 200 B",
    ]
    assert os.linesep not in stream.getvalue()
