"""--gputrace-merge: one timeline for each test that kept traces, a line of the summary for each, and the exit status."""

from __future__ import annotations

import gzip
import json
import re
from typing import TYPE_CHECKING, Any

import pytest

from pytest_gputrace.plugin.options import SETTINGS, Settings

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Start = Callable[..., pytest.RunResult]
    SummaryOf = Callable[[pytest.RunResult], list[str]]

RECORD = """
from pytest_gputrace.fakes import FakeTrace


def record(folder, ranks=2, world_size=2):
    for rank in range(ranks):
        FakeTrace(rank=rank, world_size=world_size).write(folder / f"trace-rank{rank}.json.gz")
"""
TWO_RANKS = """
def test_two_ranks(gputrace_dir):
    record(gputrace_dir)
"""
PROTON = """
def test_proton(gputrace_dir):
    FakeTrace.proton().write(gputrace_dir / "run.chrome_trace")
"""
A_RANK_IS_MISSING = """
def test_one_of_three(gputrace_dir):
    record(gputrace_dir, ranks=1, world_size=3)
"""
NO_TIMES = """
def test_event_list(gputrace_dir):
    FakeTrace.event_list().write(gputrace_dir / "list.json")


def test_none(): ...
"""


@pytest.fixture
def make(pytester: pytest.Pytester) -> Callable[..., None]:
    def write(*tests: str) -> None:
        pytester.makepyfile(test_it="\n".join([RECORD, *tests]))

    return write


def timelines(lines: list[str]) -> list[str]:
    """The lines about timelines, and the names of tests before them, without digests."""
    about = [line for line in lines if not line.startswith("not checked: ")]
    return [re.sub(r"~[a-z2-7]{16}", "~DIGEST", line) for line in about]


def merged(path: Path) -> dict[str, Any]:
    with gzip.open(path, "rt", encoding="utf-8") as file:
        whole: dict[str, Any] = json.load(file)
    return whole


def test_one_timeline_for_each_test(
    start: Start, make: Callable[..., None], summary_of: SummaryOf, pytester: pytest.Pytester
) -> None:
    make(TWO_RANKS, PROTON, NO_TIMES)
    result = start("--gputrace", "--gputrace-merge")
    assert result.ret == 0, result.stdout.str()
    assert timelines(summary_of(result)) == [
        "test_it.py-test_proton~DIGEST",
        "  timeline: 1 file -> RUN/test_it.py-test_proton~DIGEST/timeline.json.gz",
        "test_it.py-test_two_ranks~DIGEST",
        "  timeline: 2 files of 2 ranks -> RUN/test_it.py-test_two_ranks~DIGEST/timeline.json.gz",
    ]
    found = sorted(pytester.path.glob(".gputrace/*/*/timeline.json.gz"))
    assert [[each["rank"] for each in merged(path)["gputrace_merge"]["inputs"]] for path in found] == [[None], [0, 1]]


def test_files_without_a_place_are_counted(
    start_plain: Start, make: Callable[..., None], summary_of: SummaryOf
) -> None:
    make(TWO_RANKS, '    FakeTrace.event_list().write(gputrace_dir / "list.json")')
    [line] = summary_of(start_plain("--gputrace", "--gputrace-merge"))[2:]
    assert line.startswith("  timeline: 2 files of 2 ranks -> ")
    assert line.endswith("/timeline.json.gz; 1 file left out, why: gputrace_merge in it")


@pytest.mark.parametrize("start", ["plain", "n2"], indirect=True)
def test_a_rank_that_is_missing_fails_the_run_and_no_other_timeline(
    start: Start, make: Callable[..., None], summary_of: SummaryOf, pytester: pytest.Pytester
) -> None:
    make(A_RANK_IS_MISSING, TWO_RANKS)
    result = start("--gputrace", "--gputrace-merge")
    result.assert_outcomes(passed=2)
    assert result.ret == 1
    lines = timelines(summary_of(result))
    assert lines[0] == "test_it.py-test_one_of_three~DIGEST"
    assert lines[1].startswith("  timeline: not merged: ")
    assert "1" in lines[1]
    assert "2" in lines[1]
    assert lines[-1].startswith("  timeline: 2 files of 2 ranks -> ")
    assert len(list(pytester.path.glob(".gputrace/*/*/timeline.json.gz"))) == 1


def test_nothing_to_merge_is_told_and_no_failure(
    start_plain: Start, make: Callable[..., None], summary_of: SummaryOf
) -> None:
    make(NO_TIMES)
    result = start_plain("--gputrace", "--gputrace-merge")
    assert result.ret == 0
    assert summary_of(result)[1:] == [
        "timeline: nothing to merge: no test kept a trace of Kineto, Proton or VizTracer in its folder"
    ]


def test_a_test_that_ran_a_cluster_is_called_by_its_name(
    start_plain: Start, make: Callable[..., None], summary_of: SummaryOf
) -> None:
    make(
        """
def test_cluster(gputrace_cluster):
    def export(job):
        path = job.trace_dir / f"trace-rank{job.worker.rank}.json"
        FakeTrace(rank=job.worker.rank, world_size=2).write(path)
    gputrace_cluster(nodes=1, node_identity="patched").run(export)
"""
    )
    lines = timelines(summary_of(start_plain("--gputrace", "--gputrace-merge")))
    assert lines[-2:] == [
        "test_it.py::test_cluster",
        "  timeline: 2 files of 2 ranks -> RUN/test_it.py-test_cluster~DIGEST/timeline.json.gz",
    ]


def test_into_a_folder(
    start_plain: Start, make: Callable[..., None], summary_of: SummaryOf, pytester: pytest.Pytester
) -> None:
    make(TWO_RANKS, PROTON)
    result = start_plain("--gputrace", "--gputrace-merge=new/timelines")
    assert result.ret == 0
    assert not list(pytester.path.glob(".gputrace/*/*/timeline.json.gz"))
    [proton, two] = sorted((pytester.path / "new/timelines").iterdir())
    assert timelines([proton.name, two.name]) == [
        "test_it.py-test_proton~DIGEST.json.gz", "test_it.py-test_two_ranks~DIGEST.json.gz",
    ]  # fmt: skip
    assert summary_of(result)[-1] == f"  timeline: 2 files of 2 ranks -> {two}"


def test_into_a_file(
    start_plain: Start, make: Callable[..., None], summary_of: SummaryOf, pytester: pytest.Pytester
) -> None:
    make(TWO_RANKS, NO_TIMES)
    result = start_plain("--gputrace", "--gputrace-merge=new/all.json")
    assert result.ret == 0
    path = pytester.path / "new/all.json"
    assert summary_of(result)[-1] == f"  timeline: 2 files of 2 ranks -> {path}"
    assert json.loads(path.read_text())["gputrace_merge"]["version"] == 1


def test_one_file_for_two_tests_is_refused(
    start_plain: Start, make: Callable[..., None], summary_of: SummaryOf, pytester: pytest.Pytester
) -> None:
    make(TWO_RANKS, PROTON)
    result = start_plain("--gputrace", "--gputrace-merge=all.json")
    assert result.ret == 1
    path = pytester.path / "all.json"
    assert summary_of(result)[-1] == (
        f"timeline: not merged: 2 tests kept traces, and {path} is one file; name a folder: --gputrace-merge=FOLDER"
    )
    assert not path.exists()


def test_what_was_not_foreseen_becomes_a_line(
    make: Callable[..., None], summary_of: SummaryOf, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    make(TWO_RANKS, PROTON)

    def broken(*_: object, **__: object) -> None:
        raise RuntimeError("odd\x1b[2J")

    monkeypatch.setattr("pytest_gputrace.timeline.merge.merge", broken)
    result = pytester.runpytest_inprocess("--gputrace", "--gputrace-merge", "-p", "no:xdist")
    assert result.ret == 1
    told = [line for line in summary_of(result) if "timeline" in line]
    assert told == ["  timeline: not merged: RuntimeError: odd\\x1b[2J"] * 2
    monkeypatch.setattr("pytest_gputrace.traces.search.search", broken)
    result = pytester.runpytest_inprocess("--gputrace", "--gputrace-merge", "-p", "no:xdist")
    assert result.ret == 1
    assert summary_of(result)[-1] == "timeline: not merged: RuntimeError: odd\\x1b[2J"


def test_a_test_that_failed_still_has_its_timeline(start_plain: Start, make: Callable[..., None]) -> None:
    make("def test_failing(gputrace_dir):\n    record(gputrace_dir)\n    assert False")
    result = start_plain("--gputrace", "--gputrace-merge")
    assert result.ret == 1
    result.stdout.fnmatch_lines(["  timeline: 2 files of 2 ranks -> *"])


def test_an_interrupted_run_merges_nothing_and_says_so(
    start_plain: Start, make: Callable[..., None], summary_of: SummaryOf, pytester: pytest.Pytester
) -> None:
    make("def test_interrupted(gputrace_dir):\n    record(gputrace_dir)\n    raise KeyboardInterrupt")
    result = start_plain("--gputrace", "--gputrace-merge")
    assert result.ret == 2
    assert "timeline: not merged: the run was interrupted" in summary_of(result)
    assert not list(pytester.path.rglob("timeline.json.gz"))


def test_a_file_of_that_name_that_a_test_wrote_stays(
    start_plain: Start, make: Callable[..., None], summary_of: SummaryOf, pytester: pytest.Pytester
) -> None:
    make(
        "def test_it(gputrace_dir):\n    record(gputrace_dir)\n    (gputrace_dir / 'timeline.json.gz').write_text('mine')"
    )
    result = start_plain("--gputrace", "--gputrace-merge")
    assert result.ret == 1
    assert "timeline: not merged: " in summary_of(result)[-1]
    [mine] = pytester.path.rglob("timeline.json.gz")
    assert mine.read_text() == "mine"


# --- the option -------------------------------------------------------------------------------------------------------


def settings(pytester: pytest.Pytester, *args: str) -> Settings:
    return pytester.parseconfigure(*args).stash[SETTINGS]


def test_values(pytester: pytest.Pytester) -> None:
    kept = Settings(enabled=True, folder=pytester.path / ".gputrace")
    assert settings(pytester, "--gputrace") == kept
    assert settings(pytester, "--gputrace", "--gputrace-merge") == kept._replace(merge=True)
    for name in ("new/folder", "all.json", "all.json.gz"):
        given = kept._replace(merge=True, timelines=pytester.path / name)
        assert settings(pytester, "--gputrace", f"--gputrace-merge={name}") == given


def test_the_ini_file_may_ask_for_traces(pytester: pytest.Pytester) -> None:
    pytester.makeini("[pytest]\ngputrace = true\n")
    assert settings(pytester, "--gputrace-merge").merge


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["--gputrace-merge"], "--gputrace-merge: there is nothing to merge unless traces are kept; add --gputrace"),
        (["--gputrace", "--gputrace-merge=old.json"], "/old.json exists already; give another name, or remove it"),
        (["--gputrace", "--gputrace-merge=old.txt"], "/old.txt is a file, so no timeline can be written to "),
        (["--gputrace", "--gputrace-merge=old.txt/a.json"], "/old.txt is a file, so no timeline can be written to "),
        (["--gputrace", "--gputrace-merge=~nobody-of-that-name/a.json"], "--gputrace-merge: '~nobody-of-that-name/a.json' "),
        (["--gputrace", "--gputrace-merge", "tests"], "--gputrace-merge tests: is this what to run, or where timelines go?"),
    ],
)  # fmt: skip
def test_bad_value(pytester: pytest.Pytester, args: list[str], message: str) -> None:
    pytester.path.joinpath("old.json").touch()
    pytester.path.joinpath("old.txt").touch()
    with pytest.raises(pytest.UsageError) as caught:
        settings(pytester, *args)
    assert message in str(caught.value)
