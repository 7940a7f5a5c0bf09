"""`check`: what is asked for is run, on every file and on the set, and what was not looked at is said."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
import threading
from typing import TYPE_CHECKING

import pytest

from pytest_gputrace.checks.check import check
from pytest_gputrace.checks.rules import RULES
from pytest_gputrace.errors import SelectionError, UnknownPathError
from pytest_gputrace.fakes import FakeTrace
from pytest_gputrace.model import Severity

if TYPE_CHECKING:
    from pathlib import Path

    from pytest_gputrace.checks.outcome import Progress, Report


def codes(report: Report) -> list[str]:
    return [finding.code for finding in report.all_findings if finding.severity is not Severity.INFO]


def ranks(folder: Path, count: int = 3) -> Path:
    folder.mkdir(exist_ok=True)
    for rank in range(count):
        FakeTrace(rank=rank, world_size=count).write(folder / f"trace-rank{rank}.json")
    return folder


def spoil(path: Path) -> None:
    trace = FakeTrace(rank=1, world_size=3)
    trace.events[trace.index(ph="X", cat="kernel")]["dur"] = -1
    trace.write(path)


@pytest.mark.parametrize(
    "trace",
    [
        FakeTrace(),
        FakeTrace("rocm"),
        FakeTrace("cpu"),
        FakeTrace.proton(),
        FakeTrace.proton_tree(),
        FakeTrace.viztracer(),
        FakeTrace.event_list(),
    ],
    ids=["cuda", "rocm", "cpu", "proton", "proton-tree", "viztracer", "superbench"],
)
@pytest.mark.parametrize("suffix", [".json", ".json.gz"])
def test_a_good_trace_of_any_writer_is_clean(trace: FakeTrace, suffix: str, tmp_path: Path) -> None:
    report = check([trace.write(tmp_path / f"trace{suffix}")])
    assert codes(report) == []
    assert report.ok
    [file] = report.files
    assert file.format == trace.format
    assert file.events >= len(trace.events) > 0


def test_a_good_set_is_clean_and_counts_what_it_saw(tmp_path: Path) -> None:
    report = check([ranks(tmp_path)], expect_ranks=3)
    assert codes(report) == []
    assert [file.rank for file in report.files] == [0, 1, 2]
    seen = {"GT501", "GT502", "GT503", "GT504", "GT505", "GT506", "GT507", "GT508", "GT509", "GT510"}
    assert seen == report.looked_at.keys() - set(report.not_checked)


def test_one_file_alone_is_no_set(tmp_path: Path) -> None:
    report = check([FakeTrace().write(tmp_path / "trace.json")])
    assert set(report.not_checked) >= {"GT501", "GT502", "GT504", "GT505", "GT506", "GT507", "GT508", "GT509"}


def test_a_finding_tells_file_event_and_rank(tmp_path: Path) -> None:
    spoil(ranks(tmp_path) / "trace-rank1.json")
    [finding] = [each for each in check([tmp_path]).all_findings if each.code == "GT301"]
    assert finding.severity is Severity.ERROR
    assert (finding.file, finding.rank) == (str(tmp_path / "trace-rank1.json"), 1)
    assert finding.event == FakeTrace(rank=1, world_size=3).index(ph="X", cat="kernel")


@pytest.mark.parametrize(
    ("select", "ignore", "found"),
    [
        ([], [], True),
        (["GT3"], [], True),
        (["GT301"], [], True),
        (["negative-duration"], [], True),
        (["gt3"], ["GT302"], True),
        (["GT4"], [], False),
        ([], ["GT3"], False),
        (["GT3"], ["GT301"], False),
    ],
)
def test_codes_are_selected_and_ignored(select: list[str], ignore: list[str], found: bool, tmp_path: Path) -> None:
    spoil(tmp_path / "a.json")
    report = check([tmp_path], select=select, ignore=ignore)
    assert ("GT301" in codes(report)) == found
    assert ("GT301" in report.files[0].looked_at) == found
    assert not set(report.files[0].not_checked) - report.files[0].looked_at.keys()


@pytest.mark.parametrize("code", ["GT999", "X", "", "negative"])
def test_a_code_that_no_rule_has_is_an_error(code: str, tmp_path: Path) -> None:
    with pytest.raises(SelectionError, match="no rule has the code"):
        check([tmp_path], select=[code])
    with pytest.raises(SelectionError, match="no rule has the code"):
        check([tmp_path], ignore=[code])


def test_a_path_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(UnknownPathError, match="nowhere"):
        check([tmp_path / "nowhere"])


def test_nothing_found_is_not_ok(tmp_path: Path) -> None:
    report = check([tmp_path])
    assert report.files == ()
    assert not report.ok


def test_a_file_that_cannot_be_read_is_a_finding(tmp_path: Path) -> None:
    (tmp_path / "gone.json").symlink_to(tmp_path / "nowhere")
    report = check([tmp_path])
    [finding] = report.all_findings
    assert (finding.code, finding.message) == ("GT220", "cannot be read: No such file or directory")
    assert set(report.files[0].not_checked) == report.files[0].looked_at.keys() - {"GT220"}


def test_no_more_than_max_bytes_is_read(tmp_path: Path) -> None:
    path = FakeTrace().write(tmp_path / "trace.json.gz")
    report = check([path], max_bytes=1000)
    assert "GT219" in codes(report)
    assert "GT219" not in check([path]).files[0].looked_at
    assert report.files[0].size_bytes <= 1000
    assert codes(check([path], max_bytes=1_000_000)) == []


def test_a_gpu_is_expected_where_that_is_said(tmp_path: Path) -> None:
    path = FakeTrace("cpu").write(tmp_path / "trace.json")
    [finding] = [each for each in check([path]).all_findings if each.code == "GT402"]
    assert finding.severity is Severity.INFO
    [finding] = [each for each in check([path], expect_gpu=True).all_findings if each.code == "GT402"]
    assert finding.severity is Severity.ERROR


def test_several_processes_find_the_same(tmp_path: Path) -> None:
    """In a process of their own: what starts them leaves a helper of Python's behind until it ends."""
    spoil(ranks(tmp_path / "traces") / "trace-rank1.json")
    (tmp_path / "traces" / "x.json").write_text("{")
    script = tmp_path / "script.py"
    script.write_text(
        "from pytest_gputrace import check\n"
        "if __name__ == '__main__':\n"
        "    assert check('traces', jobs=2) == check('traces')\n"
        "    print(len(check('traces', jobs=2).files))\n"
    )
    done = subprocess.run([sys.executable, script], cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert (done.stdout, done.stderr) == ("4\n", "")


def test_progress_counts_files_and_bytes(tmp_path: Path) -> None:
    ranks(tmp_path)
    seen: list[Progress] = []
    check([tmp_path], progress=seen.append)
    size = sum(path.stat().st_size for path in tmp_path.iterdir())
    assert (seen[-1].done_files, seen[-1].files, seen[-1].done_bytes, seen[-1].bytes) == (3, 3, size, size)
    assert [each.done_bytes for each in seen] == sorted(each.done_bytes for each in seen)
    assert seen[0].name == "trace-rank0.json"


def test_every_rule_looks_or_compares_or_is_about_text() -> None:
    for code, rule in RULES.items():
        assert code == rule.code
        assert (rule.look is not None) + (rule.compare is not None) == (not code.startswith("GT2"))


def test_a_trace_that_is_cut_is_not_called_empty(tmp_path: Path) -> None:
    """What may stand in the part that is lost is not said to be missing."""
    trace = FakeTrace()
    text = trace.text().encode()
    (tmp_path / "cut.json").write_bytes(text[: text.index(b'"kernel"')])
    report = check([tmp_path])
    assert codes(report) == ["GT202"]
    assert {"GT401", "GT402", "GT407"} <= set(report.files[0].not_checked)


def test_the_environment_of_a_file_is_never_quoted(tmp_path: Path) -> None:
    trace = FakeTrace()
    trace.document["metadata"] = {"environment": {"PATH": "/x", "HOME": "/y", "HF_TOKEN": "hf_secret"}}
    trace.write(tmp_path / "trace.json")
    report = check([tmp_path])
    [finding] = report.all_findings
    assert finding.code == "GT601"
    assert "3 variables" in finding.message
    assert "1 named like a token" in finding.message
    assert not {"hf_secret", "HF_TOKEN", "/x"} & set(json.dumps(finding.message).replace(";", " ").split())


def test_a_report_is_equal_whatever_the_order_on_disk(tmp_path: Path) -> None:
    ranks(tmp_path)
    paths = sorted(tmp_path.iterdir())
    assert {file.path for file in check(paths[::-1]).files} == set(map(os.fspath, paths))


def test_a_file_of_which_nothing_is_left_is_of_its_neighbours_recording(tmp_path: Path) -> None:
    (ranks(tmp_path) / "trace-rank1.json").write_bytes(b"")
    assert codes(check([tmp_path], expect_ranks=3)) == ["GT203"]


def test_a_window_that_meets_one_further_on_is_double(tmp_path: Path) -> None:
    """Not only neighbours can overlap: the first file of the rank is the longest."""
    for number, (begin, last) in enumerate([(0, 9), (2, 3), (5, 6)]):
        trace = FakeTrace(steps=1, first_step=begin)
        later = FakeTrace(steps=1, first_step=last)
        trace.events[trace.index(ph="X", cat="user_annotation")]["dur"] = (
            later.events[later.index(ph="X", cat="user_annotation")]["ts"]
            - trace.events[trace.index(ph="X", cat="user_annotation")]["ts"]
        )
        trace.document["distributedInfo"] = {"rank": 0, "world_size": 2}
        trace.write(tmp_path / f"h_{10000 + number}.{170000 + number}.pt.trace.json")
    [finding] = [each for each in check([tmp_path], select=["GT502"]).all_findings]
    assert all(str(number) in finding.message for number in (10000, 10001, 10002))


@pytest.mark.parametrize(("select", "ignore"), [(["GT2"], ["GT2"]), (["GT301"], ["GT3"])])
def test_nothing_left_to_check_is_wrong_use(select: list[str], ignore: list[str], tmp_path: Path) -> None:
    with pytest.raises(SelectionError, match="nothing would be checked"):
        check([tmp_path], select=select, ignore=ignore)


def test_what_keeps_a_file_from_being_read_is_told_whatever_is_selected(tmp_path: Path) -> None:
    (tmp_path / "empty.json").write_bytes(b"")
    assert codes(check([tmp_path], select=["GT4"])) == ["GT203"]
    report = check([tmp_path], ignore=["GT2"])
    assert codes(report) == []
    assert [file.path for file in report.unseen] == [str(tmp_path / "empty.json")]
    assert not report.ok


def test_one_path_and_codes_between_commas_are_taken(tmp_path: Path) -> None:
    path = FakeTrace().write(tmp_path / "a.json")
    assert check(path, select="GT3,no-kernels").files == check([str(path)], select=["GT3", "GT401"]).files


@pytest.mark.parametrize(
    "times", [{"ts": 1e306, "dur": 1}, {"ts": 5, "dur": 1e300}, {"ts": 1e308, "dur": 1e308}], ids=str
)
@pytest.mark.parametrize("base", [None, 5, 10**19])
def test_times_beyond_all_clocks_are_findings_and_no_crash(
    times: dict[str, float], base: int | None, tmp_path: Path
) -> None:
    trace = FakeTrace(rank=0, world_size=2)
    for event in trace.events:
        if "Process Group Name" in event.get("args", {}):
            event.update(times)
    trace.document["baseTimeNanoseconds"] = base
    assert codes(check(trace.write(tmp_path / "rank0.json")))


def test_processes_that_cannot_start_are_no_finding_about_files(tmp_path: Path) -> None:
    """A script without a guard is run again by each process that is to be started from it."""
    ranks(tmp_path)
    script = f"from pytest_gputrace import check\nprint(check({str(tmp_path)!r}, jobs=2).ok)\n"
    done = subprocess.run([sys.executable, "-"], input=script, capture_output=True, text=True, timeout=60)
    assert done.stdout == "True\n"


def test_a_clock_that_is_off_is_called_so_in_spite_of_an_outlier(tmp_path: Path) -> None:
    trace = FakeTrace(steps=20)
    for row in trace.indices(ph="X", cat="kernel"):
        trace.events[row]["ts"] -= 10_000
    [finding] = [one for one in check(trace.write(tmp_path / "a.json")).all_findings if one.code == "GT306"]
    assert finding.message.endswith("the GPU's clock is behind the host's by a constant")


def test_what_follows_the_last_step_needs_no_gpu(tmp_path: Path) -> None:
    trace = FakeTrace(steps=3)
    last = trace.events[trace.indices(ph="X", cat="user_annotation")[-1]]
    rest = {**last, "name": "ProfilerStep#3", "ts": last["ts"] + last["dur"] + 400, "dur": last["dur"] / 50}
    trace.events.append(rest)
    assert codes(check(trace.write(tmp_path / "a.json"))) == []
    rest["dur"] = last["dur"]
    assert codes(check(trace.write(tmp_path / "a.json"))) == ["GT404"]


def test_a_pipe_is_read_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.json")
    data = gzip.compress(FakeTrace().text().encode())
    writer = threading.Thread(target=(tmp_path / "pipe.json").write_bytes, args=(data,))
    writer.start()
    [file] = check(tmp_path / "pipe.json").files
    writer.join(10)
    assert file.looked_at["GT213"] == 1
    assert file.events == len(FakeTrace().events)
