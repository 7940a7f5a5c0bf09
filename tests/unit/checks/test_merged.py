"""A merged file is no rank: rules about one rank, and about a set of them, do not look at it; all others do."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from pytest_gputrace.checks.check import check
from pytest_gputrace.checks.rules import RULES
from pytest_gputrace.fakes import FakeTrace
from pytest_gputrace.model import Severity
from pytest_gputrace.overview.trace import look
from pytest_gputrace.report.overview import data, lines
from pytest_gputrace.traces import open_trace

if TYPE_CHECKING:
    from pathlib import Path

    from pytest_gputrace.checks.outcome import Report

CALLS = ("cuda_runtime", "cuda_driver")
ONE_RANK = {"GT305", "GT306", "GT310", "GT401", "GT402", "GT403", "GT404", "GT405", "GT408"}
MARK = {"gputrace_merge": {"version": 1, "inputs": [{"file": "rank0.json"}, {"file": "rank1.json"}]}}


def timeline(count: int = 2, **mark: Any) -> dict[str, Any]:
    """Ranks as one: processes and ids of arrows of their own, and the same correlation ids, each a minute before the last.

    Of the second rank the GPU alone was recorded.
    """
    events = []
    for rank in range(count):
        for row in FakeTrace(rank=rank, world_size=count).events:
            if row["ph"] == "M" or isinstance(row["pid"], str) or (rank == 1 and row.get("cat") in CALLS):
                continue
            own = {"id": row["id"] + 1000 * rank} if "id" in row else {}
            begin = row["ts"] - 5_171_577_480_660.0 + 60e6 * (count - rank)
            events.append({**row, **own, "pid": row["pid"] + 100, "ts": round(begin, 3)})
    return {**(mark or MARK), "displayTimeUnit": "ms", "baseTimeNanoseconds": 10**18, "traceEvents": events}


def write(path: Path, document: Any) -> Path:
    path.write_text(json.dumps(document), encoding="utf-8")
    return path


def codes(report: Report) -> list[str]:
    return sorted({finding.code for finding in report.all_findings})


def test_nothing_is_wrong_with_ranks_as_one(tmp_path: Path) -> None:
    report = check([write(tmp_path / "timeline.json", timeline())], expect_gpu=True)
    assert codes(report) == ["GT316"]
    assert [finding.severity for finding in report.all_findings] == [Severity.INFO]
    [file] = report.files
    assert (file.format, file.rank) == ("merged", None)
    assert set(file.not_checked) >= ONE_RANK


def test_without_the_mark_they_are_taken_for_one_rank(tmp_path: Path) -> None:
    document = timeline()
    del document["gputrace_merge"]
    report = check([write(tmp_path / "timeline.json", document)])
    assert "GT306" in codes(report), "kernels of one rank have the correlation ids of the other's launches"


def test_the_rules_about_one_rank_say_that_they_are() -> None:
    assert {code for code, rule in RULES.items() if rule.one_rank} == ONE_RANK


@pytest.mark.parametrize(
    ("changed", "code"),
    [
        ({"dur": -1.0}, "GT301"),
        ({"dur": 86_401e6}, "GT302"),
        ({"ts": -5.0}, "GT304"),
        ({"ts": 4e15}, "GT307"),
        ({"dur": 5e6}, "GT308"),
        ({"pid": 2**31}, "GT312"),
        ({"ph": "Q"}, "GT313"),
        ({"ph": "B"}, "GT314"),
        ({"name": ""}, "GT315"),
    ],
)
def test_other_rules_look_as_ever(changed: dict[str, Any], code: str, tmp_path: Path) -> None:
    document = timeline()
    next(row for row in document["traceEvents"] if row.get("cat") == "kernel").update(changed)
    assert codes(check([write(tmp_path / "timeline.json", document)])) == [code, "GT316"]


def test_one_that_lost_its_base_cannot_be_placed(tmp_path: Path) -> None:
    document = timeline()
    del document["baseTimeNanoseconds"]
    report = check([write(tmp_path / "timeline.json", document)], select=["GT309"])
    [finding] = report.all_findings
    assert finding.message.endswith("gputrace merge writes it; was it trimmed?")


@pytest.mark.parametrize(
    ("mark", "words"),
    [
        ({"inputs": [{}]}, "merged of 1 input; "),
        ({"inputs": 3}, "merged of nobody knows what; "),
        (None, "merged of nobody knows what; "),
    ],
)
def test_whatever_the_mark_holds_it_is_one(mark: Any, words: str, tmp_path: Path) -> None:
    [finding] = check([write(tmp_path / "t.json", timeline(gputrace_merge=mark))], select=["GT316"]).all_findings
    assert words in finding.message


@pytest.mark.parametrize("name", ["timeline.json", "rank0.json", "trace-rank7.json"])
def test_among_ranks_it_is_none_of_them(name: str, tmp_path: Path) -> None:
    for rank in range(2):
        FakeTrace(rank=rank, world_size=2).write(tmp_path / f"trace-rank{rank}.json")
    without = check([tmp_path], select=["GT5"], expect_ranks=2)
    assert codes(without) == []
    document = {**timeline(), "distributedInfo": {"rank": 1, "world_size": 2}}
    write(tmp_path / name, document)
    report = check([tmp_path], expect_ranks=2)
    assert codes(report) == ["GT316"]
    assert report.looked_at == without.looked_at


def test_alone_it_is_not_the_ranks_that_are_expected(tmp_path: Path) -> None:
    report = check([write(tmp_path / "timeline-rank0.json", timeline())], select=["GT501"], expect_ranks=2)
    [finding] = report.all_findings
    assert "2 ranks expected, and no file says whose it is" in finding.message
    assert report.files[0].rank is None, "whatever its name says"


def test_a_second_copy_of_it_is_no_copy_of_a_rank(tmp_path: Path) -> None:
    """One compressed and one not, say: neither stands for a rank."""
    for name in ("a.json", "b.json"):
        write(tmp_path / name, timeline())
    assert codes(check([tmp_path], select=["GT5"])) == []


def test_its_overview_says_that_ranks_are_mixed(tmp_path: Path) -> None:
    overview = look(open_trace(write(tmp_path / "timeline.json", timeline())))
    text = lines(overview)
    assert text[0] == "MERGED: ranks and profilers are mixed below; for one of them, show the file it came from"
    assert any("merged timeline" in line for line in text)
    assert data(overview)["format"] == "merged"
