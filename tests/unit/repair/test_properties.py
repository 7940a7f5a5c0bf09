"""Whatever happens to a trace: the new file is valid, or there is none; and of a cut one it holds the begin."""

from __future__ import annotations

import contextlib
import json
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import hypothesis.strategies as st
import pytest
from hypothesis import example, given, settings

from pytest_gputrace.repair.window import Window

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_TEXT = st.text(st.sampled_from('ab "\\é{}[]:,\n'), max_size=8)
_VALUE = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | _TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_TEXT, inner, max_size=3),
    max_leaves=6,
)
_EVENT = st.fixed_dictionaries({"ph": st.sampled_from("XMi"), "name": _TEXT, "pid": st.integers(0, 9)}, optional={"args": _VALUE, "ts": st.floats(0, 9)})  # fmt: skip
_TRACE = st.fixed_dictionaries({"a": _VALUE, "traceEvents": st.lists(_EVENT, max_size=6), "b": _VALUE}) | st.lists(_EVENT, min_size=1, max_size=6)  # fmt: skip


@contextlib.contextmanager
def blocks_of(size: int) -> Iterator[Path]:
    """Read and look at no more than about ``size`` bytes at a time."""
    with pytest.MonkeyPatch.context() as patch, tempfile.TemporaryDirectory() as folder:
        patch.setattr("pytest_gputrace.traces.blocks._BLOCK_BYTES", size)
        for module in ("events", "runs", "repairing"):
            patch.setattr(f"pytest_gputrace.repair.{module}.RUN_BYTES", size)
        for module in ("events", "document"):
            patch.setattr(f"pytest_gputrace.repair.{module}._AHEAD", size)
        yield Path(folder)


def events_of(root: Any) -> list[Any]:
    events: list[Any] = root["traceEvents"] if isinstance(root, dict) else root
    return events


@given(trace=_TRACE, indent=st.sampled_from([None, 1]), size=st.integers(7, 200))
@settings(max_examples=40, deadline=None)
def test_a_sound_trace_is_copied_as_it_is(mend: Callable[..., Any], trace: Any, indent: int | None, size: int) -> None:
    text = json.dumps(trace, indent=indent)
    with blocks_of(size) as folder:
        result = mend(folder, text)
    assert result.repaired.clean
    assert result.text.decode() == text


@given(trace=_TRACE, data=st.data(), ascii_=st.booleans(), size=st.integers(7, 200))
@settings(max_examples=60, deadline=None)
def test_of_a_trace_that_is_cut_the_begin_is_kept(
    mend: Callable[..., Any], trace: Any, data: st.DataObject, ascii_: bool, size: int
) -> None:
    text = json.dumps(trace, ensure_ascii=ascii_).encode()
    place = data.draw(st.integers(0, len(text) - 1))
    with blocks_of(size) as folder:
        result = mend(folder, text[:place])
    assert result.events == events_of(trace)[: len(result.events)]
    assert len(result.events) >= text[:place].count(b'"ph"') - 1, "no more is lost than the last one"


@given(trace=_TRACE, data=st.data(), size=st.integers(7, 200))
@settings(max_examples=60, deadline=None)
def test_whatever_is_damaged_the_new_file_is_valid(
    mend: Callable[..., Any], trace: Any, data: st.DataObject, size: int
) -> None:
    text = bytearray(json.dumps(trace).encode())
    for _ in range(data.draw(st.integers(1, 4))):
        start = data.draw(st.integers(0, len(text)))
        end = min(len(text), start + data.draw(st.integers(0, 6)))
        text[start:end] = data.draw(
            st.binary(max_size=4)
            | st.sampled_from([b'"', b"\\", b"{", b"}", b"[", b"]", b",", b"\xff", b"NaN", b'{"ph": "X", "name": "'])
        )
    with blocks_of(size) as folder:
        mend(folder, bytes(text))


@given(data=st.binary(max_size=200) | st.text(st.sampled_from('{}[]",:"a1\\ \n'), max_size=60).map(str.encode))
@settings(max_examples=60, deadline=None)
@example(data=b'{"traceEvents": [')
@example(data=b'{"traceEvents": [{"name": "\\')
@example(data=b'[{"ph": "X", "name": "a"}{}')
def test_whatever_is_no_trace_is_no_crash(mend: Callable[..., Any], data: bytes) -> None:
    with blocks_of(50) as folder:
        mend(folder, data)


def test_no_more_is_held_than_what_is_looked_at(mend: Callable[..., Any]) -> None:
    event = {"ph": "X", "cat": "c", "name": "n", "pid": 1, "tid": 2, "ts": 5.0, "dur": 1.5}
    text = json.dumps({"traceEvents": [event] * 4000})
    start = text.index('{"ph"', 50_000)
    damaged = text[:start] + "?" * 100_000 + text[start + 100_000 :] + text
    held = []
    with blocks_of(4096) as folder, pytest.MonkeyPatch.context() as patch:
        fill = Window.fill

        def noted(self: Window, size: int) -> bool:
            grown = fill(self, size)
            held.append(len(self.data))
            return grown

        patch.setattr(Window, "fill", noted)
        result = mend(folder, damaged)
    assert 2000 < len(result.events) < 4000
    assert result.repaired.documents == 2
    assert max(held) < 20_000
