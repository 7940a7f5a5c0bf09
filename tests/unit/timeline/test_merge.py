"""Whole merges: what a viewer would read of the output, against what it would read of the inputs."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
from collections import Counter
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_gputrace import MergeError, PublishError, merge
from pytest_gputrace.fakes import FakeTrace
from pytest_gputrace.timeline.plan import Flows

if TYPE_CHECKING:
    from collections.abc import Callable

_BASE_NS = 1_790_857_026_000_000_000
_QUARTER_NS = 7_889_238 * 10**9


@pytest.fixture(params=["compiled", "python"])
def either(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPUTRACE_PURE", "1" if request.param == "python" else "0")


def read(path: Path) -> dict[str, Any]:
    data = path.read_bytes()
    text = gzip.decompress(data) if path.name.endswith(".gz") else data
    root: dict[str, Any] = json.loads(text.decode(), parse_float=Decimal)
    return root


def base_of(root: dict[str, Any]) -> int:
    base: int = root.get("baseTimeNanoseconds") or root["viztracer_metadata"]["baseTimeNanoseconds"]
    return base


def seen(root: dict[str, Any]) -> Counter[str]:
    """Every event but metadata, as a viewer has it, by its time since 1970: where it stands and its ids left out.

    An instant of a whole trace is one of its process on a timeline.
    """
    events = []
    for event in root["traceEvents"]:
        if event["ph"] != "M":
            rest = {
                key: value for key, value in event.items() if key not in ("pid", "tid", "ts", "id", "bind_id", "id2")
            }
            if event["ph"] == "i" and event["s"] == "g":
                rest["s"] = "p"
            time_ns = base_of(root) + Decimal(event["ts"]) * 1000
            events.append(f"{time_ns.normalize():f} {json.dumps(rest, sort_keys=True, default=str)}")
    return Counter(events)


def processes(root: dict[str, Any]) -> dict[int, str]:
    return {e["pid"]: e["args"]["name"] for e in root["traceEvents"] if e["name"] == "process_name" and e["ph"] == "M"}


def arrows(root: dict[str, Any], process: Callable[[dict[str, Any]], Any]) -> Counter[Any]:
    """Start and end of each arrow, as viewers join them: by category, name and id."""
    starts = {(e["cat"], e["name"], e["id"]): e for e in root["traceEvents"] if e["ph"] == "s"}
    joined = [(starts.get((e["cat"], e["name"], e["id"])), e) for e in root["traceEvents"] if e["ph"] == "f"]
    return Counter((process(start), process(end)) for start, end in joined if start)


@pytest.fixture
def ranks(tmp_path: Path) -> list[Path]:
    """Two ranks with bases in different quarters of a year, everything else as equal as can be."""
    files = []
    for rank in range(2):
        trace = FakeTrace(rank=rank, world_size=2, base_time_ns=_BASE_NS + rank * _QUARTER_NS)
        for event in trace.events:
            event["ts"] = round(event["ts"] - rank * _QUARTER_NS / 1000, 3)
            for key in ("pid", "tid"):
                event[key] = {4001: 4000, 4002: 4001, 1: 0}.get(event[key], event[key]) if rank else event[key]
        files.append(trace.write(tmp_path / f"rank{rank}.json"))
    return files


@pytest.mark.usefixtures("either")
def test_every_event_keeps_its_time_since_1970(ranks: list[Path], tmp_path: Path) -> None:
    """Two ranks, a VizTracer report and a Proton trace beside the first."""
    viz = FakeTrace.viztracer(base_time_ns=_BASE_NS + _QUARTER_NS).write(tmp_path / "rank0.viz.json")
    proton = FakeTrace.proton(base_time_ns=_BASE_NS + _QUARTER_NS + 123).write(tmp_path / "rank0.chrome_trace")
    inputs = [*ranks, viz, proton]
    result = merge(inputs, tmp_path / "all.json")
    root = read(tmp_path / "all.json")
    assert seen(root) == sum((seen(read(path)) for path in inputs), Counter())
    times = [event["ts"] for event in root["traceEvents"] if event["ph"] != "M"]
    assert 0 <= min(times) < Decimal("0.001")
    assert max(times) < 4e12
    assert (root["baseTimeNanoseconds"], root["displayTimeUnit"]) == (result.base_time_ns, "ms")
    assert result.base_time_ns == min(each.first_ns for each in result.inputs)
    assert sum(each.events for each in result.inputs) == result.events == len(times)


@pytest.mark.usefixtures("either")
def test_order_of_arguments_and_jobs_change_no_byte(ranks: list[Path], tmp_path: Path) -> None:
    viz = FakeTrace.viztracer(base_time_ns=_BASE_NS).write(tmp_path / "rank1.viz.json")
    outputs = []
    for number, (inputs, jobs) in enumerate([([*ranks, viz], 1), ([viz, *ranks[::-1]], 1), ([tmp_path], 3)]):
        merge(inputs, tmp_path / f".gputrace-out{number}.json", jobs=jobs)
        merge(inputs, tmp_path / f".gputrace-out{number}.json.gz", jobs=jobs)
        outputs.append([(tmp_path / f".gputrace-out{number}.json{end}").read_bytes() for end in ("", ".gz")])
    accounts = [json.loads(plain)["gputrace_merge"].pop("left_out") for plain, _ in outputs]
    assert accounts[:2] == [[], []]
    assert outputs[0] == outputs[1]
    events = [plain.partition(b"traceEvents")[2] for plain, _ in outputs]
    assert events[0] == events[2]
    assert gzip.decompress(outputs[0][1]) == outputs[0][0]


@pytest.mark.usefixtures("either")
def test_no_process_and_no_arrow_is_shared_by_two_ranks(ranks: list[Path], tmp_path: Path) -> None:
    result = merge(ranks, tmp_path / "all.json")
    root = read(tmp_path / "all.json")
    names = processes(root)
    assert sorted(names.values()) == sorted(
        f"rank {rank} · {what}" for rank in (0, 1) for what in ("GPU 0", "python 4000", "Spans", "Traces", "unnamed")
    )
    inputs = {event["pid"] for path in ranks for event in read(path)["traceEvents"]}
    assert all(isinstance(pid, int) and pid < 2**31 and pid not in inputs for pid in names)
    assert {event["pid"] for event in root["traceEvents"]} == set(names)
    found = arrows(root, lambda event: names[event["pid"]])
    assert all(start[:6] == end[:6] for start, end in found)
    expected = arrows(read(ranks[0]), lambda event: event["pid"])
    for rank in (0, 1):
        of_rank = {pair: count for pair, count in found.items() if pair[0].startswith(f"rank {rank}")}
        assert of_rank == {
            (f"rank {rank} · python 4000", f"rank {rank} · GPU 0"): expected[4000, 0],
            (f"rank {rank} · python 4000",) * 2: expected[4000, 4000],
        }
    assert all(each.flows_in == each.flows_out and each.flows_in != Flows() for each in result.inputs)


def test_metadata_has_no_time_and_one_name_for_each(ranks: list[Path], tmp_path: Path) -> None:
    merge(ranks, tmp_path / "all.json")
    metadata = [event for event in read(tmp_path / "all.json")["traceEvents"] if event["ph"] == "M"]
    assert not any("ts" in event for event in metadata)
    keys = [(event["name"], event["pid"], event["tid"]) for event in metadata]
    assert len(keys) == len(set(keys))


def odd_ids(rank: int) -> list[dict[str, Any]]:
    place = {"cat": "net", "name": "call", "pid": 7, "tid": 7}
    return [
        {**place, "ph": "b", "id": "0x7f001", "ts": 1},
        {**place, "ph": "e", "id": "0x7f001", "ts": 9},
        {**place, "ph": "b", "id2": {"global": "0x9"}, "ts": 2},
        {**place, "ph": "e", "id2": {"global": "0x9"}, "ts": 8},
        {**place, "ph": "n", "id": "by name", "ts": 3},
        {**place, "ph": "X", "ts": 3, "dur": 1, "bind_id": "0x9", "flow_out": True, "name": f"{rank}"},
        {**place, "ph": "X", "ts": 4, "dur": 1, "id": 5},
    ]


@pytest.mark.usefixtures("either")
def test_every_sort_of_id_is_apart_and_still_joins_its_own(tmp_path: Path) -> None:
    for rank in range(2):
        document = {"baseTimeNanoseconds": _BASE_NS, "traceEvents": odd_ids(rank)}
        (tmp_path / f"rank{rank}.json").write_text(json.dumps(document))
    merge(tmp_path, tmp_path / "out.json")
    root = read(tmp_path / "out.json")
    names = processes(root)
    ids: dict[str, list[Any]] = {"rank 0": [], "rank 1": []}
    for event in root["traceEvents"]:
        if event["ph"] != "M":
            ids[names[event["pid"]][:6]].append(
                event.get("id2", {}).get("global") or event.get("bind_id") or event.get("id")
            )
    for of_rank in ids.values():
        begin, end, other_begin, other_end, named, bound, kept = of_rank
        assert begin == end != other_begin == other_end == bound != named
        assert kept == 5
        assert int(begin, 16) < 2**53
    assert not set(map(str, ids["rank 0"][:6])) & set(map(str, ids["rank 1"][:6]))


@pytest.mark.usefixtures("either")
def test_text_is_written_as_it_reads(tmp_path: Path) -> None:
    """A real viewer fails on a surrogate escape beside an escaped quote, which is what json.dump writes."""
    name = 'é 😀 "quoted" \\ back\tslash'
    event = {"ph": "X", "cat": "c", "name": name, "pid": 1, "tid": 1, "ts": 1, "dur": 1}
    (tmp_path / "rank0.json").write_text(json.dumps({"baseTimeNanoseconds": 5, "traceEvents": [event]}))
    merge(tmp_path / "rank0.json", tmp_path / "out.json")
    assert b"\\u" not in (tmp_path / "out.json").read_bytes().partition(b"traceEvents")[2]
    assert [event["name"] for event in read(tmp_path / "out.json")["traceEvents"] if event["ph"] == "X"] == [name]


@pytest.mark.parametrize(("late_us", "expected_us"), [(-5, 0), (3, 3), (10**6, None)])
def test_a_link_ends_no_sooner_than_it_starts(late_us: float, expected_us: float | None, tmp_path: Path) -> None:
    """A viewer drops an arrow that ends first, as two clocks that are microseconds apart make of it."""
    proton = FakeTrace.proton(base_time_ns=_BASE_NS, first_scope_id=7)
    proton.events[:] = [event for event in proton.events if event["ph"] not in "sf"]  # no arrow but that of the link
    scope = next(event for event in proton.events if event.get("cat") == "scope")
    frame = {"ph": "X", "cat": "FEE", "name": "f", "pid": 3, "tid": 3, "ts": 0, "dur": 1}
    start = {"ph": "s", "name": "viztracer->proton", "cat": "tokenspeed.proton", "pid": 3, "tid": 3, "id": 7}
    viz = {
        "traceEvents": [frame, {**start, "ts": scope["ts"] + late_us}],
        "viztracer_metadata": {"version": "1.1.1", "baseTimeNanoseconds": _BASE_NS},
    }
    (tmp_path / "viz.json").write_text(json.dumps(viz))
    merge([tmp_path / "viz.json", proton.write(tmp_path / "proton.json")], tmp_path / "out.json")
    root = read(tmp_path / "out.json")
    begin = next(event["ts"] for event in root["traceEvents"] if event.get("cat") == "scope")
    (end,) = (event["ts"] for event in root["traceEvents"] if event["ph"] == "f" and event["cat"] == start["cat"])
    assert end - begin == (Decimal(str(scope["dur"])) if expected_us is None else expected_us)


def test_a_report_and_its_scopes_are_linked(tmp_path: Path) -> None:
    proton = FakeTrace.proton(base_time_ns=_BASE_NS)
    viz = FakeTrace.viztracer(base_time_ns=_BASE_NS - 2_900_000_000_000_000)
    frame = next(event for event in viz.events if event["ph"] == "X")
    start = {
        "ph": "s",
        "name": "viztracer->proton",
        "cat": "tokenspeed.proton",
        "pid": frame["pid"],
        "tid": frame["tid"],
    }
    viz.events.extend({**start, "id": number, "ts": frame["ts"]} for number in (1, 2, 99))
    for rank in range(2):
        viz.document["viztracer_metadata"]["baseTimeNanoseconds"] += 250 * rank
        proton.document["baseTimeNanoseconds"] += 250 * rank
        viz.write(tmp_path / f"rank{rank}.viz.json")
        proton.write(tmp_path / f"rank{rank}.chrome_trace")
    result = merge(tmp_path, tmp_path / "out.json")
    assert (result.links, result.unlinked) == (4, 2)
    root = read(tmp_path / "out.json")
    names = processes(root)
    found = arrows(root, lambda event: (names[event["pid"]], event["cat"]))
    links = {pair: count for pair, count in found.items() if pair[0][1] == "tokenspeed.proton"}
    assert {(start[0], end[0]): count for (start, end), count in links.items()} == {
        (f"rank {rank} · python 4000", f"rank {rank} · Proton"): 2 for rank in (0, 1)
    }
    ends = [event for event in root["traceEvents"] if event["cat" if "cat" in event else "ph"] == "tokenspeed.proton"]
    scopes = {(e["pid"], e["tid"], e["ts"]) for e in root["traceEvents"] if e.get("cat") == "scope"}
    assert {(e["pid"], e["tid"]) for e in ends if e["ph"] == "f"} == {(pid, tid) for pid, tid, _ in scopes}
    assert all(e["bp"] == "e" for e in ends if e["ph"] == "f")


class TestNotMerged:
    """What is in the way is told, and what there was stays."""

    def refused(self, tmp_path: Path, *inputs: Path, **options: Any) -> list[str]:
        output = tmp_path / "all.json"
        output.write_text("what was there")
        before = sorted(os.listdir(tmp_path))
        with pytest.raises(MergeError) as caught:
            merge(inputs, output, force=True, **options)
        assert output.read_text() == "what was there"
        assert sorted(os.listdir(tmp_path)) == before
        assert all(reason in str(caught.value) for reason in caught.value.reasons)
        return list(caught.value.reasons)

    def test_a_cut_rank(self, ranks: list[Path], tmp_path: Path) -> None:
        ranks[1].write_bytes(ranks[1].read_bytes()[:-100])
        reasons = self.refused(tmp_path, *ranks)
        assert any("rank1.json: byte" in reason and "gputrace repair" in reason for reason in reasons)

    def test_an_absent_rank(self, ranks: list[Path], tmp_path: Path) -> None:
        assert any("1" in reason for reason in self.refused(tmp_path, ranks[0]))
        reasons = self.refused(tmp_path, *ranks, expect_ranks=4)
        assert any("2, 3" in reason for reason in reasons)

    def test_two_files_of_one_rank(self, ranks: list[Path], tmp_path: Path) -> None:
        again = FakeTrace(rank=1, world_size=2, first_step=7).write(tmp_path / "again-rank1.json")
        (reason,) = self.refused(tmp_path, *ranks, again)
        assert "again-rank1.json" in reason
        assert "rank1.json" in reason

    def test_a_rank_that_is_another_by_its_name(self, ranks: list[Path], tmp_path: Path) -> None:
        moved = ranks[1].rename(tmp_path / "rank7.json")
        assert any("rank7.json" in reason for reason in self.refused(tmp_path, ranks[0], moved))

    def test_a_merged_file(self, ranks: list[Path], tmp_path: Path) -> None:
        merge(ranks, tmp_path / "merged.json")
        assert any("merged already" in reason for reason in self.refused(tmp_path, *ranks, tmp_path / "merged.json"))

    def test_a_missing_base(self, ranks: list[Path], tmp_path: Path) -> None:
        viz = FakeTrace.viztracer()
        del viz.document["viztracer_metadata"]["baseTimeNanoseconds"]
        path = viz.write(tmp_path / "rank0.viz.json")
        (reason,) = self.refused(tmp_path, *ranks, path)
        assert f"--assume-base {path}=NS" in reason
        result = merge([*ranks, path], tmp_path / "assumed.json", assume_base={path: _BASE_NS})
        assert next(each for each in result.inputs if each.format == "viztracer").base_time_ns == _BASE_NS
        begun = merge([*ranks, path], tmp_path / "begun.json", align="first-event")
        assert len({each.first_ns for each in begun.inputs}) == 1

    def test_nothing_that_has_a_place(self, tmp_path: Path) -> None:
        tree = FakeTrace.proton_tree().write(tmp_path / "rank0.hatchet")
        (reason,) = self.refused(tmp_path, tree)
        assert "rank0.hatchet: not placeable: a tree of Proton has no times" in reason

    def test_nothing_with_a_time(self, tmp_path: Path) -> None:
        path = tmp_path / "rank0.json"
        path.write_text('{"schemaVersion": 1, "traceEvents": []}')
        assert len(self.refused(tmp_path, path)) == 1

    def test_several_things_at_once(self, ranks: list[Path], tmp_path: Path) -> None:
        ranks[0].write_text("{")
        assert len(self.refused(tmp_path, *ranks, expect_ranks=3)) >= 2


def test_a_trace_is_never_replaced_by_the_timeline(ranks: list[Path], tmp_path: Path) -> None:
    """Also where it was only found in a folder."""
    before = ranks[0].read_bytes()
    for inputs in ([tmp_path], ranks):
        with pytest.raises(MergeError, match="to be read and"):
            merge(inputs, ranks[0], force=True, allow_missing=True)
    assert ranks[0].read_bytes() == before


def test_missing_ranks_may_be_allowed_and_are_told_in_the_file(ranks: list[Path], tmp_path: Path) -> None:
    ranks[1].write_bytes(ranks[1].read_bytes()[:-100])
    result = merge(ranks, tmp_path / "all.json", expect_ranks=3, allow_missing=True)
    assert (result.expected_ranks, result.missing_ranks) == (3, (1, 2))
    assert [each.path for each in result.left_out] == [ranks[1]]
    account = read(tmp_path / "all.json")["gputrace_merge"]
    assert (account["expected_ranks"], account["missing_ranks"]) == (3, [1, 2])
    assert [each["file"] for each in account["left_out"]] == [str(ranks[1])]


def test_a_copy_under_another_rank_is_refused(tmp_path: Path) -> None:
    """The same events from the same base: no two processes record that."""
    for rank in range(2):
        FakeTrace.proton(base_time_ns=_BASE_NS).write(tmp_path / f"rank{rank}.chrome_trace")
    with pytest.raises(MergeError, match="hold the same events at the same times: is one a copy"):
        merge(tmp_path, tmp_path / "out.json")
    FakeTrace.proton(base_time_ns=_BASE_NS + 1).write(tmp_path / "rank1.chrome_trace")
    merge(tmp_path, tmp_path / "out.json")


def test_what_is_odd_about_the_set_is_noted(ranks: list[Path], tmp_path: Path) -> None:
    viz = FakeTrace.viztracer(base_time_ns=_BASE_NS + _QUARTER_NS).write(tmp_path / "rank0.viz.json")
    (tmp_path / "rank1.empty.json").write_text('{"displayTimeUnit": "us", "traceEvents": []}')
    result = merge([*ranks, viz, tmp_path / "rank1.empty.json"], tmp_path / "out.json")
    empty = next(each for each in result.inputs if each.format == "proton")
    assert (empty.first_ns, empty.last_ns) == (result.base_time_ns, result.base_time_ns)
    notes = result.notes
    assert any("after the others end: are they of two runs, or is a clock wrong?" in note for note in notes)
    assert f"{tmp_path / 'rank1.empty.json'} holds no event" in notes
    assert "rank 0 has no Proton file, and others have one" in notes
    assert "rank 1 has no VizTracer file, and others have one" in notes


@pytest.mark.parametrize(
    ("event", "told"),
    [
        ({"ts": 1e307}, "an event at 1e+307 us, which is no time"),
        ({"ts": 1, "dur": 1e300}, "which is no time"),
        ({"ts": 1.7e308, "dur": 1.7e308}, "an event at inf us, which is no time"),
        ({"ts": -1e20}, "an event at -1e+20 us"),
        ({"ts": 1, "args": {"x": "deep"}}, "nest"),
    ],
)
def test_what_cannot_be_placed_is_refused(event: dict[str, Any], told: str, tmp_path: Path) -> None:
    path = tmp_path / "rank0.json"
    good = {"ph": "X", "cat": "c", "name": "n", "pid": 1, "tid": 1, "ts": 5000, "dur": 1}
    text = json.dumps({"baseTimeNanoseconds": 5, "traceEvents": [good, {**good, **event}]})
    path.write_text(text.replace('"deep"', "[" * 985 + "]" * 985))  # the strict reader goes as deep
    with pytest.raises(MergeError) as caught:
        merge(path, tmp_path / "out.json")
    assert told in str(caught.value)
    assert "rank0.json" in str(caught.value)


def test_names_on_disk_need_not_be_text(tmp_path: Path) -> None:
    path = Path(os.fsdecode(os.fsencode(tmp_path) + b"/rank0_\xff.json"))
    path.write_text(
        '{"baseTimeNanoseconds": 5, "traceEvents": [{"ph": "i", "name": "n", "pid": 1, "tid": 1, "ts": 1}]}'
    )
    merge([path], tmp_path / "out.json")
    assert "rank0_" in read(tmp_path / "out.json")["gputrace_merge"]["inputs"][0]["file"]


def strictly(path: Path) -> Any:
    """As a reader has it that knows no NaN."""

    def refuse(word: str) -> None:
        raise AssertionError(f"{word} is no JSON")

    return json.loads(path.read_text(), parse_constant=refuse)


def test_the_account_of_a_merge(tmp_path: Path) -> None:
    clocks: list[dict[str, Any]] = [{}, {"clock_offset_ns": 3_000_000}, {}]
    for rank, clock in enumerate(clocks):
        trace = FakeTrace(rank=rank, world_size=3, steps=20, max_pause_ns=200_000, host=f"node{rank}", **clock)
        if rank == 2:  # it shares no collective
            trace.events[:] = [event for event in trace.events if not event["name"].startswith("nccl")]
        trace.write(tmp_path / f"rank{rank}.json")
    result = merge(tmp_path, tmp_path / "out.json", align="collectives")
    account = strictly(tmp_path / "out.json")["gputrace_merge"]
    assert account["version"] == 1
    assert account["align"] == "collectives"
    assert account["notes"] == list(result.notes)
    for told, each in zip(account["inputs"], result.inputs, strict=True):
        assert told == {
            "file": str(each.path), "format": "kineto", "worker": each.worker, "rank": each.rank, "node": each.node,
            "base_time_ns": each.base_time_ns, "events": each.events, "flows": list(each.flows_in),
        }  # fmt: skip
    reference, moved, left = account["clocks"]
    assert (reference["worker"], reference["offset_us"], reference["why"]) == ("rank 0", 0, "")
    assert moved["offset_us"] == pytest.approx(-3000, abs=5)
    assert moved["residual_before_us"] == pytest.approx(3000, abs=5)
    assert (left["worker"], left["residual_before_us"], left["residual_after_us"]) == ("rank 2", None, None)
    assert left["why"]


def test_what_has_no_place_is_listed(ranks: list[Path], tmp_path: Path) -> None:
    FakeTrace.proton_tree().write(tmp_path / "rank0.hatchet")
    FakeTrace.event_list().write(tmp_path / "events.json")
    (tmp_path / "memory.pickle").write_bytes(b"\x80\x04")
    (tmp_path / "numbers.json").write_text("[1, 2]")
    result = merge(tmp_path, tmp_path / "out.json")
    assert {each.path.name for each in result.left_out} == {
        "rank0.hatchet",
        "events.json",
        "memory.pickle",
        "numbers.json",
    }
    assert all("not placeable" in each.why for each in result.left_out)
    merge(tmp_path, tmp_path / "again.json")  # where the first output lies among the inputs


def test_an_output_is_replaced_only_by_force_and_is_never_an_input(ranks: list[Path], tmp_path: Path) -> None:
    merge(ranks, tmp_path / "all.json")
    first = (tmp_path / "all.json").read_bytes()
    with pytest.raises(PublishError, match=r"all\.json"):
        merge(ranks, tmp_path / "all.json")
    assert (tmp_path / "all.json").read_bytes() == first
    merge(tmp_path, tmp_path / "all.json", force=True)
    assert (tmp_path / "all.json").read_bytes() == first


def test_sources_are_dropped_unless_they_are_wanted(tmp_path: Path) -> None:
    FakeTrace.viztracer(sources=True).write(tmp_path / "rank0.json")
    merge(tmp_path / "rank0.json", tmp_path / "out.json")
    assert b"def step" not in (tmp_path / "out.json").read_bytes()
    merge(tmp_path / "rank0.json", tmp_path / "kept.json", keep_source=True)
    assert read(tmp_path / "kept.json")["file_info"]["functions"] == {"step (train.py:1)": ["train.py", 1]}


def test_nothing_of_the_environment_is_written(ranks: list[Path], tmp_path: Path) -> None:
    root = read(ranks[0]) | {"metadata": {"env": {"API_TOKEN": "tell-nobody"}}, "traceName": "/home/tell-nobody"}
    ranks[0].write_text(json.dumps(root, default=float))
    merge(ranks, tmp_path / "all.json")
    assert b"tell-nobody" not in (tmp_path / "all.json").read_bytes()


def test_progress_reaches_its_end(ranks: list[Path], tmp_path: Path) -> None:
    told: list[tuple[int, int, str]] = []
    merge(ranks, tmp_path / "all.json", jobs=2, progress=lambda *each: told.append(each))
    size = sum(path.stat().st_size for path in ranks)
    assert told[-1][:2] == (2 * size, 2 * size)
    assert {what for _, _, what in told} == {f"{what} rank{n}.json" for what in ("reading", "merging") for n in (0, 1)}


def test_memory_does_not_grow_with_the_input(tmp_path: Path) -> None:
    """A hundred megabytes of text, in a gzip file of less than one: the peak of a whole process, imports and all."""
    row = (
        '{"ph":"X","cat":"cpu_op","name":"aten::mm","pid":4,"tid":5,"ts":%d.5,"dur":2.25,"args":{"External id":%d}},\n'
    )
    chunk = "".join(row % (n, n) for n in range(1000))
    path = tmp_path / "rank0.json.gz"
    with gzip.open(path, "wt", compresslevel=1) as file:
        file.write('{"baseTimeNanoseconds": 5, "traceEvents": [\n')
        for _ in range(1000):
            file.write(chunk)
        file.write(row.rstrip(",\n") % (0, 0) + "]}")
    code = (
        "import sys; from pytest_gputrace.cli import main; code = main(sys.argv[1:]);"
        "print(next(line.split()[1] for line in open('/proc/self/status') if line.startswith('VmHWM:'))); sys.exit(code)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, "merge", str(path), "-o", str(tmp_path / "out.json.gz")],
        capture_output=True, text=True, timeout=120, check=True,
    )  # fmt: skip
    assert int(done.stdout.splitlines()[-1]) < 64 * 1024
