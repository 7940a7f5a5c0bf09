"""The fake CUDA calls behave as torch's, and torch's own come back."""

from __future__ import annotations

import pickle
import threading
from typing import TYPE_CHECKING, Any

import pytest

from pytest_gputrace.fakes import fake_torch

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def torch() -> Any:
    return pytest.importorskip("torch", reason="needs torch: its calls are what is replaced")


def calls(torch: Any) -> list[object]:
    names = ("_record_memory_history", "_snapshot", "_dump_snapshot")
    enabled = getattr(torch._C, "_cuda_isHistoryEnabled", None)
    return [*(getattr(torch.cuda.memory, name) for name in names), torch.cuda.cudart, enabled]


def test_they_are_there_inside_and_torchs_own_afterwards(torch: Any) -> None:
    before = calls(torch)
    with fake_torch():
        assert all(fake is not real for fake, real in zip(calls(torch), before, strict=True))
    assert calls(torch) == before


def test_a_history_is_in_the_snapshot_only_while_it_is_recorded(torch: Any, tmp_path: Path) -> None:
    path = tmp_path / "snapshot.pickle"

    def dumped() -> Any:
        torch.cuda.memory._dump_snapshot(str(path))
        return pickle.loads(path.read_bytes())

    with fake_torch(device_count=2):
        memory = torch.cuda.memory
        assert dumped()["device_traces"] == [[], []]
        memory._record_memory_history(max_entries=3)
        assert torch._C._cuda_isHistoryEnabled()
        assert [len(trace) for trace in dumped()["device_traces"]] == [3, 3]
        memory._record_memory_history(enabled=None)
        assert not torch._C._cuda_isHistoryEnabled()
        whole = dumped()
    assert whole["device_traces"] == [[], []]
    assert {segment["device"] for segment in whole["segments"]} == {0, 1}


def test_a_state_that_torch_does_not_know_is_an_error(torch: Any) -> None:
    with fake_torch(), pytest.raises(RuntimeError, match="expected state to be"):
        torch.cuda.memory._record_memory_history(enabled="everything")


def test_the_runtime_is_one_and_answers_success(torch: Any) -> None:
    with fake_torch():
        runtime = torch.cuda.cudart()
        assert torch.cuda.cudart() is runtime
        assert runtime.cudaProfilerStart() == runtime.cudaError.success
        assert runtime.profiling
        code = runtime.cudaProfilerStop()
        assert not runtime.profiling
        assert runtime.cudaGetErrorString(code) == "no error"


def test_a_fake_profile_of_every_thread_is_stopped_by_another_one(torch: Any, tmp_path: Path) -> None:
    with fake_torch() as profile:
        one = profile(experimental_config=torch._C._profiler._ExperimentalConfig())
        one.start()
        stopping = threading.Thread(target=one.stop)
        stopping.start()
        stopping.join(60)
        one.export_chrome_trace(str(tmp_path / "trace.json"))
    assert (tmp_path / "trace.json").stat().st_size > 0
