"""CPU and GPU: torch's trace is on disk whole, or it is said why not, and nobody's session is taken."""

from __future__ import annotations

import errno
import gzip
import json
import os
import re
import subprocess
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_gputrace import torchdoor
from pytest_gputrace.control.activities.protocol import Setup
from pytest_gputrace.control.activities.torchprofile import TorchProfileKind, TorchRecorder
from pytest_gputrace.control.output import Output
from pytest_gputrace.errors import ActivityError
from pytest_gputrace.fakes import fake_torch
from pytest_gputrace.fakes.profiler import FakeProfile

if TYPE_CHECKING:
    from collections.abc import Callable

BOTH = ("CPU", "GPU")


def recorder(folder: Path, words: tuple[str, ...] = BOTH, **options: bool) -> TorchRecorder:
    return TorchProfileKind().recorder(Setup(words, Output(folder, "p", "rank0"), **options))


def recorded(folder: Path, words: tuple[str, ...] = BOTH, **options: bool) -> TorchRecorder:
    one = recorder(folder, words, **options)
    one.start()
    one.stop()
    return one


def in_a_thread(call: Callable[[], object]) -> None:
    thread = threading.Thread(target=call)
    thread.start()
    thread.join(60)
    assert not thread.is_alive()


def read(path: Path) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(gzip.decompress(path.read_bytes()))
    return document


def test_without_torch_both_are_refused_with_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    monkeypatch.setitem(sys.modules, "torch.profiler", None)
    (reason,) = TorchProfileKind().refusals(BOTH)
    assert reason.startswith("CPU and GPU: ")
    assert "pip install pytest-gputrace[torch]" in reason


class TestOnAFakeGpu:
    """torch with its profiler replaced, as on a CUDA or HIP build."""

    @pytest.fixture(autouse=True, params=["cuda", "hip"])
    def profile(self, request: pytest.FixtureRequest) -> Any:
        pytest.importorskip("torch", reason="needs torch: its profiler is what is replaced")
        with fake_torch(request.param) as profile:
            yield profile

    def test_one_packed_file_holds_the_work_of_both(self, tmp_path: Path) -> None:
        (saved,) = recorded(tmp_path).save()
        document = read(saved.path)
        categories = {event.get("cat") for event in document["traceEvents"]}
        assert {"cpu_op", "kernel"} <= categories
        assert saved.path.name.endswith(".torch.json.gz")
        assert saved.events is not None
        assert 0 < saved.events < len(document["traceEvents"])
        assert saved.problem == ""
        assert os.listdir(tmp_path) == [saved.path.name]

    def test_the_packed_file_tells_neither_when_nor_from_what_it_was_made(self, tmp_path: Path) -> None:
        (saved,) = recorded(tmp_path).save()
        assert saved.path.read_bytes()[3:8] == bytes(5)  # no name, no time

    def test_what_was_asked_for_reaches_torch(self, tmp_path: Path) -> None:
        (plain,) = recorded(tmp_path).save()
        (asked,) = recorded(tmp_path, with_stack=True, record_shapes=True).save()
        names = {"with_stack", "record_shapes"}
        assert names & set(read(plain.path)) == set()
        assert names <= set(read(asked.path))

    def test_rounds_write_a_file_each(self, tmp_path: Path) -> None:
        paths = [recorded(tmp_path).save()[0].path for _ in range(3)]
        assert len(set(paths)) == 3
        assert all(read(path)["traceEvents"] for path in paths)

    def test_a_folder_that_is_missing_is_made(self, tmp_path: Path) -> None:
        (saved,) = recorded(tmp_path / "not" / "there").save()
        assert saved.path.parent == tmp_path / "not" / "there"

    def test_discard_leaves_no_file_and_no_session(self, tmp_path: Path) -> None:
        one = recorder(tmp_path)
        one.start()
        one.discard()
        assert not torchdoor.someone_profiles()
        one.discard()
        assert os.listdir(tmp_path) == []

    def test_nothing_stands_in_the_way(self) -> None:
        assert list(TorchProfileKind().refusals(BOTH)) == []

    def test_somebody_elses_session_is_refused_and_never_taken(self, tmp_path: Path) -> None:
        import torch

        with torch.profiler.profile() as theirs:
            (reason,) = TorchProfileKind().refusals(BOTH)
            with pytest.raises(ActivityError, match="records already in this process") as caught:
                recorder(tmp_path).start()
        assert "a torch profiler records already in this process" in reason
        assert caught.value.activity == "CPU and GPU"
        assert theirs.events()
        assert os.listdir(tmp_path) == []

    def test_looking_and_starting_are_one_act(self, tmp_path: Path) -> None:
        one = recorder(tmp_path)
        thread = threading.Thread(target=one.start)
        with torchdoor.STARTING:
            thread.start()
            thread.join(0.05)
            assert not torchdoor.someone_profiles()
        thread.join(60)
        assert torchdoor.someone_profiles()
        one.discard()

    def test_a_session_that_was_taken_is_said_and_not_exported(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        import torch

        exported: list[str] = []
        monkeypatch.setattr(FakeProfile, "export_chrome_trace", lambda self, path: exported.append(path))
        one = recorder(tmp_path)
        one.start()
        with torch.profiler.profile():
            pass
        one.stop()
        with pytest.raises(ActivityError, match="another profiler in this process took the session over"):
            one.save()
        assert exported == []
        assert os.listdir(tmp_path) == []

    def test_an_older_torch_that_finds_its_session_gone_says_the_same(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def stop(self: FakeProfile) -> None:
            self._end()
            raise RuntimeError("Can't disable Kineto profiler when it's not running")

        monkeypatch.setattr(FakeProfile, "stop", stop)
        with pytest.raises(ActivityError, match="took the session over"):
            recorded(tmp_path).save()

    def test_a_stop_that_fails_is_said_with_its_error(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        def stop(self: FakeProfile) -> None:
            self._end()
            raise RuntimeError("CUPTI_ERROR_UNKNOWN")

        monkeypatch.setattr(FakeProfile, "stop", stop)
        with pytest.raises(ActivityError, match=r"did not stop: RuntimeError.*CUPTI_ERROR_UNKNOWN"):
            recorded(tmp_path).save()

    def test_half_a_start_does_not_hold_the_session(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        start = FakeProfile.start

        def half(self: FakeProfile) -> None:
            start(self)
            raise RuntimeError("CUPTI")

        monkeypatch.setattr(FakeProfile, "start", half)
        with pytest.raises(RuntimeError, match="CUPTI"):
            recorder(tmp_path).start()
        assert not torchdoor.someone_profiles()

    def test_a_profile_without_an_event_leaves_no_file(self, tmp_path: Path, profile: type[FakeProfile]) -> None:
        profile.plan.empty = True
        with pytest.raises(ActivityError, match="holds no event; did this process run any torch code"):
            recorded(tmp_path).save()
        assert os.listdir(tmp_path) == []

    def test_a_file_that_torch_did_not_write_is_missed(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        def silent(self: FakeProfile, path: str) -> None:
            Path(f"{path}.tmp").write_text("[")

        monkeypatch.setattr(FakeProfile, "export_chrome_trace", silent)
        with pytest.raises(ActivityError, match=f"torch wrote no trace into {re.escape(str(tmp_path))}"):
            recorded(tmp_path).save()
        assert os.listdir(tmp_path) == []

    def test_an_export_that_raises_is_said_with_its_error(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def raising(self: FakeProfile, path: str) -> None:
            Path(path).write_text("[")
            raise RuntimeError("Trace is already saved.")

        monkeypatch.setattr(FakeProfile, "export_chrome_trace", raising)
        with pytest.raises(ActivityError, match=r"could not write its trace.*already saved"):
            recorded(tmp_path).save()
        assert os.listdir(tmp_path) == []

    def test_a_cut_trace_gets_no_final_name_and_stays_where_the_message_says(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(FakeProfile, "export_chrome_trace", edited(lambda text: text[: len(text) // 2]))
        with pytest.raises(ActivityError, match="trace is not whole") as caught:
            recorded(tmp_path).save()
        (left,) = tmp_path.iterdir()
        assert str(left) in str(caught.value)
        assert left.name.startswith(".gputrace-")

    def test_a_trace_with_a_wrong_quote_is_published_with_its_problem(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def quote(text: str) -> str:
            head, _, tail = text.rpartition('"name": "aten::')
            return f'{head}"name": "say "hello" aten::{tail}'

        monkeypatch.setattr(FakeProfile, "export_chrome_trace", edited(quote))
        (saved,) = recorded(tmp_path).save()
        assert saved.problem
        assert b'say "hello"' in gzip.decompress(saved.path.read_bytes())
        assert os.listdir(tmp_path) == [saved.path.name]

    def test_a_disk_that_fills_while_it_is_packed_costs_nothing(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def full(source: Any, target: Any, length: int) -> None:
            target.write(source.read(100))
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        monkeypatch.setattr("pytest_gputrace.control.activities.torchprofile.shutil.copyfileobj", full)
        with pytest.raises(ActivityError, match=r"could not be packed.*No space left on device") as caught:
            recorded(tmp_path).save()
        (left,) = tmp_path.iterdir()
        assert str(left) in str(caught.value)
        assert json.loads(left.read_text())["traceEvents"]

    def test_any_thread_may_stop_it(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(torchdoor, "all_threads", object)
        one = recorder(tmp_path)
        assert not one.thread_bound
        one.start()
        in_a_thread(one.stop)
        assert one.save()

    def test_on_an_older_torch_another_thread_is_refused_and_the_own_one_may_still_stop(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(torchdoor, "all_threads", lambda: None)
        one = recorder(tmp_path)
        assert one.thread_bound
        one.start()
        in_a_thread(one.stop)
        with pytest.raises(ActivityError, match="only the thread that started this torch's profiler may stop it"):
            one.save()
        in_a_thread(one.discard)
        assert torchdoor.someone_profiles()
        one.discard()
        assert not torchdoor.someone_profiles()

    def test_a_build_that_cannot_record_a_gpu_is_refused(self, monkeypatch: pytest.MonkeyPatch) -> None:
        import torch

        monkeypatch.setattr(torch.profiler, "supported_activities", set)
        assert list(TorchProfileKind().refusals(("CPU",))) == []
        (reason,) = TorchProfileKind().refusals(BOTH)
        assert reason.startswith("GPU: this torch's profiler is built without CUPTI or roctracer")


def edited(edit: Callable[[str], str]) -> Callable[..., None]:
    """An export whose text is changed."""
    export = FakeProfile.export_chrome_trace

    def export_edited(self: FakeProfile, path: str) -> None:
        export(self, path)
        text = Path(path).read_text()
        Path(path).write_text(edit(text))

    return export_edited


def test_a_gpu_that_is_not_there_is_refused_and_the_cpu_is_not() -> None:
    pytest.importorskip("torch", reason="needs torch: asks it for its GPUs")
    with fake_torch("cuda", device_count=0):
        assert list(TorchProfileKind().refusals(("CPU",))) == []
        (reason,) = TorchProfileKind().refusals(BOTH)
    assert re.match(
        r"GPU: torch \S+ sees no GPU \(torch.cuda.is_available\(\) is False\); .*, or leave GPU out$", reason
    )


# The real profiler, in a process of its own: it may be killed by what is tried ---------------------------------------------

REAL = """
import gzip, json, os, sys, threading, time, warnings
from pathlib import Path
import torch
from pytest_gputrace import torchdoor
from pytest_gputrace.control.activities.protocol import Setup
from pytest_gputrace.control.activities.torchprofile import TorchProfileKind
from pytest_gputrace.control.output import Output
from pytest_gputrace.errors import ActivityError

warnings.simplefilter("error", UserWarning)

def work():
    x = torch.ones(8, 8)
    (x @ x).sum()

def in_a_thread(call):
    thread = threading.Thread(target=call)
    thread.start()
    thread.join(60)

def record(name, during=work, *, stop_elsewhere=False, **options):
    folder = Path(sys.argv[1], name, "folder")
    recorder = TorchProfileKind().recorder(Setup(("CPU",), Output(folder, "p", "rank0"), **options))
    facts = {"bound": recorder.thread_bound, "files": []}
    try:
        recorder.start()
        during()
        in_a_thread(recorder.stop) if stop_elsewhere and not recorder.thread_bound else recorder.stop()
        (saved,) = recorder.save()
        rows = json.loads(gzip.decompress(saved.path.read_bytes()))["traceEvents"]
        facts |= {"events": saved.events, "problem": saved.problem, "ops": [row["name"] for row in rows if row.get("cat") == "cpu_op"]}
        facts["threads"] = len({row["tid"] for row in rows if row.get("cat") == "cpu_op"})
    except ActivityError as error:
        facts["error"] = str(error)
    if folder.exists():
        facts["files"] = os.listdir(folder)
    facts["still"] = torchdoor.someone_profiles()
    print("FACTS " + json.dumps([name, facts]), flush=True)

def steal():
    work()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]):
        work()

thieves = []
def steal_on():
    work()
    time.sleep(0.01)
    thieves.append(torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]))
    thieves[0].start()
    work()

def two_threads():
    work()
    in_a_thread(work)

told = "profile_all_threads" in torch._C._profiler._ExperimentalConfig.__init__.__doc__
print("FACTS " + json.dumps(["every thread", told]), flush=True)
record("first")
record("second")
record("elsewhere", two_threads, stop_elsewhere=True)
record("stacks", stop_elsewhere=True, with_stack=True, record_shapes=True)
record("empty", lambda: None)
record("stolen", steal)
record("stolen still", steal_on)
with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as theirs:
    work()
    refusals = list(TorchProfileKind().refusals(("CPU",)))
    record("taken")
print("FACTS " + json.dumps(["theirs", {"events": len(theirs.events()), "refusals": refusals}]), flush=True)
record("after all")
"""


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """What became of each recording, by its name."""
    pytest.importorskip("torch", reason="needs torch: runs its real profiler")
    command = [sys.executable, "-c", REAL, str(tmp_path_factory.mktemp("real"))]
    environment = {**os.environ, "KINETO_LOG_LEVEL": "6"}
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, env=environment)
    lines = [line.removeprefix("FACTS ") for line in done.stdout.splitlines() if line.startswith("FACTS ")]
    return {"code": done.returncode, "stderr": done.stderr, **dict(map(json.loads, lines))}


def test_real_recordings_whatever_becomes_of_them_leave_the_process_alive(real: Any) -> None:
    assert real["code"] == 0, real["stderr"]


@pytest.mark.parametrize("name", ["first", "second", "after all", "stacks"])
def test_a_real_recording_gives_one_whole_file(real: Any, name: str) -> None:
    facts = real[name]
    assert "error" not in facts
    assert len(facts["files"]) == 1
    assert facts["files"][0].endswith(".torch.json.gz")
    assert "aten::mm" in facts["ops"]
    assert facts["events"] >= len(facts["ops"])
    assert facts["problem"] == ""
    assert not facts["still"]


def test_a_real_recording_that_another_thread_stops_is_kept_with_every_thread_in_it(real: Any) -> None:
    facts = real["elsewhere"]
    assert facts["bound"] is not real["every thread"]
    assert facts["threads"] == facts["ops"].count("aten::mm") == (1 if facts["bound"] else 2)
    assert len(facts["files"]) == 1


def test_a_real_recording_of_nothing_is_an_error_without_a_file(real: Any) -> None:
    assert "holds no event" in real["empty"]["error"]
    assert real["empty"]["files"] == []


@pytest.mark.parametrize("name", ["stolen", "stolen still"])
def test_a_real_session_that_was_stolen_is_an_error_without_a_file(real: Any, name: str) -> None:
    assert "took the session over" in real[name]["error"]
    assert real[name]["files"] == []


def test_a_real_session_of_somebody_else_is_refused_and_never_taken(real: Any) -> None:
    assert "records already in this process" in real["taken"]["error"]
    assert real["taken"]["still"]
    assert real["theirs"]["events"] > 0
    assert len(real["theirs"]["refusals"]) == 1
