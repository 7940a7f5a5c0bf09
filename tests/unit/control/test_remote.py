"""A profile of an engine elsewhere: what it is told, what is waited for, and whether something may still run."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import pytest

from pytest_gputrace.control import remote as remote_module
from pytest_gputrace.control.answer import Answer
from pytest_gputrace.control.client import ProfileClient
from pytest_gputrace.control.expected import profilers_of
from pytest_gputrace.control.remote import RemoteProfile
from pytest_gputrace.control.verdict import RankVerdict
from pytest_gputrace.errors import ControlError, RequestError
from pytest_gputrace.fakes import FakeTrace
from pytest_gputrace.windownames import window_name, worker_tag

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

NEVER_S = 3600.0
STARTED = Answer(True, "recording", "all record", profile_id="p1")


class Engine(ProfileClient):
    """Answers what it is told to; ``on_stop`` is what its workers do then."""

    def __init__(self, kind: str = "gputrace") -> None:
        super().__init__("http://127.0.0.1:1", kind=kind)
        self.asked: list[dict[str, Any] | str] = []
        self.started: Answer | ControlError = STARTED
        self.stopped = Answer(True, "stopped", "all stopped", profile_id="p1")
        self.on_stop: Callable[[], object] = lambda: None

    def may_have_reached(self, error: BaseException) -> bool:
        return isinstance(error.__cause__, TimeoutError)

    def start(self, **fields: Any) -> Answer:
        self.asked.append(fields)
        if isinstance(self.started, ControlError):
            raise self.started
        return self.started

    def stop(self) -> Answer:
        self.asked.append("stop")
        self.on_stop()
        return self.stopped


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "profiles"


def write(folder: Path, tag: str, profiler: str = "torch", rank: int = 0) -> Path:
    folder.mkdir(exist_ok=True)
    trace = FakeTrace(rank=rank, world_size=2) if profiler == "torch" else FakeTrace.viztracer()
    path = folder / window_name("p1", tag, stage=None, profiler=profiler, ending=".json")
    trace.write(path)
    return path


def tag(tp: int) -> str:
    return worker_tag(coordinates={"TP": tp})


def test_a_window_and_its_files(folder: Path) -> None:
    engine = Engine()
    engine.on_stop = lambda: [write(folder, tag(tp), rank=tp) for tp in range(2)]
    remote = RemoteProfile(engine, folder)
    with remote.window(activities=["cpu"], num_steps=3) as answer:
        assert answer == STARTED
        while_open = remote.running
    assert (while_open, remote.running) == (True, False)
    assert engine.asked == [{"output_dir": str(folder), "activities": ["cpu"], "num_steps": 3}, "stop"]
    collection = remote.collect(2)
    assert collection.ok, collection.describe()
    assert [each.rank for each in collection.ranks] == ["TP0", "TP1"]
    assert len(collection.files) == 2


def test_every_profiler_that_was_asked_for_is_waited_for(folder: Path) -> None:
    engine = Engine()
    engine.on_stop = lambda: (write(folder, tag(0)), write(folder, tag(1)), write(folder, tag(1), "viztracer"))
    remote = RemoteProfile(engine, folder)
    with remote.window(activities=["GPU", "VIZTRACER"]):
        pass
    collection = remote.collect(2, timeout_s=0.2)
    assert [(each.rank, each.verdict) for each in collection.ranks] == [("TP0", "missing"), ("TP1", "ok")]
    assert "viztracer" in collection.describe()


def test_what_was_there_before_does_not_count(folder: Path) -> None:
    engine = Engine()
    remote = RemoteProfile(engine, folder)
    write(folder, tag(0))
    with remote.window():
        pass
    assert not remote.collect(1, timeout_s=0.1).ok


def test_what_the_engine_says_of_its_workers_is_told(folder: Path) -> None:
    engine = Engine()
    ended = "killed by signal 9 (SIGKILL); complete on disk: no file"
    ranks = (RankVerdict(tag(0), "dead", ended), RankVerdict(tag(1), "failed", "disk full"))
    engine.stopped = Answer(False, "failed", "no rank is ok", profile_id="p1", ranks=ranks)
    remote = RemoteProfile(engine, folder)
    with remote.window():
        pass
    collection = remote.collect(2)  # of nobody a file is waited for
    assert [each.verdict for each in collection.ranks] == ["dead", "failed"]
    assert f"TP0: dead: {ended}\n" in collection.describe()
    assert "disk full" in collection.describe()


def test_a_file_that_an_engine_of_ours_waited_for_is_not_waited_for_again(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remote_module, "_SEEN_LATER_S", 0.05)
    engine = Engine()
    engine.stopped = Answer(False, "failed", "none", profile_id="p1", ranks=(RankVerdict(tag(0), "missing"),))
    remote = RemoteProfile(engine, folder)
    with remote.window():
        pass
    [verdict] = remote.collect(1, timeout_s=3600.0).ranks
    assert verdict.verdict == "missing"


def test_more_ranks_than_the_engine_has(folder: Path) -> None:
    engine = Engine()
    engine.on_stop = lambda: write(folder, tag(0))
    engine.stopped = Answer(True, "stopped", "all", profile_id="p1", ranks=(RankVerdict(tag(0), "ok"),))
    remote = RemoteProfile(engine, folder)
    with remote.window():
        pass
    collection = remote.collect(2, timeout_s=0.1)
    assert not collection.ok
    assert [each.verdict for each in collection.ranks] == ["ok", "missing"]


def test_the_window_is_closed_by_an_exception(folder: Path) -> None:
    engine = Engine()
    with pytest.raises(ZeroDivisionError), RemoteProfile(engine, folder).window():
        _ = 1 / 0
    assert engine.asked[-1] == "stop"


def test_a_window_that_was_refused(folder: Path) -> None:
    engine = Engine()
    engine.started = Answer(False, "refused", "TP0: PROTON is not installed")
    remote = RemoteProfile(engine, folder)
    with pytest.raises(ControlError, match="not started: TP0: PROTON is not installed"), remote.window():
        pytest.fail("nothing records")
    assert "stop" not in engine.asked
    assert not remote.running
    with pytest.raises(ControlError, match="nothing to collect: no profile was started"):
        remote.collect(1)


def test_a_second_start_that_is_refused_leaves_the_first(folder: Path) -> None:
    engine = Engine()
    engine.on_stop = lambda: write(folder, tag(0))
    remote = RemoteProfile(engine, folder)
    remote.start()
    engine.started = Answer(False, "refused", "a profile runs")
    assert not remote.start(profile_id="p2").ok
    assert remote.running
    remote.stop()
    assert remote.collect(1).ok


def test_an_answer_that_does_not_come_may_have_been_a_yes(folder: Path) -> None:
    engine = Engine()
    engine.started = ControlError("no answer in 1 s")
    engine.started.__cause__ = TimeoutError()
    remote = RemoteProfile(engine, folder)
    with pytest.raises(ControlError, match="no answer"):
        remote.start()
    assert remote.running


def test_nobody_there_runs_nothing(folder: Path) -> None:
    engine = Engine()
    engine.started = ControlError("cannot be reached")
    remote = RemoteProfile(engine, folder)
    with pytest.raises(ControlError, match="cannot be reached"):
        remote.start()
    assert not remote.running


@pytest.mark.parametrize(
    ("kind", "fields", "told"),
    [
        ("gputrace", {"num_steps": 0}, "num_steps is 0"),
        ("vllm", {"num_steps": 3}, "num_steps cannot be told to vLLM"),
        ("sglang", {"profile_id": "x"}, "profile_id cannot be told to SGLang"),
        ("trtllm", {"activities": ["CUDA_PROFILER"]}, "CUDA_PROFILER alone writes no file"),
    ],
)
def test_what_cannot_be_asked_is_not_sent(folder: Path, kind: str, fields: dict[str, Any], told: str) -> None:
    engine = Engine(kind)
    remote = RemoteProfile(engine, folder)
    with pytest.raises(RequestError, match=told):
        remote.start(**fields)
    assert engine.asked == []
    assert not remote.running


def test_an_engine_that_cannot_be_told_where_is_not(folder: Path) -> None:
    engine = Engine("vllm")
    assert not RemoteProfile(engine, folder).can_be_told_where
    RemoteProfile(engine, folder).start()
    assert engine.asked == [{}]


def test_profilers() -> None:
    assert profilers_of(["GPU", "CPU", "MEM", "PROTON", "VIZTRACER"]) == ("torch", "memory", "proton", "viztracer")
    assert profilers_of(["CUDA_PROFILER"]) == ()


def test_an_engine_that_told_of_fewer_ranks_is_not_waited_for(folder: Path) -> None:
    engine = Engine()
    engine.on_stop = lambda: [write(folder, tag(tp), rank=tp) for tp in range(2)]
    ranks = (RankVerdict(tag(0), "ok"), RankVerdict(tag(1), "ok"))
    engine.stopped = Answer(True, "stopped", "2 of 2 ranks", profile_id="p1", ranks=ranks)
    remote = RemoteProfile(engine, folder)
    with remote.window(activities=["CPU"]):
        pass
    collection = remote.collect(4, timeout_s=NEVER_S)
    assert not collection.ok
    assert [(each.rank, each.verdict) for each in collection.ranks] == [
        ("TP0", "ok"),
        ("TP1", "ok"),
        ("2 of 4 ranks", "missing"),
    ]
    assert collection.message.endswith("; the engine has 2 ranks alone, where 4 were expected")


def test_of_a_rank_that_stays_missing_the_engines_own_words_are_told(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remote_module, "_SEEN_LATER_S", 0.05)
    engine = Engine()
    said = "it did not answer after 5 s"
    ranks = (RankVerdict(tag(0), "missing", said),)
    engine.stopped = Answer(False, "failed", "none", profile_id="p1", ranks=ranks)
    remote = RemoteProfile(engine, folder)
    with remote.window():
        pass
    assert remote.collect(1).ranks[0].message == said


def test_another_jobs_file_is_of_no_rank_of_an_engine_of_ours(folder: Path) -> None:
    engine = Engine()
    engine.on_stop = lambda: [write(folder, tag(0)), FakeTrace().write(folder / "p1-TP1.trace.json")]
    remote = RemoteProfile(engine, folder)
    with remote.window():
        pass
    assert [each.verdict for each in remote.collect(2, timeout_s=0.1).ranks] == ["ok", "missing"]


@pytest.mark.parametrize("name", ["{}-TP-{}.trace.json", "{}-TP{}.trace.json"])
def test_files_of_two_jobs_are_not_one_profile(folder: Path, name: str) -> None:
    engine = Engine("sglang" if "TP-" in name else "tokenspeed")
    engine.started = Answer(True, "recording", "accepted")
    engine.on_stop = lambda: [FakeTrace().write(folder / name.format(job, tp)) for tp, job in enumerate("ab")]
    folder.mkdir()
    remote = RemoteProfile(engine, folder)
    with remote.window():
        pass
    collection = remote.collect(2)
    assert (collection.ok, collection.message.split("; ")[-1]) == (False, "they are of 2 profiles: a, b")


def test_what_was_there_before_and_is_touched_does_not_count(folder: Path) -> None:
    engine = Engine()
    path = write(folder, tag(0))
    engine.on_stop = lambda: os.utime(path, ns=(1, 1))
    remote = RemoteProfile(engine, folder)
    with remote.window():
        pass
    assert not remote.collect(1, timeout_s=0.1).ok


def test_of_sglang_each_profiler_is_waited_for(folder: Path) -> None:
    engine = Engine("sglang")
    engine.started = Answer(True, "recording", "accepted")
    engine.on_stop = lambda: [
        FakeTrace(rank=tp, world_size=2).write(folder / f"17-TP-{tp}.trace.json") for tp in (0, 1)
    ]
    folder.mkdir()
    remote = RemoteProfile(engine, folder)
    with remote.window(activities=["CPU", "MEM"]):
        pass
    collection = remote.collect(2, timeout_s=0.3)
    assert [each.verdict for each in collection.ranks] == ["missing", "missing"]
    assert "no memory file of it" in collection.describe()
