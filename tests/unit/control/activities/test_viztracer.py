from __future__ import annotations

import atexit
import builtins
import json
import signal
import subprocess
import sys
import threading
import types
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_gputrace.control import written
from pytest_gputrace.control.activities.protocol import Setup
from pytest_gputrace.control.activities.viztracer import VizTracerKind
from pytest_gputrace.control.output import Output
from pytest_gputrace.errors import ActivityError, MissingDependencyError

if TYPE_CHECKING:
    from collections.abc import Callable

VARIABLES = ("GPUTRACE_VIZTRACER_ENTRIES", "GPUTRACE_VIZTRACER_MIN_DURATION_US", "GPUTRACE_VIZTRACER_FILE_INFO")
OLD_HOOKS = sys.version_info < (3, 12)


@pytest.fixture(autouse=True)
def _no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (*VARIABLES, "TOKENSPEED_VIZTRACER_MIN_DURATION_US"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def viztracer() -> Any:
    return pytest.importorskip("viztracer", reason="needs viztracer: real reports are written")


@pytest.fixture
def setup(tmp_path: Path) -> Setup:
    return Setup(("VIZTRACER",), Output(tmp_path / "window", "p1", "rank0"))


def work() -> int:
    return sum(range(10))


def reasons() -> list[str]:
    return list(VizTracerKind().refusals(("VIZTRACER",)))


def elsewhere(what: Callable[[], object]) -> None:
    thread = threading.Thread(target=what)
    thread.start()
    thread.join(timeout=60)
    assert not thread.is_alive()


def calls(report: dict[str, Any], name: str) -> int:
    return sum(event["name"].startswith(f"{name} (") for event in report["traceEvents"])


@pytest.mark.usefixtures("viztracer")
def test_a_report_is_published_that_can_be_merged(setup: Setup) -> None:
    setup.output.folder.mkdir()
    recorder = VizTracerKind().recorder(setup)
    recorder.start()
    work()
    recorder.stop()
    work()
    [saved] = recorder.save()
    assert saved.path == setup.output.folder / "p1-rank0.viztracer.json"
    assert [path.name for path in setup.output.folder.iterdir()] == [saved.path.name]
    report = json.loads(saved.path.read_bytes())
    assert calls(report, "work") == 1
    assert saved.events == sum(event["ph"] != "M" for event in report["traceEvents"])
    assert report["viztracer_metadata"]["baseTimeNanoseconds"] > 0
    assert "file_info" not in report, "the program's source is not told unasked"
    assert saved.problem == ""


@pytest.mark.usefixtures("viztracer")
@pytest.mark.usefixtures("viztracer")
def test_frames_that_are_open_at_the_stop_have_an_end(setup: Setup) -> None:
    recorder = VizTracerKind().recorder(setup)
    recorder.start()

    def outer() -> None:
        work()
        recorder.stop()

    outer()
    [saved] = recorder.save()
    events = json.loads(saved.path.read_text())["traceEvents"]
    assert [
        event["ph"] for event in events if event["name"].startswith("test_frames") or ".outer" in event["name"]
    ] == ["X"]


@pytest.mark.usefixtures("viztracer")
def test_several_rounds_each_have_their_own_calls_and_file(setup: Setup) -> None:
    paths = []
    for _ in range(3):
        assert reasons() == []
        recorder = VizTracerKind().recorder(setup)
        recorder.start()
        work()
        recorder.stop()
        paths += [saved.path for saved in recorder.save()]
    assert [path.name for path in paths] == [f"p1-rank0{attempt}.viztracer.json" for attempt in ("", ".a2", ".a3")]
    assert [calls(json.loads(path.read_bytes()), "work") for path in paths] == [1, 1, 1]


@pytest.mark.usefixtures("viztracer")
def test_any_thread_may_stop_and_save_it_and_then_it_is_free_again(setup: Setup) -> None:
    recorder = VizTracerKind().recorder(setup)
    assert not recorder.thread_bound
    recorder.start()
    work()
    elsewhere(recorder.stop)
    work()
    saved: list[Any] = []
    elsewhere(lambda: saved.extend(recorder.save()))
    assert calls(json.loads(saved[0].path.read_bytes()), "work") == 1
    assert reasons() == []
    again = VizTracerKind().recorder(setup)
    again.start()
    again.discard()


@pytest.mark.usefixtures("viztracer")
def test_it_leaves_no_hook_no_handler_no_exit_and_no_text(
    setup: Setup, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def around() -> list[Any]:
        handlers = [signal.getsignal(number) for number in sorted(signal.valid_signals())]
        place = vars(builtins).get("__viz_tracer__")
        return [handlers, atexit._ncallbacks(), sys.getprofile(), threading.getprofile(), place]

    monkeypatch.setattr(written, "examine", lambda _: written.Examined(True, 1))  # a reader has an exit of its own
    before = around()
    recorder = VizTracerKind().recorder(setup)
    recorder.start()
    recorder.stop()
    recorder.save()
    assert around() == before
    assert capfd.readouterr() == ("", "")


def test_what_is_recorded_can_be_reached_by_the_program_meanwhile(viztracer: Any, setup: Setup) -> None:
    recorder = VizTracerKind().recorder(setup)
    recorder.start()
    viztracer.get_tracer().log_instant("mark")
    recorder.stop()
    [saved] = recorder.save()
    assert viztracer.get_tracer() is None
    assert b'"mark"' in saved.path.read_bytes()


@pytest.mark.usefixtures("viztracer")
def test_a_full_buffer_is_published_and_told(setup: Setup, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPUTRACE_VIZTRACER_ENTRIES", "10")
    recorder = VizTracerKind().recorder(setup)
    recorder.start()
    for _ in range(30):
        work()
    recorder.stop()
    [saved] = recorder.save()
    assert saved.path.exists()
    assert "oldest events are lost" in saved.problem
    assert saved.problem.endswith(
        "here it holds 10: raise GPUTRACE_VIZTRACER_ENTRIES, or leave short calls out by GPUTRACE_VIZTRACER_MIN_DURATION_US"
    )


@pytest.mark.usefixtures("viztracer")
@pytest.mark.parametrize(
    ("variables", "kept"),
    [
        ({"TOKENSPEED_VIZTRACER_MIN_DURATION_US": "60000000"}, 0),
        ({"GPUTRACE_VIZTRACER_MIN_DURATION_US": "60000000", "TOKENSPEED_VIZTRACER_MIN_DURATION_US": "0"}, 0),
        ({"GPUTRACE_VIZTRACER_MIN_DURATION_US": "0", "TOKENSPEED_VIZTRACER_MIN_DURATION_US": "60000000"}, 1),
    ],
)
def test_short_calls_are_left_out_where_asked(
    setup: Setup, monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], kept: int
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    recorder = VizTracerKind().recorder(setup)
    recorder.start()
    work()
    recorder.stop()
    assert calls(json.loads(recorder.save()[0].path.read_bytes()), "work") == kept


class Pretender:
    """Stands for ``viztracer.VizTracer``: leaves the text it is told."""

    text = ""

    def __init__(self, **options: object) -> None:
        self.data: dict[str, object] = {"viztracer_metadata": {}}

    def start(self) -> None: ...

    def stop(self, stop_option: str | None = None) -> None: ...

    def clear(self) -> None: ...

    def save(self, output_file: str) -> None:
        Path(output_file).parent.mkdir(exist_ok=True)
        Path(output_file).write_text(self.text)


@pytest.fixture
def pretender(monkeypatch: pytest.MonkeyPatch) -> type[Pretender]:
    module = types.ModuleType("viztracer")
    module.VizTracer = Pretender  # type: ignore[attr-defined]  # that is what the module is for
    monkeypatch.setitem(sys.modules, "viztracer", module)
    return Pretender


NAMES_ALONE = '{"traceEvents":[{"ph":"M","pid":1,"tid":1,"name":"process_name","args":{"name":"x"}}]}'
ONE_CALL = '{"traceEvents":[{"ph":"X","cat":"FEE","pid":1,"tid":1,"name":"f","ts":1,"dur":1}],"viztracer_metadata":{}}'


@pytest.mark.parametrize(
    ("text", "message", "left"),
    [(NAMES_ALONE, "VizTracer recorded nothing", 0), (ONE_CALL[:60], "not whole", 1), ("", "0 bytes", 1)],
)
def test_a_report_of_nothing_or_a_cut_one_is_an_error_and_never_published(
    setup: Setup, monkeypatch: pytest.MonkeyPatch, pretender: type[Pretender], text: str, message: str, left: int
) -> None:
    monkeypatch.setattr(pretender, "text", text)
    recorder = VizTracerKind().recorder(setup)
    recorder.start()
    recorder.stop()
    with pytest.raises(ActivityError, match=message):
        recorder.save()
    names = [path.name for path in setup.output.folder.iterdir()]
    assert len(names) == left
    assert all(name.startswith(".gputrace-") for name in names)


def test_a_report_that_cannot_be_written_leaves_no_empty_file(
    setup: Setup, monkeypatch: pytest.MonkeyPatch, pretender: type[Pretender]
) -> None:
    def save(self: Pretender, output_file: str) -> None:
        Path(output_file).parent.mkdir()
        Path(output_file).touch()
        raise TypeError("surrogates")

    monkeypatch.setattr(pretender, "save", save)
    recorder = VizTracerKind().recorder(setup)
    recorder.start()
    recorder.stop()
    with pytest.raises(ActivityError, match=r"VizTracer could not write its report: TypeError: surrogates$"):
        recorder.save()
    assert list(setup.output.folder.iterdir()) == []


def test_a_report_that_is_cut_short_as_the_disk_is_full_is_left_and_named(
    setup: Setup, monkeypatch: pytest.MonkeyPatch, pretender: type[Pretender]
) -> None:
    def save(self: Pretender, output_file: str) -> None:
        Path(output_file).parent.mkdir()
        Path(output_file).write_text('{"traceEvents":[{')
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(pretender, "save", save)
    recorder = VizTracerKind().recorder(setup)
    recorder.start()
    recorder.stop()
    with pytest.raises(ActivityError, match="No space left on device; what there is of it is ") as raised:
        recorder.save()
    [left] = setup.output.folder.iterdir()
    assert str(raised.value).endswith(str(left))


def test_a_report_that_does_not_say_when_it_began_is_published_and_told(
    setup: Setup, monkeypatch: pytest.MonkeyPatch, pretender: type[Pretender]
) -> None:
    monkeypatch.setattr(pretender, "text", ONE_CALL)
    recorder = VizTracerKind().recorder(setup)
    recorder.start()
    recorder.stop()
    [saved] = recorder.save()
    assert saved.path.read_text() == ONE_CALL
    assert "no baseTimeNanoseconds" in saved.problem


@pytest.mark.usefixtures("viztracer")
def test_the_source_is_told_where_asked(setup: Setup, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPUTRACE_VIZTRACER_FILE_INFO", "1")
    recorder = VizTracerKind().recorder(setup)
    recorder.start()
    work()
    recorder.stop()
    assert __file__ in json.loads(recorder.save()[0].path.read_bytes())["file_info"]["files"]


@pytest.mark.usefixtures("viztracer")
def test_discard_leaves_nothing(setup: Setup) -> None:
    recorder = VizTracerKind().recorder(setup)
    recorder.start()
    recorder.discard()
    assert not setup.output.folder.exists()
    assert reasons() == []
    VizTracerKind().recorder(setup).discard()  # one that never started


def test_another_tracer_is_refused_while_it_records_and_left_alone(viztracer: Any, setup: Setup) -> None:
    other = viztracer.VizTracer(verbose=0)
    other.start()
    recorder = VizTracerKind().recorder(setup)
    try:
        told = reasons()
        with pytest.raises(ActivityError, match="another VizTracer records"):
            recorder.start()
        recorder.discard()
        assert other.enable
    finally:
        other.stop()
    assert [reason.partition(";")[0] for reason in told] == ["another VizTracer records in this process already"]
    if OLD_HOOKS:
        threading.setprofile(None)
    assert reasons() == []
    recorder = VizTracerKind().recorder(setup)
    recorder.start()
    recorder.discard()
    assert viztracer.get_tracer() is other, "its place is given back"
    del builtins.__viz_tracer__  # type: ignore[attr-defined]  # the test's own


@pytest.mark.skipif(not OLD_HOOKS, reason="needs python: of before 3.12, where there is no sys.monitoring")
@pytest.mark.parametrize("hook", [sys.setprofile, threading.setprofile])
def test_another_profile_hook_is_refused(hook: Callable[[Any], None]) -> None:
    hook(lambda *_: None)
    try:
        told = reasons()
    finally:
        hook(None)
    assert "function profiles this process already, through sys.setprofile; stop it first" in told


@pytest.mark.skipif(OLD_HOOKS, reason="needs python: 3.12, which has sys.monitoring")
def test_another_tool_of_monitoring_is_refused() -> None:
    monitoring: Any = getattr(sys, "monitoring", None)
    monitoring.use_tool_id(2, "someone")
    try:
        told = reasons()
    finally:
        monitoring.free_tool_id(2)
    assert "someone profiles this process already, through sys.monitoring; stop it first" in told


@pytest.mark.parametrize(
    ("name", "value", "what"),
    [
        ("GPUTRACE_VIZTRACER_ENTRIES", "0", "a whole number from 1 to 100000000"),
        ("GPUTRACE_VIZTRACER_ENTRIES", "1e6", "a whole number from 1 to 100000000"),
        ("GPUTRACE_VIZTRACER_MIN_DURATION_US", "nan", "a number of microseconds from 0"),
        ("TOKENSPEED_VIZTRACER_MIN_DURATION_US", "-1", "a number of microseconds from 0"),
    ],
)
def test_a_wrong_number_is_refused(monkeypatch: pytest.MonkeyPatch, name: str, value: str, what: str) -> None:
    monkeypatch.setitem(sys.modules, "viztracer", types.ModuleType("viztracer"))
    monkeypatch.setenv(name, value)
    assert reasons() == [f"{name} is {value!r}; it is {what}"]


def test_where_it_is_not_installed_that_is_the_reason(monkeypatch: pytest.MonkeyPatch, setup: Setup) -> None:
    monkeypatch.setitem(sys.modules, "viztracer", None)
    assert reasons() == ["VizTracer is not installed; `pip install viztracer`, or leave VIZTRACER out"]
    with pytest.raises(MissingDependencyError, match="not installed"):
        VizTracerKind().recorder(setup).start()


FORKED = """
import os, sys
from pathlib import Path
import viztracer
from pytest_gputrace.control.activities.protocol import Setup
from pytest_gputrace.control.activities.viztracer import VizTracerKind
from pytest_gputrace.control.output import Output
def work(): pass
child = os.fork()
if child:
    sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
assert not list(VizTracerKind().refusals(("VIZTRACER",)))
recorder = VizTracerKind().recorder(Setup(("VIZTRACER",), Output(Path(sys.argv[1]), "p", "rank0")))
recorder.start()
work()
recorder.stop()
recorder.save()
os.kill(os.getpid(), 9)
"""


@pytest.mark.usefixtures("viztracer")
def test_a_process_forked_after_the_import_records_and_may_be_killed_after_save(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", FORKED, str(tmp_path)], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (256 - 9, "")
    [path] = tmp_path.iterdir()
    assert calls(json.loads(path.read_bytes()), "work") == 1
