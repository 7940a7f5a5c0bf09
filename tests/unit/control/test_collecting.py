"""Files are waited for on disk, and each rank gets a verdict that says what is there and what is not."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_gputrace.control.collecting import Collection, Expected, collect
from pytest_gputrace.control.reply import Reply, Written
from pytest_gputrace.control.snapshot import Snapshot
from pytest_gputrace.control.verdict import RankVerdict
from pytest_gputrace.control.written import Examined, examine
from pytest_gputrace.fakes import FakeTrace
from pytest_gputrace.windownames import window_name

if TYPE_CHECKING:
    from collections.abc import Mapping

SOON_S = 0.3  # where the outcome is a failure at the deadline
LONG_S = 30.0  # where what is waited for comes
TRACE = '{"schemaVersion": 1, "traceEvents": [{"ph": "X", "name": "step", "pid": 1, "tid": 1, "ts": 1, "dur": 2}]}'
NO_EVENT = '{"schemaVersion": 1, "traceEvents": []}'


def own(tag: str, profiler: str = "torch", stage: str | None = None, profile: str = "p") -> str:
    return window_name(profile, tag, stage=stage, profiler=profiler, ending=".json")


def put(folder: Path, *names: str, text: str = TRACE) -> None:
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        private = path.with_name(".gputrace-private")
        private.write_text(text)
        private.replace(path)


def came(
    folder: Path,
    ranks: int | None = None,
    *tags: str,
    timeout_s: float = SOON_S,
    before: Snapshot | None = None,
    replies: Mapping[str, Reply] | None = None,
    deaths: Mapping[str, str] | None = None,
    progress: Any = None,
    **expected: Any,
) -> Collection:
    return collect(
        folder,
        Expected(ranks=ranks, tags=tags or None, **expected),
        before=before or Snapshot(),
        timeout_s=timeout_s,
        replies=lambda: replies or {},
        deaths=lambda: deaths or {},
        progress=progress,
    )


def verdicts(collection: Collection) -> dict[str, str]:
    return {each.rank: each.verdict for each in collection.ranks}


def only(collection: Collection) -> RankVerdict:
    (verdict,) = collection.ranks
    return verdict


def stopped(tag: str) -> Reply:
    return Reply(True, "stopped", "its files are on disk", tag)


def test_files_that_are_there_are_enough_without_any_answer(tmp_path: Path) -> None:
    put(tmp_path, own("TP0"), own("TP1"), own("TP0", "proton"), own("TP1", "proton"))
    collection = came(tmp_path, None, "TP0", "TP1", profilers=("torch", "proton"), profile_id="p", timeout_s=LONG_S)
    assert collection.ok
    assert collection.describe() == f"2 of 2 ranks: 4 files in {tmp_path}"
    assert [Path(path).name for path in collection.ranks[1].files] == [own("TP1", "proton"), own("TP1")]


def test_files_are_waited_for_that_come_after_the_answer(tmp_path: Path) -> None:
    put(tmp_path, own("TP0"))
    timer = threading.Timer(0.1, put, (tmp_path, own("TP1")))
    timer.start()
    collection = came(tmp_path, None, "TP0", "TP1", replies={"TP1": stopped("TP1")}, timeout_s=LONG_S)
    timer.join()
    assert collection.ok


def test_the_folder_may_come_later_too(tmp_path: Path) -> None:
    timer = threading.Timer(0.1, put, (tmp_path / "new" / "folder", own("TP0")))
    timer.start()
    collection = came(tmp_path / "new", None, "TP0", timeout_s=LONG_S)
    timer.join()
    assert collection.ok


def test_a_rank_that_answered_and_wrote_nothing_is_missing(tmp_path: Path) -> None:
    put(tmp_path, own("TP0"))
    collection = came(tmp_path, None, "TP0", "TP1", replies={"TP1": stopped("TP1")})
    assert not collection.ok
    assert verdicts(collection) == {"TP0": "ok", "TP1": "missing"}
    assert collection.ranks[1].message.startswith("it answered that it stopped, and no file of it is there after 0.3")
    lines = collection.describe().splitlines()
    assert lines[0].startswith("TP1: missing: it answered")
    assert lines[1].startswith(f"1 of 2 ranks: 1 file in {tmp_path} after 0.3")


def test_a_missing_profiler_and_a_missing_stage_are_named(tmp_path: Path) -> None:
    put(tmp_path, own("TP0", "torch", "PREFILL"), own("TP0", "proton", "PREFILL"), own("TP0", "torch", "DECODE"))
    collection = came(tmp_path, None, "TP0", profilers=("torch", "proton"), stages=("PREFILL", "DECODE"))
    assert only(collection).verdict == "missing"
    assert only(collection).message.startswith("no proton file of its DECODE is there after")
    assert len(only(collection).files) == 3


def test_by_stage_files_are_enough_in_the_end_where_somebody_does_not_answer(tmp_path: Path) -> None:
    put(tmp_path, *(own(tag, "torch", stage) for tag in ("TP0", "TP1") for stage in ("PREFILL", "DECODE")))
    collection = came(tmp_path, None, "TP0", "TP1", replies={"TP0": stopped("TP0")}, every_stage=True)
    assert collection.ok, collection.describe()


def test_a_round_that_writes_nothing_new_is_not_ok(tmp_path: Path) -> None:
    put(tmp_path, own("TP0"), "server.log")
    before = Snapshot.of(tmp_path)
    collection = came(tmp_path, None, "TP0", before=before)
    assert not collection.ok
    assert verdicts(collection) == {"TP0": "missing"}
    assert f"0 of 1 ranks: no new file in {tmp_path} after 0.3" in collection.message
    assert collection.message.endswith("; 2 other files there")


def test_another_profile_and_another_worker_do_not_count(tmp_path: Path) -> None:
    others = [own("TP0", profile="other"), own("TP7"), "trace-TP-0.json"]
    put(tmp_path, *others)
    collection = came(tmp_path, None, "TP0", profile_id="p")
    assert verdicts(collection) == {"TP0": "missing"}
    assert sorted(Path(path).name for path in collection.others) == sorted(others)
    assert "of nobody expected: " in collection.message
    assert "p-TP7.torch.json" in collection.message


def test_a_file_that_still_grows_when_time_is_up_is_growing(tmp_path: Path) -> None:
    done = threading.Event()

    def write() -> None:
        with (tmp_path / own("TP0")).open("w") as file:
            file.write('{"traceEvents": [')
            while not done.wait(0.005):
                file.write('{"ph": "X", "name": "step", "pid": 1, "tid": 1, "ts": 1, "dur": 2},')
                file.flush()

    writer = threading.Thread(target=write)
    writer.start()
    try:
        collection = came(tmp_path, None, "TP0")
    finally:
        done.set()
        writer.join()
    assert only(collection).verdict == "growing"
    assert only(collection).message.startswith(f"it still wrote to {own('TP0')} after 0.3")


def test_a_cut_file_that_nobody_writes_to_is_truncated(tmp_path: Path) -> None:
    put(tmp_path, own("TP0"), text=TRACE[: len(TRACE) // 2])
    collection = came(tmp_path, None, "TP0", profilers=("torch", "viztracer"))
    assert only(collection).verdict == "truncated"
    assert only(collection).message.startswith(f"{own('TP0')} is not whole, and nobody writes to it any more: ")
    assert only(collection).message.endswith("; no viztracer file of it")


def test_a_file_that_is_finished_in_place_is_waited_for(tmp_path: Path) -> None:
    path = tmp_path / own("TP0")
    path.write_text(TRACE[:40])
    timer = threading.Timer(0.1, path.write_text, (TRACE,))
    timer.start()
    assert came(tmp_path, None, "TP0", timeout_s=LONG_S).ok
    timer.join()


def test_a_complete_file_without_an_event_is_a_failure(tmp_path: Path) -> None:
    put(tmp_path, own("TP0"), text=NO_EVENT)
    collection = came(tmp_path, None, "TP0", timeout_s=LONG_S)
    assert only(collection) == RankVerdict(
        "TP0", "failed", f"{own('TP0')}: it holds no event", (str(tmp_path / own("TP0")),)
    )


def test_a_complete_file_that_is_broken_is_a_failure(tmp_path: Path) -> None:
    put(tmp_path, own("TP0"), text=TRACE.replace('"dur": 2', '"dur": NaN'))
    assert only(came(tmp_path, None, "TP0", timeout_s=LONG_S)).verdict == "failed"


def test_who_says_that_it_failed_is_not_waited_for(tmp_path: Path) -> None:
    put(tmp_path, own("TP0", "viztracer"))
    reply = Reply(False, "failed", "the torch file is lost: the disk is full", "TP0")
    collection = came(tmp_path, None, "TP0", replies={"TP0": reply}, profilers=("torch",), timeout_s=LONG_S)
    assert only(collection).verdict == "failed"
    assert only(collection).message == reply.message
    assert len(only(collection).files) == 1


def test_who_died_is_not_waited_for_and_what_it_left_complete_is_told(tmp_path: Path) -> None:
    put(tmp_path, own("TP0", "viztracer"))
    put(tmp_path, own("TP0"), text=TRACE[:30])
    deaths = {"TP0": "killed by signal 9 (SIGKILL)", "TP1": "exited with 3"}
    collection = came(tmp_path, None, "TP0", "TP1", deaths=deaths, timeout_s=LONG_S)
    assert collection.ranks == (
        RankVerdict(
            "TP0",
            "dead",
            f"killed by signal 9 (SIGKILL); complete on disk: {own('TP0', 'viztracer')}; not whole: {own('TP0')}",
            (str(tmp_path / own("TP0", "viztracer")),),
        ),
        RankVerdict("TP1", "dead", "exited with 3; complete on disk: no file"),
    )


def test_where_no_file_is_expected_an_answer_is(tmp_path: Path) -> None:
    collection = came(tmp_path, None, "TP0", "TP1", replies={"TP0": stopped("TP0")}, profilers=())
    assert verdicts(collection) == {"TP0": "ok", "TP1": "missing"}
    assert collection.ranks[1].message.startswith("it did not answer after 0.3")


def test_each_state_of_a_file_is_examined_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []

    def noted(path: Path) -> Examined:
        seen.append(path.name)
        return examine(path)

    monkeypatch.setattr("pytest_gputrace.control.arrivals.examine", noted)
    put(tmp_path, own("TP0"), own("TP1"))
    came(tmp_path, None, "TP0", "TP1", "TP2")
    assert sorted(seen) == [own("TP0"), own("TP1")]


SGLANG = "1730000000.12-TP-{1}-DP-{0}.trace.json.gz"
TOKENSPEED = "id-DP{0}-TP{1}.trace.json.gz"
VLLM = "dp0_pp0_tp{1}_dcp0_ep{1}_rank{1}.1730000000123..pt.trace.json.gz"


def written(folder: Path, *names: str) -> None:
    folder.mkdir(exist_ok=True)
    for name in names:
        FakeTrace().write(folder / name)


@pytest.mark.parametrize("name", [SGLANG, TOKENSPEED])
def test_engines_that_tell_coordinates(tmp_path: Path, name: str) -> None:
    places = [(0, 0), (0, 1), (1, 0), (1, 1)]
    written(tmp_path, *(name.format(*place) for place in places))
    collection = came(tmp_path, 4, timeout_s=LONG_S)
    assert collection.ok
    assert [each.rank for each in collection.ranks] == ["DP0-TP0", "DP0-TP1", "DP1-TP0", "DP1-TP1"]
    assert collection.message == f"4 of 4 ranks: 4 files in {tmp_path}"


@pytest.mark.parametrize("name", [SGLANG, TOKENSPEED])
def test_the_absent_place_of_a_grid_is_named(tmp_path: Path, name: str) -> None:
    written(tmp_path, name.format(0, 0), name.format(0, 1), name.format(1, 1))
    collection = came(tmp_path, 4)
    assert verdicts(collection) == {"DP0-TP0": "ok", "DP0-TP1": "ok", "DP1-TP0": "missing", "DP1-TP1": "ok"}


def test_several_profilers_of_tokenspeed_are_one_workers(tmp_path: Path) -> None:
    written(tmp_path, "id-TP0.trace.json.gz", "id-TP0.viztracer.json", "id-TP0.proton.chrome_trace")
    (tmp_path / "id-TP0-memory.pickle").write_bytes(b"\x80\x04N.")
    profilers = ("memory", "proton", "torch", "viztracer")
    collection = came(tmp_path, 1, profilers=profilers, timeout_s=LONG_S)
    assert collection.ok, collection.describe()
    assert len(only(collection).files) == 4


def test_vllm_tells_ranks_and_its_frontend_is_nobodys(tmp_path: Path) -> None:
    written(tmp_path, VLLM.format(0, 0), VLLM.format(0, 1), "host_4242.async_llm.1730000000123.pt.trace.json.gz")
    collection = came(tmp_path, 2, timeout_s=LONG_S)
    assert collection.ok
    assert [each.rank for each in collection.ranks] == ["rank 0", "rank 1"]
    assert "of nobody expected: host_4242.async_llm" in collection.message


def test_absent_ranks_are_named(tmp_path: Path) -> None:
    written(tmp_path, VLLM.format(0, 1))
    collection = came(tmp_path, 3)
    assert verdicts(collection) == {"rank 0": "missing", "rank 1": "ok", "rank 2": "missing"}


def test_equal_ranks_of_two_data_parallel_engines_are_two_workers(tmp_path: Path) -> None:
    written(tmp_path, *(f"dp{dp}_pp0_tp0_dcp0_ep0_rank0.{dp}7..pt.trace.json.gz" for dp in range(2)))
    collection = came(tmp_path, 2, timeout_s=LONG_S)
    assert collection.ok
    assert [each.rank for each in collection.ranks] == ["DP0-PP0-TP0-EP0-rank0", "DP1-PP0-TP0-EP0-rank0"]


def test_a_rank_is_read_inside_where_no_name_tells_one(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    for rank in (1, 0):
        FakeTrace(rank=rank, world_size=2).write(tmp_path / "sub" / f"host_{70 + rank}.17.pt.trace.json.gz")
    FakeTrace.viztracer().write(tmp_path / "sub" / "host_70.17.viztracer.json")
    collection = came(tmp_path, 2, timeout_s=LONG_S)
    assert collection.ok, collection.describe()
    assert [(each.rank, len(each.files)) for each in collection.ranks] == [("rank 0", 2), ("rank 1", 1)]


def test_where_nothing_tells_a_rank_the_files_name_stands_for_it(tmp_path: Path) -> None:
    written(tmp_path, "one.trace.json", "two.trace.json", "two.viztracer.json")
    collection = came(tmp_path, 3)
    assert not collection.ok
    assert [(each.rank, each.verdict) for each in collection.ranks] == [
        ("1 of 3 ranks", "missing"),
        ("one", "ok"),
        ("two", "ok"),
    ]
    assert collection.ranks[1].message == "nothing tells its rank"


def test_what_the_folder_itself_is_called_tells_no_rank(tmp_path: Path) -> None:
    written(tmp_path / "rank3", "trace-TP-0.json", "trace-TP-1.json")
    assert came(tmp_path / "rank3", 2, timeout_s=LONG_S).ok


def test_more_workers_than_expected_are_not_ok(tmp_path: Path) -> None:
    put(tmp_path, own("TP0"), own("TP1"))
    collection = came(tmp_path, 1, timeout_s=LONG_S)
    assert not collection.ok
    assert collection.message == f"2 ranks came, where 1 was expected: 2 files in {tmp_path}"


def test_a_number_of_our_own_workers_and_no_file_at_all(tmp_path: Path) -> None:
    collection = came(tmp_path, 8)
    assert not collection.ok
    assert only(collection).rank == "8 of 8 ranks"
    assert f"0 of 8 ranks: no new file in {tmp_path} after" in collection.message


def test_absent_workers_of_one_dimension_are_named(tmp_path: Path) -> None:
    put(tmp_path, own("TP0"), own("TP2"))
    assert verdicts(came(tmp_path, 4)) == {"TP0": "ok", "TP1": "missing", "TP2": "ok", "TP3": "missing"}


def test_an_engines_second_file_is_waited_for(tmp_path: Path) -> None:
    written(tmp_path, "id-TP0.trace.json.gz")
    timer = threading.Timer(0.15, written, (tmp_path, "id-TP0.viztracer.json"))
    timer.start()
    collection = came(tmp_path, 1, timeout_s=LONG_S)
    timer.join()
    assert collection.ok
    assert len(collection.files) == 2


def test_files_that_are_there_when_time_is_up_are_still_looked_into(tmp_path: Path) -> None:
    written(tmp_path, "id-TP0.trace.json.gz", "id-TP1.trace.json.gz")
    assert came(tmp_path, 2, timeout_s=0.0).ok


def test_progress_says_who_is_waited_for_once_each(tmp_path: Path) -> None:
    put(tmp_path, own("TP0"), own("TP1"))
    texts: list[str] = []

    def told(text: str) -> None:
        texts.append(text)
        if len(texts) == 1:
            put(tmp_path, own("TP3"))
        else:
            put(tmp_path, own("TP2"))

    assert came(tmp_path, 4, progress=told, timeout_s=LONG_S).ok
    assert texts == ["waiting for 2 of 4 ranks: TP2, TP3", "waiting for 1 of 4 ranks: TP2"]


@pytest.mark.parametrize("wrong", [{}, {"ranks": 0}, {"tags": ()}, {"ranks": 2, "tags": ("TP0",)}])
def test_nobody_is_not_expected(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"files are expected of nobody|there are 1 tags"):
        Expected(**wrong)


def test_the_front_end_of_an_engine_is_no_rank(tmp_path: Path) -> None:
    front_end = "host_77.async_llm.1796.pt.trace.json"
    put(tmp_path, front_end)
    collection = came(tmp_path, 1)
    assert (collection.ok, [Path(path).name for path in collection.others]) == (False, [front_end])
    put(tmp_path, "host_78.1796.pt.trace.json")  # an older engine tells no rank
    assert came(tmp_path, 1, timeout_s=LONG_S).ok


@pytest.mark.parametrize("host", ["gpu-tp1", "h100-rank0"])
def test_the_front_end_of_an_engine_is_no_rank_whatever_its_host_is_called(tmp_path: Path, host: str) -> None:
    put(tmp_path, f"{host}_77.async_llm.1796.pt.trace.json")
    assert not came(tmp_path, 1).ok


def test_another_jobs_files_fill_no_gap_where_an_id_was_told(tmp_path: Path) -> None:
    put(tmp_path, "jobA-DP0-TP0.trace.json", "jobB-DP0-TP1.trace.json", "1699-TP-1.trace.json", own("TP1"))
    put(tmp_path, "jobA-2-DP0-TP1.trace.json")
    collection = came(tmp_path, 2, profile_id="jobA")
    assert verdicts(collection)["DP0-TP0"] == "ok"
    assert (collection.ok, len(collection.files)) == (False, 1)


def test_files_of_two_ids_are_not_one_profile(tmp_path: Path) -> None:
    put(tmp_path, "1700.5-TP-0.trace.json", "1699.2-TP-1.trace.json")
    collection = came(tmp_path, 2, one_prefix=True, timeout_s=LONG_S)
    assert not collection.ok
    assert collection.message.endswith("; they are of 2 profiles: 1699.2, 1700.5")
    put(tmp_path / "good", "1700.5-TP-0.trace.json", "1700.5-TP-1.trace.json")
    assert came(tmp_path / "good", 2, one_prefix=True, timeout_s=LONG_S).ok


def test_each_worker_of_an_engine_has_each_stage_that_any_has(tmp_path: Path) -> None:
    put(tmp_path, "1-TP-0-EXTEND.trace.json", "1-TP-1-EXTEND.trace.json", "1-TP-0-DECODE.trace.json")
    collection = came(tmp_path, 2, profilers=("torch",), every_stage=True)
    assert verdicts(collection) == {"TP0": "ok", "TP1": "missing"}
    assert "no torch file of its DECODE" in collection.ranks[1].message


def test_a_stage_that_comes_a_little_later_is_waited_for(tmp_path: Path) -> None:
    put(tmp_path, "1-TP-0-EXTEND.trace.json")
    timer = threading.Timer(0.8, put, (tmp_path, "1-TP-0-DECODE.trace.json"))
    timer.start()
    collection = came(tmp_path, 1, every_stage=True, timeout_s=LONG_S)
    timer.join()
    assert len(collection.files) == 2


def test_who_died_when_all_was_written_is_dead_and_nothing_is_lost(tmp_path: Path) -> None:
    put(tmp_path, own("TP0"))
    collection = came(tmp_path, None, "TP0", profilers=("torch",), deaths={"TP0": "exited with 3"}, timeout_s=LONG_S)
    assert only(collection).message == f"exited with 3; all its files are complete: {own('TP0')}"


def test_what_is_waited_for_is_told_at_every_look(tmp_path: Path) -> None:
    told: list[str] = []
    came(tmp_path, 2, progress=told.append)
    assert len(told) > 2
    assert set(told) == {"waiting for 2 of 2 ranks: 2 of 2 ranks"}


def test_files_of_others_are_of_no_engine_of_ours(tmp_path: Path) -> None:
    put(tmp_path, own("TP0"), "p-TP1.trace.json")
    collection = came(tmp_path, 2, profile_id="p", own_names=True)
    assert verdicts(collection) == {"TP0": "ok", "TP1": "missing"}


def test_sglangs_snapshots_of_memory_have_times_of_their_own_and_tell_tp_alone(tmp_path: Path) -> None:
    places = [(0, 0), (0, 1), (1, 0), (1, 1)]
    written(tmp_path, *(SGLANG.format(*place) for place in places))
    for number, (_, tp) in enumerate(places):
        (tmp_path / f"173000000{number}.5-TP-{tp}-memory.pickle").write_bytes(b"\x80\x04N.")
    expected: dict[str, Any] = {"profilers": ("torch", "memory"), "one_prefix": True}
    assert came(tmp_path, 4, timeout_s=LONG_S, **expected).ok
    (tmp_path / "1730000003.5-TP-1-memory.pickle").unlink()
    assert verdicts(came(tmp_path, 4, **expected))["DP1-TP1"] == "missing"


def test_a_file_of_rpd_stands_for_no_trace_of_torch(tmp_path: Path) -> None:
    written(tmp_path, "1700-TP-0.trace.json.gz", "rpd-1701-TP-0.trace.json.gz", "rpd-1701-TP-1.trace.json.gz")
    collection = came(tmp_path, 2, profilers=("torch",), one_prefix=True)
    assert verdicts(collection) == {"TP0": "ok", "TP1": "missing"}
    assert "profiles" not in collection.message


def test_what_another_job_wrote_under_the_same_name_is_not_a_workers(tmp_path: Path) -> None:
    put(tmp_path, own("TP0"))
    of_another = Reply(True, "stopped", "m", "TP0", "q")
    elsewhere = Reply(True, "stopped", "m", "TP0", "p", files=(Written(str(tmp_path / "gone.json"), "torch"),))
    for reply in (of_another, elsewhere):
        collection = came(tmp_path, None, "TP0", profile_id="p", replies={"TP0": reply})
        assert only(collection).verdict == "missing"
        assert only(collection).message == "what is there is not what it says that it wrote"


def test_a_text_that_is_nested_without_end_tells_no_rank(tmp_path: Path) -> None:
    deep = '{"a":' * 100_000
    put(tmp_path, "host_78.1796.pt.trace.json", text='{"distributedInfo": ' + deep)
    assert not came(tmp_path, 1).ok
