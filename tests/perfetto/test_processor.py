"""The trace processor that other tests ask is Perfetto's: it reads, links and finds fault as Perfetto does."""

from __future__ import annotations

import gzip
import json
from typing import TYPE_CHECKING, Any

import pytest

from tests.perfetto.processor import ProcessorError, TraceProcessor, need_perfetto

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

LAUNCH = {"ph": "X", "name": "launch", "cat": "cpu", "pid": 7, "tid": 7, "ts": 1.5, "dur": 3}
KERNEL = {"ph": "X", "name": 'é "k"', "cat": "gpu", "pid": 9, "tid": 3, "ts": 10, "dur": 3}
START = {"ph": "s", "name": "arrow", "cat": "flow", "id": 5, "pid": 7, "tid": 7, "ts": 2}
END = {"ph": "f", "bp": "e", "name": "arrow", "cat": "flow", "id": 5, "pid": 9, "tid": 3, "ts": 10}


@pytest.fixture
def perfetto() -> Iterator[TraceProcessor]:
    need_perfetto()
    with TraceProcessor() as processor:
        yield processor


def written(path: Path, *events: dict[str, Any]) -> Path:
    text = json.dumps({"traceEvents": events}, ensure_ascii=False).encode()
    path.write_bytes(gzip.compress(text) if path.suffix == ".gz" else text)
    return path


@pytest.mark.parametrize("name", ["trace.json", "trace.json.gz"])
def test_a_trace_is_asked_by_sql(perfetto: TraceProcessor, tmp_path: Path, name: str) -> None:
    perfetto.load(written(tmp_path / name, LAUNCH, KERNEL, START, END))
    assert perfetto.query(
        "select s.name, s.ts, s.dur, pid, tid from slice s join thread_track t on s.track_id = t.id"
        " join thread using (utid) join process using (upid) order by s.ts"
    ) == [("launch", 1500, 3000, 7, 7), ('é "k"', 10000, 3000, 9, 3)]
    assert perfetto.query(
        "select a.name, b.name from flow join slice a on slice_out = a.id join slice b on slice_in = b.id"
    ) == [("launch", 'é "k"')]
    assert perfetto.errors() == {}
    assert perfetto.query("select null, -3, 0.5, 2.0, 9007199254740993, ''") == [
        (None, -3, 0.5, 2.0, 9007199254740993, "")
    ]
    assert perfetto.query("select name from slice where 0") == []


def test_what_perfetto_finds_wrong_is_told_of_the_trace_at_hand(perfetto: TraceProcessor, tmp_path: Path) -> None:
    again = [{**START, "pid": 8}, {**LAUNCH, "pid": 8}]
    perfetto.load(written(tmp_path / "twice.json", LAUNCH, KERNEL, START, *again, END))
    assert perfetto.errors() == {"flow_duplicate_id": 1}
    perfetto.load(written(tmp_path / "once.json", LAUNCH, KERNEL, START, END))
    assert perfetto.errors() == {}
    assert perfetto.one("select count(*) from slice") == 2


def test_a_result_of_many_batches_comes_whole(perfetto: TraceProcessor, tmp_path: Path) -> None:
    count = 20_000
    perfetto.load(written(tmp_path / "many.json", *({**LAUNCH, "ts": 10 * n, "name": f"e{n}"} for n in range(count))))
    rows = perfetto.query("select ts, name, dur / 2.0 from slice order by ts")
    assert rows == [(10_000 * n, f"e{n}", 1500.0) for n in range(count)]


def test_what_is_refused_says_why(perfetto: TraceProcessor, tmp_path: Path) -> None:
    with pytest.raises(ProcessorError, match="no trace is loaded"):
        perfetto.query("select 1")
    perfetto.load(written(tmp_path / "trace.json", LAUNCH))
    with pytest.raises(ProcessorError, match=r"the query 'select 1 from nowhere': (?s:.)*no such table: nowhere"):
        perfetto.query("select 1 from nowhere")
    assert perfetto.one("select count(*) from slice") == 1
    with pytest.raises(ProcessorError, match=r"loading .*absent\.json: ENOENT"):
        perfetto.load(tmp_path / "absent.json")


def test_an_engine_that_does_not_answer_is_told(tmp_path: Path) -> None:
    need_perfetto()
    with (
        TraceProcessor(deadline_s=0) as impatient,
        pytest.raises(ProcessorError, match=r"loading .*: no answer .* 0 s"),
    ):
        impatient.load(written(tmp_path / "trace.json", LAUNCH))


def test_an_engine_that_dies_is_told(perfetto: TraceProcessor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = tmp_path / "dies.js"
    script.write_text("console.error('no memory'); process.exit(3)")
    monkeypatch.setattr("tests.perfetto.processor.SCRIPT", script)
    with pytest.raises(ProcessorError, match=r"loading .*: the trace processor ended, exit status 3:\nno memory"):
        perfetto.load(written(tmp_path / "trace.json", LAUNCH))
