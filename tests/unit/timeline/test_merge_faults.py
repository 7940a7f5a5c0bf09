"""Every fault of the fakes through the command: refused with its reason, or merged with nothing lost and nothing mixed."""

from __future__ import annotations

import json
from collections import Counter
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest

from pytest_gputrace.cli import main
from pytest_gputrace.fakes import FakeTrace, trace_faults
from pytest_gputrace.traces import open_trace

if TYPE_CHECKING:
    from pathlib import Path

    from pytest_gputrace.fakes import TraceFault

REFUSED = {
    "one_base_missing": "viztracer.json: nothing tells what its times count from",
    "cut_rank": "rank1.json: byte",
    "unreadable_file": "cannot be read",
    "missing_rank": "1 of 3 ranks have no file: 1",
    "double_rank": "two Kineto files of rank 0",
    "rank_folder_disagrees": "rank0/trace.json: the file itself says rank 1, its name or folder",
    "rank_name_disagrees": "rank1.json: the file itself says rank 2, its name or folder rank 1",
    "same_capture": "two Kineto files of rank 1",
    "mixed_worlds": "are they of two jobs?",
    "rank_outside_world": "cannot be in a world of",
}
"""What must stop a merge, and what it says."""
NEAR_REFUSED = {
    "double_rank": "two Kineto files of rank 0",  # windows one after the other are two recordings
    "merged_among_ranks": "timeline.json: nothing tells",
}
SETS = [fault for fault in trace_faults.values() if fault.is_set]
FILES = [fault for fault in trace_faults.values() if not fault.is_set and not fault.filename.endswith(".gz")]


def run(*arguments: str | Path) -> int:
    return main(["merge", *map(str, arguments)])


def events(path: Path) -> list[dict[str, Any]]:
    root: dict[str, Any] = json.loads(path.read_bytes().decode(), parse_float=Decimal)
    return [event for event in root["traceEvents"] if event["ph"] != "M"]


def names(path: Path) -> dict[int, str]:
    root = json.loads(path.read_bytes())
    return {event["pid"]: event["args"]["name"] for event in root["traceEvents"] if event["name"] == "process_name"}


def arrows(path: Path) -> Counter[tuple[str, str]]:
    """By the processes at their ends, as a viewer joins them."""
    known, rows = names(path), events(path)
    starts = {(row["cat"], row["name"], row["id"]): row for row in rows if row["ph"] == "s"}
    ends = [(starts.get((row["cat"], row["name"], row["id"])), row) for row in rows if row["ph"] == "f"]
    return Counter((known[start["pid"]], known[end["pid"]]) for start, end in ends if start)


def is_of_one_rank(pair: tuple[str, str]) -> bool:
    return pair[0].partition(" · ")[0] == pair[1].partition(" · ")[0]


@pytest.mark.parametrize("fault", SETS, ids=str)
@pytest.mark.parametrize("which", ["fault", "near"])
def test_a_set_is_refused_or_kept_apart(
    fault: TraceFault, which: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = fault.write(tmp_path / "run") if which == "fault" else fault.near_miss(tmp_path / "run")
    refused = (REFUSED if which == "fault" else NEAR_REFUSED).get(fault.name)
    output = tmp_path / "out.json"
    code = run(folder, "-o", output)
    told = capsys.readouterr()
    if refused is not None:
        assert code == 1
        assert refused in told.err
        assert not output.exists()
        return
    assert (code, told.err) == (0, "")
    assert all(map(is_of_one_rank, arrows(output)))
    rows = events(output)
    assert min(row["ts"] for row in rows) >= 0
    account = json.loads(output.read_bytes())["gputrace_merge"]
    assert len(rows) >= sum(each["events"] for each in account["inputs"])
    workers = {each["worker"] for each in account["inputs"]}
    assert {name.partition(" · ")[0] for name in names(output).values()} >= workers - {""}


@pytest.mark.parametrize("fault", FILES, ids=str)
def test_a_file_is_refused_or_nothing_of_it_is_lost(
    fault: TraceFault, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Beside a rank that is whole."""
    good = FakeTrace(rank=0, world_size=2).write(tmp_path / "good.json")
    bad = fault.write(tmp_path / fault.filename)
    output = tmp_path / "out.json"
    output.write_text("what was there")
    code = run("--rank", "0", good, "--rank", "1", bad, "-o", output, "--force", "--assume-base", f"{bad}=5")
    told = capsys.readouterr()
    if code:
        assert fault.filename in told.err
        assert output.read_text() == "what was there"
        return
    account = json.loads(output.read_bytes())["gputrace_merge"]
    placed = [each for each in account["inputs"] if each["rank"] == 1]
    if not placed:
        assert [each["file"] for each in account["left_out"]] == [str(bad)]
        return
    trace = open_trace(bad)
    metadata = int(trace.events.where(phase="M").sum())
    assert sum(names(output)[row["pid"]].startswith("rank 1") for row in events(output)) == len(trace.events) - metadata
    assert trace.whole
