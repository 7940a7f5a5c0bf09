"""CUDA_PROFILER: CUDA's switch goes on and off, and where it would do nothing that is said."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from pytest_gputrace.control.activities.cudaprofiler import CudaProfilerKind, CudaRange
from pytest_gputrace.control.activities.protocol import Setup
from pytest_gputrace.control.output import Output
from pytest_gputrace.errors import ActivityError
from pytest_gputrace.fakes import fake_torch

WORDS = ("CUDA_PROFILER",)


@pytest.fixture
def runtime() -> Any:
    """The CUDA runtime of a fake GPU."""
    torch = pytest.importorskip("torch", reason="needs torch: its CUDA runtime is what is replaced")
    with fake_torch():
        yield torch.cuda.cudart()


def recorder() -> CudaRange:
    return CudaProfilerKind().recorder(Setup(WORDS, Output(Path("unused"), "p", "rank0")))


def refusal() -> str:
    (reason,) = CudaProfilerKind().refusals(WORDS)
    return reason


def test_the_switch_is_on_for_the_window_and_there_is_no_file(runtime: Any) -> None:
    assert list(CudaProfilerKind().refusals(WORDS)) == []
    one = recorder()
    assert not runtime.profiling
    one.start()
    assert runtime.profiling
    one.stop()
    assert not runtime.profiling
    assert one.save() == []
    assert one.profiler == ""


def test_discard_switches_it_off(runtime: Any) -> None:
    one = recorder()
    one.start()
    one.discard()
    assert not runtime.profiling


@pytest.mark.parametrize("function", ["cudaProfilerStart", "cudaProfilerStop"])
def test_what_cuda_refuses_is_an_error(runtime: Any, monkeypatch: pytest.MonkeyPatch, function: str) -> None:
    monkeypatch.setattr(runtime, function, lambda: 999)
    one = recorder()
    with pytest.raises(ActivityError, match=f"{function} answered 999: unrecognized error code") as caught:  # noqa: PT012  # either may
        one.start()
        one.stop()
    assert caught.value.activity == "CUDA_PROFILER"


def test_without_torch_it_is_refused_with_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    monkeypatch.setitem(sys.modules, "torch.profiler", None)
    assert refusal().startswith("CUDA_PROFILER: this records with torch, and torch is not installed; ")


def test_without_a_gpu_it_is_refused() -> None:
    pytest.importorskip("torch", reason="needs torch: asks it for its GPUs")
    with fake_torch(device_count=0):
        assert "sees no GPU" in refusal()


def test_on_amd_it_is_refused_since_torch_does_nothing_there() -> None:
    pytest.importorskip("torch", reason="needs torch: asks it for its vendor")
    with fake_torch("hip"):
        assert "on a ROCm build of torch cudaProfilerStart does nothing" in refusal()
