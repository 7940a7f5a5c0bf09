"""MEM: the memory's history is on disk whole, or it is said why not, and it is switched off in any case."""

from __future__ import annotations

import errno
import os
import pickle
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from pytest_gputrace.control.activities.memory import MemoryKind, MemoryRecorder
from pytest_gputrace.control.activities.protocol import Setup
from pytest_gputrace.control.output import Output
from pytest_gputrace.errors import ActivityError
from pytest_gputrace.fakes import fake_torch

WORDS = ("MEM",)


@pytest.fixture
def torch() -> Any:
    """torch with the memory's history of a fake GPU."""
    torch = pytest.importorskip("torch", reason="needs torch: the history of its memory is what is replaced")
    with fake_torch(device_count=2):
        yield torch


def recorder(folder: Path) -> MemoryRecorder:
    return MemoryKind().recorder(Setup(WORDS, Output(folder, "p", "rank0")))


def refusal() -> str:
    (reason,) = MemoryKind().refusals(WORDS)
    return reason


def test_without_torch_it_is_refused_with_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    monkeypatch.setitem(sys.modules, "torch.profiler", None)
    assert refusal().startswith("MEM: this records with torch, and torch is not installed; ")


def test_without_a_gpu_it_is_refused() -> None:
    pytest.importorskip("torch", reason="needs torch: asks it for its GPUs")
    with fake_torch(device_count=0):
        assert "sees no GPU" in refusal()


def test_a_history_becomes_one_whole_pickle_in_a_folder_that_is_made(torch: Any, tmp_path: Path) -> None:
    assert list(MemoryKind().refusals(WORDS)) == []
    one = recorder(tmp_path / "new")
    one.start()
    assert torch._C._cuda_isHistoryEnabled()
    stopping = threading.Thread(target=one.stop)
    assert not one.thread_bound
    stopping.start()
    stopping.join(60)
    assert not torch._C._cuda_isHistoryEnabled()
    (saved,) = one.save()
    assert saved.path.name.endswith(".memory.pickle")
    assert saved.events is None
    assert saved.problem == ""
    assert all(pickle.loads(saved.path.read_bytes())["device_traces"])
    assert os.listdir(tmp_path / "new") == [saved.path.name]


def test_rounds_write_a_file_each(torch: Any, tmp_path: Path) -> None:
    paths = set()
    for _ in range(2):
        one = recorder(tmp_path)
        one.start()
        one.stop()
        paths.add(one.save()[0].path)
    assert len(paths) == 2


def test_somebody_elses_history_is_refused_and_goes_on(torch: Any, tmp_path: Path) -> None:
    torch.cuda.memory._record_memory_history()
    assert "is recorded already in this process" in refusal()
    with pytest.raises(ActivityError, match="is recorded already in this process") as caught:
        recorder(tmp_path).start()
    assert caught.value.activity == "MEM"
    assert torch._C._cuda_isHistoryEnabled()


def test_an_allocator_without_a_history_is_refused(torch: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def without() -> bool:
        raise RuntimeError("cudaMallocAsync does not yet support recordHistory")

    monkeypatch.setattr(torch._C, "_cuda_isHistoryEnabled", without)
    assert "keeps no history: cudaMallocAsync does not yet support recordHistory" in refusal()


def test_a_snapshot_that_cannot_be_written_ends_the_history_and_leaves_nothing(
    torch: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(filename: str) -> None:
        Path(filename).write_bytes(b"\x80")
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(torch.cuda.memory, "_dump_snapshot", full)
    one = recorder(tmp_path)
    one.start()
    one.stop()
    assert not torch._C._cuda_isHistoryEnabled()
    with pytest.raises(ActivityError, match=r"no memory snapshot into .*: .*No space left on device"):
        one.save()
    assert os.listdir(tmp_path) == []


def test_a_cut_snapshot_gets_no_final_name_and_stays_where_the_message_says(
    torch: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = pickle.dumps(torch.cuda.memory._snapshot())
    monkeypatch.setattr(torch.cuda.memory, "_dump_snapshot", lambda name: Path(name).write_bytes(whole[:-10]))
    one = recorder(tmp_path)
    one.start()
    one.stop()
    with pytest.raises(ActivityError, match="MEM's profiler left a file that is not whole") as caught:
        one.save()
    (left,) = tmp_path.iterdir()
    assert str(left) in str(caught.value)


def test_discard_ends_the_history_and_leaves_nothing(torch: Any, tmp_path: Path) -> None:
    one = recorder(tmp_path)
    one.start()
    one.discard()
    assert not torch._C._cuda_isHistoryEnabled()
    assert os.listdir(tmp_path) == []
