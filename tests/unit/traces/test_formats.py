"""Which format a file has is told from its content; what is no trace is called by its name."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from pytest_gputrace.traces import Device, open_trace

if TYPE_CHECKING:
    from pathlib import Path

    from pytest_gputrace.traces import Trace

X = {"ph": "X", "name": "a", "ts": 1.0, "dur": 1.0}


def trace_of(folder: Path, document: Any) -> Trace:
    path = folder / "kineto.proton.viztracer.json"
    path.write_text(document if isinstance(document, str) else json.dumps(document))
    return open_trace(path)


@pytest.mark.parametrize(
    ("document", "format_"),
    [
        ({"schemaVersion": 1, "traceEvents": [X]}, "kineto"),
        ({"traceEvents": [X], "deviceProperties": []}, "kineto"),
        ({"traceEvents": [X], "distributedInfo": {"rank": 0}}, "kineto"),
        ({"traceEvents": [X | {"cat": "cpu_op"}]}, "kineto"),
        ([X | {"cat": "kernel"}], "kineto"),
        ({"traceEvents": [X | {"cat": "Kernel"}]}, "kineto"),
        ({"displayTimeUnit": "us", "traceEvents": []}, "proton"),
        ({"traceEvents": [X | {"cat": "scope"}]}, "proton"),
        ({"traceEvents": [X | {"cat": "kernel"}, X | {"ph": "s", "cat": "flow", "name": "launch->kernel"}]}, "proton"),
        (
            {
                "displayTimeUnit": "ns",
                "traceEvents": [X | {"cat": "matmul", "pid": "matmul Core3 CTA12", "tid": "warp 0 (line 3)"}],
            },
            "proton",
        ),
        ({"traceEvents": [X], "viztracer_metadata": {"version": "1.1.1"}, "file_info": {}}, "viztracer"),
        ({"schemaVersion": 1, "traceEvents": [X], "viztracer_metadata": {}}, "viztracer"),
        ({"traceEvents": [X | {"cat": "FEE"}]}, "viztracer"),
        ([X | {"cat": "fee"}], "viztracer"),
        ({"gputrace_merge": {"version": 1}, "traceEvents": [X | {"cat": "cpu_op"}, X | {"cat": "FEE"}]}, "merged"),
        ({"schemaVersion": 1, "traceEvents": [X], "viztracer_metadata": {}, "gputrace_merge": None}, "merged"),
        ({"traceEvents": [X | {"name": "gputrace_merge", "args": {"gputrace_merge": {}}}]}, "chrome"),
        ({"displayTimeUnit": "ms", "traceEvents": [X | {"cat": "mine"}]}, "chrome"),
        ({"traceEvents": []}, "chrome"),
        ([], "chrome"),
        ([X], "chrome"),
        ([{"cpu_time": 1.0, "gpu_time": 0.0, "name": "a", "start_time": 2.0}], "superbench"),
        ([{"frame": {"name": "ROOT", "type": "function"}, "metrics": {}, "children": []}, {}], "proton-tree"),
        ("", "unknown"),
        ("7", "unknown"),
        ({"events": []}, "unknown"),
    ],
)
def test_a_format_is_told_from_the_content(document: Any, format_: str, tmp_path: Path) -> None:
    assert trace_of(tmp_path, document).format == format_


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('{"rocprofiler-sdk-tool": [{"metadata": {', "the JSON of rocprofiler-sdk, which is no Chrome trace"),
        ('{"segments": [], "device_traces": [[]]}', "a memory snapshot of torch"),
        ('{"schema": "1.1.1-chakra.0.0.4", "pid": 1, "nodes": []}', "an execution trace of torch"),
        ("SQLite format 3\0", "an SQLite database"),
        ("<!DOCTYPE html><html>", "a web page"),
        ('{"events": []}', 'an object without a list "traceEvents"'),
        ('{"traceEvents": {"a": 1}}', 'an object without a list "traceEvents"'),
        ('"text"', "a text with no list of events"),
    ],
)
def test_what_is_no_trace_is_named(text: str, words: str, tmp_path: Path) -> None:
    trace = trace_of(tmp_path, text)
    [problem] = trace.problems
    assert problem.kind == "root"
    assert words in problem.message
    assert "; expected " in problem.message
    assert not trace.whole
    assert len(trace.events) == 0


def test_the_base_of_viztracer_is_that_of_its_own_metadata(tmp_path: Path) -> None:
    trace = trace_of(tmp_path, {"traceEvents": [X], "viztracer_metadata": {"baseTimeNanoseconds": 17}})
    assert trace.base_time_ns == 17


@pytest.mark.parametrize(
    ("properties", "around", "vendor"),
    [
        ({"name": "NVIDIA H100 80GB HBM3", "warpSize": 32}, {}, "cuda"),
        ({"name": "Tesla V100-SXM2-32GB"}, {}, "cuda"),
        ({"name": "AMD Instinct MI300X", "warpSize": 64}, {}, "rocm"),
        ({"name": "", "warpSize": 64}, {}, "rocm"),
        ({"name": "", "warpSize": 32}, {"roctracer_version": 4}, "rocm"),
        ({"name": "", "warpSize": 32}, {"cupti_version": 24}, "cuda"),
        ({"name": "", "warpSize": 32}, {}, ""),
    ],
)
def test_devices_are_those_listed(properties: Any, around: Any, vendor: str, tmp_path: Path) -> None:
    document = {"deviceProperties": [{"id": 2, **properties}, "odd"], **around, "traceEvents": []}
    assert trace_of(tmp_path, document).devices == (Device(2, properties["name"], vendor),)  # type: ignore[arg-type] # a word of the table


def test_a_chrome_list_may_begin_with_a_byte_order_mark(tmp_path: Path) -> None:
    trace = trace_of(tmp_path, "\ufeff" + json.dumps([X, X]))
    assert [(problem.kind, problem.byte) for problem in trace.problems] == [("bom", 0)]
    assert len(trace.events) == 2
