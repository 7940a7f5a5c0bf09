from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

import pytest

from pytest_gputrace.conformance import CHECKS, Sizes, Subject, hold

if TYPE_CHECKING:
    from pathlib import Path

    from pytest_gputrace.fakes import Job

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs Linux: simulated nodes")

SIZES = Sizes(1, 2, 2)


def names(baseline: Path, target: Path) -> list[list[str]]:
    return [sorted(path.name for path in folder.iterdir()) for folder in (baseline, target)]


@pytest.mark.parametrize("name", ["{}-r{}.json", "{}-r{}.chrome_trace", "{}.json.r{}x.JSON", "r{1}.{0}.json"])
def test_files_of_any_trace_name_get_other_names(name: str, tmp_path: Path) -> None:
    def export(job: Job) -> None:
        with job.profiler() as profile:
            pass
        records = json.dumps([{"name": event.name} for event in profile.events()])
        for path in (job.legacy_path, job.trace_dir / name.format(job.configuration, job.worker.rank)):
            path.write_text(records)

    verdict = hold(CHECKS["CT604"], Subject(export, consumer=names), tmp_path, SIZES)
    assert (verdict.ok, verdict.looked_at) == (True, 4), verdict.message
