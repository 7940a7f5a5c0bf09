from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

import pytest

from pytest_gputrace import export_events
from pytest_gputrace.conformance import CHECKS, Sizes, Subject, hold, not_checked

if TYPE_CHECKING:
    from pathlib import Path

    from pytest_gputrace.fakes import Job

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs Linux: simulated nodes")

SIZES = Sizes(2, 2, 2)


def export(job: Job) -> None:
    for _ in range(job.rounds):
        with job.profiler() as profile:
            pass
        export_events(profile, model=job.model, trace_dir=job.trace_dir, configuration=job.configuration or None)


def pair(baseline: Path, target: Path) -> str:
    pairs = {}
    for path in sorted(baseline.glob("*.json")):
        before, after = (json.loads(one.read_bytes()) for one in (path, target / path.name))
        pairs[path.name] = [sum(event["cpu_time"] for event in events) for events in (before, after)]
    return json.dumps(pairs)


@pytest.mark.parametrize("id", CHECKS)
def test_our_own_exporter_keeps_every_promise(id: str, tmp_path: Path) -> None:
    subject = Subject(export, consumer=pair)
    assert not_checked(CHECKS[id], subject, SIZES) == ""
    verdict = hold(CHECKS[id], subject, tmp_path, SIZES)
    assert verdict.ok, verdict.message
