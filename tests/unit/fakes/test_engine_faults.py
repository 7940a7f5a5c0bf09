"""Each fault does what it says: seen by replies, processes and files, not by what the library makes of them."""

from __future__ import annotations

import gzip
import json
import os
import signal
import sys
from typing import TYPE_CHECKING, Any

import pytest

from pytest_gputrace.control.activities import protondoor
from pytest_gputrace.errors import ControlError
from pytest_gputrace.fakes import FakeEngine
from pytest_gputrace.fakes.engine.faults import (
    FAULTS,
    CutsShort,
    Dies,
    DiskFull,
    EarlyReply,
    EngineFault,
    FolderVanishes,
    IgnoresSigterm,
    InnerProfiler,
    NeverWrites,
    NoTraffic,
    Refuses,
    SaveFails,
    SecondRoundEmpty,
    StartFails,
    StopBlocks,
    WritesSlowly,
    fault_from_json,
)
from tests.unit.fakes.enginehelp import ask, names, running, until

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs Linux: processes that die with their parent")
KILLED = "killed by signal 9 (SIGKILL)"


def naive(root: Path, *faults: EngineFault, tp: int = 2) -> FakeEngine:
    """An engine that records with nothing that a machine may lack."""
    return FakeEngine(root, tp=tp, kind="sglang", prepare=(), faults=faults)


def real(root: Path, *faults: EngineFault, collect_timeout_s: float = 30.0, activity: str = "VIZTRACER") -> FakeEngine:
    """An engine with the library's sessions."""
    if activity == "VIZTRACER":
        pytest.importorskip("viztracer", reason="needs viztracer: a real session records with it")
    return FakeEngine(
        root, tp=2, node=None, prepare=(activity,), faults=faults, collect_timeout_s=collect_timeout_s, timeout_s=30.0
    )


def start(engine: FakeEngine, profile_id: str = "p", *activities: str) -> tuple[int, dict[str, Any]]:
    status, text = ask(engine, "/start_profile", {"profile_id": profile_id, "activities": activities or ["VIZTRACER"]})
    return status, json.loads(text) if text.startswith("{") else {}


def stop(engine: FakeEngine) -> tuple[int, dict[str, Any]]:
    """The status, and the verdicts by rank; none where the engine is another one."""
    status, text = ask(engine, "/stop_profile")
    answer = json.loads(text) if text.startswith("{") else {"ranks": []}
    return status, {each["rank"]: each for each in answer["ranks"]}


def dies(engine: FakeEngine, tag: str) -> str:
    until(lambda: tag in engine.deaths())
    return engine.deaths()[tag]


@pytest.fixture(autouse=True)
def no_profiler_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.startswith(("GPUTRACE_", "TOKENSPEED_")):
            monkeypatch.delenv(name)


def is_whole(path: Path) -> bool:
    try:
        data = path.read_bytes()
        json.loads(gzip.decompress(data) if path.suffix == ".gz" else data)
    except (ValueError, EOFError):
        return False
    return True


def test_early_reply_answers_before_the_others_have_written(tmp_path: Path) -> None:
    with naive(tmp_path, EarlyReply(late_s=3600)) as engine:
        start(engine)
        engine.generate(tokens=1)
        assert stop(engine)[0] == 200
        (first,) = names(engine.folder)
        assert "-TP-0" in first


def test_early_reply_of_a_real_session_is_no_loss(tmp_path: Path) -> None:
    with real(tmp_path, EarlyReply(late_s=0.2)) as engine:
        start(engine)
        engine.generate(tokens=1)
        assert stop(engine)[0] == 200
        assert names(engine.folder) == ["p-TP0.viztracer.json", "p-TP1.viztracer.json"]


def test_never_writes_says_yes_and_leaves_no_file(tmp_path: Path) -> None:
    with naive(tmp_path, NeverWrites("TP0"), tp=1) as engine:
        assert start(engine)[0] == 200
        engine.generate(tokens=1)
        assert stop(engine)[0] == 200
        assert names(engine.folder) == []


def test_never_writes_takes_the_place_of_a_real_session(tmp_path: Path) -> None:
    with real(tmp_path, NeverWrites("TP1"), collect_timeout_s=2.0) as engine:
        assert start(engine)[0] == 200
        engine.generate(tokens=1)
        status, verdicts = stop(engine)
        assert status == 500
        assert until(lambda: names(engine.folder) == ["p-TP0.viztracer.json"])
        assert "answered that it stopped" in verdicts["TP1"]["message"]


def test_second_round_empty_writes_in_the_first_alone(tmp_path: Path) -> None:
    with naive(tmp_path, SecondRoundEmpty(), tp=1) as engine:
        for number in range(3):
            assert start(engine)[0] == 200
            assert ask(engine, "/start_profile")[0] == 500, "one is under way, in every round"
            engine.generate(tokens=1)
            assert stop(engine)[0] == 200
            assert len(names(engine.folder)) == 1, number


def test_stop_blocks_and_the_others_have_written(tmp_path: Path) -> None:
    with real(tmp_path, StopBlocks("TP1"), collect_timeout_s=1.0) as engine:
        assert start(engine)[0] == 200
        engine.generate(tokens=1)
        assert stop(engine)[0] == 500
        assert until(lambda: names(engine.folder) == ["p-TP0.viztracer.json"])
        assert engine.deaths() == {}
        assert running(engine.pids["TP1"]), "it lives, and blocks"


@pytest.mark.parametrize(("exit_code", "told"), [(None, KILLED), (3, "exited with 3")])
def test_dies_recording_in_the_first_step(tmp_path: Path, exit_code: int | None, told: str) -> None:
    with naive(tmp_path, Dies("TP1", at="recording", exit_code=exit_code)) as engine:
        assert engine.generate() == {"TP0": 9, "TP1": 9}, "not before a start"
        start(engine)
        with pytest.raises(ControlError, match="scheduler TP1"):
            engine.generate()
        assert dies(engine, "TP1") == told
        assert stop(engine)[0] == 200
        assert until(lambda: len(names(engine.folder)) == 1)


def test_dies_stopping_before_anything_is_written(tmp_path: Path) -> None:
    with real(tmp_path, Dies("TP1", at="stopping")) as engine:
        start(engine)
        engine.generate()
        stop(engine)
        assert dies(engine, "TP1") == KILLED
        assert names(engine.folder) == ["p-TP0.viztracer.json"]


def test_dies_writing_in_the_middle_of_a_file(tmp_path: Path) -> None:
    with real(tmp_path, Dies("TP1", at="writing")) as engine:
        start(engine)
        engine.generate()
        stop(engine)
        assert dies(engine, "TP1") == KILLED
        assert names(engine.folder) == ["p-TP0.viztracer.json"]
        (private,) = [path for path in engine.folder.iterdir() if path.name.startswith(".")]
        assert private.stat().st_size == 100


def test_dies_writing_leaves_half_a_file_of_a_naive_engine(tmp_path: Path) -> None:
    with naive(tmp_path, Dies("TP1", at="writing")) as engine:
        start(engine)
        engine.generate()
        stop(engine)
        assert dies(engine, "TP1") == KILLED
        assert sorted(is_whole(engine.folder / name) for name in names(engine.folder)) == [False, True]


def test_dies_stopped_with_its_file_on_disk(tmp_path: Path) -> None:
    with real(tmp_path, Dies("TP1", at="stopped")) as engine:
        start(engine)
        engine.generate()
        stop(engine)
        assert dies(engine, "TP1") == KILLED
        assert all(is_whole(engine.folder / f"p-{tag}.viztracer.json") for tag in ("TP0", "TP1"))


def test_writes_slowly_grows_under_the_final_name(tmp_path: Path) -> None:
    with naive(tmp_path, WritesSlowly("TP0"), tp=1) as engine:
        start(engine)
        engine.generate()
        assert stop(engine)[0] == 200
        (name,) = names(engine.folder)
        sizes = {(engine.folder / name).stat().st_size}
        assert until(lambda: len(sizes.union({(engine.folder / name).stat().st_size})) > 1)
        assert engine.generate() == {"TP0": 9}, "it works on"


def test_cuts_short_leaves_half_a_file_under_the_final_name(tmp_path: Path) -> None:
    with real(tmp_path, CutsShort("TP1")) as engine:
        start(engine)
        engine.generate()
        stop(engine)
        assert dies(engine, "TP1") == KILLED
        assert names(engine.folder) == ["p-TP0.viztracer.json", "p-TP1.viztracer.json"]
        assert [is_whole(engine.folder / name) for name in names(engine.folder)] == [True, False]


def test_inner_profiler_takes_the_session_over(tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="needs torch: its profiler is replaced and taken over")
    with real(tmp_path, InnerProfiler("TP1"), activity="CPU") as engine:
        assert start(engine, "p", "CPU", "GPU")[0] == 200
        engine.generate()
        status, verdicts = stop(engine)
        assert status == 500
        assert names(engine.folder) == ["p-TP0.torch.json.gz"]
        assert "another profiler" in verdicts["TP1"]["message"]


def test_start_fails_in_one_profiler(tmp_path: Path) -> None:
    with real(tmp_path, StartFails("TP1")) as engine:
        status, answer = start(engine)
        assert status == 500
        assert "TP1: VIZTRACER could not start: RuntimeError: injected" in answer["message"]
        assert engine.generate() == {"TP0": 9, "TP1": 9}, "the work goes on"


def test_save_fails_in_one_profiler_and_the_other_writes(tmp_path: Path) -> None:
    if why := protondoor.missing():
        pytest.skip(f"needs proton: {why}")
    with real(tmp_path, SaveFails("TP1", activity="VIZTRACER")) as engine:
        assert start(engine, "p", "PROTON", "VIZTRACER")[0] == 200
        engine.generate()
        status, verdicts = stop(engine)
        assert status == 500
        assert "injected: VIZTRACER cannot write" in verdicts["TP1"]["message"]
        assert names(engine.folder) == [
            "p-TP0.proton.chrome_trace",
            "p-TP0.viztracer.json",
            "p-TP1.proton.chrome_trace",
        ]


def test_refuses_with_its_reason(tmp_path: Path) -> None:
    with real(tmp_path, Refuses("TP1", reason="no room")) as engine:
        status, answer = start(engine)
        assert status == 500
        assert "TP1: nothing was changed: VIZTRACER cannot be recorded: no room" in answer["message"]


def test_folder_vanishes_while_it_records(tmp_path: Path) -> None:
    with naive(tmp_path, FolderVanishes("TP0"), tp=1) as engine:
        start(engine)
        (engine.folder / "older.json").touch()
        engine.generate()
        assert not engine.folder.exists()
        assert stop(engine)[0] == 200, "as Kineto, it takes no notice"
        assert not engine.folder.exists()


def test_disk_full_lets_no_file_be_whole(tmp_path: Path) -> None:
    with real(tmp_path, DiskFull("TP1", at_byte=200)) as engine:
        start(engine)
        engine.generate()
        assert stop(engine)[0] == 500
        assert names(engine.folder) == ["p-TP0.viztracer.json"]
        assert engine.deaths() == {}


def test_ignores_sigterm_where_others_end(tmp_path: Path) -> None:
    with naive(tmp_path, IgnoresSigterm("TP1")) as engine:
        for tag in engine.tags:
            engine.kill(tag, signal.SIGTERM)
        assert dies(engine, "TP0") == "killed by signal 15 (SIGTERM)"
        assert list(engine.deaths()) == ["TP0"]
        assert running(engine.pids["TP1"])


def test_no_traffic_ends_in_the_middle(tmp_path: Path) -> None:
    with naive(tmp_path, NoTraffic("TP1", after_steps=3)) as engine:
        assert engine.generate(tokens=4) == {"TP0": 5, "TP1": 3}
        assert engine.generate(tokens=4) == {"TP0": 5, "TP1": 0}


def test_faults_go_together(tmp_path: Path) -> None:
    with naive(tmp_path, NeverWrites("TP0"), Dies("TP1", at="stopping")) as engine:
        start(engine)
        engine.generate()
        assert stop(engine)[0] == 200
        assert dies(engine, "TP1") == KILLED
        assert names(engine.folder) == []


@pytest.mark.parametrize("name", sorted(FAULTS))
def test_every_fault_is_told_as_it_is_written_and_crosses_a_pipe(name: str) -> None:
    fault = FAULTS[name](tag="DP1-TP0")
    assert str(fault) == f"{name}(tag='DP1-TP0')"
    assert fault_from_json(json.loads(json.dumps(fault.as_json()))) == fault
    assert str(FAULTS[name]()) == f"{name}()"


@pytest.mark.parametrize(
    ("make", "error", "told"),
    [
        (lambda: Dies(at="dawn"), ValueError, "dies: at 'dawn' is not one of recording"),  # type: ignore[arg-type]  # the test
        (lambda: Dies(at="writing", exit_code=3), ValueError, "leave exit_code out"),
        (lambda: Dies(tag=1), TypeError, "dies: tag=1"),  # type: ignore[arg-type]  # the test
        (lambda: EarlyReply(late_s=0), ValueError, "early_reply: late_s=0"),
        (lambda: NoTraffic(after_steps=-1), ValueError, "no_traffic: after_steps=-1"),
        (lambda: fault_from_json({"name": "die"}), ValueError, "did you mean 'dies'"),
    ],
)
def test_a_fault_that_cannot_be_is_refused(make: Callable[[], object], error: type[Exception], told: str) -> None:
    with pytest.raises(error, match=told):
        make()


def test_a_fault_strikes_by_coordinates_or_by_the_whole_tag() -> None:
    assert Dies("TP1").strikes("TP1")
    assert Dies("TP1-node=a-rank1").strikes("TP1")
    assert Dies().strikes("TP1")
    assert not Dies("TP1").strikes("TP10")
    assert not Dies("TP10").strikes("TP1")
