"""Stand-ins for GPUs, launchers and clusters, so that a real exporter can be tried and broken without any.

Public names are resolved on first use. From the rest of the package only the data model and the errors are used:
what makes the evidence never shares a belief with what judges it. The processes of a ``FakeEngine`` alone run the library's
profile control: there it is what is tried.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pytest_gputrace.fakes import faults
    from pytest_gputrace.fakes.cluster import Cluster
    from pytest_gputrace.fakes.engine import FakeEngine
    from pytest_gputrace.fakes.engine import faults as enginefaults
    from pytest_gputrace.fakes.events import FakeEvent, fake_events
    from pytest_gputrace.fakes.job import Job
    from pytest_gputrace.fakes.launchers import launcher_environment
    from pytest_gputrace.fakes.outcome import ClusterRun, Outcome
    from pytest_gputrace.fakes.profiler import FakeProfile
    from pytest_gputrace.fakes.rankdirs import OUTSIDE_LAYOUT, RankDirs, make_rank_dirs, outside_layout
    from pytest_gputrace.fakes.torchfake import fake_torch
    from pytest_gputrace.fakes.tracefaults import TraceFault, trace_faults
    from pytest_gputrace.fakes.traces import FakeTrace

_HOMES = {
    "Cluster": "cluster",
    "ClusterRun": "outcome",
    "FakeEngine": "engine",
    "FakeEvent": "events",
    "FakeProfile": "profiler",
    "FakeTrace": "traces",
    "Job": "job",
    "OUTSIDE_LAYOUT": "rankdirs",
    "Outcome": "outcome",
    "RankDirs": "rankdirs",
    "TraceFault": "tracefaults",
    "fake_events": "events",
    "fake_torch": "torchfake",
    "launcher_environment": "launchers",
    "make_rank_dirs": "rankdirs",
    "outside_layout": "rankdirs",
    "trace_faults": "tracefaults",
}

_MODULES = {"enginefaults": "engine.faults", "faults": "faults"}

__all__ = [
    "OUTSIDE_LAYOUT",
    "Cluster",
    "ClusterRun",
    "FakeEngine",
    "FakeEvent",
    "FakeProfile",
    "FakeTrace",
    "Job",
    "Outcome",
    "RankDirs",
    "TraceFault",
    "enginefaults",
    "fake_events",
    "fake_torch",
    "faults",
    "launcher_environment",
    "make_rank_dirs",
    "outside_layout",
    "trace_faults",
]


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return importlib.import_module(f"{__name__}.{_MODULES[name]}")
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f"{__name__}.{home}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
