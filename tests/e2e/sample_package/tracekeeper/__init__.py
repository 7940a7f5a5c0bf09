"""Somebody's exporters, which know nothing of the kit: one keeps every capture, one names its files by the rank alone."""

from __future__ import annotations

import hashlib
import itertools
import os
import tempfile
from pathlib import Path
from typing import Any


def keep(profile: Any, folder: str | os.PathLike[str], configuration: str) -> Path:
    """Write a Chrome trace for the whole configuration and the global rank, complete or not at all."""
    digest = hashlib.sha256(configuration.encode()).hexdigest()[:20]
    return _publish(profile, folder, f"{digest}-{_rank()}")


def keep_by_rank(profile: Any, folder: str | os.PathLike[str]) -> Path:
    """Write a Chrome trace for the global rank; the next configuration replaces it."""
    return _publish(profile, folder, str(_rank()), replace=True)


def _rank() -> int:
    names = ("RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK", "PROC_RANK")
    ranks = {int(os.environ[name]) for name in names if name in os.environ}
    if len(ranks) != 1:
        raise RuntimeError(f"the environment names {len(ranks)} ranks: {sorted(ranks)}")
    return ranks.pop()


def _publish(profile: Any, folder: str | os.PathLike[str], stem: str, *, replace: bool = False) -> Path:
    if not profile.events():
        raise RuntimeError("the profile holds no event")
    os.makedirs(folder, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder, prefix=".") as private:
        whole = Path(private, "whole")
        profile.export_chrome_trace(str(whole))
        if replace:
            return whole.replace(Path(folder, f"{stem}.json"))
        for attempt in itertools.count():
            final = Path(folder, f"{stem}.{attempt}.json")
            try:
                final.hardlink_to(whole)
            except FileExistsError:
                continue
            return final
    raise AssertionError("itertools.count has no end")
