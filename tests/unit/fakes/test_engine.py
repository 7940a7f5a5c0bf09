from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from pytest_gputrace.control.activities import protondoor
from pytest_gputrace.errors import ControlError
from pytest_gputrace.fakes import FakeEngine
from pytest_gputrace.fakes.engine.faults import Dies
from tests.unit.fakes.enginehelp import ask, names, running, stat, state, until

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs Linux: processes that die with their parent")
NAIVE: dict[str, Any] = {"kind": "sglang", "prepare": ()}
"""An engine that records with nothing that a machine may lack."""


@pytest.fixture(autouse=True)
def no_profiler_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.startswith(("GPUTRACE_", "TOKENSPEED_")):
            monkeypatch.delenv(name)


def test_it_is_a_frontend_with_a_scheduler_for_each_rank(tmp_path: Path) -> None:
    with FakeEngine(tmp_path, dp=2, tp=2, **NAIVE) as engine:
        assert engine.tags == ["DP0-TP0", "DP0-TP1", "DP1-TP0", "DP1-TP1"]
        frontend, pids = engine.pid, engine.pids
        assert len({frontend, *pids.values(), os.getpid()}) == 6
        assert stat(frontend)[1] == str(os.getpid())
        assert all(stat(pid)[1] == str(frontend) for pid in pids.values()), "the frontend is their parent"
        groups = {stat(pid)[2] for pid in (frontend, *pids.values())}
        assert groups == {str(frontend)}, "a process group of its own: Ctrl-C is for the test"
        assert engine.folder.is_dir()
    assert not any(running(pid) for pid in (frontend, *pids.values()))


def test_tags_are_those_of_the_librarys_sessions(tmp_path: Path) -> None:
    with FakeEngine(tmp_path, dp=2, tp=1, prepare=()) as engine:
        assert engine.tags == ["DP0-TP0-node=node0-rank0", "DP1-TP0-node=node0-rank1"]


def test_coordinates_may_be_all_that_a_tag_has_and_one_group_is_no_dimension(tmp_path: Path) -> None:
    with FakeEngine(tmp_path, tp=2, node=None, prepare=()) as engine:
        assert engine.tags == ["TP0", "TP1"]


def test_traffic_is_counted_in_steps_and_shared_among_the_groups(tmp_path: Path) -> None:
    with FakeEngine(tmp_path, dp=2, tp=2, **NAIVE) as engine:
        assert engine.generate(requests=3, tokens=4) == {"DP0-TP0": 10, "DP0-TP1": 10, "DP1-TP0": 5, "DP1-TP1": 5}
        assert engine.generate(requests=1, tokens=0) == {"DP0-TP0": 1, "DP0-TP1": 1}
        assert engine.generate(requests=0) == {}
        assert engine.steps() == {"DP0-TP0": 11, "DP0-TP1": 11, "DP1-TP0": 5, "DP1-TP1": 5}


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ({"requests": 1, "activities": ["CPU"], "num_steps": 2}, "no field activities, num_steps"),
        ({"tokens": -1}, "tokens is -1"),
        ({"requests": True}, "requests is True"),
        ([1], "no JSON object"),
    ],
)
def test_what_is_no_traffic_is_refused_and_makes_no_step(tmp_path: Path, body: Any, told: str) -> None:
    with FakeEngine(tmp_path, tp=1, **NAIVE) as engine:
        status, text = ask(engine, "/generate", body)
        assert status == 400
        assert told in text
        assert ask(engine, "/generate", method="GET")[0] == 405
        assert engine.steps() == {"TP0": 0}


def test_a_scheduler_without_work_sleeps(tmp_path: Path) -> None:
    with FakeEngine(tmp_path, tp=1, **NAIVE) as engine:
        engine.generate()
        pid = engine.pids["TP0"]
        assert until(lambda: state(pid) == "S")
        assert {state(pid) for _ in range(2000)} == {"S"}


def fail_with(engine: FakeEngine, pids: list[int]) -> None:
    with engine:
        pids += [engine.pid, *engine.pids.values()]
        raise ZeroDivisionError


def test_nothing_is_left_after_an_exception(tmp_path: Path) -> None:
    engine = FakeEngine(tmp_path, **NAIVE)
    pids: list[int] = []
    with pytest.raises(ZeroDivisionError):
        fail_with(engine, pids)
    assert len(pids) == 3
    assert not any(running(pid) for pid in pids)


def test_schedulers_die_with_a_frontend_that_is_killed(tmp_path: Path) -> None:
    with FakeEngine(tmp_path, **NAIVE) as engine:
        engine.kill("TP1", signal.SIGSTOP)  # nor can one that does nothing itself be left
        os.kill(engine.pid, signal.SIGKILL)
        assert until(lambda: not any(running(pid) for pid in engine.pids.values()))
        with pytest.raises(ControlError, match=r"/generate was not answered.*engine\.log"):
            engine.generate()
    engine.shutdown()


def test_a_frontend_that_hangs_is_ended_with_its_schedulers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pytest_gputrace.fakes.engine.fake._SHUTDOWN_S", 0.1)
    with FakeEngine(tmp_path, **NAIVE) as engine:
        pids = [engine.pid, *engine.pids.values()]
        os.kill(engine.pid, signal.SIGSTOP)
    assert not any(running(pid) for pid in pids)


OWNER = """
import os, signal, sys, time
from pytest_gputrace.fakes import FakeEngine
with FakeEngine(sys.argv[1], kind="sglang", prepare=()) as engine:
    if sys.argv[2] == "hangs":
        os.kill(engine.pid, signal.SIGSTOP)
    print(engine.pid, *engine.pids.values(), flush=True)
    time.sleep(600)
"""


@pytest.mark.parametrize("frontend", ["works", "hangs"])
def test_all_die_with_the_test_process(tmp_path: Path, frontend: str) -> None:
    command = [sys.executable, "-c", OWNER, str(tmp_path), frontend]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as owner:
        assert owner.stdout is not None
        pids = [int(word) for word in owner.stdout.readline().split()]
        owner.kill()
    assert len(pids) == 3
    assert until(lambda: not any(running(pid) for pid in pids))


def test_profilers_see_the_work_of_each_step(tmp_path: Path) -> None:
    pytest.importorskip("viztracer", reason="needs viztracer: a real session records with it")
    if why := protondoor.missing():
        pytest.skip(f"needs proton: {why}")
    with FakeEngine(tmp_path, tp=1) as engine:
        ask(engine, "/start_profile", {"profile_id": "p", "activities": ["VIZTRACER", "PROTON"]})
        engine.generate(requests=2, tokens=3)
        assert ask(engine, "/stop_profile")[0] == 200
        files = [json.loads((engine.folder / name).read_text()) for name in names(engine.folder)]
    scopes, calls = ([event["name"].split(" ")[0] for event in file["traceEvents"]] for file in files)
    for found in (scopes, calls):
        assert {name: found.count(name) for name in ("prefill_batch", "decode_batch", "forward")} == {
            "prefill_batch": 2,
            "decode_batch": 6,
            "forward": 8,
        }
    assert calls.count("layer") == 24


def test_what_is_under_way_at_a_shutdown_is_lost(tmp_path: Path) -> None:
    pytest.importorskip("viztracer", reason="needs viztracer: a real session records with it")
    with FakeEngine(tmp_path, tp=1, prepare=("VIZTRACER",)) as engine:
        assert ask(engine, "/start_profile", {"activities": ["VIZTRACER"]})[0] == 200
        engine.generate()
    assert names(engine.folder) == [], "ended by SIGKILL: nobody had the time to write"


def test_sigterm_has_a_real_session_bring_its_file_to_disk(tmp_path: Path) -> None:
    pytest.importorskip("viztracer", reason="needs viztracer: a real session records with it")
    with FakeEngine(tmp_path, tp=2, prepare=("VIZTRACER",)) as engine:
        assert ask(engine, "/start_profile", {"profile_id": "p", "activities": ["VIZTRACER"]})[0] == 200
        engine.generate()
        engine.kill("TP1", signal.SIGTERM)
        assert until(lambda: bool(engine.deaths()))
        assert engine.deaths() == {"TP1-node=node0-rank1": "killed by signal 15 (SIGTERM)"}
        assert names(engine.folder) == ["p-TP1-node=node0-rank1.viztracer.json"]


def test_a_killed_scheduler_is_told_of_and_the_others_go_on(tmp_path: Path) -> None:
    with FakeEngine(tmp_path, dp=2, tp=1, **NAIVE) as engine:
        assert engine.deaths() == {}
        engine.kill("DP1-TP0")
        assert until(lambda: bool(engine.deaths()))
        assert engine.deaths() == {"DP1-TP0": "killed by signal 9 (SIGKILL)"}
        assert not os.path.exists(f"/proc/{engine.pids['DP1-TP0']}"), "no zombie"
        engine.kill("DP1-TP0")
        with pytest.raises(ControlError, match=r"scheduler DP1-TP0: killed by signal 9 \(SIGKILL\)"):
            engine.generate(requests=2)
        assert engine.generate(requests=1, tokens=1) == {"DP0-TP0": 2}


def test_whoever_is_not_there_cannot_be_killed(tmp_path: Path) -> None:
    with FakeEngine(tmp_path, **NAIVE) as engine, pytest.raises(ControlError, match=r"no scheduler is 'TP7'.*TP0, TP1"):
        engine.kill("TP7")


def test_an_engine_that_was_not_started_says_so(tmp_path: Path) -> None:
    engine = FakeEngine(tmp_path, **NAIVE)
    with pytest.raises(ControlError, match="not started"):
        engine.generate()
    engine.shutdown()
    with engine, pytest.raises(ControlError, match="started before"):
        engine.start()


def test_a_start_that_fails_ends_with_the_log(tmp_path: Path) -> None:
    (tmp_path / "profiles").write_text("in the way")
    with pytest.raises(ControlError, match=r"(?s)could not start: FileExistsError.*ends with:.*Traceback"):
        FakeEngine(tmp_path, **NAIVE).start()


@pytest.mark.parametrize(
    ("script", "told"),
    [
        ("echo no such module; exit 1", "ended before it was ready"),
        ("echo no such module; exec sleep 600", "was not ready"),
    ],
)
def test_a_frontend_that_does_not_come_up_is_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, told: str
) -> None:
    program = tmp_path / "python"
    program.write_text(f"#!/bin/sh\necho $$ > {tmp_path}/pid\n{script}\n")
    program.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(program))
    with pytest.raises(ControlError, match=rf"(?s){told}.*ends with:\nno such module"):
        FakeEngine(tmp_path, **NAIVE, timeout_s=0.5).start()
    assert not running(int((tmp_path / "pid").read_text()))


@pytest.mark.parametrize(
    ("given", "error", "told"),
    [
        ({"tp": 0}, ValueError, "tp=0"),
        ({"dp": 1.5}, TypeError, "dp=1.5"),
        ({"kind": "vlm"}, ValueError, "did you mean 'vllm'"),
        ({"vendor": "cpu"}, ValueError, "vendor 'cpu'"),
        ({"timeout_s": 0}, ValueError, "timeout_s=0"),
        ({"node": ""}, ValueError, "node"),
        ({"prepare": "PROTON"}, ValueError, "an activity to prepare 'P'"),
        ({"faults": ["dies"]}, TypeError, "'dies' is no fault"),
        ({"faults": [Dies("DP1-TP0")]}, ValueError, r"dies\(tag='DP1-TP0'\) is for no scheduler.*TP0, TP1"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_starts(
    tmp_path: Path, given: dict[str, Any], error: type[Exception], told: str
) -> None:
    with pytest.raises(error, match=told):
        FakeEngine(tmp_path / "engine", **given)
    assert not (tmp_path / "engine").exists()


def test_the_profile_endpoint_wants_the_token_and_traffic_does_not(tmp_path: Path) -> None:
    with FakeEngine(tmp_path, tp=1, prepare=(), token="open-sesame-open-sesame") as engine:
        assert ask(engine, "/start_profile", {"activities": ["CPU"]})[0] == 401
        assert "open-sesame" not in engine.log.read_text()
        assert engine.generate(tokens=1) == {"TP0-node=node0-rank0": 2}


def test_profiles_go_below_its_folder_alone(tmp_path: Path) -> None:
    with FakeEngine(tmp_path, tp=1, prepare=()) as engine:
        assert ask(engine, "/start_profile", {"output_dir": str(tmp_path / "elsewhere")})[0] == 403
        assert ask(engine, "/profile_status", method="GET")[0] == 200
        assert ask(engine, "/no_such_path", method="GET")[0] == 404


def test_it_works_where_a_proxy_is_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    monkeypatch.setenv("no_proxy", "")
    with FakeEngine(tmp_path, tp=1, **NAIVE) as engine:
        assert engine.generate(tokens=0) == {"TP0": 1}
