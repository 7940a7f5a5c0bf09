"""What hands a job of the kit to the exporters."""

from __future__ import annotations

from typing import Any

from tracekeeper import keep, keep_by_rank

UNCLAIMED = {"legacy": "no older consumer reads our files", "layout": "the configuration is handed over"}


def good(job: Any) -> None:
    """The exporter that keeps all."""
    for _ in range(job.rounds):
        with job.profiler() as profile:
            pass
        keep(profile, job.trace_dir, job.configuration)


def bad(job: Any) -> None:
    """The exporter that loses configurations, rounds and earlier runs."""
    for _ in range(job.rounds):
        with job.profiler() as profile:
            pass
        keep_by_rank(profile, job.trace_dir)
