"""profiled(): the profiled code comes first, and a capture that is lost is said."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
import textwrap
import warnings
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from pytest_gputrace.errors import ExportError, MissingDependencyError, SessionStolenError
from pytest_gputrace.export.profiled import profiled
from pytest_gputrace.fakes import fake_events, fake_torch
from pytest_gputrace.model import Capture, Mark, WorkerId

if TYPE_CHECKING:
    from pathlib import Path

WORKER = WorkerId(node="node0", rank=3, local_rank=1, world_size=4)
CAPTURE = Capture("node0", 3, "fp16")


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def start(folder: Path, **options: Any) -> Any:
    arguments: dict[str, Any] = {
        "model": "resnet50",
        "trace_dir": folder / "traces",
        "configuration": "fp16",
        "worker": WORKER,
    }
    return profiled(**{**arguments, **options})


def test_without_torch_it_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    monkeypatch.setitem(sys.modules, "torch.profiler", None)
    with pytest.raises(MissingDependencyError, match=r"pip install pytest-gputrace\[torch\]") as caught:
        start(tmp_path)
    assert caught.value.package == "torch"


def test_a_folder_that_is_none_is_refused_before_the_code_runs(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="NoneType"):
        start(tmp_path, trace_dir=None)
    with pytest.raises(ValueError, match="trace_dir is empty"):
        start(tmp_path, trace_dir="")


class TestOnAFakeGpu:
    """torch with its profiler replaced: what the exporter meets on a CUDA or HIP build."""

    @pytest.fixture(autouse=True, params=["cuda", "hip"])
    def _fake(self, request: pytest.FixtureRequest) -> Any:
        pytest.importorskip("torch", reason="needs torch: profiled() records with its profiler")
        with fake_torch(request.param, CAPTURE):
            yield

    def test_the_capture_is_exported_at_the_end_of_the_block(self, tmp_path: Path) -> None:
        with start(tmp_path) as capture:
            capture.step()
        records = json.loads(capture.result.qualified.read_bytes())
        marks = [mark for record in records if (mark := Mark.parse(record["name"]))]
        assert {mark.capture for mark in marks} == {CAPTURE}
        assert len(marks) == marks[0].total
        assert capture.error is None
        assert capture.results == [capture.result]

    def test_the_result_is_there_only_after_the_block(self, tmp_path: Path) -> None:
        with start(tmp_path) as capture, pytest.raises(ExportError, match="nothing has been exported yet"):
            _ = capture.result

    def test_an_exception_of_the_code_is_not_replaced_and_its_capture_is_kept(self, tmp_path: Path) -> None:
        capture = start(tmp_path)
        with pytest.raises(ZeroDivisionError), capture:
            _ = 1 / 0
        assert capture.result.qualified.exists()

    def test_an_exception_of_the_code_is_not_replaced_by_one_of_the_export(self, tmp_path: Path) -> None:
        (tmp_path / "traces").write_text("in the way")
        capture = start(tmp_path, strict=True)
        with pytest.raises(ZeroDivisionError), capture:
            _ = 1 / 0
        with pytest.raises(ExportError, match="not everything could be written"):
            _ = capture.result

    def test_a_lost_capture_is_logged_and_does_not_touch_the_code(
        self, tmp_path: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        (tmp_path / "traces").write_text("in the way")
        with start(tmp_path) as capture:
            value = 42
        assert value == 42
        assert [record.levelno for record in caplog.records] == [logging.ERROR]
        assert "capture lost: export of resnet50 (fp16), rank 3 on node node0" in caplog.text
        with pytest.raises(ExportError):
            _ = capture.result

    def test_strict_raises_a_lost_capture(self, tmp_path: Path) -> None:
        (tmp_path / "traces").write_text("in the way")
        with pytest.raises(ExportError, match="not everything could be written"), start(tmp_path, strict=True):
            pass

    def test_your_own_handler_is_called_after_the_export(self, tmp_path: Path) -> None:
        seen: list[int] = []
        capture: Any = start(tmp_path, on_trace_ready=lambda _profile: seen.append(len(capture.results)))
        with capture:
            pass
        assert seen == [1]

    def test_a_running_profiler_is_not_robbed(self, tmp_path: Path) -> None:
        import torch

        with torch.profiler.profile() as outer, start(tmp_path) as capture:
            capture.step()
        assert outer.events()
        with pytest.raises(SessionStolenError, match="a torch profiler is already running in this process"):
            _ = capture.result
        assert not (tmp_path / "traces").exists()

    def test_a_start_that_fails_does_not_stop_the_code(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        capture = start(tmp_path)
        monkeypatch.setattr(capture.profiler, "start", raising(lambda: None, RuntimeError("CUPTI")))
        with capture:
            capture.step()
            value = 42
        assert value == 42
        with pytest.raises(ExportError, match="starting the profiler failed: RuntimeError"):
            _ = capture.result

    def test_an_export_that_fails_in_an_unforeseen_way_is_a_lost_capture(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def unforeseen(*_: Any, **__: Any) -> None:
            raise RuntimeError("unforeseen")

        monkeypatch.setattr("pytest_gputrace.export.profiled.export_events", unforeseen)
        with start(tmp_path) as capture:
            pass
        with pytest.raises(ExportError, match="exporting the profiler failed: RuntimeError"):
            _ = capture.result

    def test_one_lost_cycle_among_kept_ones_is_not_forgotten(self, tmp_path: Path) -> None:
        capture = start(tmp_path, strict=True)

        def lose_one_cycle() -> None:
            (tmp_path / "traces").write_text("in the way")
            capture.profiler.on_trace_ready(fake_events_of_a_cycle())
            (tmp_path / "traces").unlink()

        with pytest.raises(ExportError, match="not everything could be written"), capture:
            lose_one_cycle()
        assert len(capture.results) == 1
        assert len(capture.errors) == 1

    def test_the_folder_is_that_of_the_start(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        (tmp_path / "elsewhere").mkdir()
        with start(tmp_path, trace_dir="relative") as capture:
            monkeypatch.chdir(tmp_path / "elsewhere")
        assert capture.result.qualified.parent == tmp_path / "relative"

    def test_a_stop_that_fails_is_a_lost_capture(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        with start(tmp_path) as capture:
            stop = raising(capture.profiler.stop, RuntimeError("broken"))
            monkeypatch.setattr(capture.profiler, "stop", stop)
        with pytest.raises(ExportError, match="stopping the profiler failed: RuntimeError") as caught:
            _ = capture.result
        assert isinstance(caught.value.__cause__, RuntimeError)

    def test_a_session_that_old_torch_finds_gone_is_stolen(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        error = RuntimeError("Can't disable Kineto profiler when it's not running")
        with start(tmp_path) as capture:
            monkeypatch.setattr(capture.profiler, "stop", raising(capture.profiler.stop, error))
        with pytest.raises(SessionStolenError, match="took the session over"):
            _ = capture.result


def fake_events_of_a_cycle() -> Any:
    return SimpleNamespace(events=lambda: fake_events(CAPTURE))


def raising(stop: Any, error: Exception) -> Any:
    def stop_and_raise() -> None:
        stop()
        raise error

    return stop_and_raise


# The real profiler, in processes of its own: Kineto is not to be shared with the test run ------------------------------------

PRELUDE = """
import json, os, sys, time, warnings
from pathlib import Path
import torch
from pytest_gputrace import profiled
from pytest_gputrace.errors import GputraceError
from pytest_gputrace.model import WorkerId

folder = Path(sys.argv[1])
worker = WorkerId(node="node0", rank=0, local_rank=0, world_size=1)

def train():
    x = torch.ones(8, 8, requires_grad=True)
    (x @ x).clamp(0.5, float("inf")).sum().backward()

def say(**facts):
    print("FACTS " + json.dumps(facts, default=str))
"""


def run_real(folder: Path, code: str, *flags: str) -> dict[str, Any]:
    pytest.importorskip("torch", reason="needs torch: runs its real profiler")
    command = [sys.executable, *flags, "-c", PRELUDE + textwrap.dedent(code), str(folder)]
    environment = {**os.environ, "KINETO_LOG_LEVEL": "6"}
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=120, check=False, cwd=folder, env=environment
    )
    assert done.returncode == 0, done.stderr
    facts = [line.removeprefix("FACTS ") for line in done.stdout.splitlines() if line.startswith("FACTS ")]
    loaded: dict[str, Any] = json.loads(facts[-1])
    return loaded


def test_a_real_profile_gives_both_files_under_warnings_as_errors(tmp_path: Path) -> None:
    facts = run_real(
        tmp_path,
        """
        import importlib
        importlib.import_module("pytest_gputrace.export.profiled")
        warnings.simplefilter("error", FutureWarning)
        warnings.simplefilter("error", DeprecationWarning)
        with profiled(model="m", trace_dir=folder, configuration="fp16", worker=worker) as capture:
            train()
        r = capture.result
        say(qualified=r.qualified, legacy=r.legacy, count=r.event_count, bad=r.non_finite)
        """,
    )
    records = json.loads((tmp_path / "torch-profiler-sb-m__cfg=fp16__node=node0-0.json").read_bytes())
    assert facts["count"] == len(records)
    assert {"aten::mm", "aten::clamp"} <= {record["name"] for record in records}
    mm = next(record for record in records if record["name"] == "aten::mm")
    assert mm["input_shapes"][:2] == [[8, 8], [8, 8]]
    assert mm["cpu_time"] > 0
    clamp = next(record for record in records if record["name"] == "aten::clamp")
    assert clamp["input_values"] == [None, 0.5, None]
    assert facts["bad"] >= 1
    assert b"Infinity" in (tmp_path / "torch-profiler-sb-m-0.json").read_bytes()


def test_a_real_session_stolen_inside_the_block_is_said_and_the_process_lives(tmp_path: Path) -> None:
    facts = run_real(
        tmp_path,
        """
        with profiled(model="m", trace_dir=folder, configuration="fp16", worker=worker) as capture:
            train()
            with torch.profiler.profile() as inner:
                train()
        say(error=capture.error, kind=type(capture.error).__name__, inner=len(inner.events()))
        """,
    )
    assert facts["kind"] == "SessionStolenError"
    assert "took the session over" in facts["error"]
    assert os.listdir(tmp_path) == []


def test_a_real_session_that_is_still_stolen_at_the_end_is_said(tmp_path: Path) -> None:
    facts = run_real(
        tmp_path,
        """
        with profiled(model="m", trace_dir=folder, configuration="fp16", worker=worker) as capture:
            train()
            time.sleep(0.01)
            inner = torch.profiler.profile()
            inner.start()
            train()
        say(error=capture.error, kind=type(capture.error).__name__, results=len(capture.results))
        """,
    )
    assert facts["kind"] == "SessionStolenError"
    assert facts["results"] == 0
    assert os.listdir(tmp_path) == []


def test_a_real_profiler_of_another_thread_is_not_robbed(tmp_path: Path) -> None:
    facts = run_real(
        tmp_path,
        """
        import threading
        started, done = threading.Event(), threading.Event()
        found = []

        def outer():
            with torch.profiler.profile() as profile:
                train()
                started.set()
                assert done.wait(60)
            found.append(len(profile.events()))

        thread = threading.Thread(target=outer)
        thread.start()
        assert started.wait(60)
        with profiled(model="m", trace_dir=folder, configuration="fp16", worker=worker) as capture:
            train()
        done.set()
        thread.join(60)
        anywhere = hasattr(torch.autograd.profiler, "_is_profiler_enabled")
        say(kind=type(capture.error).__name__, found=found, anywhere=anywhere)
        """,
    )
    if not facts["anywhere"]:
        pytest.skip("this torch does not say whether another thread profiles")
    assert facts["kind"] == "SessionStolenError"
    assert facts["found"][0] > 0


def test_real_cycles_under_warnings_as_errors_and_steps_past_us_are_exported(tmp_path: Path) -> None:
    facts = run_real(
        tmp_path,
        """
        schedule = torch.profiler.schedule(wait=0, warmup=1, active=1)
        with profiled(model="m", trace_dir=folder, configuration="fp16", worker=worker, schedule=schedule) as capture:
            for number in range(8):
                train()
                (capture if number % 2 else capture.profiler).step()
                time.sleep(0.005)
        say(errors=capture.errors, results=len(capture.results))
        """,
        "-W", "error::UserWarning",
    )  # fmt: skip
    assert facts["errors"] == []
    assert facts["results"] == 4


def test_a_real_schedule_exports_every_cycle(tmp_path: Path) -> None:
    facts = run_real(
        tmp_path,
        """
        schedule = torch.profiler.schedule(wait=0, warmup=1, active=1)
        with profiled(model="m", trace_dir=folder, configuration="fp16", worker=worker, schedule=schedule) as capture:
            for _ in range(4):
                train()
                capture.step()
        say(names=[r.qualified.name for r in capture.results])
        """,
    )
    assert facts["names"] == [
        "torch-profiler-sb-m__cfg=fp16__node=node0-0.json",
        "torch-profiler-sb-m__cfg=fp16__node=node0-0.a2.json",
    ]


def test_a_real_schedule_that_never_records_is_a_lost_capture(tmp_path: Path) -> None:
    facts = run_real(
        tmp_path,
        """
        schedule = torch.profiler.schedule(wait=5, warmup=1, active=1)
        with profiled(model="m", trace_dir=folder, configuration="fp16", worker=worker, schedule=schedule) as capture:
            train()
        say(error=capture.error)
        """,
    )
    assert "the schedule ended before it recorded a step" in facts["error"]
    assert os.listdir(tmp_path) == []


def test_nothing_of_the_exporter_warns_on_import() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        subprocess.run(
            [sys.executable, "-W", "error", "-c", "import pytest_gputrace.export.profiled"], timeout=60, check=True
        )
