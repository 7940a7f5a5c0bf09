"""Consumers that pair the files of two folders by name, and exporters whose files they cannot pair."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from tests.e2e.exporters.good import Exporter

if TYPE_CHECKING:
    from pathlib import Path

    from pytest_gputrace.fakes import Job


def pair_all(baseline: Path, target: Path) -> str:
    """Every file of the baseline with that of the same name; ``FileNotFoundError`` where there is none."""
    return json.dumps({path.name: _compared(path, target / path.name) for path in sorted(baseline.glob("*.json"))})


def count_legacy_files(baseline: Path, target: Path) -> str:
    """As `pair_all`, and there must be as many legacy files on both sides."""
    counts = [len(list(folder.glob("torch-profiler-sb-*.json"))) for folder in (baseline, target)]
    if counts[0] != counts[1]:
        raise ValueError(f"{counts[0]} ranks in the baseline, {counts[1]} in the target")
    return pair_all(baseline, target)


def list_what_is_missing(baseline: Path, target: Path) -> dict[str, Any]:
    """Rank 0 of the old names must have its counterpart; others without one are listed."""
    pairs: dict[str, Any] = {}
    missing = []
    for path in sorted(baseline.glob("*.json")):
        if (target / path.name).exists() or re.fullmatch(r"torch-profiler-sb-.+-0\.json", path.name):
            pairs[path.name] = _compared(path, target / path.name)
        else:
            missing.append(path.name)
    return {"pairs": pairs, "missing": missing}


def _compared(one: Path, other: Path) -> list[float]:
    return [
        len(one.read_bytes()),
        *(sum(event["cpu_time"] for event in json.loads(path.read_bytes())) for path in (one, other)),
    ]


class InAFolderBelow(Exporter):
    """Each capture's own file lies in a folder below, where nobody who pairs files looks."""

    def name(self, job: Job, number: int) -> str:
        (job.trace_dir / "captures").mkdir(exist_ok=True)
        return f"captures/{super().name(job, number)}"


class LikeALegacyFile(Exporter):
    """Each capture's own file begins as the legacy ones do, and counts as one more rank."""

    def name(self, job: Job, number: int) -> str:
        return f"torch-profiler-sb-{super().name(job, number)}"


class JustLikeALegacyFile(Exporter):
    """It ends as they do, too."""

    def name(self, job: Job, number: int) -> str:
        configuration = self.configuration(job).replace(".", "-")
        return f"torch-profiler-sb-{job.model}-{configuration}-{number}-{self.rank(job)}.json"
