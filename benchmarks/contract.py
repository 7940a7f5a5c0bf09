"""The whole contract against our exporter: where its time goes, and what a second core brings.

The exporter itself, run in as many workers, is what the rest is measured against.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.table import show
from pytest_gputrace.conformance import CHECKS, Sizes, Subject, hold, not_checked
from pytest_gputrace.export.exporter import export_events
from pytest_gputrace.fakes import Cluster

if TYPE_CHECKING:
    from pytest_gputrace.fakes import ClusterRun, Job

_FAMILIES = {
    "CT1": "a file of its own",
    "CT2": "launchers",
    "CT3": "legacy file",
    "CT4": "content",
    "CT5": "failure",
    "CT6": "consumer",
}


def export(job: Job) -> None:
    """Our exporter, as an adapter of three lines."""
    for _ in range(job.rounds):
        with job.profiler() as profile:
            pass
        export_events(profile, model=job.model, trace_dir=job.trace_dir, configuration=job.configuration or None)


def pair_files(baseline: Path, target: Path) -> dict[str, int]:
    """A consumer: the sizes of the files that both folders have."""
    return {path.name: (target / path.name).stat().st_size for path in sorted(baseline.glob("*.json"))}


def main(count: int) -> None:
    """Measure and print."""
    subject = Subject(export, consumer=pair_files)
    _by_family(subject)
    rows = []
    for name, options in {"plain": ["-p", "no:xdist"], "-n 2": ["-n", "2"]}.items():
        seconds = min(_pytest(options) for _ in range(max(1, count // 3)))
        rows.append((name, seconds))
    first = rows[0][1]
    show(
        "`pytest --gputrace-conformance` on our exporter, default sizes: `python -m benchmarks contract`",
        ["pytest", "whole run", "of plain"],
        [[name, f"{seconds:.1f} s", f"{seconds / first:.2f}"] for name, seconds in rows],
    )


def _by_family(subject: Subject) -> None:
    """Time of each family; the part of it in which a worker was inside the exporter."""
    spent: dict[str, list[float]] = {}
    inside = _Inside()
    with inside:
        for check in CHECKS.values():
            if not_checked(check, subject, Sizes()):
                continue
            folder = Path(tempfile.mkdtemp(prefix="gputrace-bench-"))
            before = inside.snapshot()
            start = time.perf_counter()
            verdict = hold(check, subject, folder, Sizes())
            seconds = time.perf_counter() - start
            shutil.rmtree(folder)
            if not verdict.ok:
                raise SystemExit(verdict.message)
            workers, export_s = (now - then for now, then in zip(inside.snapshot(), before, strict=True))
            row = spent.setdefault(check.id[:3], [0, 0.0, 0, 0.0])
            for place, value in enumerate((1, seconds, workers, export_s)):
                row[place] += value
    rows = [
        [f"{family} {_FAMILIES[family]}", f"{row[0]:.0f}", f"{row[2]:.0f}", f"{row[1]:.2f} s", f"{row[3] / row[1]:.0%}"]
        for family, row in spent.items()
    ]
    total = [sum(row[place] for row in spent.values()) for place in range(4)]
    rows.append(["all", f"{total[0]:.0f}", f"{total[2]:.0f}", f"{total[1]:.2f} s", f"{total[3] / total[1]:.0%}"])
    show(
        "Where the time goes, in one process: `python -m benchmarks contract`",
        ["family", "checks", "workers", "time", "inside the exporter"],
        rows,
    )


class _Inside:
    """Adds up, over all clusters that run inside, the workers and the seconds each spent in the exporter."""

    def __init__(self) -> None:
        self.workers, self.seconds = 0, 0.0

    def snapshot(self) -> tuple[float, float]:
        return self.workers, self.seconds

    def __enter__(self) -> None:
        self._run = Cluster.run
        inside = self

        def run(cluster: Cluster, *args: Any, **options: Any) -> ClusterRun[Any]:
            result = inside._run(cluster, *args, **options)
            inside.workers += len(result)
            inside.seconds += sum((o.ended_ns - o.started_ns) / 1e9 for o in result if o.ended_ns and o.started_ns)
            return result

        Cluster.run = run  # type: ignore[method-assign,assignment]  # undone at the end

    def __exit__(self, *_: object) -> None:
        Cluster.run = self._run  # type: ignore[method-assign]


def _pytest(options: list[str]) -> float:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *options]
    command += ["--gputrace-conformance=benchmarks.contract:export"]
    command += ["--gputrace-consumer=benchmarks.contract:pair_files"]
    start = time.perf_counter()
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, timeout=300, check=False)
    if done.returncode:
        raise SystemExit(done.stdout[-3000:])
    return time.perf_counter() - start
