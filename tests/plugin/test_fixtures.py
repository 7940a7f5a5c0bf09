"""What each fixture gives, without --gputrace and with it."""

from __future__ import annotations

import importlib.util
import sys
from typing import TYPE_CHECKING, Any

import pytest

from pytest_gputrace import Capture, export_events
from pytest_gputrace.errors import ClusterError
from pytest_gputrace.plugin import fixtures

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from types import ModuleType

    from pytest_gputrace.export.exporter import ExportResult
    from pytest_gputrace.fakes import Job
    from pytest_gputrace.plugin.clusters import ClusterFactory
    from pytest_gputrace.plugin.profilers import FakeProfilerFactory
    from pytest_gputrace.plugin.rankdirs import RankDirsFactory

    Start = Callable[..., pytest.RunResult]

on_linux = pytest.mark.skipif(sys.platform != "linux", reason="simulated nodes need Linux")


def export(job: Job) -> ExportResult:
    with job.profiler() as profile:
        pass
    return export_events(profile, model=job.model, trace_dir=job.trace_dir, configuration=job.configuration)


def test_gputrace_dir_is_below_tmp_path(gputrace_dir: Path, tmp_path: Path) -> None:
    assert gputrace_dir.parent == tmp_path
    assert list(gputrace_dir.iterdir()) == []


@pytest.mark.parametrize("root", [None, "elsewhere"])
def test_gputrace_rank_dirs(
    gputrace_rank_dirs: RankDirsFactory, gputrace_dir: Path, tmp_path: Path, root: str | None
) -> None:
    base = gputrace_dir if root is None else tmp_path / root
    dirs = gputrace_rank_dirs(["model-benchmarks:gpt", "a/b"], 2, None if root is None else base)
    assert dirs["a/b", 1] == base / "benchmarks/a/b/rank1"
    assert len(dirs) == 4
    assert all(folder.is_dir() for folder in dirs.values())


def test_gputrace_rank_dirs_of_given_ranks(gputrace_rank_dirs: RankDirsFactory) -> None:
    assert set(gputrace_rank_dirs(["c"], [3, 5])) == {("c", 3), ("c", 5)}


def test_gputrace_fault(gputrace_fault: ModuleType) -> None:
    assert str(gputrace_fault.truncate_legacy("start")) == "truncate_legacy()"


def test_gputrace_fake_profiler_gives_rounds(gputrace_fake_profiler: FakeProfilerFactory) -> None:
    profile_class = gputrace_fake_profiler(Capture("node3", 5, "x"), steps=1)
    names = []
    for _ in range(2):
        with profile_class() as profile:
            pass
        names.append({event.name for event in profile.events()})
    assert Capture("node3", 5, "x").mark(0, 3) in names[0]
    assert Capture("node3", 5, "x", 1).mark(2, 3) in names[1]


@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="needs torch: it is not installed")
def test_gputrace_fake_profiler_replaces_torchs_until_the_test_ends(
    start_plain: Start, pytester: pytest.Pytester
) -> None:
    pytester.makepyfile(
        """
        import sys

        def test_replaced(gputrace_fake_profiler):
            assert "torch" not in sys.modules
            first = gputrace_fake_profiler()
            import torch
            assert torch.profiler.profile is first
            assert torch.cuda.device_count() == 8
            second = gputrace_fake_profiler(vendor="hip", device_count=2)
            assert torch.profiler.profile is second
            assert torch.version.hip and torch.cuda.device_count() == 2

        def test_undone():
            import torch
            assert torch.profiler.profile.__module__ == "torch.profiler.profiler"
            assert torch.version.hip is None
        """
    )
    start_plain().assert_outcomes(passed=2)


@on_linux
def test_gputrace_cluster_has_a_folder_of_its_own(gputrace_cluster: ClusterFactory, gputrace_dir: Path) -> None:
    clusters = [gputrace_cluster(nodes=1), gputrace_cluster(label="Second: one"), gputrace_cluster()]
    assert clusters[0].root == gputrace_dir / "cluster0"
    assert clusters[2].root == gputrace_dir / "cluster2"
    assert clusters[1].root.parent == gputrace_dir
    assert clusters[1].root.name.startswith("second-one~")


@on_linux
def test_gputrace_cluster_runs(gputrace_cluster: ClusterFactory) -> None:
    cluster = gputrace_cluster(nodes=1, ranks=2, node_identity="patched", configurations=["c"])
    run = cluster.run(export)
    assert cluster.runs == [run]
    assert cluster.expected == [Capture("node0", rank, "c") for rank in range(2)]
    assert len(list(cluster.trace_dir.glob("*__cfg=c__*"))) == 2
    assert cluster.writes is not None
    assert {write.path.name for write in cluster.writes} == {
        f"torch-profiler-sb-resnet50-{rank}.json" for rank in (0, 1)
    }


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"label": "twice"}, "gputrace_cluster: this test has a cluster 'twice' already; give another label"),
        ({"label": "cluster1"}, ""),
        ({"root": "x"}, "gputrace_cluster: root is chosen by the fixture"),
        ({"nodes": 0}, "must be at least 1"),
        ({"launcher": "none"}, "gputrace_cluster: Cluster: launcher 'none' is not one of "),
        ({"colour": "red"}, "there is no option 'colour'. The options are label, nodes, ranks, configurations, "),
        ({"node": 2}, "there is no option 'node'; did you mean 'nodes'? The options are "),
        ({"configurations": "a"}, "gputrace_cluster: Cluster: configurations='a' is one text; give a list"),
    ],
)
def test_gputrace_cluster_used_wrongly(gputrace_cluster: ClusterFactory, options: dict[str, Any], message: str) -> None:
    gputrace_cluster(label="twice")
    if not message:
        gputrace_cluster(**options)
        return
    with pytest.raises(pytest.UsageError) as caught:
        gputrace_cluster(**options)
    assert message in str(caught.value)
    gputrace_cluster(label="a failed one takes no name")


@on_linux
def test_gputrace_cluster_tells_a_fault_that_struck_nobody(
    gputrace_cluster: ClusterFactory, gputrace_fault: ModuleType
) -> None:
    def other_name(job: Job) -> None:
        (job.trace_dir / f"{job.worker.rank}.json").write_text("[]")

    options: dict[str, Any] = {
        "nodes": 1,
        "node_identity": "patched",
        "faults": [gputrace_fault.truncate_legacy("end")],
    }
    cluster = gputrace_cluster(**options)
    with pytest.raises(ClusterError, match="truncate_legacy"):
        cluster.run(other_name)
    assert cluster.runs[0].struck == {"truncate_legacy(at='end')": 0}
    named = gputrace_cluster(**options, legacy_name="{rank}.json")
    assert named.run(other_name).struck == {"truncate_legacy(at='end')": 2}


def test_every_public_fixture_says_what_it_gives() -> None:
    names = {name for name in fixtures.__all__ if name.startswith("gputrace_")}
    assert names == {
        "gputrace_check", "gputrace_cluster", "gputrace_dir", "gputrace_engine", "gputrace_fake_profiler",
        "gputrace_fault", "gputrace_rank_dirs", "gputrace_server",
    }  # fmt: skip
    for name in names:
        function = getattr(fixtures, name)._get_wrapped_function()
        assert function.__annotations__["return"]
        first = (function.__doc__ or "").splitlines()[0]
        assert first.endswith(".")
        assert first.startswith(("The ", "A factory "))


FOLDERS = """
import pytest

@pytest.mark.parametrize("value", ["a/b", "A/B", "x" * 300])
def test_dir(gputrace_dir, value):
    (gputrace_dir / "file").touch()

def test_same(gputrace_dir, request):
    assert request.getfixturevalue("gputrace_dir") == gputrace_dir
"""


@pytest.mark.parametrize("start", ["plain", "n2"], indirect=True)
def test_each_test_has_a_folder_in_one_run(start: Start, pytester: pytest.Pytester) -> None:
    pytester.makepyfile(test_it=FOLDERS)
    start("--gputrace", "--gputrace-dir=kept").assert_outcomes(passed=4)
    [run] = (pytester.path / "kept").iterdir()
    folders = [folder.name for folder in run.iterdir()]
    assert len(folders) == 4
    assert all(len(name) <= 120 and name.startswith("test_it.py-test_") for name in folders)
    assert not (pytester.path / ".gputrace").exists()


def test_a_second_run_has_a_second_folder(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(test_it=FOLDERS)
    for _ in range(2):
        pytester.runpytest_inprocess("--gputrace").assert_outcomes(passed=4)
    assert len(list((pytester.path / ".gputrace").iterdir())) == 2


def test_a_test_that_runs_again_has_a_second_folder(start_n2: Start, pytester: pytest.Pytester) -> None:
    pytester.makepyfile(test_it="def test_dir(gputrace_dir): assert not list(gputrace_dir.iterdir())")
    start_n2("--gputrace", "--dist=each").assert_outcomes(passed=2)
    [run] = (pytester.path / ".gputrace").iterdir()
    first, second = sorted(folder.name for folder in run.iterdir())
    assert second == f"{first}.a2"
