"""All workers are started or none, all are stopped, and none can hold up or spoil what the others wrote."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_gputrace.control.coordinator import Coordinator, LocalWorker
from pytest_gputrace.control.reply import Reply, Written
from pytest_gputrace.control.request import ProfileRequest
from pytest_gputrace.windownames import window_name

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_gputrace.control.reply import Status

SOON_S = 0.5  # where the outcome is a failure at the deadline
LONG_S = 30.0  # where what is waited for comes
TRACE = '{"schemaVersion": 1, "traceEvents": [{"ph": "X", "name": "step", "pid": 1, "tid": 1, "ts": 1, "dur": 2}]}'


@dataclass
class Worker:
    """A worker as it should be; the fields say how it is not."""

    tag: str
    activities: tuple[str, ...] = ("torch",)
    stages: tuple[str | None, ...] = (None,)
    text: str = TRACE
    writes_after_s: float = 0.0
    refuses: str = ""
    armed: bool = False
    lies: bool = False
    start_waits: threading.Event | None = None
    stop_waits: threading.Event | None = None
    died: str = ""
    calls: list[str] = field(default_factory=list)
    request: ProfileRequest | None = None
    stopped: threading.Event = field(default_factory=threading.Event)
    timers: list[threading.Timer] = field(default_factory=list)

    def start(self, request: ProfileRequest) -> Reply:
        self.calls.append("start")
        if self.start_waits is not None:
            self.start_waits.wait(LONG_S)
        if self.refuses:
            return self.reply("refused", self.refuses)
        self.request = request
        return self.reply("armed" if self.armed else "recording")

    def stop(self) -> Reply:
        self.calls.append("stop")
        self.stopped.set()
        if self.stop_waits is not None:
            self.stop_waits.wait(LONG_S)
        request, self.request = self.request, None
        assert request is not None
        files = tuple(self.write(request)) if not self.lies else ()
        return self.reply("stopped", files=files)

    def cancel(self) -> Reply:
        self.calls.append("cancel")
        self.stopped.set()
        self.request = None
        return self.reply("idle")

    def status(self) -> Reply:
        if self.stop_waits is not None and self.stopped.is_set():
            self.stop_waits.wait(LONG_S)
        return self.reply("idle" if self.request is None else "recording")

    def death(self) -> str:
        return self.died

    def write(self, request: ProfileRequest) -> Iterator[Written]:
        folder = Path(request.output_dir)
        folder.mkdir(parents=True, exist_ok=True)
        for stage in self.stages:
            for profiler in self.activities:
                name = window_name(request.profile_id, self.tag, stage=stage, profiler=profiler, ending=".json")
                if self.writes_after_s:
                    timer = threading.Timer(self.writes_after_s, self.put, (folder / name,))
                    self.timers.append(timer)
                    timer.start()
                else:
                    self.put(folder / name)
                yield Written(str(folder / name), profiler, stage, steps=1)

    def put(self, path: Path) -> None:
        private = path.with_name(f".gputrace-{self.tag}")
        private.write_text(self.text)
        private.replace(path)

    def reply(self, status: Status, message: str = "", files: tuple[Written, ...] = ()) -> Reply:
        return Reply(status not in ("refused", "failed"), status, message or status, self.tag, files=files)


@pytest.fixture
def release() -> Iterator[threading.Event]:
    """An event that workers may block on; set at the end."""
    event = threading.Event()
    yield event
    event.set()


def request(folder: Path, **fields: Any) -> ProfileRequest:
    return ProfileRequest(str(folder), **{"activities": ["CPU"], **fields})


def verdicts(answer: Any) -> dict[str, str]:
    return {each.rank: each.verdict for each in answer.ranks}


def named(answer: Any, rank: str) -> str:
    (message,) = (each.message for each in answer.ranks if each.rank == rank)
    return str(message)


def test_all_are_started_and_stopped_and_all_files_are_there(tmp_path: Path) -> None:
    coordinator = Coordinator([Worker(f"TP{rank}", ("torch", "viztracer")) for rank in range(3)])
    asked = request(tmp_path / "new", activities=["CPU", "VIZTRACER"])
    started = coordinator.start(asked)
    assert (started.ok, started.status, started.profile_id) == (True, "recording", asked.profile_id)
    assert started.output_dir == str(tmp_path / "new")
    stopped = coordinator.stop()
    assert (stopped.ok, stopped.status) == (True, "stopped")
    assert verdicts(stopped) == dict.fromkeys(["TP0", "TP1", "TP2"], "ok")
    assert stopped.message == f"3 of 3 ranks: 6 files in {tmp_path / 'new'}"
    assert stopped.profile_id == asked.profile_id


def test_an_early_answer_is_not_believed(tmp_path: Path) -> None:
    late = Worker("TP1", writes_after_s=0.15)
    coordinator = Coordinator([Worker("TP0"), late])
    coordinator.start(request(tmp_path))
    stopped = coordinator.stop()
    assert stopped.ok
    assert len(list(tmp_path.iterdir())) == 2


def test_one_that_never_writes_is_missing(tmp_path: Path) -> None:
    coordinator = Coordinator([Worker("TP0"), Worker("TP1", lies=True)], collect_timeout_s=SOON_S)
    coordinator.start(request(tmp_path))
    stopped = coordinator.stop()
    assert (stopped.ok, stopped.status) == (False, "failed")
    assert verdicts(stopped) == {"TP0": "ok", "TP1": "missing"}
    assert "it answered that it stopped, and no torch file of it is there" in named(stopped, "TP1")
    assert stopped.reasons == (f"TP1: missing: {named(stopped, 'TP1')}",)


def test_one_that_cuts_its_file_is_truncated(tmp_path: Path) -> None:
    coordinator = Coordinator([Worker("TP0"), Worker("TP1", text=TRACE[:50])])
    coordinator.start(request(tmp_path))
    assert verdicts(coordinator.stop(collect_timeout_s=2 * SOON_S)) == {"TP0": "ok", "TP1": "truncated"}


def test_one_that_blocks_in_stop_keeps_nobody_waiting(tmp_path: Path, release: threading.Event) -> None:
    coordinator = Coordinator([Worker("TP0"), Worker("TP1", stop_waits=release)], collect_timeout_s=SOON_S)
    coordinator.start(request(tmp_path))
    stopped = coordinator.stop()
    assert verdicts(stopped) == {"TP0": "ok", "TP1": "missing"}
    assert "answered" not in named(stopped, "TP1")


def test_files_are_enough_even_where_the_answer_never_comes(tmp_path: Path, release: threading.Event) -> None:
    worker = Worker("TP0", stop_waits=release)
    coordinator = Coordinator([worker])
    asked = request(tmp_path)
    coordinator.start(asked)
    threading.Thread(target=lambda: worker.stopped.wait(LONG_S) and list(worker.write(asked))).start()
    assert coordinator.stop().ok


def test_one_that_died_while_it_recorded_is_dead_in_every_answer(tmp_path: Path, release: threading.Event) -> None:
    dying = Worker("TP1", stop_waits=release)
    coordinator = Coordinator([Worker("TP0"), dying])
    coordinator.start(request(tmp_path))
    dying.died = "killed by signal 9 (SIGKILL)"
    status = coordinator.status()
    assert (status.ok, status.status) == (False, "failed")
    assert verdicts(status) == {"TP1": "dead"}
    stopped = coordinator.stop()
    assert verdicts(stopped) == {"TP0": "ok", "TP1": "dead"}
    assert named(stopped, "TP1") == "killed by signal 9 (SIGKILL); complete on disk: no file"
    assert "TP1: killed by signal 9 (SIGKILL)" in coordinator.status().reasons


def test_of_one_that_died_while_it_wrote_the_complete_file_is_told(tmp_path: Path, release: threading.Event) -> None:
    dying = Worker("TP0", stop_waits=release)
    coordinator = Coordinator([dying])
    asked = request(tmp_path, activities=["CPU", "PROTON"])
    coordinator.start(asked)
    list(dying.write(asked))
    dying.died = "exited with 3"
    stopped = coordinator.stop()
    assert verdicts(stopped) == {"TP0": "dead"}
    assert named(stopped, "TP0").startswith("exited with 3; complete on disk: ")
    assert len(stopped.ranks[0].files) == 1


def test_one_that_raises_has_failed(tmp_path: Path) -> None:
    worker = Worker("TP0")
    coordinator = Coordinator([worker])
    coordinator.start(request(tmp_path))
    worker.write = lambda request: (_ for _ in ()).throw(OSError("the pipe is broken"))  # type: ignore[method-assign]
    stopped = coordinator.stop()
    assert verdicts(stopped) == {"TP0": "failed"}
    assert named(stopped, "TP0") == "asking it failed: OSError: the pipe is broken"


def test_where_one_refuses_the_others_keep_nothing(tmp_path: Path) -> None:
    workers = [Worker("TP0"), Worker("TP1", refuses="Proton is not installed"), Worker("TP2")]
    coordinator = Coordinator(workers)
    started = coordinator.start(request(tmp_path))
    assert (started.ok, started.status) == (False, "failed")
    assert started.reasons == ("TP1: Proton is not installed",)
    assert started.message.startswith("the profile was not started, as 1 of 3 workers did not: TP1: Proton")
    assert [worker.calls for worker in workers] == [["start", "cancel"], ["start"], ["start", "cancel"]]
    workers[1].refuses = ""
    assert coordinator.start(request(tmp_path)).ok
    assert coordinator.stop().ok


def test_where_all_refuse_nothing_was_changed(tmp_path: Path) -> None:
    workers = [Worker(f"TP{rank}", refuses="no") for rank in range(2)]
    started = Coordinator(workers).start(request(tmp_path))
    assert started.status == "refused"
    assert started.reasons == ("TP0: no", "TP1: no")
    assert [worker.calls for worker in workers] == [["start"], ["start"]]


def test_one_that_does_not_answer_a_start_is_named_and_cancelled_when_it_does(
    tmp_path: Path, release: threading.Event
) -> None:
    silent, other = Worker("TP1", start_waits=release), Worker("TP0")
    started = Coordinator([other, silent], reply_timeout_s=SOON_S).start(request(tmp_path))
    assert (started.ok, started.status) == (False, "failed")
    assert started.reasons == ("TP1: did not answer in 0.5 s",)
    assert other.calls == ["start", "cancel"]
    release.set()
    assert silent.stopped.wait(LONG_S)


def test_one_that_is_dead_is_not_waited_for_at_the_start(tmp_path: Path, release: threading.Event) -> None:
    dead, other = Worker("TP1", start_waits=release, died="exited with 3"), Worker("TP0")
    started = Coordinator([other, dead]).start(request(tmp_path))
    assert started.reasons == ("TP1: exited with 3",)
    assert verdicts(started) == {"TP1": "dead"}
    assert other.calls == ["start", "cancel"]


def test_stop_twice_gives_the_same_answer_and_does_nothing(tmp_path: Path) -> None:
    worker = Worker("TP0")
    coordinator = Coordinator([worker])
    coordinator.start(request(tmp_path))
    first = coordinator.stop()
    (path,) = tmp_path.iterdir()
    before = path.stat()
    assert coordinator.stop() is first
    assert worker.calls == ["start", "stop"]
    assert path.stat() == before


def test_stops_at_the_same_time_give_the_same_answer(tmp_path: Path) -> None:
    worker = Worker("TP0", writes_after_s=0.1)
    coordinator = Coordinator([worker])
    coordinator.start(request(tmp_path))
    with ThreadPoolExecutor(4) as pool:
        answers = [each.result(LONG_S) for each in [pool.submit(coordinator.stop) for _ in range(4)]]
    assert answers[0].ok
    assert all(answer is answers[0] for answer in answers)
    assert worker.calls.count("stop") == 1


def test_stop_before_start_and_start_twice_are_refused(tmp_path: Path) -> None:
    worker = Worker("TP0")
    coordinator = Coordinator([worker])
    refused = coordinator.stop()
    assert (refused.ok, refused.status, refused.message) == (False, "refused", "no profile was started")
    first = request(tmp_path)
    coordinator.start(first)
    again = coordinator.start(request(tmp_path))
    assert again.status == "refused"
    assert again.reasons == (f"profile {first.profile_id} is under way; stop it first",)
    assert worker.calls == ["start"]
    assert coordinator.stop().profile_id == first.profile_id


def test_a_start_during_a_stop_is_refused(tmp_path: Path, release: threading.Event) -> None:
    worker = Worker("TP0", stop_waits=release)
    coordinator = Coordinator([worker])
    coordinator.start(request(tmp_path))
    with ThreadPoolExecutor(1) as pool:
        stopping = pool.submit(coordinator.stop)
        assert worker.stopped.wait(LONG_S)
        refused = coordinator.start(request(tmp_path))
        release.set()
        assert stopping.result(LONG_S).ok
    assert refused.reasons == ("a stop is under way; start when it has answered",)


def test_two_rounds_in_one_folder_and_a_third_elsewhere(tmp_path: Path) -> None:
    coordinator = Coordinator([Worker("TP0"), Worker("TP1")])
    for folder in (tmp_path / "a", tmp_path / "a", tmp_path / "b"):
        assert coordinator.start(request(folder)).ok
        stopped = coordinator.stop()
        assert stopped.message == f"2 of 2 ranks: 2 files in {folder}"
    assert len(list((tmp_path / "a").iterdir())) == 4


def test_a_second_round_that_writes_nothing_is_not_ok(tmp_path: Path) -> None:
    worker = Worker("TP0")
    coordinator = Coordinator([worker], collect_timeout_s=SOON_S)
    for round, lies in enumerate((False, True)):
        worker.lies = lies
        coordinator.start(request(tmp_path, profile_id="always the same"))
        stopped = coordinator.stop()
        assert stopped.ok is (round == 0)
    assert verdicts(stopped) == {"TP0": "missing"}


def test_by_stage_each_worker_has_a_file_of_each_stage_that_any_saw(tmp_path: Path) -> None:
    workers = [Worker("TP0", stages=("PREFILL", "DECODE")), Worker("TP1", stages=("PREFILL",))]
    coordinator = Coordinator(workers, collect_timeout_s=SOON_S)
    coordinator.start(request(tmp_path, profile_by_stage=True))
    stopped = coordinator.stop()
    assert verdicts(stopped) == {"TP0": "ok", "TP1": "missing"}
    assert "no torch file of its DECODE is there" in named(stopped, "TP1")


def test_by_stage_nobody_is_done_before_all_have_answered(tmp_path: Path, release: threading.Event) -> None:
    slow, quick = Worker("TP0", stages=("DECODE",), stop_waits=release), Worker("TP1", stages=("PREFILL",))
    coordinator = Coordinator([slow, quick])
    asked = request(tmp_path, profile_by_stage=True)
    coordinator.start(asked)
    timer = threading.Timer(0.15, release.set)
    timer.start()
    stopped = coordinator.stop(collect_timeout_s=2 * SOON_S)
    timer.join()
    assert verdicts(stopped) == {"TP0": "missing", "TP1": "missing"}
    assert "no torch file of its DECODE" in named(stopped, "TP1")


def test_where_no_profiler_writes_the_answers_count(tmp_path: Path) -> None:
    coordinator = Coordinator([Worker("TP0", ()), Worker("TP1", ())])
    coordinator.start(request(tmp_path, activities=["CUDA_PROFILER"]))
    stopped = coordinator.stop()
    assert stopped.ok
    assert verdicts(stopped) == {"TP0": "ok", "TP1": "ok"}


def test_the_status_tells_the_state_of_each(tmp_path: Path, release: threading.Event) -> None:
    worker = Worker("TP1")
    coordinator = Coordinator([Worker("TP0"), worker], reply_timeout_s=SOON_S)
    idle = coordinator.status()
    assert (idle.ok, idle.status, idle.reasons) == (True, "idle", ("TP0: idle, step 0", "TP1: idle, step 0"))
    asked = request(tmp_path)
    coordinator.start(asked)
    status = coordinator.status()
    assert (status.ok, status.status, status.profile_id) == (True, "recording", asked.profile_id)
    assert status.reasons == ("TP0: recording, step 0", "TP1: recording, step 0")
    worker.stop_waits = release
    worker.stopped.set()
    silent = coordinator.status()
    assert (silent.ok, silent.reasons[1]) == (False, "TP1: does not answer")
    worker.stop_waits = None
    coordinator.stop()
    assert coordinator.status().status == "stopped"


def test_a_start_may_be_armed(tmp_path: Path) -> None:
    coordinator = Coordinator([Worker("TP0", armed=True), Worker("TP1", armed=True)])
    assert coordinator.start(request(tmp_path, start_step=5)).status == "armed"


@pytest.mark.parametrize(
    ("tags", "what"), [((), "there is no worker"), (("TP0", "TP1", "TP0"), "several workers are called TP0,")]
)
def test_workers_have_names_of_their_own(tags: tuple[str, ...], what: str) -> None:
    with pytest.raises(ValueError, match=what):
        Coordinator([Worker(tag) for tag in tags])


def test_a_session_of_this_process_is_a_worker(tmp_path: Path) -> None:
    class Session:
        tag = "rank0"
        start = staticmethod(lambda request: Reply(True, "recording", str(request.output_dir), "rank0"))
        stop = staticmethod(lambda: Reply(True, "stopped", "", "rank0"))
        status = staticmethod(lambda: Reply(True, "idle", "", "rank0"))

    worker = LocalWorker(Session())  # type: ignore[arg-type]
    assert worker.tag == "rank0"
    assert worker.start(request(tmp_path)).message == str(tmp_path)
    assert (worker.stop().status, worker.status().status, worker.death()) == ("stopped", "idle", "")
