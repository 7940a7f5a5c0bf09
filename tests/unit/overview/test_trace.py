"""What an overview says of small traces, and where a trace does not tell."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from pytest_gputrace.model import Capture
from pytest_gputrace.overview import look
from pytest_gputrace.traces import open_trace

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pytest_gputrace.traces import Trace

    Opened = Callable[..., Trace]


def kernel(name: str, ts: float, dur: float, **arguments: Any) -> dict[str, Any]:
    arguments = {"device": 0, "stream": 7, **arguments}
    return {"ph": "X", "cat": "kernel", "name": name, "pid": 0, "tid": 7, "ts": ts, "dur": dur, "args": arguments}


def test_gaps_say_where_they_are(opened: Opened) -> None:
    host = {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 9, "tid": 9, "ts": 100, "dur": 1}
    overview = look(opened([host, kernel("a", 110, 5), kernel("b", 112, 8, stream=8), kernel("c", 150, 10)]))
    (gap,) = overview.gpus[0].gaps
    assert (gap.start_us, gap.dur_us, gap.after, gap.before) == (20, 30, "b", "c")
    assert overview.gpu_idle_us == 30
    assert overview.gpu_busy_percent == pytest.approx(40)


def test_steps_have_numbers_and_times(opened: Opened) -> None:
    steps = [
        {
            "ph": "X",
            "cat": "user_annotation",
            "name": f"ProfilerStep#{number}",
            "pid": 1,
            "tid": 1,
            "ts": 0,
            "dur": time,
        }
        for number, time in [(7, 30.0), (5, 10.0), (6, 50.0)]
    ]
    found = look(opened(steps)).steps
    assert found is not None
    assert (found.numbers, found.durations_us) == ((5, 6, 7), (10, 50, 30))
    assert (found.min_us, found.median_us, found.max_us) == (10, 30, 50)


def test_collectives_tell_what_their_arguments_tell(opened: Opened) -> None:
    told = {"Collective name": "allreduce", "dtype": "BFloat16", "Group size": 8, "In msg nelems": 100}
    events = [
        kernel("ncclDevKernel_Generic(x)", 0, 10, **told),
        kernel("gemm", 4, 2),
        kernel("ncclDevKernel_Generic(x)", 20, 10, **told),
        kernel("ncclKernel_AllGather_RING_LL", 40, 3),
        kernel("ncclDevKernel_Generic(x)", 50, 1),
    ]
    talk = look(opened(events)).communication
    assert talk is not None
    kinds = [(kind.name, kind.dtype, kind.group_size, kind.count, kind.total_us, kind.in_bytes) for kind in talk.kinds]
    assert kinds == [
        ("allreduce", "BFloat16", 8, 2, 20, 400),
        ("allgather", None, None, 1, 3, None),
        (None, None, None, 1, 1, None),
    ]
    assert (talk.busy_us, talk.exposed_us) == (24, 22)


def test_without_arguments_collectives_go_by_their_kernels(opened: Opened) -> None:
    trace = opened([kernel("ncclKernel_AllGather_RING_LL", 40, 3, **{"Collective name": "x", "dtype": "Half"})])
    talk = look(trace, arguments=False).communication
    assert talk is not None
    assert [(kind.name, kind.dtype) for kind in talk.kinds] == [("allgather", None)]


def test_gloo_is_seen_on_the_host(opened: Opened) -> None:
    event = {"ph": "X", "cat": "user_annotation", "name": "gloo:all_reduce", "pid": 1, "tid": 2, "ts": 5, "dur": 4}
    talk = look(opened([event, {**event, "ts": 7}])).communication
    assert talk is not None
    assert (talk.where, talk.count, talk.total_us, talk.busy_us, talk.exposed_us) == ("host", 2, 8, 6, None)
    assert talk.kinds[0].name == "all_reduce"


def test_what_a_trace_does_not_tell_is_none_and_not_zero(opened: Opened) -> None:
    overview = look(opened([{"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 1, "ts": 1}]))
    nothing = (
        overview.rank, overview.world_size, overview.node, overview.backend, overview.base_time_ns, overview.base_utc,
        overview.start_ns, overview.steps, overview.gpu_busy_us, overview.gpu_busy_percent, overview.gpu_idle_us,
        overview.kernels.total_us, overview.launches.without_gpu_work, overview.launches.kernels_without_call,
        overview.communication, overview.host.ranking.top[0].total_us,
    )  # fmt: skip
    assert set(nothing) == {None}
    assert not any([overview.devices, overview.gpus, overview.copies, overview.sets])


def test_an_empty_trace_has_an_overview(opened: Opened) -> None:
    overview = look(opened([]))
    assert (overview.events, overview.span_us, overview.kernels.calls) == (0, None, 0)


def test_numbers_of_a_broken_file_count_as_untold(opened: Opened) -> None:
    events = [
        kernel("a", 0, -5),
        kernel("a", 0, 1e308),
        kernel("a", 1e308, 4),
        kernel("a", 10, 5),
        kernel("b", 20, 1e308),
    ]
    copy = {**kernel("Memcpy HtoD (Host -> Device)", 16, 1, bytes=2**62), "cat": "gpu_memcpy"}
    overview = look(opened([*events, copy, copy, copy]))
    assert [(row.name, row.calls, row.total_us) for row in overview.kernels.top] == [("a", 4, 9), ("b", 1, None)]
    assert overview.gpu_busy_us == 6
    assert overview.copies[0].bytes is None
    assert overview.span_us == 20


def test_only_the_busiest_of_millions_of_devices_are_looked_at(opened: Opened) -> None:
    events = [kernel("a", 0, 1, device=number) for number in range(1000)]
    overview = look(opened([*events, kernel("a", 5, 1, device=999)]))
    assert (len(overview.gpus), overview.gpus_left_out) == (64, 936)
    assert overview.gpus[-1].device == 999


def test_a_mark_says_whose_trace_it_is(opened: Opened) -> None:
    mark = {"ph": "X", "cat": "user_annotation", "pid": 1, "tid": 1, "ts": 1, "dur": 1}
    names = [Capture("node 7", 12, "gemm:fp8").mark(index, 2) for index in range(2)]
    overview = look(opened([{**mark, "name": name} for name in names]))
    assert (overview.node, overview.rank, overview.configuration) == ("node 7", 12, "gemm:fp8")
    other = {**mark, "name": Capture("node 8", 1, "gemm:fp8").mark()}
    assert look(opened([{**mark, "name": names[0]}, other])).node is None


def test_versions_rank_and_times_are_read_and_nothing_else(opened: Opened) -> None:
    metadata = {
        "deviceProperties": [{"id": 0, "name": "AMD Instinct MI300X"}, {"id": 1, "name": "AMD Instinct MI300X"}],
        "hip_runtime_version": 60443483, "roctracer_version": 4.1, "cuda_driver_version": "SECRET 12",
        "distributedInfo": {"backend": "nccl", "rank": 3, "world_size": 8, "nccl_version": "2.22.3", "pg_config": "SECRET"},
        "baseTimeNanoseconds": 1751410836000000000, "host_name": "SECRET", "metadata": {"TOKEN": "SECRET"},
        "traceName": "/home/SECRET", "INFO": ["SECRET"],
    }  # fmt: skip
    overview = look(opened([kernel("a", 5e6, 1, device=1)], **metadata))
    assert overview.versions == {"hip_runtime": "6.4.43483", "roctracer": "4.1", "nccl": "2.22.3"}
    assert (overview.rank, overview.world_size, overview.backend) == (3, 8, "nccl")
    assert [(group.name, group.count) for group in overview.devices] == [("AMD Instinct MI300X", 2)]
    assert overview.base_utc == "2025-07-01 23:00:36.000 UTC"
    assert overview.start_utc == "2025-07-01 23:00:41.000 UTC"
    assert "SECRET" not in repr(overview)


def test_a_base_that_no_calendar_has_is_told_as_a_number(opened: Opened) -> None:
    overview = look(opened([kernel("a", 5, 1)], baseTimeNanoseconds=10**30))
    assert (overview.base_time_ns, overview.base_utc, overview.start_utc) == (10**30, None, None)


def test_a_kernel_on_a_device_that_rocm_does_not_list_has_the_name_of_the_one_listed(opened: Opened) -> None:
    listed = [{"id": 0, "name": "AMD Instinct MI300X"}]
    assert look(opened([kernel("a", 0, 1, device=5)], deviceProperties=listed)).gpus[0].name == "AMD Instinct MI300X"
    listed.append({"id": 1, "name": "AMD Instinct MI210"})
    assert look(opened([kernel("a", 0, 1, device=5)], deviceProperties=listed)).gpus[0].name is None


def test_directions_of_copies(opened: Opened) -> None:
    names = ["Memcpy HtoD (Pinned -> Device)", "CopyDeviceToHost", "Memcpy PtoP (Device -> Device)", "Odd"]
    overview = look(opened([{**kernel(name, 0, 1), "cat": "gpu_memcpy"} for name in names]))
    directions = {move.name: move.direction for move in overview.copies}
    assert [directions[name] for name in names] == ["HtoD", "DtoH", "PtoP", None]


def test_a_broken_file_shows_what_could_be_read(tmp_path: Path) -> None:
    path = tmp_path / "cut.json"
    text = json.dumps({"schemaVersion": 1, "traceEvents": [kernel("a", 0, 1), kernel("b", 2, 1)]})
    path.write_text(text[: text.index('"b"')])
    overview = look(open_trace(path))
    assert overview.broken
    assert not overview.whole
    assert [row.name for row in overview.kernels.top] == ["a"]


def test_a_proton_tree_ranks_kernels_by_time(tmp_path: Path) -> None:
    def node(name: str, metrics: dict[str, Any], children: list[Any]) -> dict[str, Any]:
        return {"frame": {"name": name, "type": "function"}, "metrics": metrics, "children": children}

    def leaf(name: str, time_ns: int, count: int) -> dict[str, Any]:
        return node(name, {"time (ns)": time_ns, "count": count, "device_id": "0", "device_type": "CUDA"}, [])

    tree = node("ROOT", {}, [node("layer", {}, [leaf("gemm", 5000, 2), leaf("add", 9000, 1)]), leaf("gemm", 8000, 3)])
    path = tmp_path / "profile.hatchet"
    path.write_text("\n" + json.dumps([tree, {"CUDA": {"0": {"arch": "90", "num_sms": 132}}}]))
    overview = look(open_trace(path))
    assert overview.format == "proton-tree"
    assert [(row.name, row.calls, row.total_us, row.median_us) for row in overview.kernels.top] == [
        ("gemm", 5, 13, None),
        ("add", 1, 9, None),
    ]
    assert overview.gpu_busy_us is None


def test_a_superbench_list_ranks_operators_and_adds_up_gpu_time(tmp_path: Path) -> None:
    def record(name: str, start: float, cpu: float, gpu: float) -> dict[str, Any]:
        return {"name": name, "start_time": start, "end_time": start + cpu, "cpu_time": cpu, "gpu_time": gpu}

    path = tmp_path / "events.json"
    path.write_text(
        json.dumps([record("aten::mm", 0, 10, 40), record("aten::add", 10, 3, 2), record("aten::mm", 20, 4, 6)])
    )
    overview = look(open_trace(path))
    assert overview.format == "superbench"
    assert overview.gpu_time_us == 48
    assert [(row.name, row.calls, row.total_us) for row in overview.host.ranking.top] == [
        ("aten::mm", 2, 14),
        ("aten::add", 1, 3),
    ]


def test_a_viztracer_report_ranks_functions(tmp_path: Path) -> None:
    path = tmp_path / "result.json"
    event = {"ph": "X", "cat": "FEE", "name": "f (a.py:1)", "pid": 1, "tid": 1, "ts": 1.0, "dur": 2.0}
    metadata = {"version": "1.1.1", "overflow": False}
    path.write_text(json.dumps({"traceEvents": [event, event], "viztracer_metadata": metadata, "file_info": {}}))
    overview = look(open_trace(path))
    assert (overview.format, overview.host.kind, overview.versions) == (
        "viztracer",
        "functions",
        {"viztracer": "1.1.1"},
    )
    assert [(row.name, row.calls, row.total_us) for row in overview.host.ranking.top] == [("f (a.py:1)", 2, 4)]


def test_proton_names_streams_by_lanes(tmp_path: Path) -> None:
    path = tmp_path / "profile.chrome_trace"
    event = {"ph": "X", "cat": "kernel", "name": "gemm", "pid": 0, "tid": 1200007, "ts": 1.0, "dur": 2.0, "args": {}}
    path.write_text(json.dumps({"displayTimeUnit": "us", "traceEvents": [event]}))
    (use,) = look(open_trace(path)).gpus
    assert (use.device, [stream.stream for stream in use.streams]) == (1, [7])
