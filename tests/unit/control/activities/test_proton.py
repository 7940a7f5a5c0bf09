from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import types
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_gputrace.control.activities import proton, protondoor
from pytest_gputrace.control.activities.protocol import Setup
from pytest_gputrace.control.activities.proton import ProtonKind
from pytest_gputrace.control.activities.protondoor import ProtonDoor, active, gpu, missing, open_proton
from pytest_gputrace.control.output import Output
from pytest_gputrace.errors import ActivityError, MissingDependencyError, RequestError

if TYPE_CHECKING:
    from collections.abc import Callable

TRACE = json.dumps(
    {
        "baseTimeNanoseconds": 1_700_000_000_000_000_000,
        "displayTimeUnit": "us",
        "traceEvents": [
            {
                "ph": "X",
                "cat": "scope",
                "name": "s",
                "pid": 0,
                "tid": 0,
                "ts": 0.0,
                "dur": 1.0,
                "args": {"call_stack": ["ROOT"]},
            }
        ],
    }
)
EMPTY = '{"displayTimeUnit":"us","traceEvents":[]}\n'


@pytest.fixture(autouse=True)
def _no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.startswith(("GPUTRACE_PROTON_", "TOKENSPEED_")) or name in (
            "HIP_VISIBLE_DEVICES",
            "CUDA_VISIBLE_DEVICES",
        ):
            monkeypatch.delenv(name)


@pytest.fixture
def real() -> ProtonDoor:
    if reason := missing():
        pytest.skip(f"needs proton: {reason}")
    return open_proton()


@pytest.fixture
def setup(tmp_path: Path) -> Setup:
    return Setup(("PROTON",), Output(tmp_path / "window", "p1", "rank0"))


def reasons() -> list[str]:
    return list(ProtonKind().refusals(("PROTON",)))


def names(setup: Setup) -> list[str]:
    return sorted(path.name for path in setup.output.folder.iterdir())


def scopes(path: Path) -> list[str]:
    return [event["name"] for event in json.loads(path.read_bytes())["traceEvents"] if event["ph"] == "X"]


def elsewhere(what: Callable[[], object]) -> None:
    thread = threading.Thread(target=what)
    thread.start()
    thread.join(timeout=60)
    assert not thread.is_alive()


class TestReal:
    def test_scopes_between_start_and_stop_are_published_in_each_of_several_rounds(
        self, real: ProtonDoor, setup: Setup
    ) -> None:
        for number in range(3):
            assert reasons() == []
            recorder = ProtonKind().recorder(setup)
            with real.scope("before"):
                pass
            recorder.start()
            with real.scope(f"inside {number}"):
                pass
            recorder.stop()
            with real.scope("after"):
                pass
            [saved] = recorder.save()
            attempt = f".a{number + 1}" if number else ""
            assert saved.path == setup.output.folder / f"p1-rank0{attempt}.proton.chrome_trace"
            assert scopes(saved.path) == [f"inside {number}"]
            assert (saved.events, saved.problem) == (1, "")
        assert len(names(setup)) == 3, "nothing private is left"

    def test_a_file_in_place_of_the_folder_is_told_and_keeps_no_later_profile_out(
        self, real: ProtonDoor, setup: Setup
    ) -> None:
        recorder = ProtonKind().recorder(setup)
        recorder.start()
        with real.scope("inside"):
            pass
        recorder.stop()
        setup.output.folder.rmdir()
        setup.output.folder.write_text("a file")
        with pytest.raises(ActivityError, match=f"Proton cannot write to {setup.output.folder}: File exists"):
            recorder.save()
        assert reasons() == []

    def test_any_thread_may_stop_and_save_it(self, real: ProtonDoor, setup: Setup) -> None:
        recorder = ProtonKind().recorder(setup)
        assert not recorder.thread_bound
        recorder.start()
        with real.scope("here"):
            pass
        elsewhere(recorder.stop)
        saved: list[Any] = []
        elsewhere(lambda: saved.extend(recorder.save()))
        assert scopes(saved[0].path) == ["here"]

    def test_a_scope_has_a_number_for_arrows_to_it(self, real: ProtonDoor, setup: Setup) -> None:
        recorder = ProtonKind().recorder(setup)
        recorder.start()
        with real.scope("s") as number:
            pass
        recorder.stop()
        [saved] = recorder.save()
        [event] = json.loads(saved.path.read_bytes())["traceEvents"]
        assert event["args"].get("scope_id", number) == number

    def test_a_folder_that_went_meanwhile_is_made_again(self, real: ProtonDoor, setup: Setup) -> None:
        recorder = ProtonKind().recorder(setup)
        recorder.start()
        with real.scope("s"):
            pass
        recorder.stop()
        setup.output.folder.rmdir()
        assert recorder.save()[0].path.exists()

    @pytest.mark.usefixtures("real")
    def test_a_window_of_nothing_is_an_error_and_leaves_no_file(self, setup: Setup) -> None:
        recorder = ProtonKind().recorder(setup)
        recorder.start()
        recorder.stop()
        with pytest.raises(ActivityError, match="Proton recorded nothing") as caught:
            recorder.save()
        assert caught.value.activity == "PROTON"
        assert names(setup) == []

    def test_every_part_is_published_in_order_and_one_of_nothing_is_not(self, real: ProtonDoor, setup: Setup) -> None:
        recorder = ProtonKind().recorder(setup)
        recorder.start()
        session = recorder._session  # Proton's phases are for who knows the session
        assert session is not None
        for number in range(12):
            if number != 5:
                with real.scope(f"part {number}"):
                    pass
            real._library.advance_data_phase(session)
        recorder.stop()
        saved = recorder.save()
        assert [scopes(each.path) for each in saved] == [[f"part {number}"] for number in range(12) if number != 5]
        assert [each.path.name for each in saved][:2] == [
            "p1-rank0.proton.chrome_trace",
            "p1-rank0.a2.proton.chrome_trace",
        ]
        assert len(names(setup)) == 11

    @pytest.mark.parametrize("form", ["hatchet", "hatchet_msgpack"])
    def test_a_tree_is_published_where_asked(
        self, real: ProtonDoor, setup: Setup, monkeypatch: pytest.MonkeyPatch, form: str
    ) -> None:
        monkeypatch.setenv("GPUTRACE_PROTON_FORMAT", form)
        recorder = ProtonKind().recorder(setup)
        recorder.start()
        with real.scope("s"):
            pass
        recorder.stop()
        [saved] = recorder.save()
        assert (saved.path.name, saved.problem) == (f"p1-rank0.proton.{form}", "")
        assert saved.path.stat().st_size > 0

    def test_discard_leaves_nothing(self, real: ProtonDoor, setup: Setup) -> None:
        recorder = ProtonKind().recorder(setup)
        recorder.start()
        with real.scope("s"):
            pass
        recorder.discard()
        assert names(setup) == []
        assert reasons() == []
        ProtonKind().recorder(setup).discard()  # one that never started

    def test_a_session_of_somebody_else_is_refused_while_it_is_active(
        self, real: ProtonDoor, setup: Setup, tmp_path: Path
    ) -> None:
        session = real.start(str(tmp_path / "theirs"), "trace", None, None, None)
        recorder = ProtonKind().recorder(setup)
        try:
            told = reasons()
            with pytest.raises(ActivityError, match="is active in this process already"):
                recorder.start()
            recorder.discard()
        finally:
            real.finalize(session, "chrome_trace")
        assert told == [f"a Proton session is active in this process already (number {session}); finalize it first"]
        assert reasons() == []

    def test_a_start_that_fails_leaves_no_session_and_no_file(
        self, real: ProtonDoor, setup: Setup, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        if gpu():
            pytest.skip("needs hardware: none, a GPU here may be one that this starts on")
        monkeypatch.setenv("GPUTRACE_PROTON_BACKEND", "cupti")
        recorder = ProtonKind().recorder(setup)
        with pytest.raises(RuntimeError, match="PROTON"):
            recorder.start()
        recorder.discard()
        assert names(setup) == []
        monkeypatch.delenv("GPUTRACE_PROTON_BACKEND")
        assert reasons() == []
        recorder = ProtonKind().recorder(setup)
        recorder.start()
        with real.scope("s"):
            pass
        recorder.stop()
        assert len(recorder.save()) == 1

    def test_a_format_that_does_not_fit_fails_and_the_next_window_is_free(
        self, real: ProtonDoor, setup: Setup, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        recorder = ProtonKind().recorder(setup)
        recorder.start()
        recorder.stop()
        finalize = real.finalize
        with monkeypatch.context() as patch:
            patch.setattr(real, "finalize", lambda session, _: finalize(session, "hatchet"))
            with pytest.raises(ActivityError, match=r"Proton could not write: \[PROTON\] Output format not supported$"):
                recorder.save()
        assert names(setup) == [], "the empty file that Proton leaves is gone"
        assert reasons() == []

    def test_a_library_that_somebody_loaded_is_not_loaded_again(self, real: ProtonDoor) -> None:
        library = real._library
        again = protondoor._open()
        assert again._library is library

    def test_a_process_forked_after_the_import_records_and_may_be_killed_after_save(
        self, real: ProtonDoor, tmp_path: Path
    ) -> None:
        del real  # its presence is what counts
        done = subprocess.run([sys.executable, "-c", FORKED, str(tmp_path)], capture_output=True, text=True, timeout=60)
        assert (done.returncode, done.stderr) == (256 - 9, "")
        [path] = tmp_path.iterdir()
        assert scopes(path) == ["child"]


FORKED = """
import os, sys
from pathlib import Path
from pytest_gputrace.control.activities.proton import ProtonKind
from pytest_gputrace.control.activities.protocol import Setup
from pytest_gputrace.control.activities.protondoor import open_proton
from pytest_gputrace.control.output import Output
door = open_proton()
child = os.fork()
if child:
    sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) % 256)
assert not list(ProtonKind().refusals(("PROTON",)))
recorder = ProtonKind().recorder(Setup(("PROTON",), Output(Path(sys.argv[1]), "p", "rank0")))
recorder.start()
with door.scope("child"):
    pass
recorder.stop()
recorder.save()
os.kill(os.getpid(), 9)
"""


class FakeProton:
    """Stands for Proton: ``writes`` says which file, by what follows the session's name, gets which text."""

    def __init__(self) -> None:
        self.writes: dict[str, str] = {".chrome_trace": TRACE}
        self.error: Exception | None = None
        self.ended: list[tuple[int, str]] = []
        self._name = ""

    def start(self, name: str, *_: object) -> int:
        self._name = name
        return 7

    def deactivate(self, session: int) -> None: ...

    def finalize(self, session: int, output_format: str) -> None:
        self.ended.append((session, output_format))
        for ending, text in self.writes.items():
            Path(self._name + ending).write_text(text)
        if self.error is not None:
            raise self.error


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> FakeProton:
    door = FakeProton()
    monkeypatch.setattr(proton, "open_proton", lambda: door)
    monkeypatch.setattr(proton, "active", lambda: "")
    return door


def recorded(setup: Setup) -> Any:
    recorder = ProtonKind().recorder(setup)
    recorder.start()
    recorder.stop()
    return recorder


class TestWhatProtonLeaves:
    def test_a_file_that_did_not_come_is_an_error(self, fake: FakeProton, setup: Setup) -> None:
        fake.writes = {}
        with pytest.raises(ActivityError, match="returned and wrote no file"):
            recorded(setup).save()

    @pytest.mark.parametrize("text", ["", TRACE[:90]])
    def test_a_cut_file_is_an_error_and_kept_under_its_private_name(
        self, fake: FakeProton, setup: Setup, text: str
    ) -> None:
        fake.writes = {".chrome_trace": text}
        with pytest.raises(ActivityError, match="not whole") as caught:
            recorded(setup).save()
        [name] = names(setup)
        assert name.startswith(".gputrace-")
        assert name in str(caught.value)

    def test_a_cut_part_is_told_and_the_others_are_published(self, fake: FakeProton, setup: Setup) -> None:
        fake.writes = {f".part_{number}.chrome_trace": TRACE for number in (10, 2, 0)} | {
            ".part_1.chrome_trace": TRACE[:90]
        }
        saved = recorded(setup).save()
        assert [bool(each.problem) for each in saved] == [False, False, True]
        assert "not whole" in saved[-1].problem
        assert len(names(setup)) == 4

    def test_a_trace_that_does_not_say_when_it_began_is_published_and_told(
        self, fake: FakeProton, setup: Setup
    ) -> None:
        fake.writes = {".chrome_trace": TRACE.replace("baseTimeNanoseconds", "somethingElse")}
        [saved] = recorded(setup).save()
        assert saved.path.exists()
        assert saved.problem.startswith("it does not say when it began (no baseTimeNanoseconds)")

    def test_an_error_of_protons_is_told_with_what_it_left(self, fake: FakeProton, setup: Setup) -> None:
        fake.error = RuntimeError("Cannot find CPU scope event for kernel launch event id 3")
        with pytest.raises(
            ActivityError, match=r"Cannot find CPU scope event.*; what it wrote is kept in .*\.chrome_trace$"
        ):
            recorded(setup).save()
        [name] = names(setup)
        assert name.startswith(".gputrace-")

    def test_what_does_not_stop_is_written_all_the_same_and_told(
        self, fake: FakeProton, setup: Setup, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def deactivate(session: int) -> None:
            raise RuntimeError("flush failed")

        monkeypatch.setattr(fake, "deactivate", deactivate)
        [saved] = recorded(setup).save()
        assert saved.path.exists()
        assert saved.problem == "Proton did not stop when it was to, and recorded on until it wrote: flush failed"

    def test_discard_after_an_error_removes_what_was_written_and_never_raises(
        self, fake: FakeProton, setup: Setup
    ) -> None:
        fake.error = RuntimeError("no")
        recorded(setup).discard()
        assert names(setup) == []

    def test_what_another_window_writes_is_left_alone(self, fake: FakeProton, setup: Setup) -> None:
        setup.output.folder.mkdir()
        other = setup.output.private(".chrome_trace")
        other.write_text(TRACE)
        assert len(recorded(setup).save()) == 1
        recorded(setup).discard()
        assert other.exists()
        assert fake.ended == [(7, "chrome_trace")] * 2


class Package:
    """Stands for Proton's Python package, as ``sys.modules`` has it once it is imported."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, home: str) -> None:
        self.flags = types.SimpleNamespace(profiling_on=False, command_line=False)
        self.calls: list[tuple[object, ...]] = []
        self.session: int | None = 0
        self.live: set[int] = set()
        self.profiler = types.ModuleType(f"{home}.profiler")
        vars(self.profiler).update(start=self.start, deactivate=self.deactivate, finalize=self.finalize)
        self.library = types.ModuleType(f"{home}._C.libproton")
        inner = types.ModuleType(f"{home}._C.libproton.proton")
        vars(inner)["get_context_depth"] = self.depth
        vars(self.library)["proton"] = inner
        flags = types.ModuleType(f"{home}.profiler.flags")
        vars(flags)["flags"] = self.flags
        for module in (types.ModuleType(home), self.profiler, self.library, flags):
            monkeypatch.setitem(sys.modules, module.__name__, module)

    def forget_library(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.delitem(sys.modules, self.library.__name__)

    def depth(self, session: int) -> int:
        if session not in self.live:
            raise IndexError
        return 0

    def start(self, name: str, **options: object) -> int | None:
        if self.session is None:
            return None
        self.flags.profiling_on = True  # and finalize of a session leaves it so
        self.calls.append(("start", options))
        self.live.add(self.session)
        self.name = name
        return self.session

    def deactivate(self, session: int, flushing: bool = False) -> None:
        self.calls.append(("deactivate", session, flushing))

    def finalize(self, session: int, output_format: str) -> None:
        self.calls.append(("finalize", session, output_format))
        self.live.discard(session)
        Path(f"{self.name}.{output_format}").write_text(TRACE)


@pytest.fixture
def _closed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that has opened no Proton, on a machine without a GPU."""
    monkeypatch.setattr(protondoor, "_opened", [])
    monkeypatch.setattr(protondoor, "_DEVICE_NODES", {"cuda": (), "hip": ()})
    monkeypatch.setattr(protondoor, "_folder", lambda _: None)
    for name in [name for name in sys.modules if "proton" in name.split(".")[-2:] or name.endswith("libproton")]:
        if not name.startswith("pytest_gputrace"):
            monkeypatch.delitem(sys.modules, name)


def has_gpu(monkeypatch: pytest.MonkeyPatch, vendor: str) -> None:
    monkeypatch.setattr(protondoor, "_DEVICE_NODES", {vendor: ("/dev/null",)})


@pytest.mark.usefixtures("_closed")
class TestPackage:
    def test_on_a_gpu_it_is_the_package_that_records_and_its_flag_is_put_back(
        self, monkeypatch: pytest.MonkeyPatch, setup: Setup
    ) -> None:
        has_gpu(monkeypatch, "cuda")
        package = Package(monkeypatch, "triton")
        for _ in range(2):
            assert reasons() == []
            assert len(recorded(setup).save()) == 1
            assert not package.flags.profiling_on
        assert package.calls == 2 * [
            ("start", {"data": "trace", "backend": None, "hook": "triton"}),
            ("deactivate", 0, True),
            ("finalize", 0, "chrome_trace"),
        ]

    def test_the_settings_reach_it(self, monkeypatch: pytest.MonkeyPatch, setup: Setup) -> None:
        has_gpu(monkeypatch, "cuda")
        package = Package(monkeypatch, "tokenspeed_triton")
        for name, value in {
            "BACKEND": "cupti",
            "MODE": "periodic_flushing",
            "HOOK": "none",
            "FORMAT": "hatchet",
        }.items():
            monkeypatch.setenv(f"GPUTRACE_PROTON_{name}", value)
        recorded(setup).discard()
        options = {"data": "tree", "backend": "cupti", "hook": None, "mode": "periodic_flushing:format=hatchet"}
        assert package.calls[0] == ("start", options)
        assert package.calls[-1] == ("finalize", 0, "hatchet")

    def test_the_package_that_is_imported_is_taken_before_one_that_is_only_installed(
        self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        has_gpu(monkeypatch, "cuda")
        for part in ("_C/libproton.so", "__init__.py", "profiler/__init__.py"):
            (tmp_path / part).parent.mkdir(exist_ok=True)
            (tmp_path / part).touch()
        monkeypatch.setattr(protondoor, "_folder", lambda home: tmp_path if home == "triton" else None)
        assert protondoor._package_home() == "triton"
        Package(monkeypatch, "tokenspeed_triton")
        assert protondoor._package_home() == "tokenspeed_triton"

    def test_a_package_whose_other_parts_are_not_there_is_none(
        self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        for part in ("_C/libproton.so", "profiler/__init__.py"):
            (tmp_path / part).parent.mkdir(exist_ok=True)
            (tmp_path / part).touch()
        monkeypatch.setattr(protondoor, "_folder", lambda home: tmp_path if home == "tokenspeed_triton" else None)
        assert protondoor._package_home() == ""
        assert missing() == "", "its library alone will do"

    def test_one_that_is_disabled_is_an_error(self, monkeypatch: pytest.MonkeyPatch, setup: Setup) -> None:
        has_gpu(monkeypatch, "cuda")
        Package(monkeypatch, "triton").session = None
        with pytest.raises(ActivityError, match="Proton is disabled in this process"):
            ProtonKind().recorder(setup).start()

    def test_a_start_that_fails_puts_the_flag_back(self, monkeypatch: pytest.MonkeyPatch, setup: Setup) -> None:
        has_gpu(monkeypatch, "cuda")
        package = Package(monkeypatch, "triton")

        def start(name: str, **_: object) -> int:
            package.flags.profiling_on = True
            package.live.add(3)
            raise RuntimeError("cuptiSubscribe")

        vars(package.profiler)["start"] = start
        with pytest.raises(RuntimeError, match="cuptiSubscribe"):
            ProtonKind().recorder(setup).start()
        assert not package.flags.profiling_on
        assert reasons() == [], "the session that it left behind is not somebody else's"

    def test_without_a_gpu_its_library_records_and_its_scopes_are_on(
        self, monkeypatch: pytest.MonkeyPatch, setup: Setup, tmp_path: Path
    ) -> None:
        package = Package(monkeypatch, "triton")
        started: list[tuple[object, ...]] = []

        def start(*arguments: object) -> int:
            started.append(arguments[1:])
            return 0

        vars(package.library.proton).update(start=start, finalize=lambda *_: None)
        recorder = ProtonKind().recorder(setup)
        recorder.start()
        assert started == [("shadow", "trace", "instrumentation", "cuda")]
        assert package.flags.profiling_on
        recorder.discard()
        assert not package.flags.profiling_on
        assert package.calls == []

    @pytest.mark.parametrize(
        ("vendor", "backend", "mode", "expected"),
        [
            ("", None, None, ("instrumentation", "cuda")),
            ("", "instrumentation", "mma", ("instrumentation", "cuda:mma")),
            ("hip", "instrumentation", None, ("instrumentation", "hip")),
            ("cuda", None, None, ("cupti", "")),
            ("hip", None, "periodic_flushing", ("roctracer", "periodic_flushing")),
        ],
    )
    def test_the_library_alone_is_told_the_backend_of_the_machine(
        self,
        monkeypatch: pytest.MonkeyPatch,
        vendor: str,
        backend: str | None,
        mode: str | None,
        expected: tuple[str, str],
    ) -> None:
        if vendor:
            has_gpu(monkeypatch, vendor)
        started: list[tuple[object, ...]] = []
        library = types.ModuleType("proton")

        def start(*arguments: object) -> int:
            started.append(arguments)
            return 4

        vars(library)["start"] = start
        assert ProtonDoor("", library, None).start("name", "trace", backend, mode, "triton") == 4
        assert started == [("name", "shadow", "trace", *expected)]


@pytest.mark.usefixtures("_closed")
class TestRefusals:
    def test_where_it_is_not_installed_that_is_the_reason(self, setup: Setup) -> None:
        [reason] = reasons()
        assert reason.startswith("Proton is not installed; install triton")
        with pytest.raises(MissingDependencyError, match="Proton is not installed"):
            ProtonKind().recorder(setup).start()

    def test_a_session_since_the_import_owns_the_process(self, monkeypatch: pytest.MonkeyPatch) -> None:
        Package(monkeypatch, "tokenspeed_triton").live.add(0)
        monkeypatch.setenv("TOKENSPEED_KERNEL_PROFILE", "1")
        [reason] = reasons()
        assert "unset TOKENSPEED_KERNEL_PROFILE" in reason

    def test_a_run_under_the_proton_command_is_refused(self, monkeypatch: pytest.MonkeyPatch) -> None:
        Package(monkeypatch, "triton").flags.command_line = True
        [reason] = reasons()
        assert "runs under the proton command" in reason

    def test_a_session_of_either_package_is_refused(self, monkeypatch: pytest.MonkeyPatch) -> None:
        Package(monkeypatch, "triton")
        Package(monkeypatch, "tokenspeed_triton").live.add(5)
        assert reasons() == ["a Proton session is active in this process already (number 5); finalize it first"]

    def test_the_flag_counts_only_where_the_library_cannot_tell(self, monkeypatch: pytest.MonkeyPatch) -> None:
        package = Package(monkeypatch, "triton")
        package.flags.profiling_on = True
        assert active() == "", "it stays on after a session that has ended"
        package.forget_library(monkeypatch)
        [reason] = reasons()
        assert "started through triton.profiler" in reason

    @pytest.mark.parametrize("name", ["HIP_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES"])
    @pytest.mark.parametrize("sign", ["device", "torch", "backend"])
    def test_on_amd_visible_devices_are_refused(self, monkeypatch: pytest.MonkeyPatch, name: str, sign: str) -> None:
        Package(monkeypatch, "triton")
        monkeypatch.setenv(name, "")  # being there is enough
        if sign == "device":
            has_gpu(monkeypatch, "hip")
        elif sign == "torch":
            has_gpu(monkeypatch, "cuda")
            version = types.SimpleNamespace(hip="6.4", cuda=None)
            monkeypatch.setitem(sys.modules, "torch", types.SimpleNamespace(version=version))
        else:
            monkeypatch.setenv("GPUTRACE_PROTON_BACKEND", "roctracer")
        expected = f"Proton does not work on AMD GPUs with {name} set; unset it and use ROCR_VISIBLE_DEVICES instead"
        assert reasons() == [expected]

    def test_elsewhere_visible_devices_are_fine(self, monkeypatch: pytest.MonkeyPatch) -> None:
        Package(monkeypatch, "triton")
        has_gpu(monkeypatch, "cuda")
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
        assert reasons() == []
        has_gpu(monkeypatch, "hip")
        monkeypatch.setenv("GPUTRACE_PROTON_BACKEND", "instrumentation")
        assert reasons() == []

    def test_settings_that_cannot_be_are_refused(self, monkeypatch: pytest.MonkeyPatch, setup: Setup) -> None:
        Package(monkeypatch, "triton")
        monkeypatch.setenv("GPUTRACE_PROTON_DATA", "leaf")
        assert reasons() == ["GPUTRACE_PROTON_DATA is 'leaf'; it is one of trace, tree"]
        with pytest.raises(RequestError, match="leaf"):
            ProtonKind().recorder(setup)

    def test_refusing_imports_nothing(self) -> None:
        code = (
            "import sys; from pytest_gputrace.control.activities.proton import ProtonKind; "
            "list(ProtonKind().refusals(('PROTON',))); "
            "print([name for name in sys.modules if name.startswith(('triton', 'tokenspeed', 'libproton', 'torch', 'numpy'))])"
        )
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
        assert done.stdout.strip() == "[]"
