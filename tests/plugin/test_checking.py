"""`gputrace_check`: what it takes, what it says, and that it never passes without having looked."""

from __future__ import annotations

import hashlib
import json
import sys
import time
from typing import TYPE_CHECKING, Any

import pytest

from pytest_gputrace import Capture, ExportResult, export_events
from pytest_gputrace.fakes import Cluster, FakeTrace

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from pytest_gputrace.fakes import Job
    from pytest_gputrace.plugin.checking import CheckFactory
    from pytest_gputrace.plugin.clusters import ClusterFactory


on_linux = pytest.mark.skipif(sys.platform != "linux", reason="simulated nodes need Linux")
A, B = Capture("node0", 0, "fp16"), Capture("node0", 1, "fp16")


def export(job: Job) -> ExportResult:
    with job.profiler() as profile:
        pass
    return export_events(profile, model=job.model, trace_dir=job.trace_dir, configuration=job.configuration)


def write(folder: Path, name: str, captures: Sequence[Capture], extra: str = "") -> None:
    text = json.dumps([{"name": capture.mark()} for capture in captures])
    (folder / name).write_text(text[:-1] + extra + "]", encoding="utf-8")


def message(check: Any, *args: Any, **options: Any) -> str:
    with pytest.raises(AssertionError) as caught:
        check(*args, **options)
    return str(caught.value)


def test_chain(tmp_path: Path, gputrace_check: CheckFactory) -> None:
    write(tmp_path, "a.json", [A])
    write(tmp_path, "torch-profiler-sb-m-0.json", [A])
    check = gputrace_check(tmp_path, [A])
    assert check.distinct().valid().finite().complete().legacy() is check
    assert check.findings == []
    assert [reading.name for reading in check.readings] == ["a.json", "torch-profiler-sb-m-0.json"]
    gputrace_check(str(tmp_path)).complete([A])


def test_kept(tmp_path: Path, gputrace_check: CheckFactory) -> None:
    write(tmp_path, "a.json", [A])
    write(tmp_path, "b.json", [B])
    write(tmp_path, "again.json", [B])
    assert gputrace_check(tmp_path, [B, Capture("node0", 2, "fp16")]).kept == 1
    assert gputrace_check(tmp_path).kept == 2
    assert gputrace_check(tmp_path / "missing", [A]).kept == 0


def test_message(tmp_path: Path, gputrace_check: CheckFactory) -> None:
    write(tmp_path, "a.json", [A], ', {"name": "x", "t": NaN}')
    assert message(gputrace_check(tmp_path).finite) == (
        f"finite: 1 found in {tmp_path}\n"
        '  GT204 a.json (fp16 on node0 rank 0): byte 69, event 1 ("x"): NaN: JSON has no such number; write null'
    )
    assert message(gputrace_check(tmp_path, [A, B]).complete).splitlines() == [
        f"complete: 2 found in {tmp_path}",
        "  GT106 no file holds fp16 on node0 rank 0: a.json does not, being broken",
        (
            "  GT106 no file holds fp16 on node0 rank 1: none of its marks is anywhere; it was never written, or "
            "another capture took its place"
        ),
    ]


def test_a_long_message_is_cut(tmp_path: Path, gputrace_check: CheckFactory) -> None:
    expected = [Capture("n", rank, "c") for rank in range(25)]
    write(tmp_path, "a.json", [A])
    lines = message(gputrace_check(tmp_path).complete, expected).splitlines()
    assert lines[0].startswith("complete: 26 found")
    assert lines[-1] == "  and 6 more"
    assert len(lines) == 22


@pytest.mark.parametrize("name", ["distinct", "valid", "finite", "legacy"])
@pytest.mark.parametrize("folder", [".", "missing"])
def test_nothing_looked_at_fails(tmp_path: Path, gputrace_check: CheckFactory, name: str, folder: str) -> None:
    text = message(getattr(gputrace_check(tmp_path / folder), name))
    assert f"GT100 {name}: not checked, nothing was looked at: no " in text


def test_complete_of_nothing_fails(tmp_path: Path, gputrace_check: CheckFactory) -> None:
    assert "GT100" in message(gputrace_check(tmp_path).complete, [])
    assert "GT106" in message(gputrace_check(tmp_path).complete, [A])


def test_warnings_do_not_fail(tmp_path: Path, gputrace_check: CheckFactory) -> None:
    (tmp_path / "a.json").write_text(r'[{"name": "C:\temp\new"}]', encoding="utf-8")
    check = gputrace_check(tmp_path).valid()
    assert [finding.code for finding in check.findings] == ["GT217"]


def test_others(tmp_path: Path, gputrace_check: CheckFactory) -> None:
    write(tmp_path, "a.json", [A])
    write(tmp_path, "b.json", [B])
    assert "GT108" in message(gputrace_check(tmp_path, [A]).complete)
    gputrace_check(tmp_path, [A]).complete(others=True)


def test_legacy_with_results(tmp_path: Path, gputrace_check: CheckFactory) -> None:
    write(tmp_path, "torch-profiler-sb-m-0.json", [A])
    path = tmp_path / "torch-profiler-sb-m-0.json"
    right = ExportResult(path, None, 1, 0, hashlib.sha256(path.read_bytes()).hexdigest())
    wrong = ExportResult(path, None, 1, 0, "0" * 64)
    gputrace_check(tmp_path).legacy([right, wrong])
    assert "GT109" in message(gputrace_check(tmp_path).legacy, [wrong])
    assert "GT100" in message(gputrace_check(tmp_path).legacy)


@pytest.mark.parametrize(
    ("target", "text"),
    [
        (3, "gputrace_check: expected a folder, a cluster or its run, got int: 3"),
        (None, "gputrace_check: expected a folder, a cluster or its run, got NoneType: None"),
        (__file__, "is a file; pass the folder that holds the traces"),
    ],
)
def test_wrong_target(gputrace_check: CheckFactory, target: Any, text: str) -> None:
    with pytest.raises(pytest.UsageError) as caught:
        gputrace_check(target)
    assert text in str(caught.value)


def test_wrong_use(tmp_path: Path, gputrace_check: CheckFactory) -> None:
    with pytest.raises(pytest.UsageError, match="complete: which captures are expected"):
        gputrace_check(tmp_path).complete()
    with pytest.raises(pytest.UsageError, match="none of the results tells a legacy file"):
        gputrace_check(tmp_path).legacy([None, 3])


@on_linux
@pytest.mark.parametrize("shared", [True, False])
def test_cluster_run_and_folder(gputrace_cluster: ClusterFactory, gputrace_check: CheckFactory, shared: bool) -> None:
    cluster = gputrace_cluster(shared_trace_dir=shared, configurations=("a", "b:c/d"), rounds=2)
    run = cluster.run(lambda job: [export(job), export(job)])
    for target in (cluster, run):
        gputrace_check(target).distinct().valid().finite().complete().legacy()
    gputrace_check(cluster.trace_dir, cluster.expected).distinct().valid().finite().complete().legacy(run)
    broken = sorted(cluster.trace_dir.rglob("torch-profiler-sb-resnet50-0.json"))[0]
    broken.write_bytes(broken.read_bytes()[:100])
    for target in (cluster, run):
        gputrace_check(target).distinct().valid().finite().complete()
        assert "GT109" in message(gputrace_check(target).legacy)


@on_linux
@on_linux
def test_a_run_that_writes_nothing_is_not_proved_by_an_earlier_one(gputrace_cluster: Any, gputrace_check: Any) -> None:
    cluster = gputrace_cluster(nodes=1, ranks=2, node_identity="patched")
    gputrace_check(cluster.run(export)).valid().finite().distinct().complete().legacy()
    silent = gputrace_check(cluster.run(lambda _job: None))
    assert silent.kept == 0
    assert "GT106" in message(silent.complete)
    # A run after that has the same captures in files of its own, the next attempts.
    gputrace_check(cluster.run(export)).valid().finite().distinct().complete().legacy()


def test_a_cluster_of_ones_own(tmp_path: Path, gputrace_check: CheckFactory) -> None:
    cluster = Cluster(tmp_path, nodes=1, node_identity="patched")
    run = cluster.run(export)
    gputrace_check(cluster).complete().legacy()
    gputrace_check(run).complete().legacy()


@on_linux
def test_the_legacy_file_of_a_killed_worker(
    gputrace_cluster: ClusterFactory, gputrace_check: CheckFactory, gputrace_fault: Any
) -> None:
    killed = gputrace_fault.sigkill("legacy-written", who=gputrace_fault.Who(rank=0))
    cluster = gputrace_cluster(nodes=2, ranks=1, faults=[killed, gputrace_fault.bad_values()])
    done = cluster.root / "done"

    def function(job: Job) -> ExportResult:
        """The one that will be killed writes last."""
        until = time.monotonic() + 30
        while job.worker.rank == 0 and not done.exists() and time.monotonic() < until:
            time.sleep(0.01)
        result = export(job)
        done.touch()
        return result

    run = cluster.run(function, check=False)
    assert [outcome.job.worker.rank for outcome in run.failures] == [0]
    gputrace_check(run).distinct().valid().finite().legacy()


def test_the_traceback_ends_in_the_test(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("def test_it(gputrace_check, tmp_path):\n    gputrace_check(tmp_path).valid()\n")
    result = pytester.runpytest_inprocess()
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["E * AssertionError: valid: 1 found in *", "E * GT100 valid: not checked*"])
    assert "checking.py" not in result.stdout.str()


def test_clean_holds_files_to_the_rules_about_traces(tmp_path: Path, gputrace_check: CheckFactory) -> None:
    FakeTrace().write(tmp_path / "good.json")
    gputrace_check(tmp_path).clean(expect_gpu=True)
    trace = FakeTrace()
    kernel = trace.index(ph="X", cat="kernel")
    trace.events[kernel]["dur"] = -1
    trace.write(tmp_path / "bad.json")
    told = message(gputrace_check(tmp_path).clean)
    assert told.startswith(
        f"clean: 1 found\n{tmp_path / 'bad.json'}: event {kernel}: GT301 negative-duration [error] "
        f'"{trace.events[kernel]["name"]}" lasts -1 us; 1 of {len(trace.events)} events: -1 means that it never ended\n'
    )
    assert told.endswith("why, and how to fix it: gputrace rules GT301")
    gputrace_check(tmp_path).clean(ignore=["GT301"]).clean(select=["GT2"])


def test_clean_sees_the_files_as_a_set(tmp_path: Path, gputrace_check: CheckFactory) -> None:
    FakeTrace(rank=0, world_size=2).write(tmp_path / "rank0.json")
    assert "1 of 2 ranks have no file: 1" in message(gputrace_check(tmp_path).clean, expect_ranks=2)


def test_clean_of_nothing_fails(tmp_path: Path, gputrace_check: CheckFactory) -> None:
    assert "GT100 clean: not checked, nothing was looked at" in message(gputrace_check(tmp_path).clean)


def test_clean_refuses_a_code_that_no_rule_has(tmp_path: Path, gputrace_check: CheckFactory) -> None:
    with pytest.raises(pytest.UsageError, match="clean: no rule has the code or name 'GT999'"):
        gputrace_check(tmp_path).clean(ignore=["GT999"])
