"""The fixtures. Everything heavy is imported in their bodies, so that loading the plugin costs nothing."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

import pytest

from pytest_gputrace.plugin.folders import RUN, new_test_folder
from pytest_gputrace.plugin.options import SETTINGS

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from types import ModuleType

    from pytest_gputrace.plugin.checking import CheckFactory
    from pytest_gputrace.plugin.clusters import ClusterFactory
    from pytest_gputrace.plugin.contractrun import Hold
    from pytest_gputrace.plugin.engines import EngineFactory
    from pytest_gputrace.plugin.evidence import Evidence
    from pytest_gputrace.plugin.profilers import FakeProfilerFactory
    from pytest_gputrace.plugin.rankdirs import RankDirsFactory
    from pytest_gputrace.plugin.servers import ServerFactory

__all__ = [
    "EVIDENCE",
    "gputrace_check",
    "gputrace_cluster",
    "gputrace_dir",
    "gputrace_engine",
    "gputrace_fake_profiler",
    "gputrace_fault",
    "gputrace_rank_dirs",
    "gputrace_server",
]

EVIDENCE = pytest.StashKey["Evidence"]()
"""What a test left to be judged; in the stash of an item that used a fixture which runs or checks."""


@pytest.fixture
def gputrace_dir(request: pytest.FixtureRequest) -> Path:
    """The folder for this test's traces: kept with --gputrace, else below ``tmp_path``."""
    run = request.config.stash.get(RUN, None)
    if run is None:
        tmp_path: Path = request.getfixturevalue("tmp_path")
        folder = tmp_path / "gputrace"
        folder.mkdir()
        return folder
    return new_test_folder(request.config.stash[SETTINGS].folder / run, request.node.nodeid)


@pytest.fixture
def gputrace_rank_dirs(request: pytest.FixtureRequest) -> RankDirsFactory:
    """A factory of SuperBench rank folders: ``gputrace_rank_dirs(configurations, ranks)``."""
    from pytest_gputrace.plugin.rankdirs import RankDirsFactory

    return RankDirsFactory(lambda: request.getfixturevalue("gputrace_dir"))


@pytest.fixture
def gputrace_fake_profiler() -> Iterator[FakeProfilerFactory]:
    """A factory of fake profilers that stand in for ``torch.profiler.profile`` until the test ends."""
    from pytest_gputrace.plugin.profilers import FakeProfilerFactory

    with contextlib.ExitStack() as undo:
        yield FakeProfilerFactory(undo)


@pytest.fixture
def gputrace_fault() -> ModuleType:
    """The faults that a cluster can be given: ``gputrace_fault.sigkill("legacy-written")``."""
    from pytest_gputrace.fakes import faults

    return faults


@pytest.fixture
def gputrace_cluster(gputrace_dir: Path, _gputrace_evidence: Evidence) -> ClusterFactory:
    """A factory of simulated clusters, each in a folder of its own: ``gputrace_cluster(nodes=2, ranks=8)``."""
    from pytest_gputrace.plugin.clusters import ClusterFactory

    _gputrace_evidence.folder = gputrace_dir
    return ClusterFactory(gputrace_dir, _gputrace_evidence)


@pytest.fixture
def gputrace_check(_gputrace_evidence: Evidence) -> CheckFactory:
    """A factory of checks of a trace folder: ``gputrace_check(cluster).distinct().valid().complete()``."""
    from pytest_gputrace.plugin.checking import CheckFactory

    return CheckFactory(_gputrace_evidence)


@pytest.fixture
def gputrace_engine(gputrace_dir: Path) -> Iterator[EngineFactory]:
    """A factory of fake serving engines that end with the test: ``gputrace_engine(dp=1, tp=2, faults=[...])``."""
    from pytest_gputrace.plugin.engines import EngineFactory

    with contextlib.ExitStack() as end:
        yield EngineFactory(gputrace_dir, end)


@pytest.fixture
def gputrace_server(request: pytest.FixtureRequest) -> Iterator[ServerFactory]:
    """A factory of profiles of a serving engine: ``gputrace_server(url, kind="sglang", folder=folder)``."""
    from pytest_gputrace.plugin.servers import ServerFactory

    with contextlib.ExitStack() as end:
        yield ServerFactory(lambda: request.getfixturevalue("gputrace_dir"), end)


@pytest.fixture
def _gputrace_evidence(request: pytest.FixtureRequest) -> Evidence:
    """What this test ran and expected, to be judged when it is over."""
    from pytest_gputrace.plugin.evidence import Evidence

    worker = getattr(request.config, "workerinput", {}).get("workerid", "")
    evidence = Evidence(request.node.nodeid, worker, kept=RUN in request.config.stash)
    request.node.stash[EVIDENCE] = evidence
    return evidence


@pytest.fixture
def _gputrace_hold(request: pytest.FixtureRequest) -> Hold:
    """Holds an exporter to one check of the contract, in the folder of this test."""
    from pytest_gputrace.plugin.contractrun import Hold

    return Hold(request)
