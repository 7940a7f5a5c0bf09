"""Each fault of numbers, of the GPU half and of secrets is really in its file, by hand arithmetic; no near miss has one."""

from __future__ import annotations

import json
from collections import Counter
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

import pytest

from pytest_gputrace.fakes import FakeTrace, TraceFault, trace_faults
from pytest_gputrace.fakes.tracefaults import SECRET

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

DAY_US = 86_400e6
YEAR_2100_US = datetime(2100, 1, 1, tzinfo=timezone.utc).timestamp() * 1e6
GPU = ("kernel", "gpu_memcpy")
CALLS = ("cuda_runtime", "cuda_driver")
PHASES = set("BEXiICbnestfNODMRvVPc")

# What is wrong with each, and nothing else; for the first two, the rest follows from that.
NUMBERS = {
    "negative_duration": {"negative"},
    "unfinished_frame": {"negative"},
    "wrapped_duration_63": {"centuries", "overlap"},
    "wrapped_duration_64": {"centuries", "overlap"},
    "no_duration": {"no dur"},
    "no_time": {"no ts"},
    "negative_time": {"negative ts"},
    "no_timing_collected": {"zero", "early", "backward"},
    "half_without_timing": {"zero", "early", "backward"},
    "kernel_before_launch": {"early", "backward"},
    "gpu_clock_behind": {"early", "backward"},
    "gpu_clock_drifts": {"early", "backward"},
    "nanoseconds_as_microseconds": {"after 2100"},
    "epoch_nanoseconds": {"after 2100", "no base"},
    "early_start": {"overlap"},
    "runaway_duration": {"overlap"},
    "flow_ends_first": {"backward"},
    "missing_base": {"no base"},
    "proton_without_base": {"no base", "repeated"},
    "repeated_flow_start": {"repeated"},
    "device_differs": {"device"},
    "stream_differs": {"stream"},
    "text_flow_id": {"odd id"},
    "large_flow_id": {"odd id"},
    "large_pid": {"odd id"},
    "unknown_phase": {"phase"},
    "open_range": {"open"},
}
NOT_WRONG = {
    "missing_base": set(),
    "half_without_timing": set(),
    "epoch_nanoseconds": {"no base"},  # nor is it needed: times count from the epoch
    "proton_without_base": {"no base"},  # likewise
}


def defects(document: Any) -> set[str]:
    return set(_defects(document))


def _defects(document: Any) -> Iterator[str]:
    rows = document["traceEvents"]
    base_us = document.get("baseTimeNanoseconds") or document.get("viztracer_metadata", {}).get("baseTimeNanoseconds")
    if base_us is None:
        yield "no base"
    timed = [row for row in rows if row["ph"] != "M"]
    for row in timed:
        if "ts" not in row:
            yield "no ts"
            continue
        if row["ts"] < 0:
            yield "negative ts"
        if (base_us or 0) / 1000 + row["ts"] > YEAR_2100_US:
            yield "after 2100"
        if row["ph"] not in PHASES:
            yield "phase"
        if row["ph"] == "X" and "dur" not in row:
            yield "no dur"
        elif row.get("dur", 0) < 0:
            yield "negative"
        elif row.get("dur", 0) > DAY_US and row.get("cat") in GPU:
            yield "centuries"
    if Counter(row["ph"] for row in timed)["B"] != Counter(row["ph"] for row in timed)["E"]:
        yield "open"
    yield from _of_gpu([row for row in rows if row.get("cat") in GPU], rows)
    yield from _of_flows([row for row in rows if row["ph"] in ("s", "f")])
    for row in rows:
        identity = row.get("id", 0)
        hexadecimal = isinstance(identity, str) and identity.startswith("0x")
        if not hexadecimal and (isinstance(identity, str) or identity > 2**53):
            yield "odd id"
        if isinstance(row["pid"], int) and row["pid"] >= 2**31:
            yield "odd id"


def _of_gpu(work: list[dict[str, Any]], rows: list[dict[str, Any]]) -> Iterator[str]:
    calls = {row["args"]["correlation"]: row for row in rows if row.get("cat") in CALLS}
    ends: dict[Any, float] = {}
    for row in sorted(work, key=lambda row: float(row["ts"])):
        args = row["args"]
        if "correlation" not in args:  # Proton
            continue
        if row["ts"] == row["dur"] == 0:
            yield "zero"
        if args["correlation"] in calls and row["ts"] < calls[args["correlation"]]["ts"] - 1.0:
            yield "early"
        if row["pid"] != args["device"]:
            yield "device"
        if row["tid"] != args["stream"]:
            yield "stream"
        place = row["pid"], row["tid"]
        if row["ts"] < ends.get(place, 0.0) - 0.002:
            yield "overlap"
        ends[place] = max(ends.get(place, 0.0), row["ts"] + row["dur"])


def _of_flows(flows: list[dict[str, Any]]) -> Iterator[str]:
    starts: dict[Any, float] = {}
    for row in flows:
        key = row["cat"], row["id"]
        if row["ph"] == "s" and key in starts:
            yield "repeated"
        if row["ph"] == "s":
            starts.setdefault(key, row["ts"])
    for row in flows:
        # Half a microsecond is what two clocks may differ.
        if row["ph"] == "f" and starts.get((row["cat"], row["id"]), row["ts"]) - row["ts"] > 0.5001:
            yield "backward"


def bad_and_good(name: str, folder: Path) -> tuple[Any, Any]:
    one = trace_faults[name]
    return tuple(json.loads(write(folder / one.filename).read_bytes()) for write in (one.write, one.near_miss))


def rows(document: Any, *categories: str) -> list[dict[str, Any]]:
    return [row for row in document["traceEvents"] if row.get("cat") in categories]


def launched(document: Any) -> list[bool]:
    """Of each launch, in order: whether something ran for it."""
    ran = {row["args"]["correlation"] for row in rows(document, *GPU)}
    calls = sorted(rows(document, *CALLS), key=lambda row: float(row["ts"]))
    return [row["args"]["correlation"] in ran for row in calls if "Launch" in row["name"] or "Memcpy" in row["name"]]


@pytest.mark.parametrize("vendor", ["cuda", "rocm", "cpu"])
def test_a_fake_trace_has_no_defect(vendor: Any) -> None:
    assert defects(FakeTrace(vendor, rank=1, world_size=2, steps=4).document) == set()


def test_each_fault_of_numbers_is_looked_at() -> None:
    assert [one.name for one in trace_faults.values() if one.family == "numbers"] == list(NUMBERS)


@pytest.mark.parametrize("name", NUMBERS)
def test_the_numbers_are_wrong_and_those_of_the_near_miss_are_not(name: str, tmp_path: Path) -> None:
    bad, good = bad_and_good(name, tmp_path)
    assert defects(bad) == NUMBERS[name]
    assert defects(good) == NOT_WRONG.get(name, set())


@pytest.mark.parametrize("name", [name for name in NUMBERS if name not in ("missing_base", "proton_without_base")])
def test_the_event_named_is_the_one_that_is_wrong(name: str, tmp_path: Path) -> None:
    """It is in no file in which nothing is wrong; but for those that are wrong with what comes after them only."""
    bad, good = bad_and_good(name, tmp_path)
    event = bad["traceEvents"][trace_faults[name].place.event]
    correct = [json.dumps(row) for row in (*good["traceEvents"], *FakeTrace().events)]
    if name not in ("early_start", "runaway_duration", "open_range"):
        assert json.dumps(event) not in correct
    assert event["ph"] in ("M" if "nanoseconds" in name else "XsfBQ")


def test_the_centuries_are_powers_of_two(tmp_path: Path) -> None:
    for power in (63, 64):
        bad, _ = bad_and_good(f"wrapped_duration_{power}", tmp_path)
        event = bad["traceEvents"][trace_faults[f"wrapped_duration_{power}"].place.event]
        assert event["dur"] * 1000 == pytest.approx(2**power, rel=1e-15)


def test_the_early_kernels_are_early_by_what_is_said(tmp_path: Path) -> None:
    def lateness(document: Any) -> list[float]:
        calls = {row["args"]["correlation"]: row["ts"] for row in rows(document, *CALLS)}
        work = sorted(rows(document, *GPU), key=lambda row: float(row["ts"]))
        return [round(row["ts"] - calls[row["args"]["correlation"]], 2) for row in work]

    one, near = map(lateness, bad_and_good("kernel_before_launch", tmp_path))
    assert (one[0], near[0]) == (-50.0, -0.5)
    assert set(one[1:]) == set(near[1:]) == {9.0}
    behind, near = map(lateness, bad_and_good("gpu_clock_behind", tmp_path))
    assert (set(behind), set(near)) == ({-491.0}, {2.0})
    drifting, near = map(lateness, bad_and_good("gpu_clock_drifts", tmp_path))
    assert drifting == sorted(drifting, reverse=True)
    assert (drifting[0], near) == (9.0, sorted(near))
    assert drifting[-1] < -50.0


def test_a_kernel_that_begins_early_reaches_the_next_one_only(tmp_path: Path) -> None:
    early, _ = bad_and_good("early_start", tmp_path)
    first, second, third, _ = sorted(rows(early, *GPU), key=lambda row: float(row["ts"]))
    assert first["ts"] + first["dur"] - second["ts"] == pytest.approx(2.5, abs=0.002)
    assert first["ts"] + first["dur"] < third["ts"]
    runaway, good = bad_and_good("runaway_duration", tmp_path)
    assert {row["ts"] < rows(runaway, "kernel")[0]["ts"] + 5e6 for row in rows(runaway, *GPU)} == {True}
    assert sorted(row["tid"] for row in rows(good, "kernel")) == [7, 7, 7, 7, 7, 20]


def test_near_misses_hold_what_they_are_about(tmp_path: Path) -> None:
    def good(name: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = bad_and_good(name, tmp_path)[1]["traceEvents"]
        return found

    assert {row.get("dur") for row in good("negative_duration")} >= {0.0, 0.001}
    assert [row["ts"] for row in good("negative_time")].count(0.0) == 1
    assert not any("ts" in row for row in good("no_time") if row["ph"] == "M")
    assert max(row.get("dur", 0) for row in good("wrapped_duration_63")) > 3_600e6
    assert max(row["ts"] for row in good("nanoseconds_as_microseconds")) > 7_889_236e6
    flows = [(row["ph"], row["ts"]) for row in good("flow_ends_first") if row.get("cat") == "fwdbwd"]
    assert [phase for phase, _ in flows] == ["f", "s"]
    assert Counter(row["ph"] for row in good("repeated_flow_start") if row.get("cat") == "ac2g")["f"] == 5
    assert {row["pid"] for row in good("stream_differs")} >= {-1, "Spans"}
    assert {row["ph"] for row in good("unknown_phase")} >= set("CbneIR")
    assert [row["ph"] for row in good("open_range") if row["ph"] in "BE"] == ["B", "B", "E", "E"]


def test_the_gpu_half_is_missing_as_said(tmp_path: Path) -> None:
    lost, alone = bad_and_good("no_kernels", tmp_path)
    assert (rows(lost, *GPU, "gpu_user_annotation"), launched(lost)) == ([], [False] * 7)
    assert (len(rows(alone, *GPU)), rows(alone, *CALLS)) == (7, [])
    host, copy = bad_and_good("no_gpu_work", tmp_path)
    assert rows(host, *GPU, *CALLS) == []
    assert [row["cat"] for row in rows(copy, *GPU)] == ["gpu_memcpy"]
    few, graph = bad_and_good("launches_without_kernels", tmp_path)
    assert launched(few) == [True, True, True, True, *[False] * 9]
    assert Counter(launched(graph)) == {True: 6, False: 3}
    assert Counter(row["args"]["correlation"] for row in rows(graph, *GPU)).most_common(1)[0][1] == 4
    head, tail = bad_and_good("head_kernels_missing", tmp_path)
    assert launched(head) == [*[False] * 3, *[True] * 6]
    assert launched(tail) == [*[True] * 8, False]


def test_steps_without_gpu_work(tmp_path: Path) -> None:
    some, late = bad_and_good("steps_without_gpu", tmp_path)
    assert launched(some) == [True, True, True, True, True, False, False]
    steps = rows(some, "user_annotation")
    assert steps[2] == some["traceEvents"][trace_faults["steps_without_gpu"].place.event]
    assert [row["name"] for row in rows(some, "gpu_user_annotation")] == ["ProfilerStep#0", "ProfilerStep#1"]
    end = max(row["ts"] + row["dur"] for row in rows(late, "user_annotation"))
    assert all(launched(late))
    assert max(row["ts"] for row in rows(late, *GPU)) > end


def test_nothing_recorded(tmp_path: Path) -> None:
    tree, good = bad_and_good("empty_tree", tmp_path)
    assert [tree[0]["children"], len(good[0]["children"])] == [[], 1]
    assert good[0]["children"][0]["metrics"]["count"] == 1
    nothing, _ = bad_and_good("nothing_recorded", tmp_path)
    assert {row.get("cat") for row in nothing["traceEvents"]} == {None, "Trace"}
    assert bad_and_good("no_events", tmp_path)[0] == {"displayTimeUnit": "us", "traceEvents": []}
    untimed, half = bad_and_good("no_gpu_timing", tmp_path)
    assert {row["dur"] for row in rows(untimed, *GPU)} == {0}
    assert Counter(row["dur"] == 0 for row in rows(half, *GPU)) == {True: 4, False: 3}
    overflow = [each["viztracer_metadata"]["overflow"] for each in bad_and_good("buffer_overflow", tmp_path)]
    assert overflow == [True, False]
    log, quiet = bad_and_good("profiler_errors", tmp_path)
    assert (len(log["ERROR"]), quiet["ERROR"], len(quiet["INFO"])) == (2, [], 1)


@pytest.mark.parametrize(
    "one",
    [one for one in trace_faults.values() if one.family in ("gpu", "secrets") and one.filename == "trace.json"],
    ids=str,
)
def test_their_near_misses_have_no_defect(one: TraceFault, tmp_path: Path) -> None:
    assert defects(json.loads(one.near_miss(tmp_path / one.filename).read_bytes())) == set()


@pytest.mark.parametrize("name", ["environment_inside", "source_text_inside", "profiler_errors"])
def test_what_must_not_be_repeated_holds_the_word(name: str, tmp_path: Path) -> None:
    one = trace_faults[name]
    text = one.write(tmp_path / one.filename).read_text()
    assert SECRET in text
    document = json.loads(text)
    assert SECRET not in json.dumps(document["traceEvents"])
