"""The exporter: two files from one pass, each independent of the other's fate."""

from __future__ import annotations

import errno
import hashlib
import json
import math
import os
import pickle
import tracemalloc
from pathlib import Path
from typing import Any

import pytest

from pytest_gputrace import ExportResult, export_events, qualified_name
from pytest_gputrace.errors import EmptyCaptureError, ExportError, SessionStolenError
from pytest_gputrace.export.exporter import export_events as direct_export
from pytest_gputrace.fakes import fake_events
from pytest_gputrace.model import Capture, WorkerId
from pytest_gputrace.publish import PRIVATE_PREFIX

WORKER = WorkerId(node="node0", rank=3, local_rank=1, world_size=4)
CAPTURE = Capture("node0", 3, "fp16")
LEGACY = "torch-profiler-sb-resnet50-1.json"
QUALIFIED = "torch-profiler-sb-resnet50__cfg=fp16__node=node0-3.json"


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A working directory outside the executor's layout, and no launcher."""
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    for name in list(os.environ):
        if name.startswith(("GPUTRACE_RANK", "GPUTRACE_WORLD", "GPUTRACE_LOCAL", "GPUTRACE_NODE")) or name in {
            "RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "GROUP_RANK", "PROC_RANK",
        }:  # fmt: skip
            monkeypatch.delenv(name)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "traces"


def export(folder: Path, events: Any = None, configuration: str | None = "fp16", **options: Any) -> ExportResult:
    events = fake_events(CAPTURE) if events is None else events
    return export_events(
        events,
        **{"model": "resnet50", "trace_dir": folder, "configuration": configuration, "worker": WORKER, **options},
    )


def superbench_bytes(events: Any) -> bytes:
    """What SuperBench's exporter writes, read off its public description."""
    records = [
        {
            "name": event.name,
            "input_shapes": event.input_shapes,
            "input_values": event.concrete_inputs,
            "cpu_time": event.cpu_time,
            "gpu_time": event.device_time,
            "start_time": event.time_range.start,
        }
        for event in events
        if event.device_type.name == "CPU"
    ]
    return json.dumps(records, sort_keys=True).encode()


def test_both_files_hold_the_bytes_of_superbench(folder: Path) -> None:
    events = fake_events(CAPTURE)
    expected = superbench_bytes(events)
    result = export(folder, events)
    assert result == ExportResult(
        legacy=folder / LEGACY,
        qualified=folder / QUALIFIED,
        event_count=len(json.loads(expected)),
        non_finite=0,
        legacy_digest=hashlib.sha256(expected).hexdigest(),
    )
    assert (folder / LEGACY).read_bytes() == (folder / QUALIFIED).read_bytes() == expected
    assert sorted(os.listdir(folder)) == sorted([LEGACY, QUALIFIED])


@pytest.mark.parametrize("vendor", ["cuda", "hip"])
def test_only_cpu_events_are_kept_with_positive_gpu_times(folder: Path, vendor: Any) -> None:
    events = fake_events(CAPTURE, vendor=vendor)
    # An annotation appears on the device too, under its own name: that copy must go, the host's stays.
    kernels = {event.name for event in events if event.device_type.name != "CPU"} - {"ProfilerStep*"}
    assert kernels, "the fake has no device events: this test would pass on nothing"
    export(folder, events)
    records = json.loads((folder / QUALIFIED).read_bytes())
    names = [record["name"] for record in records]
    assert not kernels & set(names)
    assert names.count("ProfilerStep*") == 2
    assert sum(record["gpu_time"] for record in records) > 0


def test_a_profiler_is_asked_for_its_events(folder: Path) -> None:
    class Stopped:
        def events(self) -> Any:
            return fake_events(CAPTURE)

    assert export(folder, Stopped()).event_count == export(folder, fake_events(CAPTURE)).event_count


def test_non_finite_values_are_null_in_the_qualified_file_and_unchanged_in_the_legacy_one(folder: Path) -> None:
    events = fake_events(CAPTURE, values=(math.nan, math.inf))
    result = export(folder, events)
    assert result.non_finite >= 2
    assert (folder / LEGACY).read_bytes() == superbench_bytes(events)
    assert b"NaN" in (folder / LEGACY).read_bytes()
    text = (folder / QUALIFIED).read_text()
    json.loads(text, parse_constant=lambda token: pytest.fail(f"{token} in the qualified file"))
    assert result.legacy_digest == hashlib.sha256((folder / LEGACY).read_bytes()).hexdigest()


def test_a_second_export_is_another_attempt_and_the_legacy_file_is_the_last(folder: Path) -> None:
    first, second = fake_events(CAPTURE), fake_events(Capture("node0", 3, "fp16", 1))
    export(folder, first)
    result = export(folder, second)
    assert result.qualified == folder / QUALIFIED.replace(".json", ".a2.json")
    assert (folder / QUALIFIED).read_bytes() == superbench_bytes(first)
    assert (folder / LEGACY).read_bytes() == superbench_bytes(second)


def test_the_qualified_file_never_comes_from_the_legacy_one(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder.mkdir()
    (folder / LEGACY).write_text("[]")
    real_open = os.open

    def watched(path: Any, flags: int, mode: int = 0o777, **options: Any) -> int:
        assert Path(path).name != LEGACY, "the exporter opened the legacy file"
        return real_open(path, flags, mode, **options)

    monkeypatch.setattr(os, "open", watched)
    export(folder)
    assert (folder / QUALIFIED).stat().st_size > 2


# The configuration -----------------------------------------------------------------------------------------------------


def test_the_rank_folder_gives_configuration_and_local_rank(
    tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rank_dir = tmp_path / "out/benchmarks/model-benchmarks:experiment/fp16/rank1"
    rank_dir.mkdir(parents=True)
    monkeypatch.chdir(rank_dir)
    monkeypatch.setenv("GPUTRACE_NODE_ID", "n7")
    result = export(folder, configuration=None, worker=None)
    worker = WorkerId(node="n7", rank=1, local_rank=1, world_size=2)
    assert result.qualified is not None
    assert result.qualified.name == qualified_name(
        model="resnet50", configuration="model-benchmarks:experiment/fp16", worker=worker
    )
    assert result.legacy == folder / LEGACY


def test_the_trace_folder_itself_may_be_the_rank_folder(tmp_path: Path) -> None:
    rank_dir = tmp_path / "out/benchmarks/fp32/rank1"
    result = export(rank_dir, configuration=None)
    assert result.qualified == rank_dir / QUALIFIED.replace("fp16", "fp32")


def test_outside_the_layout_only_the_legacy_file_is_written(folder: Path) -> None:
    result = export(folder, configuration=None)
    assert result.qualified is None
    assert os.listdir(folder) == [LEGACY]


def test_a_configuration_that_contradicts_the_folder_costs_the_qualified_file_only(
    tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rank_dir = tmp_path / "out/benchmarks/fp32/rank1"
    rank_dir.mkdir(parents=True)
    monkeypatch.chdir(rank_dir)
    with pytest.raises(ExportError, match=r"fp16.*fp32|fp32.*fp16") as caught:
        export(folder, worker=None)
    assert caught.value.rank == 1
    assert caught.value.result.legacy == folder / LEGACY
    assert os.listdir(folder) == [LEGACY]


def test_an_identity_that_is_not_clear_costs_the_qualified_file_only(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {"LOCAL_RANK": "1", "PROC_RANK": "2"}.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(ExportError, match=r"(?s)unknown rank.*LOCAL_RANK.*legacy file: written"):
        export(folder, worker=None)
    assert os.listdir(folder) == ["torch-profiler-sb-resnet50-2.json"]


def test_who_is_not_clear_in_a_rank_folder_still_writes_that_ranks_legacy_file(
    tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rank_dir = tmp_path / "out/benchmarks/fp16/rank5"
    rank_dir.mkdir(parents=True)
    monkeypatch.chdir(rank_dir)
    monkeypatch.setenv("RANK", "gold")
    with pytest.raises(ExportError, match="unknown rank"):
        export(folder, configuration=None, worker=None)
    assert os.listdir(folder) == ["torch-profiler-sb-resnet50-5.json"]


def test_without_any_readable_rank_nothing_is_written_and_both_causes_are_named(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PROC_RANK", "two")
    with pytest.raises(ExportError, match=r"'two' is not a number") as caught:
        export(folder, worker=None)
    assert len(caught.value.causes) == 2
    assert not folder.exists() or os.listdir(folder) == []


def test_a_deleted_working_directory_is_outside_the_layout(
    tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    assert export(folder).qualified == folder / QUALIFIED
    with pytest.raises(ExportError, match="cannot write"):
        export(Path("relative"))
    os.chdir(tmp_path)  # monkeypatch goes back by itself, but from a folder that exists


# One file that cannot be written -----------------------------------------------------------------------------------------


def fail_on(monkeypatch: pytest.MonkeyPatch, function: str, wanted: str, code: int = errno.ENOSPC) -> None:
    real = getattr(os, function)

    def call(*arguments: Any, **options: Any) -> Any:
        if any(wanted in str(argument) for argument in arguments):
            raise OSError(code, os.strerror(code))
        return real(*arguments, **options)

    monkeypatch.setattr(os, function, call)


def test_a_legacy_file_that_cannot_be_written_leaves_the_qualified_one(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fail_on(monkeypatch, "replace", LEGACY)
    with pytest.raises(ExportError) as caught:
        export(folder)
    assert os.listdir(folder) == [QUALIFIED]
    assert caught.value.rank == 3
    assert caught.value.result.qualified == folder / QUALIFIED
    assert caught.value.result.legacy is None
    assert caught.value.result.legacy_digest is None
    lines = str(caught.value).splitlines()
    assert lines[0] == "export of resnet50 (fp16), rank 3 on node node0: not everything could be written"
    assert lines[1] == f"  qualified file: written, {folder / QUALIFIED}"
    assert lines[2] == f"  legacy file: cannot write {folder / LEGACY}: [Errno 28] No space left on device"


def test_a_qualified_file_that_cannot_be_written_leaves_the_legacy_one(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fail_on(monkeypatch, "link", QUALIFIED, errno.EIO)
    with pytest.raises(ExportError, match=r"qualified file: cannot write .*Input/output error") as caught:
        export(folder)
    assert os.listdir(folder) == [LEGACY]
    assert caught.value.result.legacy == folder / LEGACY


def test_one_file_that_breaks_in_the_middle_leaves_the_other(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    events = fake_events(CAPTURE, steps=400)
    real_write = os.write
    broken: set[int] = set()

    def write(fd: int, data: Any) -> int:
        if not broken:
            broken.add(fd)
        elif fd in broken:
            raise OSError(errno.EIO, "Input/output error")
        return real_write(fd, data)

    monkeypatch.setattr(os, "write", write)
    with pytest.raises(ExportError, match="qualified file: cannot write"):
        export(folder, events)
    assert os.listdir(folder) == [LEGACY]
    assert (folder / LEGACY).read_bytes() == superbench_bytes(events)


def test_when_neither_can_be_written_both_are_named_and_nothing_stays(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_fd: int, _data: Any) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "write", full)
    with pytest.raises(ExportError, match=r"(?s)qualified file: .*No space.*legacy file: .*No space") as caught:
        export(folder)
    assert os.listdir(folder) == []
    assert len(caught.value.causes) == 2
    assert pickle.loads(pickle.dumps(caught.value)).rank == 3


def test_a_loss_outside_the_layout_speaks_of_the_legacy_file_only(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fail_on(monkeypatch, "replace", LEGACY)
    with pytest.raises(ExportError, match="legacy file: cannot write") as caught:
        export(folder, configuration=None)
    assert "qualified" not in str(caught.value)


def test_a_name_that_does_not_fit_is_said_and_costs_the_qualified_file_only(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "pathconf", lambda _path, _key: 60)
    with pytest.raises(ExportError, match="a name of 60 bytes has no room"):
        export(folder)
    assert os.listdir(folder) == [LEGACY]


def test_a_model_whose_legacy_name_is_a_capture_does_not_replace_it(folder: Path) -> None:
    export(folder)
    kept = (folder / QUALIFIED).read_bytes()
    worker = WorkerId(node="node0", rank=3, local_rank=3, world_size=4)
    for model in (
        "resnet50__cfg=fp16__node=node0",
        "Resnet50__CFG=fp16__node=node0",
        "resnet50__cfg\uff1dfp16__node=node0",
    ):
        with pytest.raises(ExportError, match="is the qualified name of another capture"):
            export(folder, fake_events(Capture("x", 0, "y")), model=model, worker=worker)
    for model in ("x/../torch-profiler-sb-resnet50__cfg=fp16__node=node0", "x/../../escaped"):
        with pytest.raises(ExportError, match="leads out of the trace folder"):
            export(folder, fake_events(Capture("x", 0, "y")), model=model, worker=worker)
    assert (folder / QUALIFIED).read_bytes() == kept


def test_a_legacy_file_linked_to_a_capture_does_not_write_into_it(folder: Path) -> None:
    export(folder)
    kept = (folder / QUALIFIED).read_bytes()
    (folder / LEGACY).unlink()
    os.link(folder / QUALIFIED, folder / LEGACY)
    export(folder, fake_events(Capture("node0", 3, "fp32")), configuration="fp32")
    assert (folder / QUALIFIED).read_bytes() == kept


def test_a_model_with_a_folder_in_its_name_makes_none_and_costs_the_legacy_file_only(folder: Path) -> None:
    with pytest.raises(ExportError, match=r"legacy file: cannot write .*No such file or directory") as caught:
        export(folder, model="org/resnet50")
    assert caught.value.result.qualified.exists()
    assert len(os.listdir(folder)) == 1


def test_a_model_that_no_file_name_can_hold_costs_the_legacy_file_only(folder: Path) -> None:
    with pytest.raises(ExportError, match="embedded null byte") as caught:
        export(folder, model="a\0b" + "x" * 10_000)
    assert caught.value.result.qualified.exists()
    assert len(str(caught.value)) < 3000


def test_the_first_export_into_a_missing_folder_knows_its_limit(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def pathconf(path: Any, _key: str) -> int:
        if not Path(path).is_dir():
            raise FileNotFoundError(path)
        return 143

    monkeypatch.setattr(os, "pathconf", pathconf)
    result = export(folder, configuration="c" * 200)
    assert result.qualified is not None
    assert len(result.qualified.name) == 143


def test_an_empty_folder_name_is_refused(folder: Path) -> None:
    with pytest.raises(ValueError, match="trace_dir is empty"):
        export(folder, trace_dir="")


def test_a_launcher_that_is_only_half_there_is_said(
    folder: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("RANK", "3")
    monkeypatch.setenv("WORLD_SIZE", "8")
    export(folder, worker=None)
    assert "counts as rank 0 of 1, though RANK (RANK=3 WORLD_SIZE=8) is set" in caplog.text


def test_an_error_that_cannot_be_printed_is_still_an_export_error(folder: Path) -> None:
    class Mute(Exception):  # noqa: N818  # what matters is its repr
        def __repr__(self) -> str:
            raise RuntimeError

    class Broken:
        def events(self) -> Any:
            raise Mute

    with pytest.raises(ExportError, match="cannot read the events: Mute"):
        export(folder, Broken())


# Events that are not there -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("events", [[], [event for event in fake_events(CAPTURE) if event.device_type.name != "CPU"]])
def test_an_empty_profile_is_not_a_success(folder: Path, events: Any) -> None:
    with pytest.raises(EmptyCaptureError, match="rank 3 on node node0: the profile holds no CPU event") as caught:
        export(folder, events)
    assert os.listdir(folder) == [LEGACY]
    assert (folder / LEGACY).read_bytes() == b"[]"
    assert caught.value.result.event_count == 0


def test_an_event_without_an_attribute_of_torch_is_an_error_and_leaves_nothing(folder: Path) -> None:
    class Half:
        device_type = fake_events(CAPTURE)[0].device_type
        cpu_time = 1.0

    with pytest.raises(ExportError, match=r"rank 3.*cannot read the events: AttributeError.*device_time"):
        export(folder, [*fake_events(CAPTURE), Half()])
    assert os.listdir(folder) == []


def test_events_that_raise_are_reported_with_their_cause(folder: Path) -> None:
    class Running:
        def events(self) -> Any:
            raise AssertionError("Profiler must be initialized before parsing events")

    with pytest.raises(ExportError, match="Profiler must be initialized") as caught:
        export(folder, Running())
    assert isinstance(caught.value.__cause__, AssertionError)
    assert os.listdir(folder) == []


def test_an_interrupt_while_reading_leaves_nothing(folder: Path) -> None:
    def interrupted() -> Any:
        yield from fake_events(CAPTURE)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        export(folder, interrupted())
    assert os.listdir(folder) == []


def test_a_stolen_session_is_said_before_anything_is_touched(folder: Path) -> None:
    class Results:
        def trace_start_ns(self) -> int:
            return 0

    class Inner:
        kineto_results = Results()

    class Stolen:
        profiler = Inner()

        def events(self) -> Any:
            raise AssertionError("a stolen session must not be asked")

    with pytest.raises(SessionStolenError, match=r"rank 3 on node node0: another profiler in this process took"):
        export(folder, Stolen())
    assert not folder.exists()


def test_memory_above_the_events_is_bounded(folder: Path) -> None:
    events = fake_events(CAPTURE, steps=3000)
    assert len(events) > 20_000
    export(folder, events[:100])  # imports and caches
    tracemalloc.start()
    try:
        export(folder, events, configuration="fp32")
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    size = (folder / QUALIFIED.replace("fp16", "fp32")).stat().st_size
    assert size > 2e6
    assert peak < 4e6


def test_no_private_file_is_left(folder: Path) -> None:
    export(folder)
    assert not [name for name in os.listdir(folder) if name.startswith(PRIVATE_PREFIX)]


def test_the_public_name_is_the_exporter() -> None:
    assert export_events is direct_export
