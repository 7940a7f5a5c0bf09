"""``gputrace profile`` against a small engine: exit codes, what is sent and when, what is told, Ctrl-C."""

from __future__ import annotations

import io
import json
import os
import shlex
import signal
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_gputrace.cli import main, profiling, signals
from pytest_gputrace.cli.load import LoadResult, not_runnable, run_load
from pytest_gputrace.cli.profile import KINDS, TOKEN_VARIABLE
from pytest_gputrace.cli.signals import Ended, Signals
from pytest_gputrace.cli.waiting import WaitingLine
from pytest_gputrace.control import client
from pytest_gputrace.fakes import FakeTrace

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

A_WHILE_S = 60.0
# Where the tests run in the background, SIGINT may be ignored by them and all that they start.
AS_FROM_A_SHELL = """
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
from pytest_gputrace.cli import main
sys.exit(main(sys.argv[1:]))
"""


class Engine:
    """Answers as SGLang does; when it is stopped, each of its ranks writes what ``trace`` gives for it."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, dict[str, Any]]] = []
        self.tokens: list[str | None] = []
        self.ranks = [0, 1]
        self.begin = ""
        self.trace: Callable[[int], FakeTrace] = lambda rank: FakeTrace(rank=rank, world_size=2)
        self.status = {"/start_profile": 200, "/stop_profile": 200}
        self.writes_at = "/stop_profile"
        self.stopped = threading.Event()
        self.on_start: Callable[[], object] = lambda: None
        self._folder = Path()

    def ask(self, path: str, token: str | None, body: dict[str, Any]) -> tuple[int, str]:
        self.asked.append((path, body))
        self.tokens.append(token)
        status = self.status[path]
        if path == "/start_profile":
            self._folder = Path(body.get("output_dir", "traces"))
            self.on_start()
        if path == self.writes_at:
            self._folder.mkdir(exist_ok=True)
            for rank in self.ranks:
                self.trace(rank).write(self._folder / f"{self.begin}1796028603.5-TP-{rank}.trace.json.gz")
        return status, "done.\n" if status == 200 else "the profiler says no\n"

    @property
    def paths(self) -> list[str]:
        return [path for path, _ in self.asked]


@pytest.fixture
def engine() -> Engine:
    return Engine()


@pytest.fixture
def url(engine: Engine) -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            status, text = engine.ask(self.path, self.headers.get("Authorization"), json.loads(body or b"{}"))
            self.send_response(status)
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text.encode())
            if self.path == "/stop_profile":
                engine.stopped.set()

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


@pytest.fixture(autouse=True)
def _no_token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(TOKEN_VARIABLE, raising=False)


def words(url: str, *more: str, load: str = "echo the load") -> list[str]:
    asked = ["profile", "--url", url, "--kind", "sglang", "--expect-ranks", "2", "--dir", "traces", *more]
    return [*asked, "--", "sh", "-c", load]


def test_a_profile_of_a_load(engine: Engine, url: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(words(url, "--activities", "cpu,GPU", "--num-steps", "5", "--with-stack")) == 0
    out, err = capfd.readouterr()
    assert out == "the load\n"  # it is the load's alone
    [start, stop] = engine.asked
    assert start[0] == "/start_profile"
    assert stop[0] == "/stop_profile"
    fields = {"output_dir": str(Path("traces").absolute()), "activities": ["CPU", "GPU"], "num_steps": 5}
    assert start[1] == {**fields, "with_stack": True}
    lines = err.splitlines()
    assert lines[0].startswith("profile: ")
    assert "sglang at http://127.0.0.1:" in lines[0]
    assert "load: exit code 0" in lines
    assert any(line.startswith("2 of 2 ranks: 2 files in ") for line in lines)
    assert any(line.startswith("check: 2 files, ") and line.endswith(": no error") for line in lines)
    assert f"next: gputrace show {Path('traces').absolute()}" in lines
    assert lines[-1] == "profile: ok"


@pytest.mark.parametrize(
    ("load", "code", "told"),
    [
        ("exit 7", 7, "load: exit code 7"),
        ("kill -9 $$", 137, "load: killed by signal 9 (SIGKILL)"),
    ],
)
def test_a_load_that_failed(url: str, load: str, code: int, told: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(words(url, load=load)) == code
    lines = capfd.readouterr().err.splitlines()
    assert told in lines
    assert lines[-1] == "profile: ok"  # its profile is there all the same


def test_the_load_has_our_input_environment_and_open_files(
    url: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv(TOKEN_VARIABLE, "t0ken")
    before = dict(os.environ)
    with (tmp_path / "given").open("w") as given, (tmp_path / "seen").open("w") as seen:
        os.set_inheritable(given.fileno(), True)
        code = f"import os, json; os.write({given.fileno()}, json.dumps(dict(os.environ)).encode())"
        load = [*words(url)[:-3], sys.executable, "-c", code]
        assert main(load) == 0
        seen.write("done")
    inside = json.loads((tmp_path / "given").read_text())
    assert {name: value for name, value in inside.items() if name != "LC_CTYPE"} == before


def test_a_missing_rank(engine: Engine, url: str, capfd: pytest.CaptureFixture[str]) -> None:
    engine.ranks = [1]
    assert main(words(url, "--timeout", "1.5")) == 3
    lines = capfd.readouterr().err.splitlines()
    assert "load: exit code 0" in lines
    assert lines[-1].startswith("profile: failed: 1 of 2 ranks are ok; missing: ")


def test_a_load_that_failed_goes_before_a_profile_that_did(engine: Engine, url: str) -> None:
    engine.status["/start_profile"] = 500
    assert main(words(url, load="exit 7")) == 7


def test_errors_in_the_files(engine: Engine, url: str, capfd: pytest.CaptureFixture[str]) -> None:
    def broken(rank: int) -> FakeTrace:
        trace = FakeTrace(rank=rank, world_size=2)
        trace.events[trace.index(ph="X", cat="kernel")]["dur"] = -1
        return trace

    engine.trace = broken
    assert main(words(url)) == 3
    lines = capfd.readouterr().err.splitlines()
    assert any("TP-1.trace.json.gz: GT301 negative-duration [error] " in line for line in lines)
    assert any(line.startswith("  why, and how to fix it: gputrace rules GT301") for line in lines)
    assert lines[-1] == "profile: failed: errors were found in its files"


def test_a_start_that_is_refused(engine: Engine, url: str, capfd: pytest.CaptureFixture[str]) -> None:
    engine.status["/start_profile"] = 500
    assert main(words(url)) == 3
    out, err = capfd.readouterr()
    assert out == "the load\n"
    assert engine.paths == ["/start_profile"]  # what runs there is not ours to stop
    lines = err.splitlines()
    assert lines[0].startswith("profile: not started: ")
    assert "the profiler says no" in lines[0]
    assert lines[1:3] == ["the load runs all the same", "load: exit code 0"]
    assert lines[-1].startswith("profile: failed: not started: ")


def test_an_engine_that_is_not_there(capfd: pytest.CaptureFixture[str]) -> None:
    assert main(words("http://127.0.0.1:1")) == 3
    out, err = capfd.readouterr()
    assert out == "the load\n"
    assert err.splitlines()[-1].startswith("profile: failed: not started: ")


def test_a_window_that_had_closed_by_itself(engine: Engine, url: str) -> None:
    engine.status["/stop_profile"] = 400
    engine.writes_at = "/start_profile"
    assert main(words(url, "--num-steps", "3")) == 0
    assert engine.paths == ["/start_profile", "/stop_profile"]


def test_a_stop_that_failed(engine: Engine, url: str, capfd: pytest.CaptureFixture[str]) -> None:
    engine.status["/stop_profile"] = 500
    assert main(words(url)) == 3
    assert "profile: failed: not stopped as it should: " in capfd.readouterr().err


def test_merge(url: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(words(url, "--merge", "all.json.gz")) == 0
    assert Path("all.json.gz").stat().st_size
    err = capfd.readouterr().err
    assert "merge: all.json.gz: 2 files, " in err
    assert "open all.json.gz in https://ui.perfetto.dev" in err


def test_files_that_cannot_be_merged(engine: Engine, url: str, capfd: pytest.CaptureFixture[str]) -> None:
    def adrift(rank: int) -> FakeTrace:
        trace = FakeTrace(rank=rank, world_size=2)
        del trace.document["baseTimeNanoseconds"]
        return trace

    engine.trace = adrift
    assert main(words(url, "--merge", "all.json")) == 3
    assert not Path("all.json").exists()
    lines = capfd.readouterr().err.splitlines()
    assert "merge: not merged, nothing was written:" in lines
    assert lines[-1].endswith("its files were not merged")


@pytest.mark.parametrize(
    ("more", "told"),
    [
        (["--activities", "CPU,XYZ"], "XYZ"),
        (["--activities", ","], "names nothing"),
        (["--stages", "PREFILL"], "stages"),
        (["--start-step", "-1"], "--start-step"),
        (["--num-steps", "0"], "--num-steps"),
        (["--kind", "vllm", "--num-steps", "3"], "num_steps"),
        (["--deadline", "5"], "deadline_s"),
        (["--kind", "other"], "--kind"),
        (["--dir", "file"], "--dir file is no folder"),
        (["--merge", "file.json"], "file.json exists already"),
        (["--merge", "nowhere/all.json"], "there is no folder nowhere"),
        (["--merge", "all.txt"], "a timeline is a .json or a .json.gz"),
        (["--expect-ranks", "0"], "--expect-ranks"),
        (["--timeout", "nan"], "--timeout"),
        (["--by-stage", "--merge", "all.json"], "--merge takes the files of one stage"),
        (["--token-file", "nowhere"], "--token-file nowhere cannot be read: No such file or directory"),
        (["--token-file", "file"], "--token-file file is empty"),
        (["--url", "ftp://127.0.0.1/"], "ftp"),
        (["--url", "http://me:secret@127.0.0.1/"], "the URL holds a name or a password"),
    ],
)
def test_wrong_use_starts_and_sends_nothing(
    engine: Engine, url: str, more: list[str], told: str, capfd: pytest.CaptureFixture[str]
) -> None:
    Path("file").touch()
    Path("file.json").write_text("[]")
    assert code_of(words(url, *more, load="touch run")) == 2
    err = capfd.readouterr().err
    assert told in err
    assert "secret" not in err
    assert engine.asked == []
    assert not Path("run").exists()


@pytest.mark.parametrize("load", [[], ["--"], ["sh", "-c", "touch run"], ["GPU", "--", "touch", "run"]])
def test_the_load_comes_after_two_dashes(
    engine: Engine, url: str, load: list[str], capfd: pytest.CaptureFixture[str]
) -> None:
    assert code_of([*words(url)[:-4], *load]) == 2
    assert "give the load after all else: -- COMMAND" in capfd.readouterr().err
    assert engine.asked == []
    assert not Path("run").exists()


def code_of(arguments: list[str]) -> object:
    try:
        return main(arguments)
    except SystemExit as end:
        return end.code


@pytest.mark.parametrize(("name", "code"), [("no-such-command", 127), ("./plain", 126), ("./folder", 126)])
def test_a_load_that_cannot_be_run(
    engine: Engine, url: str, name: str, code: int, capfd: pytest.CaptureFixture[str]
) -> None:
    Path("plain").touch()
    Path("folder").mkdir()
    assert main([*words(url)[:-3], name]) == code
    assert f"load: exit code {code}: " in capfd.readouterr().err
    assert engine.asked == []


def test_a_load_that_only_the_system_refuses(url: str) -> None:
    Path("odd").write_text("#!/no/such/interpreter\n")
    Path("odd").chmod(0o755)
    assert not_runnable(["./odd"]) is None
    assert main([*words(url)[:-3], "./odd"]) == 127


def test_what_to_do_next_names_this_profile_alone(url: str, capfd: pytest.CaptureFixture[str]) -> None:
    Path("traces").mkdir()
    Path("traces/earlier.json").write_text("[]")
    assert main(words(url)) == 0
    begin = Path("traces").absolute() / "1796028603.5-TP-"
    lines = capfd.readouterr().err.splitlines()
    assert f"next: gputrace show {begin}*" in lines
    assert f"      gputrace merge {begin}* -o timeline.json.gz" in lines


def test_what_is_secret_is_not_told(engine: Engine, url: str, capfd: pytest.CaptureFixture[str]) -> None:
    Path("token").write_text("t0ken\n")
    assert main(words(url, "--token-file", "token")) == 0
    assert engine.tokens == ["Bearer t0ken"] * 2
    assert "t0ken" not in "".join(capfd.readouterr())


def test_whatever_goes_wrong_the_profile_is_stopped(engine: Engine, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> LoadResult:
        raise RuntimeError("unforeseen")

    monkeypatch.setattr(profiling, "run_load", fail)
    with pytest.raises(RuntimeError, match="unforeseen"):
        main(words(url))
    assert engine.paths == ["/start_profile", "/stop_profile"]


def running(url: str, load: str) -> subprocess.Popen[str]:
    """The command in a process group of its own, its load at work, which says ``ready``."""
    command = [sys.executable, "-c", AS_FROM_A_SHELL, *words(url, load=load)]
    pipe = subprocess.PIPE
    process = subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, start_new_session=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


def test_ctrl_c_stops_and_collects(engine: Engine, url: str) -> None:
    process = running(url, "echo ready; exec sleep 60")
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does
    _, err = process.communicate(timeout=A_WHILE_S)
    assert process.returncode == 130, err
    assert engine.paths == ["/start_profile", "/stop_profile"]
    lines = err.splitlines()
    assert "load: killed by signal 2 (SIGINT)" in lines
    assert any(line.startswith("2 of 2 ranks: 2 files in ") for line in lines)
    assert lines[-1] == "profile: ok"


def test_the_loads_own_code_comes_first_after_ctrl_c(url: str) -> None:
    process = running(url, "trap 'exit 5' INT; echo ready; while :; do sleep 0.05; done")
    os.killpg(process.pid, signal.SIGINT)
    _, err = process.communicate(timeout=A_WHILE_S)
    assert process.returncode == 5, err
    assert "load: exit code 5" in err.splitlines()


def test_a_load_hears_of_a_signal_that_was_for_us_alone(url: str) -> None:
    process = running(url, "trap 'echo told; exit 0' INT; echo ready; while :; do sleep 0.05; done")
    os.kill(process.pid, signal.SIGINT)
    out, err = process.communicate(timeout=A_WHILE_S)
    assert (process.returncode, out) == (130, "told\n"), err


def test_a_signal_during_the_start_waits_for_its_answer(
    engine: Engine, url: str, capfd: pytest.CaptureFixture[str]
) -> None:
    def interrupted() -> None:
        os.kill(os.getpid(), signal.SIGTERM)

    engine.on_start = interrupted
    assert main(words(url)) == 143
    assert engine.paths == ["/start_profile", "/stop_profile"]
    out, err = capfd.readouterr()
    assert out == ""
    assert "may still be recording" not in err  # it answered


def test_after_a_signal_and_a_start_that_is_refused_no_load_is_run(
    engine: Engine, url: str, capfd: pytest.CaptureFixture[str]
) -> None:
    engine.status["/start_profile"] = 500
    engine.on_start = lambda: os.kill(os.getpid(), signal.SIGTERM)
    assert main(words(url)) == 143
    out, err = capfd.readouterr()
    assert out == ""
    assert "load: not run" in err.splitlines()
    assert "the profiler says no" in err.splitlines()[-1]


def test_a_start_that_is_never_answered_is_given_up_in_the_end(
    engine: Engine, url: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def interrupted() -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        engine.stopped.wait(A_WHILE_S)

    monkeypatch.setattr(signals, "_PATIENCE_S", 0.1)
    engine.on_start = interrupted
    assert main(words(url)) == 143
    lines = capfd.readouterr().err.splitlines()
    assert "profile: not started: it did not answer; it may still be recording" in lines
    assert engine.paths == ["/start_profile", "/stop_profile"]


@pytest.mark.skipif(not hasattr(signal, "SIGQUIT"), reason="needs POSIX: SIGQUIT")
def test_sigquit_ends_in_order_too(engine: Engine, url: str) -> None:
    process = running(url, "trap 'exit 0' QUIT; echo ready; while :; do sleep 0.05; done")
    os.killpg(process.pid, signal.SIGQUIT)
    _, err = process.communicate(timeout=A_WHILE_S)
    assert process.returncode == 131, err
    assert engine.paths == ["/start_profile", "/stop_profile"]


def test_who_was_told_already_is_not_told_again(url: str) -> None:
    process = running(url, "trap 'echo told; sleep 0.3; exit 0' TERM; echo ready; while :; do sleep 0.05; done")
    os.killpg(process.pid, signal.SIGTERM)
    out, err = process.communicate(timeout=A_WHILE_S)
    assert (process.returncode, out) == (143, "told\n"), err


def test_the_loads_failure_comes_before_a_signal_while_its_files_are_waited_for(engine: Engine, url: str) -> None:
    engine.ranks = [0]
    process = running(url, "echo ready; exit 7")
    assert engine.stopped.wait(A_WHILE_S)
    os.killpg(process.pid, signal.SIGINT)
    _, err = process.communicate(timeout=A_WHILE_S)
    assert process.returncode == 7, err


def test_without_a_standard_error_wrong_use_is_not_told_on_standard_output(url: str) -> None:
    Path("file").touch()
    command = [sys.executable, "-m", "pytest_gputrace", *words(url, "--dir", "file")]
    script = shlex.join(command) + " 2>&-"
    done = subprocess.run(["sh", "-c", script], capture_output=True, text=True, timeout=A_WHILE_S, check=False)
    assert (done.returncode, done.stdout) == (2, "")


def test_a_standard_error_that_was_closed_is_nobodys_file_and_stays_closed_for_the_load() -> None:
    code = """
import os, subprocess, sys
from pytest_gputrace.cli.terminal import keep_standard_error
keep_standard_error()
assert sys.stderr.fileno() == 2 and 2 not in os.pipe()
given = "import sys; sys.exit(sys.stderr is not None)"
sys.exit(subprocess.call([sys.executable, "-c", given], close_fds=False))
"""
    script = shlex.join([sys.executable, "-c", code]) + " 2>&-"
    assert subprocess.run(["sh", "-c", script], timeout=A_WHILE_S, check=False).returncode == 0


def test_what_an_engine_calls_its_files_breaks_no_line(
    engine: Engine, url: str, capfd: pytest.CaptureFixture[str]
) -> None:
    engine.begin = "\x1b[2J\nprofile: ok"
    assert main(words(url, "--dir", "a\x1b[2Jb")) == 0
    err = capfd.readouterr().err
    assert "\x1b" not in err
    assert err.splitlines().count("profile: ok") == 1


def test_without_a_standard_error_nothing_goes_to_the_loads_output(engine: Engine, url: str) -> None:
    command = [sys.executable, "-m", "pytest_gputrace", *words(url)]
    script = shlex.join(command) + " 2>&-"
    done = subprocess.run(["sh", "-c", script], capture_output=True, text=True, timeout=A_WHILE_S, check=False)
    assert (done.returncode, done.stdout) == (0, "the load\n")
    assert engine.paths == ["/start_profile", "/stop_profile"]


def test_a_load_ends_as_it_likes_after_ctrl_c(url: str) -> None:
    process = running(url, "trap 'echo bye; exit 0' INT; echo ready; while :; do sleep 0.05; done")
    os.killpg(process.pid, signal.SIGINT)
    out, err = process.communicate(timeout=A_WHILE_S)
    assert process.returncode == 130
    assert out == "bye\n"
    assert "load: exit code 0" in err.splitlines()


def test_sigterm_is_sent_on_to_the_load(engine: Engine, url: str) -> None:
    process = running(url, "echo ready; exec sleep 60")
    process.terminate()
    _, err = process.communicate(timeout=A_WHILE_S)
    assert process.returncode == 143, err
    assert "load: killed by signal 15 (SIGTERM)" in err.splitlines()
    assert engine.paths == ["/start_profile", "/stop_profile"]


def test_a_second_ctrl_c_ends_the_collecting_with_what_is_known(engine: Engine, url: str) -> None:
    engine.ranks = [0]  # so that it waits for the other
    process = running(url, "echo ready")
    assert engine.stopped.wait(A_WHILE_S)
    os.killpg(process.pid, signal.SIGINT)
    _, err = process.communicate(timeout=A_WHILE_S)
    assert process.returncode == 130, err
    lines = err.splitlines()
    assert any(line.startswith("1 of 2 ranks: 1 file in ") for line in lines)
    assert lines[-1].startswith("profile: failed: not waited for to its end; 1 of 2 ranks are ok; missing: ")


@pytest.fixture
def _heeds_ctrl_c() -> Iterator[None]:
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("_heeds_ctrl_c")
@pytest.mark.parametrize("trap", ["INT", "INT TERM"])
def test_a_load_that_does_not_end_is_ended(trap: str) -> None:
    ready, seen = os.pipe()
    os.set_inheritable(seen, True)

    def interrupt() -> None:
        os.read(ready, 1)
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    with Signals() as taken:
        script = f"trap '' {trap}; echo >&{seen}; while :; do sleep 0.02; done"
        result = run_load(["bash", "-c", script], taken, grace_s=0.05)
    thread.join()
    assert taken.code == 130
    assert result.words == f"killed by signal {'9 (SIGKILL)' if 'TERM' in trap else '15 (SIGTERM)'}"
    os.close(ready)
    os.close(seen)


def test_signals_do_outside_what_they_did_before() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with Signals() as taken, pytest.raises(Ended):
        os.kill(os.getpid(), signal.SIGTERM)
    assert taken.code == 143
    assert signal.getsignal(signal.SIGTERM) == before


def test_the_kinds_are_those_of_the_client() -> None:
    assert set(KINDS) == set(client.KINDS)


def test_help_tells_the_exit_codes(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["profile", "--help"])
    out = " ".join(capsys.readouterr().out.split())
    assert "else 3 when the profile failed, else 0; 2 wrong use, and nothing was started" in out
    assert "-- COMMAND ..." in out


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("stream", "told_at_s"),
    [(Terminal(), [1, 2, 5, 11, 30, 45, 75]), (io.StringIO(), [11, 45, 75])],
    ids=["terminal", "elsewhere"],
)
def test_a_wait_is_told(stream: io.StringIO, told_at_s: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "80")
    now_s = 100.0
    line = WaitingLine(stream, lambda: now_s)
    for at_s in (0, 1, 2, 5, 11, 30, 45, 75):
        now_s = 100.0 + at_s
        line.tell(f"\x1b waiting {at_s}")
    if isinstance(stream, Terminal):
        assert stream.getvalue() == "".join(f"\r\\x1b waiting {at_s}\x1b[K" for at_s in told_at_s)
    else:
        assert stream.getvalue() == "".join(f"\\x1b waiting {at_s}\n" for at_s in told_at_s)


def test_a_terminal_that_is_gone_ends_no_wait() -> None:
    class Gone(Terminal):
        def write(self, _: str) -> int:
            raise OSError(5, "Input/output error")

    now_s = 0.0
    line = WaitingLine(Gone(), lambda: now_s)
    now_s = 60.0
    line.tell("waiting")
    line.close()
