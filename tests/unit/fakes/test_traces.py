"""A fake trace is like a real one and holds no defect, by hand arithmetic."""

from __future__ import annotations

import gzip
import itertools
import json
from collections import Counter
from typing import TYPE_CHECKING, Any, get_args

import pytest

from pytest_gputrace.fakes import FakeTrace
from pytest_gputrace.fakes.traces import TraceVendor

if TYPE_CHECKING:
    from pathlib import Path

VENDORS = get_args(TraceVendor)
GPU = ("kernel", "gpu_memcpy")
OTHERS = [FakeTrace.proton, FakeTrace.proton_tree, FakeTrace.viztracer, FakeTrace.event_list]


def of(trace: FakeTrace, *categories: str) -> list[dict[str, Any]]:
    return [row for row in trace.events if row.get("cat") in categories]


def collectives(trace: FakeTrace) -> list[dict[str, Any]]:
    return [row for row in of(trace, "kernel") if "nccl" in row["name"]]


@pytest.mark.parametrize("vendor", VENDORS)
def test_the_text_is_json_of_the_document(vendor: TraceVendor, tmp_path: Path) -> None:
    trace = FakeTrace(vendor, rank=1, world_size=2)
    plain, packed = trace.write(tmp_path / "t.json"), trace.write(tmp_path / "t.json.gz")
    assert json.loads(plain.read_bytes()) == trace.document
    assert gzip.decompress(packed.read_bytes()) == plain.read_bytes()
    assert plain.stat().st_size < 20_000
    assert FakeTrace(vendor, rank=1, world_size=2).text() == trace.text()


@pytest.mark.parametrize("make", OTHERS, ids=lambda make: make.__name__)
def test_so_are_those_of_other_tools(make: Any, tmp_path: Path) -> None:
    trace = make()
    assert json.loads(trace.write(tmp_path / "t.json").read_bytes()) == trace.document
    assert make(steps=3).text() != trace.text() == make().text()


def test_it_is_laid_out_as_torch_does() -> None:
    text = FakeTrace().text()
    assert '\n  {\n    "ph": "X",\n    "cat": "kernel",\n    "name": "sm90_' in text
    assert '"ts": 5171577480660.661,\n    "dur": 170.000\n    ,\n    "args": {\n      "External id": 1,' in text
    assert '"cat": "ac2g",\n    "name": "ac2g"\n    , "bp": "e"\n  },\n' in text
    assert text.endswith('\n  ],"traceName": "rank0.step0.json"\n}')
    order = ["schemaVersion", "deviceProperties", "trace_id", "displayTimeUnit", "baseTimeNanoseconds", "traceEvents"]
    assert [key for key in json.loads(text) if key in order] == order


@pytest.mark.parametrize("vendor", ["cuda", "rocm"])
def test_kernels_come_after_their_launches_one_by_one(vendor: TraceVendor) -> None:
    trace = FakeTrace(vendor, steps=3, kernels_per_step=4)
    launches = {row["args"]["correlation"]: row for row in of(trace, "cuda_runtime", "cuda_driver")}
    work = of(trace, *GPU)
    assert Counter(row["cat"] for row in work) == {"kernel": 12, "gpu_memcpy": 1}
    for row in work:
        assert row["ts"] - launches[row["args"]["correlation"]]["ts"] >= 2.0
        assert (row["pid"], row["tid"]) == (row["args"]["device"], row["args"]["stream"])
    work.sort(key=lambda row: row["ts"])
    assert all(first["ts"] + first["dur"] < second["ts"] for first, second in itertools.pairwise(work))
    assert of(trace, "gpu_memcpy")[0]["args"]["bytes"] == 16_384
    assert [row["name"] for row in of(trace, "gpu_user_annotation")] == [f"ProfilerStep#{step}" for step in range(3)]


def test_ranges_on_the_host_are_one_in_the_other() -> None:
    trace = FakeTrace(world_size=2, steps=3)
    for tid in (4000, 4001):
        open_until: list[float] = []
        rows = [row for row in trace.events if row["ph"] == "X" and row["tid"] == tid]
        for row in sorted(rows, key=lambda row: (row["ts"], -row["dur"])):
            while open_until and open_until[-1] <= row["ts"] + 1e-4:
                open_until.pop()
            assert not open_until or row["ts"] + row["dur"] <= open_until[-1] + 1e-4, row
            open_until.append(row["ts"] + row["dur"])


def test_flows_are_those_of_real_traces() -> None:
    trace = FakeTrace()
    starts, ends = ({row["id"] for row in of(trace, "ac2g") if row["ph"] == ph} for ph in "sf")
    assert len(starts & ends) == len(of(trace, *GPU))
    assert len(starts - ends) == 1, "a wait"
    assert len(ends - starts) == 2, "calls that start nothing"
    assert [row["ph"] for row in of(trace, "fwdbwd")] == ["s", "f"]
    assert Counter(row["name"] for row in trace.events if row["ph"] == "M")["thread_name"] == 3
    assert {row["pid"] for row in trace.events if isinstance(row["pid"], str)} == {"Spans", "Traces", ""}


def test_the_ranks_of_a_job_meet_in_their_collectives() -> None:
    ranks = [FakeTrace(rank=rank, world_size=8) for rank in range(8)]
    assert [trace.document["distributedInfo"]["rank"] for trace in ranks] == list(range(8))
    for rows in zip(*map(collectives, ranks), strict=True):
        assert max(row["ts"] for row in rows) < min(row["ts"] + row["dur"] for row in rows)
        assert len({round(row["ts"] + row["dur"], 3) for row in rows}) == 1
        assert {row["args"]["Group size"] for row in rows} == {8}
    assert len({trace.document["trace_id"] for trace in ranks}) == 8
    assert "distributedInfo" not in FakeTrace().document
    assert not collectives(FakeTrace())


def test_later_steps_happen_later() -> None:
    first, second = FakeTrace(), FakeTrace(first_step=2)
    end = max(row["ts"] + row["dur"] for row in of(first, *GPU, "user_annotation"))
    assert end < min(row["ts"] for row in of(second, *GPU, "user_annotation"))
    frames = [of(trace, "Trace")[0] for trace in (first, second)]
    assert frames[0]["ts"] + frames[0]["dur"] < frames[1]["ts"], "one process has one profile at a time"
    assert [row["name"] for row in of(second, "user_annotation")] == ["ProfilerStep#2", "ProfilerStep#3"]
    assert first.document["trace_id"] != second.document["trace_id"]


def test_pauses_are_irregular_and_equal_on_all_ranks() -> None:
    job: dict[str, Any] = {"world_size": 2, "steps": 200, "kernels_per_step": 1, "max_pause_ns": 5_000_000}
    ranks = [FakeTrace(rank=rank, **job) for rank in range(2)]
    ends = [[round((row["ts"] + row["dur"]) * 1000) for row in collectives(trace)] for trace in ranks]
    assert ends[0] == ends[1]
    between = [after - before - 100_000 for before, after in itertools.pairwise(ends[0])]
    assert len(set(between)) > 190, "no step is like another"
    assert 0 <= min(between) < 500_000
    assert 4_500_000 < max(between) <= 5_000_000
    steps = of(ranks[0], "user_annotation")
    assert {row["dur"] for row in steps if row["name"].startswith("ProfilerStep#")} == {90.0}
    later = FakeTrace(rank=0, **{**job, "steps": 3}, first_step=197)
    assert [row["ts"] for row in collectives(later)] == [row["ts"] for row in collectives(ranks[0])[197:]]


def test_a_clock_that_is_wrong_moves_and_stretches_all_times() -> None:
    job: dict[str, Any] = {"rank": 1, "world_size": 2, "steps": 50, "max_pause_ns": 40_000_000}
    right = FakeTrace(**job)
    wrong = FakeTrace(**job, clock_offset_ns=-1_000_000_007, clock_drift_ppm=40.0)
    begin = 5_171_577_480_660_661

    def told(time_ns: int) -> int:
        return time_ns - 1_000_000_007 + round((time_ns - begin) * 40 / 10**6)

    assert len(right.events) == len(wrong.events) > 500
    stretched = 0
    for row, other in zip(right.events, wrong.events, strict=True):
        start, end = (round(time * 1000) for time in (row["ts"], row["ts"] + row.get("dur", 0)))
        assert abs(round(other["ts"] * 1000) - told(start)) <= 1
        if "dur" in row:
            assert abs(round(other["dur"] * 1000) - (told(end) - told(start))) <= 1
            stretched += other["dur"] != row["dur"]
        assert {**row, "ts": 0, "dur": 0} == {**other, "ts": 0, "dur": 0}
    assert stretched
    assert {**right.document, "traceEvents": []} == {**wrong.document, "traceEvents": []}


def test_a_clock_is_one_for_all_windows_of_a_job() -> None:
    clock: dict[str, Any] = {"clock_offset_ns": 1_500_000_000, "clock_drift_ppm": -50.0, "max_pause_ns": 9_000_000}
    whole, later = FakeTrace(steps=30, **clock), FakeTrace(steps=2, first_step=28, **clock)
    name = "ProfilerStep#29"
    assert whole.events[whole.index(name=name)]["ts"] == later.events[later.index(name=name)]["ts"]


def test_ranks_of_two_nodes_may_share_process_and_device() -> None:
    one, two = (FakeTrace(rank=rank, world_size=2, host=f"n{rank}", pid=17, device=0) for rank in range(2))
    assert [trace.document["host_name"] for trace in (one, two)] == ["n0", "n1"]
    for trace in (one, two):
        assert {row["pid"] for row in trace.events} == {17, 0, "Spans", "Traces", ""}
        assert {row["args"]["device"] for row in of(trace, *GPU)} == {0}
        assert [each["id"] for each in trace.document["deviceProperties"]] == [0]


def test_a_report_links_its_frames_to_scopes() -> None:
    report, proton = FakeTrace.viztracer(steps=3, pid=17, scope_ids=(41, 42)), FakeTrace.proton(first_scope_id=41)
    scopes = [row["args"]["scope_id"] for row in of(proton, "scope")]
    links = of(report, "tokenspeed.proton")
    assert [(row["ph"], row["name"], row["id"]) for row in links] == [("s", "viztracer->proton", id_) for id_ in scopes]
    frames = [row for row in report.events if row["name"] == "step (train.py:1)"]
    for link, frame in zip(links, frames, strict=False):
        assert frame["ts"] < link["ts"] < frame["ts"] + frame["dur"]
    assert {(row["pid"], row["tid"]) for row in report.events} == {(17, 17)}
    with pytest.raises(ValueError, match="3 scope_ids for steps=2; one a step at most"):
        FakeTrace.viztracer(steps=2, scope_ids=(1, 2, 3))


def test_a_cpu_trace_knows_no_device() -> None:
    trace = FakeTrace("cpu", world_size=2)
    assert {row.get("cat") for row in trace.events} == {None, "user_annotation", "cpu_op", "fwdbwd", "Trace"}
    assert trace.document["deviceProperties"] == []
    assert trace.document["distributedInfo"]["backend"] == "gloo"


def test_proton_repeats_the_begin_of_a_flow() -> None:
    flows = of(FakeTrace.proton(steps=1, kernels_per_step=3), "flow")
    assert [(row["ph"], row["id"]) for row in flows] == [("s", 0), ("f", 0)] * 3
    assert FakeTrace.proton().text().endswith("]}\n")


def test_a_tree_counts_its_kernels() -> None:
    root, devices = FakeTrace.proton_tree("rocm", steps=1, kernels_per_step=3).document
    kernels = root["children"][0]["children"]
    assert [(each["metrics"]["count"], each["metrics"]["time (ns)"]) for each in kernels] == [(2, 42_500), (1, 21_250)]
    assert devices["HIP"]["0"]["arch"] == "gfx942"


def test_a_report_holds_its_program_only_when_asked() -> None:
    assert "file_info" not in FakeTrace.viztracer().document
    assert "def step" in FakeTrace.viztracer(sources=True).text()


def test_events_are_found_by_their_fields() -> None:
    trace = FakeTrace()
    second = trace.index(1, cat="kernel")
    assert trace.indices(cat="kernel")[1] == second
    assert trace.events[trace.index(-1, cat="kernel")]["ts"] > trace.events[second]["ts"]
    with pytest.raises(ValueError, match=r"6 events have \{'cat': 'kernel'\}, so none is number 6"):
        trace.index(6, cat="kernel")


def test_whatever_is_put_into_the_document_is_written() -> None:
    trace = FakeTrace(steps=0)
    trace.events[:] = [17, {"ph": "X", "name": "\u00e9", "ts": float("nan"), "args": [1]}]
    assert trace.text().split('"traceEvents": [')[1].split("]\n")[0] == (
        '\n\n  17,\n  {\n    "ph": "X",\n    "name": "\u00e9",\n    "ts": NaN\n    ,\n    "args": [1'
    )
    trace.document = {"other": 1}
    assert json.loads(trace.text()) == {"other": 1}
    trace.document = []
    assert trace.text() == "[]"


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"vendor": "hip"}, "FakeTrace: .*'hip'"),
        ({"rank": 2, "world_size": 2}, "rank=2 is outside a world of 2; give world_size=3"),
        ({"steps": -1}, "FakeTrace: steps=-1 must be at least 0"),
        ({"world_size": 0}, "FakeTrace: world_size=0 must be at least 1"),
        ({"host": ""}, "FakeTrace: host is empty"),
        ({"pid": -1}, "FakeTrace: pid=-1 must be at least 0"),
        ({"max_pause_ns": -1}, "FakeTrace: max_pause_ns=-1 must be at least 0"),
        ({"clock_offset_ns": -(10**14)}, "FakeTrace: clock_offset_ns=-10+ must be between -86400000000000 and 8640"),
        ({"clock_offset_ns": 0.5}, "FakeTrace: clock_offset_ns=0.5 must be a whole number, not a float"),
        ({"clock_drift_ppm": float("nan")}, "FakeTrace: clock_drift_ppm=nan must be between -1000 and 1000"),
    ],
)
def test_what_cannot_be_is_refused(given: dict[str, Any], said: str) -> None:
    with pytest.raises((ValueError, TypeError), match=said):
        FakeTrace(**given)
