"""What the legacy file holds without anything new: the control that legacy bytes are compared with."""

from __future__ import annotations

import contextlib
import json
import os
from typing import TYPE_CHECKING, Any

from pytest_gputrace.errors import ContractError
from pytest_gputrace.fakes.files import event_list

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_gputrace.conformance.trial import Trial
    from pytest_gputrace.fakes import Cluster, Job

__all__ = ["control_bytes", "legacy_exporter"]


def _superbench_exporter(job: Job) -> None:
    """Write the legacy file as SuperBench does (``superbench/benchmarks/model_benchmarks/pytorch_base.py``)."""
    for _ in range(job.rounds):
        with job.profiler() as profile:
            pass
        with open(job.legacy_path, "w", encoding="utf-8") as file:
            json.dump(event_list(profile.events()), file, sort_keys=True)


def legacy_exporter(trial: Trial) -> Callable[[Job], Any]:
    """What writes the legacy file and nothing else: the one that was given, or SuperBench's."""
    return trial.subject.legacy_exporter or _superbench_exporter


def control_bytes(trial: Trial, cluster: Cluster) -> dict[str, bytes]:
    """Let the legacy exporter run in ``cluster``, take its files away again, and give them by path.

    Raises:
        ContractError: it raised or wrote nothing.
    """
    scene = trial.run_in(cluster, legacy_exporter(trial))
    failed = next((outcome for outcome in scene.run if not outcome.ok), None)
    if failed is not None:
        raise ContractError(f"the legacy exporter raised, so there is nothing to compare with: {failed.headline}")
    wanted = {}
    for outcome in scene.run:
        path = str(outcome.job.legacy_path)
        try:
            with open(path, "rb") as file:
                wanted[path] = file.read()
        except OSError as error:
            raise ContractError(f"the legacy exporter left no {outcome.job.legacy_name}: {error.strerror}") from error
    for path in {path for outcome in scene.run for path in outcome.touched}:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)
    return wanted
