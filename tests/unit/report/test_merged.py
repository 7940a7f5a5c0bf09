"""What a merge says."""

from __future__ import annotations

import textwrap
from dataclasses import replace
from pathlib import Path
from typing import Any

from pytest_gputrace.report.merged import as_text
from pytest_gputrace.timeline.outcome import LeftOut, MergedInput, MergeResult, WorkerClock
from pytest_gputrace.timeline.plan import Flows

BASE_NS = 1_796_028_603_480_660_661


def merged_input(rank: int, **changes: Any) -> MergedInput:
    whole = MergedInput(
        path=Path(f"run/rank{rank}.json"), format="kineto", worker=f"rank {rank}", rank=rank, node="n0", base_time_ns=5,
        first_ns=BASE_NS + 1500 * rank, last_ns=BASE_NS + 2_000_000, events=1200, metadata=30, untimed=0,
        flows_in=Flows(6, 0, 6), flows_out=Flows(6, 0, 6),
    )  # fmt: skip
    return replace(whole, **changes)


def result(*inputs: MergedInput, **changes: Any) -> MergeResult:
    inputs = inputs or (merged_input(0), merged_input(1))
    whole = MergeResult(
        path=Path("all.json.gz"), inputs=inputs, left_out=(), expected_ranks=None, missing_ranks=(), align="anchor",
        clocks=(), base_time_ns=BASE_NS, last_ns=BASE_NS + 2_000_000, events=2400, links=0, unlinked=0, size_bytes=81_234,
        notes=(),
    )  # fmt: skip
    return replace(whole, **changes)


def clock(worker: str, **changes: Any) -> WorkerClock:
    return replace(WorkerClock(worker, "n1", -1234567.89, 12.3456, 40, 1234567.8, 1.25), **changes)


def test_two_ranks_that_are_all_there() -> None:
    assert as_text(result(expected_ranks=2)) == textwrap.dedent("""\
        all.json.gz: 2 files, 2,400 events, 2.00 ms from the first event to the last, 81.2 kB
        its times count from 2026-11-30 08:50:03.480660661 UTC (baseTimeNanoseconds 1796028603480660661)
          worker  profiler  events  arrows    begins  file
          rank 0    Kineto   1,200      12     +0 us  run/rank0.json
          rank 1    Kineto   1,200      12  +1.50 us  run/rank1.json
        arrows: 24 ends read, and all of them written
        ranks: all 2 are there
        accuracy:
          within a file: all distances are kept
          between profilers on one node: microseconds, more where the clock of a GPU drifts
          between nodes: what their clocks differ by, with NTP milliseconds; --align collectives measures it
        open it: https://ui.perfetto.dev, or chrome://tracing""")


def test_arrows_that_are_lost_are_told_with_their_file() -> None:
    lines = as_text(result(merged_input(0), merged_input(1, flows_out=Flows(6, 0, 4)))).splitlines()
    assert lines[4] == "  rank 1    Kineto   1,200  12 -> 10  +1.50 us  run/rank1.json"
    assert lines[5] == "arrows: 24 ends read, 22 written; they differ in 1 file"


def test_arrows_that_only_change_their_kind_are_told_too() -> None:
    assert "they differ in 1 file" in as_text(result(merged_input(0, flows_out=Flows(5, 1, 6))))


def test_links_and_those_that_lead_nowhere() -> None:
    assert "links" not in as_text(result())
    words = "links from VizTracer's frames to Proton's scopes: "
    assert f"\n{words}3\n" in as_text(result(links=3))
    assert f"\n{words}3; 2 lead to no scope\n" in as_text(result(links=3, unlinked=2))


def test_clocks_by_collectives() -> None:
    clocks = (
        clock("rank 0", node="n0", offset_us=0.0, drift_ppm=0.0),
        clock("rank 1"),
        clock(
            "rank 2", offset_us=0.0, drift_ppm=0.0, why="3 collectives, fewer than 8", residual_before_us=float("nan")
        ),
    )
    text = as_text(result(align="collectives", clocks=clocks))
    assert (
        textwrap.dedent("""\
        clocks, by collectives (offset added, residual before -> after):
          worker  node     offset us  drift ppm         residual us  collectives
          rank 0    n0           0.0     +0.000  1,234,567.8 -> 1.2  40
          rank 1    n1  -1,234,567.9    +12.346  1,234,567.8 -> 1.2  40
        clocks left as their anchors have them:
          rank 2 on n1: 3 collectives, fewer than 8
        """)
        in text
    ), text
    assert "  within a file: all distances are kept, apart from the drift that was taken out\n" in text
    assert "  between nodes: the residual above; where a clock was left, what it differs by" in text


def test_no_collective_anywhere_is_told() -> None:
    text = as_text(result(align="collectives"))
    assert "clocks: no file tells of collectives, so all stay as their anchors have them\n" in text
    assert "clocks" not in as_text(result()).replace("their clocks differ", "")


def test_files_made_to_begin_at_one_time_have_no_common_clock() -> None:
    assert "  between files: none, each was made to begin at one time\n" in as_text(result(align="first-event"))


def test_what_is_not_on_the_timeline() -> None:
    left_out = (LeftOut(Path("run/a\n.hatchet"), "a tree has no times"),)
    text = as_text(
        result(left_out=left_out, expected_ranks=10, missing_ranks=(1, 3, 4, 5, 9), notes=("rank 0 begins\x1b[2J",))
    )
    assert (
        textwrap.dedent("""\
        missing ranks: 1, 3-5, 9 (5 of 10 ranks)
        left out:
          run/a\\n.hatchet: a tree has no times
        notes:
          rank 0 begins\\x1b[2J
        """)
        in text
    )


def test_thousands_of_ranks_fit_a_screen() -> None:
    inputs = [merged_input(rank) for rank in range(3000)]
    clocks = tuple(clock(f"rank {rank}", why="" if rank % 2 else "none") for rank in range(3000))
    left_out = tuple(LeftOut(Path(f"{number}.json"), "no times") for number in range(3000))
    text = as_text(
        result(
            *inputs, align="collectives", clocks=clocks, left_out=left_out, notes=("odd",) * 3000, expected_ranks=9000,
            missing_ranks=tuple(range(3000, 9000, 2)),
        )
    )  # fmt: skip
    lines = text.splitlines()
    assert len(lines) < 110
    assert "  and 2,984 files more; all of them: gputrace_merge, at the begin of the file" in lines
    assert "  and 1,484 workers more; all of them: gputrace_merge, at the begin of the file" in lines
    assert any(line.endswith("3028, 3030 and 2,984 more ranges (3,000 of 9,000 ranks)") for line in lines)


def test_a_file_without_events_and_events_without_times() -> None:
    lines = as_text(
        result(merged_input(0, untimed=3), merged_input(1, events=0, first_ns=0, last_ns=0, worker=""))
    ).splitlines()
    assert lines[3].split() == [
        "rank",
        "0",
        "Kineto",
        "1,200",
        "(3",
        "without",
        "a",
        "time)",
        "12",
        "+0",
        "us",
        "run/rank0.json",
    ]
    assert lines[4].split() == ["-", "Kineto", "0", "12", "-", "run/rank1.json"]


def test_a_base_in_no_year_that_calendars_know() -> None:
    far_ns = 2**62 * 200
    assert f"its times count from {far_ns} ns since 1970\n" in as_text(result(base_time_ns=far_ns))
