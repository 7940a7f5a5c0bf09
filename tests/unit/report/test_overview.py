"""The overview of one trace as text and as JSON."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from pytest_gputrace.overview import look
from pytest_gputrace.report.overview import data, lines
from pytest_gputrace.traces import open_trace

if TYPE_CHECKING:
    from pathlib import Path

    from pytest_gputrace.overview.figures import Overview


def event(category: str, name: str, ts: float, dur: float, **arguments: Any) -> dict[str, Any]:
    place = {"pid": 0, "tid": 7, "args": {"device": 0, "stream": 7, **arguments}}
    if category not in ("kernel", "gpu_memcpy", "gpu_memset"):
        place = {"pid": 99, "tid": 99, "args": arguments}
    return {"ph": "X", "cat": category, "name": name, "ts": ts, "dur": dur, **place}


EVENTS = [
    event("user_annotation", "ProfilerStep#3", 0, 1000),
    event("cpu_op", "aten::mm", 10, 50),
    event("cuda_runtime", "cudaLaunchKernel", 20, 5, correlation=1),
    event("cuda_runtime", "cudaLaunchKernel", 30, 5, correlation=2),
    event("cuda_runtime", "cudaDeviceSynchronize", 40, 400),
    event("kernel", "void gemm<float>(int)", 100, 300, correlation=1),
    event("kernel", "ncclDevKernel_AllReduce_Sum_f32_RING_LL(x)", 500, 100, correlation=9),
    event("gpu_memcpy", "Memcpy HtoD (Pinned -> Device)", 700, 50, bytes=2_000_000),
    event("gpu_memset", "Memset (Device)", 760, 2),
]
METADATA: dict[str, Any] = {
    "schemaVersion": 1, "deviceProperties": [{"id": 0, "name": "NVIDIA H100"}], "cuda_runtime_version": 12040,
    "distributedInfo": {"backend": "nccl", "rank": 1, "world_size": 8}, "baseTimeNanoseconds": 1751410836000000000,
}  # fmt: skip


def overview(tmp_path: Path, events: list[dict[str, Any]] = EVENTS, **metadata: Any) -> Overview:
    path = tmp_path / "t.json"
    path.write_text(json.dumps({**metadata, "traceEvents": events}))
    return replace(look(open_trace(path)), path="t.json", size_bytes=1500)


def test_what_a_person_wants_first(tmp_path: Path) -> None:
    text = "\n".join(lines(overview(tmp_path, **METADATA), width=80))
    assert (
        text
        == """\
t.json
trace     Kineto trace, 9 events, 1.50 kB of text
device    1 x NVIDIA H100; CUDA 12.4
rank      1 of 8, nccl
span      1.00 ms, begun 2025-07-01 23:00:36.000 UTC
steps     1 (number 3): 1.00 ms
GPU busy  68.3 %: 452 us of 662 us
GPU 0     4 events, NVIDIA H100, stream 7 (4)
idle      210 us; longest, and when:
           100 us  at 400 us  after gemm<float>, before ncclDev..._LL
           100 us  at 600 us  after ncclDev..._LL, before Memcpy HtoD
          10.0 us  at 750 us  after Memcpy HtoD, before Memset

kernels: 2 calls of 2 names, 400 us in all
   total   share  calls  median     max  name
  300 us  75.0 %      1  300 us  300 us  gemm<float>
  100 us  25.0 %      1  100 us  100 us  ncclDevKernel_AllReduce_Sum_f32_RING_LL

launches  2 in 10.0 us: cudaLaunchKernel 2
          1 launched nothing that is here, 1 kernel without a launch
waits     1 in 400 us: cudaDeviceSynchronize 1
copies    1  50.0 us  2.00 MB  40.0 GB/s  HtoD (Pinned -> Device)
sets      1  2.00 us  unknown             (Device)

collectives: 1 in 100 us; no other kernel ran for 100 us of it
  1  100 us  unknown  allreduce, type and ranks unknown

CPU ops: 1 of 1 name; times include what they call
    total  calls   median      max  name
  50.0 us      1  50.0 us  50.0 us  aten::mm"""
    )


def test_what_is_not_told_is_unknown(tmp_path: Path) -> None:
    text = lines(overview(tmp_path, [event("cpu_op", "aten::mm", 0, 1)]))
    assert "device    unknown" in text
    assert "rank      unknown" in text
    assert "span      1.00 us, begun at an unknown time" in text
    assert "GPU       no GPU events" in text
    assert not any("busy" in line for line in text)


def test_a_broken_file_says_so_first(tmp_path: Path) -> None:
    broken = replace(overview(tmp_path, **METADATA), broken=True, problems=2)
    first, *rest = lines(broken)
    assert first == "BROKEN: 2 problems; below is what could be read. See: gputrace check t.json"
    assert rest == lines(overview(tmp_path, **METADATA))


@pytest.mark.parametrize("width", [20, 60, 80, 100, 200])
def test_no_line_is_wider_than_asked(width: int, tmp_path: Path) -> None:
    long = [
        event("kernel", f"void {'name' * 100}<{'a::b, ' * number}c>(int)", number, 3, correlation=1)
        for number in range(9)
    ]
    wide = overview(tmp_path, [*EVENTS, *long, event("cpu_op", "x" * 500, 0, 1)], **METADATA)
    assert max(map(len, lines(wide, width=width))) <= max(width, 60)


def test_names_cannot_reach_the_terminal(tmp_path: Path) -> None:
    bad = "a\x1b[2J\nb"
    names = [event(category, bad, 1, 1) for category in ("cpu_op", "kernel", "gpu_memcpy", "gpu_memset")]
    collective = event("kernel", "nccl\x1b", 9, 1, **{"Collective name": bad, "dtype": bad, "Group size": 2})
    step = event("user_annotation", "ProfilerStep#1\x1b", 1, 1)
    metadata = {**METADATA, "deviceProperties": [{"id": 0, "name": bad}]}
    text = lines(overview(tmp_path, [*names, collective, step], **metadata))
    assert "".join(text).isprintable()


def test_several_gpus_have_a_line_each_up_to_eight(tmp_path: Path) -> None:
    events = [event("kernel", "a", 10 * device, 4, device=device) for device in range(10)]
    text = lines(overview(tmp_path, events, **METADATA))
    assert "GPU busy  100.0 %: 40.0 us of 40.0 us on 10 GPUs" in text
    assert "GPU 7     1 event, 100.0 % busy, NVIDIA H100, stream 7 (1)" in text
    assert "          and 2 GPUs more" in text


def test_json_has_everything_in_full(tmp_path: Path) -> None:
    found = json.loads(json.dumps(data(overview(tmp_path, **METADATA)), allow_nan=False))
    assert found["kind"] == "overview"
    assert found["gpu_busy_us"] == 452
    assert found["kernels"]["top"][0] == {
        "name": "void gemm<float>(int)", "calls": 1, "total_us": 300, "share_percent": 75, "min_us": 300,
        "median_us": 300, "max_us": 300,
    }  # fmt: skip
    assert found["sets"][0]["bytes"] is None
    assert found["gpus"][0]["gaps"][0]["after"] == "void gemm<float>(int)"
