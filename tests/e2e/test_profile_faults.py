"""Family B of the faults, each with real processes: what the engine answers, what is collected, and what the disk says."""

from __future__ import annotations

import json
import shutil
import signal
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest

from pytest_gputrace.errors import ControlError, RequestError
from pytest_gputrace.fakes.engine.faults import (
    CutsShort,
    Dies,
    DiskFull,
    EarlyReply,
    FolderVanishes,
    InnerProfiler,
    NeverWrites,
    Refuses,
    SaveFails,
    SecondRoundEmpty,
    StartFails,
    StopBlocks,
    WritesSlowly,
)
from tests.e2e.profiling import GENEROUS_S, calls, control, engine_of, events, files, judged, need, on_linux, settle_up
from tests.unit.fakes.enginehelp import ask, running, until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pytest_gputrace.control import RankVerdict, RemoteProfile
    from pytest_gputrace.fakes import FakeEngine

pytestmark = on_linux

VIZTRACER = ("VIZTRACER",)
BOTH = ("PROTON", "VIZTRACER")
KILLED = "killed by signal 9 (SIGKILL)"
STEPS = {"TP0": 9, "TP1": 9}
COLLECT_S = 4.0  # for what never comes, beside files that do on a slow machine
NOT_LONG_S = 0.5  # for what never comes, where all else is there
NEVER_S = 3600.0


@pytest.fixture(scope="module")
def healthy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FakeEngine]:
    """An engine without a fault, for profiles one after the other, each in a folder of its own."""
    with engine_of(tmp_path_factory.mktemp("healthy"), activities=VIZTRACER, prepare=BOTH) as engine:
        yield engine


@pytest.fixture
def folder(request: pytest.FixtureRequest) -> str:
    """A name that no other test has."""
    return str(request.node.name)


def named(rank: str, profiler: str = "viztracer.json") -> str:
    return f"p-{rank}.{profiler}"


def works(remote: RemoteProfile, engine: FakeEngine, **fields: Any) -> dict[str, bytes]:
    """A profile that is as it should be; its files."""
    asked = {"activities": VIZTRACER, **fields}
    need(*asked["activities"])
    assert remote.start(**asked).ok
    assert engine.generate() == STEPS
    return settle_up(remote)


# B1, B9, B11 at once: every rank but the first is struck by a fault of its own, and there is one stop.

STRUCK = (
    NeverWrites("TP1"),
    StopBlocks("TP2"),
    WritesSlowly("TP3"),
    Dies("TP4", at="stopping", exit_code=3),
    DiskFull("TP5"),
)


@pytest.fixture(scope="module")
def struck(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FakeEngine]:
    root = tmp_path_factory.mktemp("struck")
    with engine_of(root, *STRUCK, activities=VIZTRACER, tp=6, collect_timeout_s=COLLECT_S) as engine:
        yield engine


@pytest.fixture(scope="module")
def verdicts(struck: FakeEngine) -> dict[str, RankVerdict]:
    remote = control(struck)
    assert remote.start(activities=VIZTRACER, profile_id="p").ok
    struck.generate()
    return judged(remote, 6)


def test_who_has_written_is_ok(struck: FakeEngine, verdicts: dict[str, RankVerdict]) -> None:
    assert verdicts["TP0"].verdict == "ok"
    assert verdicts["TP0"].files == (str(struck.folder / named("TP0")),)
    assert calls(files(struck.folder)[named("TP0")]) == {"prefill": 1, "decode": 8}


def test_who_says_so_and_has_not_is_missing(verdicts: dict[str, RankVerdict]) -> None:
    assert (verdicts["TP1"].verdict, verdicts["TP1"].files) == ("missing", ())
    assert "it answered that it stopped, and no viztracer file of it is there" in verdicts["TP1"].message


def test_who_blocks_keeps_nobody_waiting(struck: FakeEngine, verdicts: dict[str, RankVerdict]) -> None:
    assert (verdicts["TP2"].verdict, verdicts["TP2"].files) == ("missing", ())
    assert "answered" not in verdicts["TP2"].message
    assert running(struck.pids["TP2"])


def test_who_still_writes_is_growing(verdicts: dict[str, RankVerdict]) -> None:
    assert verdicts["TP3"].verdict == "growing"
    assert named("TP3") in verdicts["TP3"].message


def test_who_ended_when_it_was_told_to_stop_is_dead(verdicts: dict[str, RankVerdict]) -> None:
    assert (verdicts["TP4"].verdict, verdicts["TP4"].files) == ("dead", ())
    assert "exited with 3; complete on disk: no file" in verdicts["TP4"].message


def test_whose_disk_is_full_has_failed(struck: FakeEngine, verdicts: dict[str, RankVerdict]) -> None:
    assert (verdicts["TP5"].verdict, verdicts["TP5"].files) == ("failed", ())
    assert "the viztracer file is lost" in verdicts["TP5"].message
    assert str(struck.folder) in verdicts["TP5"].message
    assert running(struck.pids["TP5"])


def test_final_names_hold_whole_files_but_for_who_writes_in_place(
    struck: FakeEngine, verdicts: dict[str, RankVerdict]
) -> None:
    assert list(files(struck.folder)) == [named("TP0"), named("TP3")]
    assert list(verdicts) == struck.tags


# B1: stop answers before all have written.


def test_an_answer_to_a_stop_means_that_the_late_ones_have_written(tmp_path: Path) -> None:
    with engine_of(tmp_path, EarlyReply(late_s=0.3), activities=VIZTRACER, tp=3) as engine:
        remote = control(engine)
        remote.start(activities=VIZTRACER, profile_id="p")
        engine.generate()
        answer = remote.stop()
        found = files(remote.folder)  # at this moment
    assert answer.ok, answer.describe()
    assert list(found) == [named(tag) for tag in ("TP0", "TP1", "TP2")]
    assert all(calls(content) == {"prefill": 1, "decode": 8} for content in found.values())
    assert sorted(path for each in answer.ranks for path in each.files) == [str(remote.folder / name) for name in found]


def test_files_of_an_engine_that_answers_early_are_waited_for(tmp_path: Path) -> None:
    with engine_of(tmp_path, EarlyReply(late_s=0.4), kind="sglang") as engine:
        remote = control(engine)
        with remote.window(activities=["CPU"]):
            engine.generate()
        collection = remote.collect(2, timeout_s=GENEROUS_S)
        found = files(remote.folder)
    assert collection.ok, collection.describe()
    assert len(found) == len({str(events(content)) for content in found.values()}) == 2


def test_who_never_writes_is_named_by_its_place(tmp_path: Path) -> None:
    with engine_of(tmp_path, EarlyReply("TP1", late_s=NEVER_S), kind="sglang") as engine:
        remote = control(engine)
        with remote.window(activities=["CPU"]):
            engine.generate()
        collection = remote.collect(2, timeout_s=NOT_LONG_S)
    assert not collection.ok
    assert {each.rank: each.verdict for each in collection.ranks} == {"TP0": "ok", "TP1": "missing"}


# B2: SIGKILL while writing.


def test_killed_in_the_middle_of_a_file_it_leaves_nothing_under_a_final_name(tmp_path: Path) -> None:
    with engine_of(tmp_path, Dies("TP1", at="writing"), activities=VIZTRACER) as engine:
        remote = control(engine)
        remote.start(activities=VIZTRACER, profile_id="p")
        engine.generate()
        verdicts = judged(remote)
        found = files(remote.folder)
        private = [path for path in remote.folder.iterdir() if path.name.startswith(".")]
    assert (verdicts["TP0"].verdict, verdicts["TP1"].verdict) == ("ok", "dead")
    assert KILLED in verdicts["TP1"].message
    assert "complete on disk: no file" in verdicts["TP1"].message
    assert list(found) == [named("TP0")]
    assert events(found[named("TP0")])
    assert private, "it was killed in the middle"


def test_half_a_file_of_a_naive_engine_is_truncated(tmp_path: Path) -> None:
    with engine_of(tmp_path, Dies("TP1", at="writing"), kind="sglang") as engine:
        remote = control(engine)
        with remote.window(activities=["CPU"]):
            engine.generate()
        assert until(lambda: bool(engine.deaths()))
        collection = remote.collect(2, timeout_s=NOT_LONG_S)
    assert not collection.ok
    assert {each.rank: each.verdict for each in collection.ranks} == {"TP0": "ok", "TP1": "truncated"}
    (cut,) = (each for each in collection.ranks if each.verdict == "truncated")
    assert "is not whole" in cut.message


def test_half_a_file_of_a_worker_that_died_counts_for_nothing(tmp_path: Path) -> None:
    with engine_of(tmp_path, CutsShort("TP1"), activities=VIZTRACER) as engine:
        remote = control(engine)
        remote.start(activities=VIZTRACER, profile_id="p")
        engine.generate()
        verdicts = judged(remote)
        assert list(files(remote.folder)) == [named("TP0"), named("TP1")]
    assert (verdicts["TP0"].verdict, verdicts["TP1"].verdict) == ("ok", "dead")
    assert verdicts["TP1"].files == ()
    assert "complete on disk: no file" in verdicts["TP1"].message


# B3: the second round.


def test_two_rounds_of_one_name_are_two_sets_of_files(healthy: FakeEngine, folder: str) -> None:
    remote = control(healthy, folder)
    first = works(remote, healthy, profile_id="p", activities=BOTH)
    both = works(remote, healthy, profile_id="p", activities=BOTH)
    assert len(first) == 4
    assert len(both) == 8
    assert {name: both[name] for name in first} == first, "byte by byte"
    assert len(set(both.values())) == 8
    assert all(calls(content) == {"prefill": 1, "decode": 8} for content in both.values())


def test_a_second_round_that_writes_nothing_is_missing(tmp_path: Path) -> None:
    with engine_of(tmp_path, SecondRoundEmpty(), activities=VIZTRACER, tp=1, collect_timeout_s=3.0) as engine:
        remote = control(engine)
        assert remote.start(activities=VIZTRACER, profile_id="p").ok
        engine.generate()
        first = settle_up(remote, 1)
        assert remote.start(activities=VIZTRACER, profile_id="p").ok
        engine.generate()
        verdict = judged(remote, 1)["TP0"]
        assert (verdict.verdict, verdict.files) == ("missing", ())
        assert files(remote.folder) == first


def test_a_second_round_of_another_engine_that_writes_nothing_is_missing(tmp_path: Path) -> None:
    with engine_of(tmp_path, SecondRoundEmpty(), kind="sglang", tp=1) as engine:
        remote = control(engine)
        collections = []
        for timeout_s in (GENEROUS_S, NOT_LONG_S):
            with remote.window(activities=["CPU"]):
                engine.generate()
            collections.append(remote.collect(1, timeout_s=timeout_s))
    first, second = collections
    assert first.ok, first.describe()
    assert not second.ok
    assert second.files == ()
    assert {each.verdict for each in second.ranks} == {"missing"}


# B4: start and stop out of turn.


def test_a_stop_before_any_start_is_refused(tmp_path: Path) -> None:
    with engine_of(tmp_path, activities=VIZTRACER, tp=1) as engine:
        remote = control(engine)
        assert ask(engine, "/stop_profile")[0] == 409
        answer = remote.stop()
        assert (answer.ok, answer.status) == (False, "refused")
        assert "no profile was started" in answer.message
        assert list(engine.folder.iterdir()) == []
        assert remote.start(activities=VIZTRACER).ok
        engine.generate()
        assert len(settle_up(remote, 1)) == 1


def test_a_start_while_one_records_is_refused_and_changes_nothing(healthy: FakeEngine, folder: str) -> None:
    remote, other = control(healthy, folder), control(healthy, f"{folder}-other")
    assert remote.start(activities=VIZTRACER, profile_id="p").ok
    refused = other.start(activities=VIZTRACER, profile_id="q")
    assert (refused.ok, refused.status) == (False, "refused")
    assert "profile p is under way" in refused.message
    healthy.generate()
    assert list(settle_up(remote)) == [named("TP0"), named("TP1")]
    assert not other.folder.exists()


def test_a_second_stop_gives_the_same_answer_and_touches_no_file(healthy: FakeEngine, folder: str) -> None:
    remote = control(healthy, folder)
    assert remote.start(activities=VIZTRACER).ok
    healthy.generate()
    first = remote.stop()
    found = files(remote.folder)
    healthy.generate()
    assert remote.stop() == first
    assert first.ok
    assert files(remote.folder) == found
    assert len(found) == 2


def test_stops_at_once_give_one_answer_and_one_set_of_files(healthy: FakeEngine, folder: str) -> None:
    count = 4
    remote = control(healthy, folder)
    assert remote.start(activities=VIZTRACER).ok
    healthy.generate()
    together = threading.Barrier(count)

    def stop(_: int) -> tuple[int, str]:
        together.wait(GENEROUS_S)
        return ask(healthy, "/stop_profile")

    with ThreadPoolExecutor(count) as pool:
        answers = set(pool.map(stop, range(count)))
    ((status, text),) = answers
    assert status == 200
    assert [each["verdict"] for each in json.loads(text)["ranks"]] == ["ok", "ok"]
    assert len(settle_up(remote)) == 2


# B5: what is rejected changes nothing.


@pytest.mark.parametrize(
    ("fields", "status", "told"),
    [
        ({"num_steps": 0}, 400, "num_steps is 0"),
        ({"deadline_s": -1}, 400, "deadline_s is -1"),
        ({"activities": ["VIZTRACER", "NOPE"]}, 400, "no activity is called 'NOPE'"),
        ({"speed": 3}, 400, "there is no field 'speed'"),
        ({"output_dir": "/"}, 403, "output_dir"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else None,
)
def test_after_a_request_that_was_rejected_all_goes_on(
    healthy: FakeEngine, folder: str, fields: dict[str, Any], status: int, told: str
) -> None:
    remote = control(healthy, folder)
    before = sorted(healthy.folder.iterdir())
    code, text = ask(healthy, "/start_profile", {"activities": VIZTRACER, **fields})
    assert (code, json.loads(text)["status"]) == (status, "refused")
    assert told in text
    assert healthy.generate() == STEPS
    assert sorted(healthy.folder.iterdir()) == before
    found = works(remote, healthy, num_steps=3)
    assert [calls(content) for content in found.values()] == [{"prefill": 1, "decode": 2}] * 2


def test_what_cannot_be_recorded_together_is_not_even_sent(healthy: FakeEngine, folder: str) -> None:
    remote = control(healthy, folder)
    with pytest.raises(RequestError, match="PROTON excludes GPU"):
        remote.start(activities=["PROTON", "GPU"])
    assert not remote.running
    assert len(works(remote, healthy)) == 2


def test_where_one_rank_refuses_none_records(tmp_path: Path) -> None:
    with engine_of(tmp_path, Refuses("TP1", reason="no room"), activities=VIZTRACER) as engine:
        remote = control(engine)
        for _ in range(2):  # the second time, too, it is the reason of that one alone
            answer = remote.start(activities=VIZTRACER)
            assert not answer.ok
            ((tag, _, reason),) = (each.partition(": ") for each in answer.reasons)
            assert tag == "TP1"
            assert "no room" in reason
            assert engine.generate() == STEPS
        assert remote.client.stop().status == "refused", "nothing is under way"


def test_where_one_profiler_of_one_rank_fails_the_others_are_free_again(tmp_path: Path) -> None:
    with engine_of(tmp_path, StartFails("TP1", activity="VIZTRACER"), activities=BOTH) as engine:
        remote = control(engine, "good")
        failed = control(engine, "bad").start(activities=BOTH)
        assert (failed.ok, failed.status) == (False, "failed")
        assert "TP1: VIZTRACER could not start" in failed.message
        assert engine.generate() == STEPS
        found = works(remote, engine, activities=["PROTON"], profile_id="p")
    assert list(found) == [named(tag, "proton.chrome_trace") for tag in STEPS]


# B6: windows that would not close.


@pytest.mark.parametrize(("num_steps", "decoded"), [(3, 3), (None, 4)])
def test_by_stage_each_has_a_window_with_and_without_a_count(
    healthy: FakeEngine, folder: str, num_steps: int | None, decoded: int
) -> None:
    remote = control(healthy, folder)
    counted = {} if num_steps is None else {"num_steps": num_steps}
    assert remote.start(activities=VIZTRACER, profile_id="p", profile_by_stage=True, **counted).status == "armed"
    healthy.generate(requests=2, tokens=4)
    found = {name: calls(content) for name, content in settle_up(remote).items()}
    # Without a count a window lasts until a step of another stage; with one, until then at most.
    expected = {"PREFILL": {"prefill": 1}, "DECODE": {"decode": decoded}}
    assert found == {named(f"{tag}-{stage}"): expected[stage] for tag in STEPS for stage in expected}


def test_without_traffic_a_window_is_closed_by_its_deadline(healthy: FakeEngine, folder: str) -> None:
    remote = control(healthy, folder)
    assert remote.start(activities=VIZTRACER, profile_by_stage=True, num_steps=5, deadline_s=0.2).status == "armed"
    assert until(lambda: _is_over(remote))
    healthy.generate()
    verdicts = judged(remote)
    assert [each.verdict for each in verdicts.values()] == ["failed", "failed"]
    assert all("is there traffic?" in each.message for each in verdicts.values())
    assert not remote.folder.exists() or files(remote.folder) == {}
    assert len(works(remote, healthy)) == 2


@pytest.mark.parametrize("by", ["deadline", "stop"])
def test_traffic_that_ends_in_a_window_costs_nothing_of_it(healthy: FakeEngine, folder: str, by: str) -> None:
    remote = control(healthy, folder)
    deadline_s = {"deadline": 0.5, "stop": 600.0}[by]
    assert remote.start(activities=VIZTRACER, profile_id="p", num_steps=100, deadline_s=deadline_s).ok
    healthy.generate()
    if by == "deadline":
        assert until(lambda: list(files(remote.folder)) == [named("TP0"), named("TP1")])
    found = settle_up(remote)
    assert [calls(content) for content in found.values()] == [{"prefill": 1, "decode": 8}] * 2


def _is_over(remote: RemoteProfile) -> bool:
    status = remote.client.status()
    return status is not None and status.status not in ("armed", "recording")


# B7: an inner profiler takes the session.


def test_a_session_that_an_inner_profiler_took_costs_that_rank_alone(tmp_path: Path) -> None:
    with engine_of(tmp_path, InnerProfiler("TP1"), activities=("CPU",), vendor="cuda") as engine:
        for number in range(2):
            remote = control(engine, str(number))
            answer = remote.start(activities=["CPU", "GPU", "MEM"], profile_id="p")
            assert answer.ok, answer.describe()
            assert engine.generate() == STEPS
            verdicts = judged(remote)
            assert (verdicts["TP0"].verdict, verdicts["TP1"].verdict) == ("ok", "failed")
            assert "another profiler in this process took the session over" in verdicts["TP1"].message
            memory = [named(tag, "memory.pickle") for tag in STEPS]
            assert list(files(remote.folder)) == sorted([named("TP0", "torch.json.gz"), *memory])
            assert engine.deaths() == {}
        found = works(control(engine, "next"), engine, activities=["MEM"], profile_id="p")
        assert list(found) == memory


def test_torchs_own_session_that_an_inner_profiler_took_kills_nobody(tmp_path: Path) -> None:
    with engine_of(tmp_path, InnerProfiler(), activities=("CPU",), tp=1, vendor=None) as engine:
        for number in range(2):
            remote = control(engine, str(number))
            assert remote.start(activities=["CPU"]).ok
            engine.generate()
            ((_, verdict),) = judged(remote, 1).items()
            assert verdict.verdict == "failed"
            assert "another profiler in this process took the session over" in verdict.message
            assert files(remote.folder) == {}
        assert engine.deaths() == {}


# B8: folders that are not there.


def test_a_folder_that_is_not_there_is_made(healthy: FakeEngine, folder: str) -> None:
    remote = control(healthy, f"{folder}/several/levels below")
    assert len(works(remote, healthy, activities=BOTH)) == 4


def test_a_folder_that_vanishes_while_it_records_is_made_again(tmp_path: Path) -> None:
    with engine_of(tmp_path, FolderVanishes("TP1"), activities=VIZTRACER) as engine:
        assert len(works(control(engine, "gone"), engine)) == 2


def test_an_engine_that_writes_nowhere_and_says_nothing_is_missing(tmp_path: Path) -> None:
    with engine_of(tmp_path, FolderVanishes(), kind="sglang") as engine:
        remote = control(engine)
        with remote.window(activities=["CPU"]):
            engine.generate()
        collection = remote.collect(2, timeout_s=NOT_LONG_S)
    assert not collection.ok
    assert {each.verdict for each in collection.ranks} == {"missing"}


# B9: folders that take no file.


def test_a_file_in_place_of_the_folder_is_refused(healthy: FakeEngine, folder: str) -> None:
    (healthy.folder / folder).write_text("here first")
    with pytest.raises(RequestError, match="output_dir is there and is no folder"):
        control(healthy, folder).start(activities=VIZTRACER)
    assert healthy.generate() == STEPS
    assert (healthy.folder / folder).read_text() == "here first"
    assert len(works(control(healthy, f"{folder}-other"), healthy)) == 2


def test_a_file_that_takes_the_folders_place_costs_the_files_and_no_more(healthy: FakeEngine, folder: str) -> None:
    remote = control(healthy, folder)
    assert remote.start(activities=VIZTRACER).ok
    healthy.generate()
    shutil.rmtree(remote.folder)
    remote.folder.write_text("now here")
    answer = remote.stop()
    assert [each.verdict for each in answer.ranks] == ["failed", "failed"]
    assert all(str(remote.folder) in each.message for each in answer.ranks), answer.describe()
    assert remote.folder.read_text() == "now here"
    assert healthy.generate() == STEPS
    assert len(works(control(healthy, f"{folder}-other"), healthy)) == 2


def test_a_file_that_cannot_be_written_costs_no_other_one(tmp_path: Path) -> None:
    with engine_of(tmp_path, SaveFails("TP1", activity="PROTON"), activities=BOTH) as engine:
        remote = control(engine)
        assert remote.start(activities=BOTH, profile_id="p").ok
        engine.generate()
        verdicts = judged(remote)
        found = files(remote.folder)
        assert (verdicts["TP0"].verdict, verdicts["TP1"].verdict) == ("ok", "failed")
        assert "the proton file is lost" in verdicts["TP1"].message
        assert list(found) == [named("TP0", "proton.chrome_trace"), named("TP0"), named("TP1")]
        assert verdicts["TP1"].files == (str(remote.folder / named("TP1")),)
        assert len(works(control(engine, "next"), engine)) == 2


def test_a_long_id_makes_no_name_that_is_too_long(healthy: FakeEngine, folder: str) -> None:
    remote = control(healthy, folder)
    found = works(remote, healthy, profile_id="Profil für 模型/" + "ü" * 180, activities=BOTH)
    assert len(found) == 4


# B11: a worker dies.


def test_who_dies_while_it_records_is_dead_in_every_answer(tmp_path: Path) -> None:
    with engine_of(tmp_path, Dies("TP1", at="recording"), activities=VIZTRACER) as engine:
        remote = control(engine)
        assert remote.start(activities=VIZTRACER, profile_id="p").ok
        with pytest.raises(ControlError, match="scheduler TP1"):
            engine.generate()
        assert _dead_in_status(remote) == {"TP1": KILLED}
        verdicts = judged(remote)
        assert (verdicts["TP0"].verdict, verdicts["TP1"].verdict) == ("ok", "dead")
        assert f"{KILLED}; complete on disk: no file" in verdicts["TP1"].message
        assert list(files(remote.folder)) == [named("TP0")]
        again = remote.start(activities=VIZTRACER)
        assert not again.ok
        assert f"TP1: {KILLED}" in again.message


def test_who_dies_after_it_stopped_has_lost_nothing(tmp_path: Path) -> None:
    with engine_of(tmp_path, Dies("TP1", at="stopped"), activities=BOTH) as engine:
        remote = control(engine)
        assert remote.start(activities=BOTH, profile_id="p").ok
        engine.generate()
        answer = remote.stop()
        assert until(lambda: bool(engine.deaths()))
        verdicts = {each.rank: each for each in answer.ranks}
        found = files(remote.folder)
        assert verdicts["TP0"].verdict == "ok"
        assert verdicts["TP1"].verdict in ("ok", "dead"), "as its death was seen before its files, or after"
        assert len(verdicts["TP1"].files) == 2
        assert len(found) == 4
        assert all(calls(content) == {"prefill": 1, "decode": 8} for content in found.values())
        assert _dead_in_status(remote) == {"TP1": KILLED}


def test_sigterm_has_a_window_closed_before_the_end(tmp_path: Path) -> None:
    with engine_of(tmp_path, activities=VIZTRACER) as engine:
        remote = control(engine)
        assert remote.start(activities=VIZTRACER, profile_id="p").ok
        engine.generate()
        engine.kill("TP1", signal.SIGTERM)
        assert until(lambda: bool(engine.deaths()))
        assert list(files(remote.folder)) == [named("TP1")], "before anybody said stop"
        verdicts = judged(remote)
        found = files(remote.folder)
    assert (verdicts["TP0"].verdict, verdicts["TP1"].verdict) == ("ok", "dead")
    assert f"killed by signal 15 (SIGTERM); all its files are complete: {named('TP1')}" in verdicts["TP1"].message
    assert all(calls(content) == {"prefill": 1, "decode": 8} for content in found.values())


def _dead_in_status(remote: RemoteProfile) -> dict[str, str]:
    status = remote.client.status()
    assert status is not None
    assert not status.ok
    return {each.rank: each.message for each in status.ranks if each.verdict == "dead"}
