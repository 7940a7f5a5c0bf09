"""Each fault of files that are to be one timeline is really in them, by hand arithmetic, and not in its look-alike."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from pytest_gputrace.fakes import trace_faults

if TYPE_CHECKING:
    from pathlib import Path

STEP_NS = 7_889_238 * 10**9


def both(name: str, folder: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """The documents of the fault, and those of its look-alike, by path."""
    one = trace_faults[name]
    return read(one.write(folder / "bad")), read(one.near_miss(folder / "good"))


def read(path: Path) -> dict[str, Any]:
    return {str(file.relative_to(path)): json.loads(file.read_bytes()) for file in sorted(path.rglob("*.json"))}


def base(trace: Any) -> int:
    return int(trace.get("viztracer_metadata", trace)["baseTimeNanoseconds"])


def first_ns(trace: Any) -> int:
    times: list[int] = [round(row["ts"] * 1000) for row in trace["traceEvents"] if row["ph"] != "M"]
    return base(trace) + min(times)


def rows(trace: Any, **fields: Any) -> list[dict[str, Any]]:
    return [row for row in trace["traceEvents"] if all(row.get(key) == value for key, value in fields.items())]


def values(trace: Any, key: str, **fields: Any) -> set[Any]:
    return {row[key] for row in rows(trace, **fields) if key in row}


def test_a_report_without_a_base(tmp_path: Path) -> None:
    command, saved = both("one_base_missing", tmp_path)
    assert "baseTimeNanoseconds" not in command["rank0/viztracer.json"]["viztracer_metadata"]
    assert values(command["rank0/viztracer.json"], "cat") == {"fee"}
    assert first_ns(saved["rank0/viztracer.json"]) == first_ns(saved["rank0/kineto.json"])


def test_bases_on_both_sides_of_a_step(tmp_path: Path) -> None:
    for files, apart in zip(both("bases_of_two_steps", tmp_path), (STEP_NS, 0), strict=True):
        zero, one = files["rank0.json"], files["rank1.json"]
        assert base(one) - base(zero) == apart
        assert first_ns(one) == first_ns(zero) == base(zero) + STEP_NS + 4_999_999_000


def test_ids_of_two_ranks_that_are_equal(tmp_path: Path) -> None:
    for name, expected in (("equal_pids", ({17}, {17, 18})), ("process_names_of_one_pid", ({17}, {17, 18}))):
        for files, pids in zip(both(name, tmp_path / name), expected, strict=True):
            assert set().union(*(values(trace, "pid", cat="cpu_op") for trace in files.values())) == pids
    for files, pids in zip(both("equal_pids", tmp_path / "equal_pids"), ({17}, {17, 18}), strict=True):
        reports = [trace for name, trace in files.items() if "viztracer" in name]
        assert set().union(*(values(trace, "pid") for trace in reports)) == pids
    for files, gpus in zip(both("equal_gpus", tmp_path / "gpus"), ({0}, {0, 1}), strict=True):
        assert set().union(*(values(trace, "pid", cat="kernel") for trace in files.values())) == gpus
    texts, none = both("equal_text_pids", tmp_path / "texts")
    assert all({"Spans", "Traces"} <= values(trace, "pid") for trace in texts.values())
    assert not any(isinstance(pid, str) for trace in none.values() for pid in values(trace, "pid"))


def test_names_of_one_process(tmp_path: Path) -> None:
    one_pid, _ = both("process_names_of_one_pid", tmp_path)
    names = [rows(trace, name="process_name", pid=17)[0]["args"]["name"] for trace in one_pid.values()]
    assert names == ["trainer 0", "trainer 1"]


def test_arrows_of_two_ranks_with_equal_ids(tmp_path: Path) -> None:
    same, own = both("equal_flow_ids", tmp_path / "1")
    for files, shared in ((same, True), (own, False)):
        ids = [values(trace, "id", ph="s") for trace in files.values()]
        assert bool(ids[0] & ids[1]) == shared
        for trace, launched in zip(files.values(), ids, strict=True):
            assert {row["args"]["correlation"] for row in rows(trace, cat="kernel")} <= launched
    same, own = both("equal_scope_ids", tmp_path / "2")
    for files, numbers in ((same, [{1, 2}, {1, 2}]), (own, [{1, 2}, {101, 102}])):
        for rank, expected in enumerate(numbers):
            links = values(files[f"rank{rank}/viztracer.json"], "id", ph="s")
            scopes = {row["args"]["scope_id"] for row in rows(files[f"rank{rank}/proton.json"], cat="scope")}
            assert links == scopes == expected
    same, own = both("equal_async_ids", tmp_path / "3")
    for files, async_ids in ((same, [7, 7]), (own, [7, 8])):
        for trace, number in zip(files.values(), async_ids, strict=True):
            found = [(row["ph"], row.get("id", row.get("id2"))) for row in rows(trace, cat="request")]
            assert found == [(ph, id_) for id_ in (number, {"global": hex(number)}) for ph in "bne"]


def test_metadata_with_a_time_long_before(tmp_path: Path) -> None:
    timed, untimed = both("timed_metadata", tmp_path)
    assert values(timed["rank1.json"], "ts", ph="M") == {0.0}
    assert first_ns(timed["rank1.json"]) - base(timed["rank1.json"]) > 59 * 86_400 * 10**9
    assert values(untimed["rank1.json"], "ts", ph="M") == set()


def test_a_timeline_among_ranks(tmp_path: Path) -> None:
    merged, other = both("merged_among_ranks", tmp_path)
    assert next(iter(merged["timeline.json"])) == "gputrace_merge"
    assert "gputrace_merge" not in other["timeline.json"]
    assert merged.keys() == other.keys() == {"rank0.json", "rank1.json", "timeline.json"}


def test_hosts_on_the_lanes_of_a_gpu(tmp_path: Path) -> None:
    one = trace_faults["frames_on_a_gpu"]
    bad, good = (json.loads(write(tmp_path / "t.json").read_bytes()) for write in (one.write, one.near_miss))
    [stream] = {(row["pid"], row["tid"]) for row in rows(bad, cat="kernel")}
    frame = bad["traceEvents"][one.place.event]
    assert frame["cat"] == "python_function"
    assert (frame["pid"], frame["tid"]) == stream == (0, 0)
    assert values(good, "pid", cat="python_function") == {4000}
    for files, devices in zip(both("proton_on_a_gpu", tmp_path), ({0}, {1}), strict=True):
        assert values(files["rank0/kineto.json"], "pid", cat="kernel") == devices
        scopes = rows(files["rank0/proton.json"], cat="scope")
        assert {(row["pid"], row["tid"]) for row in scopes} == {(0, 0)}
        assert first_ns(files["rank0/kineto.json"]) == first_ns(files["rank0/proton.json"])


def test_clocks_of_nodes(tmp_path: Path) -> None:
    ahead, agree = both("clocks_of_two_nodes", tmp_path)
    for files, offset in ((ahead, 1_500_000_000), (agree, 0)):
        ends = [
            [round((row["ts"] + row["dur"]) * 1000) for row in rows(trace, cat="kernel")] for trace in files.values()
        ]
        apart = [there - here - offset for here, there in zip(*ends, strict=True)]
        assert len(apart) == 3
        drifted = [round(30e-6 * (end - 5_171_577_480_660_661)) if offset else 0 for end in ends[0]]
        assert all(abs(found - wanted) <= 1 for found, wanted in zip(apart, drifted, strict=True))
        assert (apart[-1] > 100) == bool(offset)
    assert [trace["host_name"] for trace in ahead.values()] == ["node0", "node1"]
