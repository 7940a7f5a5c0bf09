"""The state machine of a worker's session, with profilers that only pretend."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_gputrace.control.output import Output
from pytest_gputrace.control.request import ProfileRequest
from pytest_gputrace.control.session import Session
from pytest_gputrace.model import WorkerId
from tests.unit.control.profilers import PretendKind

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

HERE = Path(__file__).parent
WORKER = WorkerId(node="n0", rank=5, local_rank=1, world_size=8, coordinates={"DP": 1, "TP": 2})
SOON_S = 20.0


@pytest.fixture
def made() -> Iterator[Callable[..., Session]]:
    sessions: list[Session] = []

    def make(*kinds: PretendKind, **options: Any) -> Session:
        session = Session(worker=WORKER, kinds=kinds or (PretendKind(),), **options)
        sessions.append(session)
        return session

    yield make
    for session in sessions:
        session.close()


def asked(folder: Path, **fields: Any) -> ProfileRequest:
    return ProfileRequest(**{"output_dir": str(folder), "profile_id": "p", "activities": ("VIZTRACER",), **fields})


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir()) if folder.exists() else []


def until(what: Callable[[], bool]) -> None:
    end_s = time.monotonic() + SOON_S
    while not what():
        assert time.monotonic() < end_s, "it did not come"
        time.sleep(0.005)


def test_a_profile_from_start_to_stop(made: Callable[..., Session], tmp_path: Path) -> None:
    session = made()
    started = session.start(asked(tmp_path / "new"))
    assert (started.ok, started.status, started.profile_id) == (True, "recording", "p")
    session.step()
    session.step()
    stopped = session.stop()
    assert (stopped.ok, stopped.status) == (True, "stopped")
    assert stopped.message == "recorded 2 steps in 1 file; it was stopped"
    [file] = stopped.files
    assert Path(file.path).name == "p-DP1-TP2-node=n0-rank5.viztracer.json"
    assert (file.profiler, file.stage, file.steps, file.events) == ("viztracer", None, 2, 1)
    assert file.size_bytes == Path(file.path).stat().st_size
    assert names(tmp_path / "new") == [Path(file.path).name]


def test_recorders_stop_in_the_order_opposite_to_their_start(made: Callable[..., Session], tmp_path: Path) -> None:
    log: list[str] = []
    session = made(PretendKind("CPU", "GPU", profiler="torch", log=log), PretendKind("VIZTRACER", log=log))
    session.start(asked(tmp_path, activities=("VIZTRACER", "CPU")))
    session.stop()
    assert log == ["start torch", "start viztracer", "stop viztracer", "stop torch", "save torch", "save viztracer"]


class TestRefused:
    @pytest.mark.parametrize(
        ("fields", "told"),
        [
            ({"activities": ["NSYS"]}, "no activity is called 'NSYS'"),
            ({"num_steps": 0}, "num_steps is 0"),
            ({"output_dir": __file__}, "is no folder"),
            ({"activities": ["VIZTRACER", "MEM"]}, "MEM"),
            ({"output_dir": "x\ud800"}, "a character that no file system can hold"),
            ({"deadline_s": 10**400}, "deadline_s is"),
            ({"start_step": 10**5000}, "start_step is a number without end"),
        ],
    )
    def test_nothing_changes(
        self, made: Callable[..., Session], tmp_path: Path, fields: dict[str, Any], told: str
    ) -> None:
        kind = PretendKind()
        session = made(kind)
        before = {name: value for name, value in vars(session).items() if name != "_lock"}
        reply = session.start({"output_dir": str(tmp_path / "new"), "activities": ["VIZTRACER"], **fields})
        assert (reply.ok, reply.status) == (False, "refused")
        assert told in reply.message
        assert {name: value for name, value in vars(session).items() if name != "_lock"} == before
        session.step("DECODE")
        assert (kind.log, names(tmp_path)) == ([], [])

    @pytest.mark.parametrize("given", [None, [], "VIZTRACER", 3])
    def test_what_is_no_request(self, made: Callable[..., Session], given: Any) -> None:
        assert "by an object with fields" in made().start(given).message

    def test_a_tag_that_leaves_no_room_for_a_name(self, tmp_path: Path) -> None:
        coordinates = {f"DIMENSI{chr(65 + n)}": 10**17 for n in range(10)}
        with Session(coordinates=coordinates, kinds=[PretendKind()]) as session:
            assert session.start(asked(tmp_path)).status == "refused"

    def test_by_a_profiler_that_is_not_there(self, made: Callable[..., Session], tmp_path: Path) -> None:
        kind = PretendKind(refuses=["VizTracer is not installed; pip install viztracer"])
        reply = made(kind).start(asked(tmp_path / "new"))
        assert reply.reasons == ("VizTracer is not installed; pip install viztracer",)
        assert (kind.log, names(tmp_path)) == ([], [])

    def test_a_second_start_leaves_the_first_as_it_is(self, made: Callable[..., Session], tmp_path: Path) -> None:
        kind = PretendKind()
        session = made(kind)
        session.start(asked(tmp_path, num_steps=9))
        reply = session.start(asked(tmp_path / "other", profile_id="q"))
        assert (reply.status, reply.message) == (
            "refused",
            "nothing was changed: profile p is under way; stop it first",
        )
        session.step()
        assert (session.stop().profile_id, kind.log) == ("p", ["start viztracer", "stop viztracer", "save viztracer"])
        assert not (tmp_path / "other").exists()

    def test_a_stop_before_any_start(self, made: Callable[..., Session]) -> None:
        reply = made().stop()
        assert (reply.ok, reply.status, reply.message) == (False, "refused", "no profile was started")


class TestStop:
    def test_twice_gives_the_same_and_touches_no_file(self, made: Callable[..., Session], tmp_path: Path) -> None:
        session = made()
        session.start(asked(tmp_path))
        first = session.stop()
        file = Path(first.files[0].path)
        before = file.stat(), file.read_bytes()
        assert session.stop() == first
        assert (file.stat(), file.read_bytes()) == before

    def test_by_two_threads_at_once_gives_both_the_same(self, made: Callable[..., Session], tmp_path: Path) -> None:
        kind = PretendKind()
        session = made(kind)
        session.start(asked(tmp_path))
        kind.may_save.clear()
        replies: list[object] = []
        threads = [threading.Thread(target=lambda: replies.append(session.stop())) for _ in range(3)]
        for thread in threads:
            thread.start()
        assert kind.saving.wait(SOON_S)
        kind.may_save.set()
        for thread in threads:
            thread.join(SOON_S)
        assert replies == [session.stop()] * 3
        assert kind.log.count("save viztracer") == 1

    def test_rounds_of_one_id_keep_each_other(self, made: Callable[..., Session], tmp_path: Path) -> None:
        session = made()
        kept = []
        for _ in range(3):
            session.start(asked(tmp_path))
            kept.append(Path(session.stop().files[0].path).name)
        start = "p-DP1-TP2-node=n0-rank5"
        assert kept == [f"{start}.viztracer.json", f"{start}.a2.viztracer.json", f"{start}.a3.viztracer.json"]
        assert names(tmp_path) == sorted(kept)

    def test_the_worker_steps_on_while_files_are_written(self, made: Callable[..., Session], tmp_path: Path) -> None:
        kind = PretendKind()
        session = made(kind)
        session.start(asked(tmp_path))
        kind.may_save.clear()
        stopping = threading.Thread(target=session.stop)
        stopping.start()
        assert kind.saving.wait(SOON_S)
        with session.step("DECODE"):  # would wait for ever
            pass
        kind.may_save.set()
        stopping.join(SOON_S)
        assert session.stop().files[0].steps == 0


class TestCancel:
    def test_keeps_nothing_and_another_profile_may_begin(self, made: Callable[..., Session], tmp_path: Path) -> None:
        kind = PretendKind()
        session = made(kind)
        session.start(asked(tmp_path, num_steps=5))
        session.step()
        reply = session.cancel()
        assert (reply.ok, reply.status, kind.log) == (True, "idle", ["start viztracer", "discard viztracer"])
        assert names(tmp_path) == []
        assert session.stop().status == "refused"
        session.start(asked(tmp_path))
        assert session.stop().ok

    def test_of_nothing_is_harmless(self, made: Callable[..., Session], tmp_path: Path) -> None:
        session = made()
        assert session.cancel().status == "idle"
        session.start(asked(tmp_path))
        kept = session.stop()
        assert session.cancel() == kept


class TestFailures:
    def test_who_started_before_is_undone(self, made: Callable[..., Session], tmp_path: Path) -> None:
        log: list[str] = []
        session = made(PretendKind("CPU", profiler="torch", log=log), PretendKind("VIZTRACER", log=log, fails="start"))
        reply = session.start(asked(tmp_path, activities=("CPU", "VIZTRACER")))
        assert (reply.status, reply.message) == ("failed", "VIZTRACER could not start: viztracer cannot start")
        assert log == ["start torch", "discard torch"]
        session.step()
        assert session.stop() == reply
        assert names(tmp_path) == []

    def test_a_start_that_fails_is_not_answered_with_the_profile_before(
        self, made: Callable[..., Session], tmp_path: Path
    ) -> None:
        kind = PretendKind()
        session = made(kind)
        session.start(asked(tmp_path, profile_id="old"))
        session.stop()
        kind.fails = "start"
        session.start(asked(tmp_path, profile_id="new"))
        assert [(reply.ok, reply.profile_id) for reply in (session.stop(), session.status())] == [(False, "new")] * 2

    @pytest.mark.parametrize("when", ["start", "stop"])
    @pytest.mark.parametrize("at_a_step", [False, True])
    def test_an_interrupt_leaves_no_profiler_at_work(
        self, made: Callable[..., Session], tmp_path: Path, when: str, at_a_step: bool
    ) -> None:
        log: list[str] = []
        first = PretendKind("CPU", profiler="torch", log=log)
        second = PretendKind("VIZTRACER", log=log, fails=f"Ctrl-C in {when}")
        session = made(first, second)
        fields = {"start_step": 0} if at_a_step else {}

        def profile() -> None:
            session.start(asked(tmp_path, activities=("CPU", "VIZTRACER"), **fields))
            session.step()
            session.stop()

        with pytest.raises(KeyboardInterrupt):
            profile()
        assert "discard viztracer" in log
        assert "stop torch" in log if when == "stop" else "discard torch" in log
        assert not session.stop().ok
        second.fails = ""
        session.start(asked(tmp_path, activities=("CPU", "VIZTRACER")))
        assert session.stop().ok

    def test_a_file_that_is_moved_on_at_once_stops_no_step(
        self, made: Callable[..., Session], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        publish = Output.publish

        def and_move(self: Output, private: Path, profiler: str, ending: str) -> Path:
            path = publish(self, private, profiler, ending)
            path.rename(tmp_path / "collected")
            return path

        monkeypatch.setattr(Output, "publish", and_move)
        session = made()
        session.start(asked(tmp_path, num_steps=1))
        with session.step():
            pass
        assert [file.size_bytes for file in session.stop().files] == [0]

    @pytest.mark.parametrize("when", ["stop", "save"])
    def test_one_that_fails_costs_the_others_nothing(
        self, made: Callable[..., Session], tmp_path: Path, when: str
    ) -> None:
        session = made(PretendKind("CPU", profiler="torch", fails=when), PretendKind("VIZTRACER"))
        session.start(asked(tmp_path, activities=("CPU", "VIZTRACER")))
        reply = session.stop()
        assert (reply.ok, reply.status) == (False, "failed")
        assert [file.profiler for file in reply.files] == ["viztracer"]
        assert f"torch cannot {when}" in reply.message
        assert names(tmp_path) == ["p-DP1-TP2-node=n0-rank5.viztracer.json"]

    def test_an_interrupt_costs_one_file_and_leaves_the_session_usable(
        self, made: Callable[..., Session], tmp_path: Path
    ) -> None:
        interrupted = PretendKind("CPU", profiler="torch", fails="Ctrl-C")
        session = made(interrupted, PretendKind("VIZTRACER"))
        session.start(asked(tmp_path, activities=("CPU", "VIZTRACER")))
        with pytest.raises(KeyboardInterrupt):
            session.stop()
        reply = session.stop()
        assert (reply.reasons, len(reply.files)) == (("the torch file is lost: KeyboardInterrupt: ",), 1)
        interrupted.fails = ""
        assert session.start(asked(tmp_path, activities=("CPU",))).ok
        assert session.stop().ok

    def test_one_that_cannot_start_at_its_step_raises_nothing(
        self, made: Callable[..., Session], tmp_path: Path
    ) -> None:
        session = made(PretendKind(fails="start"))
        assert session.start(asked(tmp_path, start_step=1)).status == "armed"
        for _ in range(3):
            with session.step():
                pass
        reply = session.stop()
        assert (reply.status, reply.reasons) == ("failed", ("VIZTRACER could not start: viztracer cannot start",))

    def test_a_file_with_a_problem_is_kept_and_told(self, made: Callable[..., Session], tmp_path: Path) -> None:
        session = made(PretendKind(problem="byte 7 is none of JSON"))
        session.start(asked(tmp_path))
        reply = session.stop()
        assert (reply.ok, len(reply.files)) == (False, 1)
        assert reply.reasons == (f"{reply.files[0].path}: byte 7 is none of JSON",)

    def test_a_window_that_never_began_is_no_success(self, made: Callable[..., Session], tmp_path: Path) -> None:
        session = made()
        session.start(asked(tmp_path, start_step=100, num_steps=1))
        session.step()
        reply = session.stop()
        assert reply.reasons == ("nothing was recorded: the step it begins with did not come; is there traffic?",)

    def test_a_window_that_shall_count_steps_and_has_none_is_no_success(
        self, made: Callable[..., Session], tmp_path: Path
    ) -> None:
        session = made()
        session.start(asked(tmp_path, num_steps=5))
        reply = session.stop()
        assert (reply.reasons, len(reply.files)) == (("0 of 5 steps were recorded; is there traffic?",), 1)

    def test_stages_that_never_came_are_told_with_those_that_did(
        self, made: Callable[..., Session], tmp_path: Path
    ) -> None:
        session = made()
        session.start(asked(tmp_path, profile_by_stage=True))
        session.step("EXTEND")
        what = "nothing was recorded: no step of PREFILL or DECODE came; the stages that came were EXTEND"
        assert session.stop().reasons == (what,)


class TestFolder:
    def test_a_link_in_its_place_does_not_lead_the_files_elsewhere(
        self, made: Callable[..., Session], tmp_path: Path
    ) -> None:
        session = made()
        (tmp_path / "outside").mkdir()
        session.start(asked(tmp_path / "profiles"))
        (tmp_path / "profiles").rename(tmp_path / "moved")
        (tmp_path / "profiles").symlink_to(tmp_path / "outside")
        reply = session.stop()
        assert "leads to" in reply.message
        assert (reply.ok, names(tmp_path / "outside")) == (False, [])

    def test_one_that_a_link_led_to_all_along_is_fine(self, made: Callable[..., Session], tmp_path: Path) -> None:
        session = made()
        (tmp_path / "real").mkdir()
        (tmp_path / "profiles").symlink_to(tmp_path / "real")
        session.start(asked(tmp_path / "profiles"))
        assert session.stop().ok
        assert len(names(tmp_path / "real")) == 1

    def test_one_that_cannot_be_made_is_told(self, made: Callable[..., Session], tmp_path: Path) -> None:
        session = made()
        assert session.start(asked(tmp_path / "new", start_step=0)).status == "armed"
        (tmp_path / "new").write_text("a file in its place")
        session.step()
        assert "cannot make the folder" in session.stop().message


class TestWindows:
    def test_count_real_steps_and_close_at_the_end_of_the_last(
        self, made: Callable[..., Session], tmp_path: Path
    ) -> None:
        kind = PretendKind()
        session = made(kind)
        session.step()
        assert session.start(asked(tmp_path, start_step=2, num_steps=2)).status == "armed"
        seen = []
        for _ in range(4):
            with session.step():
                seen.append(bool(kind.log))
        assert seen == [False, True, True, True]
        assert names(tmp_path) == ["p-DP1-TP2-node=n0-rank5.viztracer.json"]  # by the third step, not by the stop
        reply = session.stop()
        assert (reply.message, reply.files[0].steps) == (
            "recorded 2 of 2 steps in 1 file; its windows are over", 2,
        )  # fmt: skip
        assert kind.log == ["start viztracer", "stop viztracer", "save viztracer"]

    def test_without_with_the_next_step_closes_it(self, made: Callable[..., Session], tmp_path: Path) -> None:
        session = made()
        session.start(asked(tmp_path, num_steps=1))
        session.step()
        assert names(tmp_path) == []
        session.step()
        assert len(names(tmp_path)) == 1

    def test_each_stage_has_its_file_and_its_count(self, made: Callable[..., Session], tmp_path: Path) -> None:
        session = made()
        assert session.start(asked(tmp_path, profile_by_stage=True, num_steps=2)).status == "armed"
        for stage in ("PREFILL", "DECODE", "DECODE", "DECODE"):
            with session.step(stage):
                pass
        reply = session.stop()
        assert [(file.stage, file.steps) for file in reply.files] == [("PREFILL", 1), ("DECODE", 2)]
        assert reply.message == "recorded PREFILL 1 of 2, DECODE 2 of 2 steps in 2 files; its windows are over"
        start = "p-DP1-TP2-node=n0-rank5"
        assert names(tmp_path) == [f"{start}-DECODE.viztracer.json", f"{start}-PREFILL.viztracer.json"]

    def test_a_stage_that_did_not_come_is_told_beside_the_one_that_did(
        self, made: Callable[..., Session], tmp_path: Path
    ) -> None:
        session = made()
        session.start(asked(tmp_path, profile_by_stage=True, num_steps=1))
        session.step("PREFILL")
        reply = session.stop()
        assert reply.ok
        assert reply.message.endswith("; it was stopped; no step of DECODE came")

    def test_close_at_the_deadline_though_no_step_comes(self, made: Callable[..., Session], tmp_path: Path) -> None:
        session = made()
        session.start(asked(tmp_path, num_steps=5, deadline_s=0.2))
        session.step()
        until(lambda: session.status().status == "stopped")
        assert session.stop().message == "recorded 1 of 5 steps in 1 file; its deadline of 0.2 s came"

    def test_close_when_traffic_ends(self, made: Callable[..., Session], tmp_path: Path) -> None:
        session = made(idle_s=0.2)
        session.start(asked(tmp_path, num_steps=5))
        with session.step():
            pass
        until(lambda: session.status().status == "stopped")
        assert session.stop().message == "recorded 1 of 5 steps in 1 file; no step came for 0.2 s"

    def test_a_long_step_is_no_end_of_traffic(self, made: Callable[..., Session], tmp_path: Path) -> None:
        session = made(idle_s=0.05)
        session.start(asked(tmp_path, num_steps=5))
        with session.step():
            time.sleep(0.3)
            assert session.status().status == "recording"

    def test_close_with_the_session(self, made: Callable[..., Session], tmp_path: Path) -> None:
        session = made()
        session.start(asked(tmp_path))
        session.close()
        assert len(names(tmp_path)) == 1
        assert session.stop().message.endswith("; the session was closed")

    def test_a_deadline_of_an_earlier_profile_ends_no_later_one(
        self, made: Callable[..., Session], tmp_path: Path
    ) -> None:
        session = made()
        session.start(asked(tmp_path, deadline_s=0.2))
        session.stop()
        session.start(asked(tmp_path, profile_id="q"))
        time.sleep(0.4)
        assert session.status().status == "recording"


class TestBarrier:
    def test_comes_once_after_the_files(self, made: Callable[..., Session], tmp_path: Path) -> None:
        seen: list[list[str]] = []
        session = made(PretendKind(fails="save"), barrier=lambda: seen.append(names(tmp_path)))
        session.start(asked(tmp_path))
        session.stop()
        session.stop()
        assert seen == [[]]  # also where a file is lost: the other ranks wait

    def test_its_failure_is_told_and_the_file_is_there(self, made: Callable[..., Session], tmp_path: Path) -> None:
        def broken() -> None:
            raise TimeoutError("rank 3 did not come")

        session = made(barrier=broken)
        session.start(asked(tmp_path))
        reply = session.stop()
        assert reply.reasons == ("the barrier after the profile failed: TimeoutError: rank 3 did not come",)
        assert len(names(tmp_path)) == 1


class TestThreads:
    def test_a_profile_begins_in_the_thread_that_works(self, made: Callable[..., Session], tmp_path: Path) -> None:
        kind = PretendKind()
        session = made(kind)
        session.step()
        replies: list[Any] = []
        starting = threading.Thread(target=lambda: replies.append(session.start(asked(tmp_path))))
        starting.start()
        starting.join(SOON_S)
        assert (replies[0].status, kind.log) == ("armed", [])
        session.step()
        assert kind.log == ["start viztracer"]
        assert session.stop().files[0].steps == 1

    def test_what_is_bound_to_its_thread_is_ended_by_its_next_step(
        self, made: Callable[..., Session], tmp_path: Path
    ) -> None:
        kind = PretendKind(thread_bound=True)
        session = made(kind)
        session.start(asked(tmp_path))
        replies: list[Any] = []
        stopping = threading.Thread(target=lambda: replies.append(session.stop()))
        stopping.start()
        until(lambda: bool(session._stop_for))
        assert "stop viztracer" not in kind.log
        session.step()
        stopping.join(SOON_S)
        assert (replies[0].ok, len(replies[0].files)) == (True, 1)

    def test_what_another_thread_started_before_is_not_ended_by_a_step(
        self, made: Callable[..., Session], tmp_path: Path
    ) -> None:
        kind = PretendKind(thread_bound=True)
        session = made(kind)
        told: list[Any] = []
        asked_for, stopping = threading.Event(), threading.Event()

        def control() -> None:
            session.start(asked(tmp_path, num_steps=1))
            asked_for.set()
            stopping.wait(SOON_S)
            told.append(session.stop())

        thread = threading.Thread(target=control)
        thread.start()
        assert asked_for.wait(SOON_S)
        for _ in range(2):
            with session.step():
                pass
        assert kind.log == ["start viztracer"]
        stopping.set()
        thread.join(SOON_S)
        assert len(told[0].files) == 1

    def test_the_end_of_a_step_waits_for_no_file_of_another_thread(
        self, made: Callable[..., Session], tmp_path: Path
    ) -> None:
        kind = PretendKind()
        session = made(kind)
        session.start(asked(tmp_path))
        with session.step():
            kind.may_save.clear()
            stopping = threading.Thread(target=session.stop)
            stopping.start()
            assert kind.saving.wait(SOON_S)
        assert stopping.is_alive()
        kind.may_save.set()
        stopping.join(SOON_S)

    def test_a_thread_that_never_steps_is_not_waited_for_without_end(
        self, made: Callable[..., Session], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("pytest_gputrace.control.session._OWNER_S", 0.05)
        session = made(PretendKind(thread_bound=True))
        session.start(asked(tmp_path))
        replies: list[Any] = []
        stopping = threading.Thread(target=lambda: replies.append(session.stop()))
        stopping.start()
        stopping.join(SOON_S)
        assert "only the thread that started the profile can end it" in replies[0].message

    def test_a_forked_process_leaves_its_parents_profile_alone(
        self, made: Callable[..., Session], tmp_path: Path
    ) -> None:
        session = made()
        session.start(asked(tmp_path))
        pid = os.fork()
        if not pid:
            session.step()
            session.close()
            os._exit(0 if session.status().status == "idle" and not names(tmp_path) else 1)
        assert os.waitpid(pid, 0)[1] == 0
        session.step()
        assert session.stop().files[0].steps == 1


def run_process(code: str, folder: Path) -> subprocess.CompletedProcess[str]:
    start = """
        import os, signal, sys, threading, time
        sys.path.insert(0, sys.argv[2])
        from profilers import PretendKind
        from pytest_gputrace.control.session import Session
        kind = PretendKind()
        def session(**options):
            return Session(coordinates={"TP": 0}, kinds=[kind], **options)
        fields = {"output_dir": sys.argv[1], "profile_id": "p", "activities": ["VIZTRACER"]}
    """
    text = textwrap.dedent(start) + textwrap.dedent(code)
    command = [sys.executable, "-c", text, str(folder), str(HERE)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


class TestEndOfTheProcess:
    def test_sigterm_closes_the_window_and_ends_the_process_as_ever(self, tmp_path: Path) -> None:
        done = run_process(
            """
            s = session(); s.start(fields); s.step()
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(30)
            """,
            tmp_path,
        )
        assert (done.returncode, done.stderr) == (-signal.SIGTERM, "")
        assert names(tmp_path) == ["p-TP0.viztracer.json"]

    def test_sigterm_in_the_middle_of_a_stop_waits_for_the_file(self, tmp_path: Path) -> None:
        done = run_process(
            """
            s = session(); s.start(fields)
            kind.may_save.clear()
            def end():
                kind.saving.wait(20)
                os.kill(os.getpid(), signal.SIGTERM)
                time.sleep(0.2)
                kind.may_save.set()
            threading.Thread(target=end, daemon=True).start()
            s.stop()
            time.sleep(30)
            """,
            tmp_path,
        )
        assert (done.returncode, done.stderr) == (-signal.SIGTERM, "")
        assert names(tmp_path) == ["p-TP0.viztracer.json"]

    def test_the_handler_that_was_there_comes_after_the_files(self, tmp_path: Path) -> None:
        done = run_process(
            """
            def mine(number, frame):
                print("mine", len(os.listdir(sys.argv[1])))
            signal.signal(signal.SIGTERM, mine)
            s = session(); s.start(fields)
            os.kill(os.getpid(), signal.SIGTERM)
            print("goes on", s.status().status)
            s.close()
            print(signal.getsignal(signal.SIGTERM) is mine)
            """,
            tmp_path,
        )
        assert done.stdout.splitlines() == ["mine 1", "goes on stopped", "True"]

    def test_a_process_that_ends_closes_its_window(self, tmp_path: Path) -> None:
        done = run_process("s = session(); s.start(fields)", tmp_path)
        assert (done.returncode, done.stderr, names(tmp_path)) == (0, "", ["p-TP0.viztracer.json"])

    def test_a_handler_that_calls_ours_is_called_once(self, tmp_path: Path) -> None:
        done = run_process(
            """
            a, b = session(), session()
            ours = signal.getsignal(signal.SIGTERM)
            def mine(number, frame):
                print("mine", flush=True)
                ours(number, frame)
            signal.signal(signal.SIGTERM, mine)
            a.start(fields)
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(30)
            """,
            tmp_path,
        )
        assert (done.returncode, done.stdout, done.stderr) == (-signal.SIGTERM, "mine\n", "")
        assert names(tmp_path) == ["p-TP0.viztracer.json"]

    def test_a_child_of_multiprocessing_closes_its_window(self, tmp_path: Path) -> None:
        done = run_process(
            """
            import multiprocessing
            def work():
                global kept
                kept = session()
                kept.start(fields)
            child = multiprocessing.get_context("fork").Process(target=work)
            child.start(); child.join(20)
            print(child.exitcode)
            """,
            tmp_path,
        )
        assert (done.stdout, names(tmp_path)) == ("0\n", ["p-TP0.viztracer.json"])

    def test_so_does_one_that_was_closed_and_started_again(self, tmp_path: Path) -> None:
        run_process("s = session(); s.close(); s.start(fields)", tmp_path)
        assert names(tmp_path) == ["p-TP0.viztracer.json"]

    def test_sigterm_is_left_alone_where_it_was_asked_so(self, tmp_path: Path) -> None:
        done = run_process(
            "s = session(on_sigterm=False); print(signal.getsignal(signal.SIGTERM) is signal.SIG_DFL)", tmp_path
        )
        assert done.stdout == "True\n"


class TestTag:
    def test_coordinates_alone_where_no_launcher_tells_a_rank(self, monkeypatch: pytest.MonkeyPatch) -> None:
        for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "GPUTRACE_RANK", "GPUTRACE_COORDINATES", "GPUTRACE_NODE_ID"):
            monkeypatch.delenv(name, raising=False)
        with Session(coordinates={"DP": 1, "CP": 0, "TP": 2}, kinds=()) as session:
            assert session.tag == "DP1-CP0-TP2"

    def test_node_and_rank_where_a_launcher_tells_them(self, monkeypatch: pytest.MonkeyPatch) -> None:
        told = {"RANK": "3", "WORLD_SIZE": "4", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "2", "GROUP_RANK": "1"}
        for name, value in told.items():
            monkeypatch.setenv(name, value)
        with Session(coordinates={"TP": 1}, kinds=()) as session:
            assert session.tag == "TP1-node=1-rank3"

    def test_a_process_of_which_nothing_is_told(self, monkeypatch: pytest.MonkeyPatch) -> None:
        for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "GPUTRACE_RANK", "GPUTRACE_COORDINATES", "GPUTRACE_NODE_ID"):
            monkeypatch.delenv(name, raising=False)
        with Session(kinds=()) as session:
            assert session.tag == "rank0"


def test_a_step_of_an_idle_session_makes_nothing(made: Callable[..., Session]) -> None:
    session = made()
    assert session.step() is session.step("DECODE")
