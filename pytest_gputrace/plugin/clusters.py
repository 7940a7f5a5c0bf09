"""A simulated cluster that notes what it ran, and the factory that gives each one a folder of its own."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any, TypeVar

import pytest

from pytest_gputrace.errors import ClusterError, GputraceError
from pytest_gputrace.fakes import Cluster, ClusterRun
from pytest_gputrace.fakes.validate import did_you_mean
from pytest_gputrace.naming import encode_field
from pytest_gputrace.plugin.evidence import Entry, Evidence, writes_of_run

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pytest_gputrace.checks.captures import LegacyWrite
    from pytest_gputrace.fakes import Job

__all__ = ["ClusterFactory", "RecordedCluster"]

T = TypeVar("T")
_LABEL_LIMIT = 60
_OPTIONS = tuple(name for name in inspect.signature(Cluster).parameters if name != "root")


class RecordedCluster(Cluster):
    """A `Cluster` whose runs are counted in the summary of the test run."""

    def __init__(self, root: Path, *, label: str, evidence: Evidence, **options: Any) -> None:
        super().__init__(root, **options)
        self.runs: list[ClusterRun[Any]] = []
        self._evidence = evidence
        self._entry = Entry(
            label=label,
            folders=tuple(self.trace_dirs),
            expected=tuple(self.expected),
            faults=tuple(map(str, self.faults)),
            workers=self.nodes * self.ranks * len(self.configurations),
        )

    def run(self, function: Callable[[Job], T], *, check: bool = True) -> ClusterRun[T]:
        """As `Cluster.run`; what was expected is noted before, how it ended after."""
        __tracebackhide__ = True
        if not self.runs:
            self._evidence.begin(self._entry)
        try:
            run = super().run(function, check=False)
        except GputraceError as error:
            late = error.workers if isinstance(error, ClusterError) else ()
            self._entry.failed = [f"{worker}: not done" for worker in late] or [str(error).split("\n", 1)[0]]
            raise
        self.runs.append(run)
        self._entry.node_identity = run.node_identity
        self._entry.writes = self.writes
        self._entry.faults = tuple(
            f"{text} in {run.struck[text]} of {_workers(run.selected[text])}" for text in run.struck
        )
        self._entry.failed = [str(outcome) for outcome in run.failures]
        if check:
            run.check()
        return run

    @property
    def writes(self) -> list[LegacyWrite] | None:
        """Who wrote which legacy file in all runs; ``None`` where nothing tells."""
        writes = [write for run in self.runs for write in writes_of_run(run) or ()]
        return writes or None


def _workers(count: int) -> str:
    return "1 worker" if count == 1 else f"{count} workers"


class ClusterFactory:
    """Makes clusters, each in a folder of its own below the test's."""

    def __init__(self, folder: Path, evidence: Evidence) -> None:
        self._folder = folder
        self._evidence = evidence
        self._labels: set[str] = set()

    def __call__(self, *, label: str | None = None, **options: Any) -> RecordedCluster:
        """Make a cluster.

        Args:
            label: tells this cluster from others of the test, in its folder and in the summary.
            options: those of `Cluster`, without ``root``.

        Raises:
            pytest.UsageError: the label was used before, or an option is unknown or cannot be used.
        """
        name = f"cluster{len(self._labels)}" if label is None else label
        if name in self._labels:
            raise pytest.UsageError(f"gputrace_cluster: this test has a cluster {name!r} already; give another label")
        if "root" in options:
            raise pytest.UsageError("gputrace_cluster: root is chosen by the fixture; use Cluster for another one")
        unknown = [option for option in options if option not in _OPTIONS]
        if unknown:
            raise pytest.UsageError(_unknown(unknown[0]))
        root = self._folder / encode_field(name, limit=_LABEL_LIMIT)
        try:
            cluster = RecordedCluster(root, label=label or "", evidence=self._evidence, **options)
        except (TypeError, ValueError) as error:
            raise pytest.UsageError(f"gputrace_cluster: {error}") from error
        self._labels.add(name)
        return cluster


def _unknown(option: str) -> str:
    known = ("label", *_OPTIONS)
    hint = did_you_mean(option, known) or "."
    return f"gputrace_cluster: there is no option {option!r}{hint} The options are {', '.join(known)}"
