"""SuperBench's event lists: each record becomes an event of the CPU, with the time a GPU worked for it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pytest_gputrace.traces import open_trace, pieces

if TYPE_CHECKING:
    from pathlib import Path

times = st.floats(0, 1e15, allow_nan=False) | st.integers(0, 2**50)
records = st.fixed_dictionaries(
    {"name": st.text(st.characters(codec="utf-8")), "cpu_time": times, "gpu_time": times, "start_time": times},
    optional={"input_shapes": st.lists(st.lists(st.integers(0, 9))), "input_values": st.lists(st.none() | times)},
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(document=st.lists(records, min_size=1, max_size=8), is_sorted=st.booleans(), size=st.sampled_from([60, 1 << 18]))
def test_records_are_read_as_pythons_parser_reads_them(
    document: list[dict[str, Any]], is_sorted: bool, size: int, tmp_path: Path
) -> None:
    path = tmp_path / "trace.json"
    path.write_text(json.dumps(document, sort_keys=is_sorted))
    with pytest.MonkeyPatch.context() as patch:
        # The first keys tell the format.
        patch.setattr(pieces, "RUN_BYTES", max(size, len(json.dumps(document[0])) + 2))
        trace = open_trace(path)
    assert [problem for problem in trace.problems if problem.kind != "path"] == []
    assert trace.format == "superbench"
    columns = trace.events
    assert [columns.names[row] for row in columns.name] == [record["name"] for record in document]
    assert columns.ts_us.tolist() == [record["start_time"] for record in document]
    assert columns.dur_us.tolist() == [record["cpu_time"] for record in document]
    assert columns.gpu_us is not None
    assert columns.gpu_us.tolist() == [record["gpu_time"] for record in document]
    assert {columns.phases[row] for row in columns.phase} == {"X"}
    assert {columns.categories[row] for row in columns.category} == {"cpu_op"}
    rest = [{key: value for key, value in record.items() if key.startswith("input_")} for record in document]
    assert list(trace.arguments(range(len(document)))) == list(enumerate(rest))


def test_values_that_no_json_has_are_found_in_their_record(tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    good = {"cpu_time": 1.0, "gpu_time": 2.0, "name": "a", "start_time": 3.0}
    text = json.dumps([good, good | {"name": "clamp", "input_values": [None, float("-inf"), float("nan")]}, good])
    path.write_text(text)
    trace = open_trace(path)
    [problem] = trace.problems
    assert (problem.kind, problem.event, problem.where) == ("number", 1, 'event 1 ("clamp")')
    assert problem.byte == text.index("-Infinity")
    assert len(trace.events) == 3


def test_a_time_of_the_wrong_type_is_told_by_the_records_own_word(tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    good = {"cpu_time": 1.0, "gpu_time": 2.0, "name": "a", "start_time": 3.0}
    path.write_text(json.dumps([good, good | {"gpu_time": "7"}]))
    [problem] = open_trace(path).problems
    assert (problem.kind, problem.event, problem.message) == ("type", 1, "'gpu_time' is str '7'")


def test_a_list_that_is_cut_keeps_its_whole_records(tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    path.write_text('[{"cpu_time": 1.0, "gpu_time": 0.0, "name": "a", "start_time": 3.0}, {"cpu_time": 1.0, "gpu')
    trace = open_trace(path)
    assert [(problem.kind, problem.event) for problem in trace.problems] == [("cut", 1)]
    assert trace.format == "superbench"
    assert trace.events.ts_us.tolist() == [3.0]
    assert not trace.whole
