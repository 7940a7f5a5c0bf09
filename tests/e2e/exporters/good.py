"""A small exporter without a fault: every faulty one here is this one with one thing done as it is done in the field.

Independent of ``pytest_gputrace.export`` on purpose: the contract is not what our own exporter happens to do.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import math
import os
import re
import secrets
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from pytest_gputrace.fakes import FakeEvent, FakeProfile, Job

__all__ = ["Exporter", "Replacing", "digest", "slug"]


class Exporter:
    """Each capture goes to a file of its own, whole, under the first name of its own that is free; then the legacy file.

    A faulty exporter overrides one method. An instance is forked into each worker, so its state is the worker's.
    """

    def __init__(self) -> None:
        self.round = 0

    def __repr__(self) -> str:
        return type(self).__name__

    def __call__(self, job: Job) -> None:
        for _ in range(job.rounds):
            with job.profiler() as profile:
                pass
            self.round += 1
            self.export(job, profile)

    def export(self, job: Job, profile: FakeProfile) -> None:
        """One round."""
        events = profile.events()
        self.refuse(profile, events)
        self.make_folder(job.trace_dir)
        if job.configuration:
            self.keep(job, self.content(job, events))
        self.legacy(job, events)

    def refuse(self, profile: FakeProfile, events: list[FakeEvent]) -> None:
        """Raise for a profile that holds nothing: another one took its session, or nothing was recorded."""
        if not events:
            raise RuntimeError("the profile is empty")

    def make_folder(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)

    # The capture's own file.

    def rank(self, job: Job) -> str:
        """The global rank, from whatever launcher there is; PROC_RANK is global where it is alone: one node."""
        variables = ("RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK", "PROC_RANK")
        found = {name: os.environ[name] for name in variables if name in os.environ}
        if len(set(found.values())) != 1:
            raise ValueError(f"which rank is this? {found}")
        return next(iter(found.values()))

    def configuration(self, job: Job) -> str:
        """The part of a name that stands for the configuration: readable, and the digest of all of it."""
        return f"{slug(job.configuration)}.{digest(job.configuration)}"

    def name(self, job: Job, number: int) -> str:
        """The ``number``-th name, from 1, that this worker may use."""
        return f"{job.model}.{self.configuration(job)}.r{self.rank(job)}.{number}.json"

    def keep(self, job: Job, data: bytes) -> None:
        """Write beside and link: a final name appears with the whole file, and never replaces another one."""
        private = job.trace_dir / f".{secrets.token_hex(8)}.tmp"
        try:
            private.write_bytes(data)
            for number in itertools.count(1):
                try:
                    os.link(private, job.trace_dir / self.name(job, number))
                except FileExistsError:
                    continue
                break
        finally:
            private.unlink(missing_ok=True)

    def content(self, job: Job, events: list[FakeEvent]) -> bytes:
        """The bytes of the capture's own file."""
        return json.dumps(clean(self.records(job, events)), allow_nan=False, default=str).encode()

    def records(self, job: Job, events: Iterable[FakeEvent]) -> list[dict[str, Any]]:
        """The CPU events."""
        return [record(event) for event in events if event.device_type.name == "CPU"]

    # The legacy file.

    def legacy(self, job: Job, events: list[FakeEvent]) -> None:
        """Write beside and replace, so that no reader ever sees half of it."""
        private = job.trace_dir / f".{secrets.token_hex(8)}.tmp"
        try:
            private.write_bytes(self.legacy_content(events))
            os.replace(private, job.legacy_path)
        finally:
            private.unlink(missing_ok=True)

    def legacy_content(self, events: list[FakeEvent]) -> bytes:
        """The bytes that it always had, NaN and all."""
        records = [record(event) for event in events if event.device_type.name == "CPU"]
        return json.dumps(records, sort_keys=True, default=str).encode()


class Replacing(Exporter):
    """Replaces whatever has its name already, as most do; so two that share a name can be told by what is lost."""

    def keep(self, job: Job, data: bytes) -> None:
        private = job.trace_dir / f".{secrets.token_hex(8)}.tmp"
        try:
            private.write_bytes(data)
            os.replace(private, job.trace_dir / self.name(job, self.round))
        finally:
            private.unlink(missing_ok=True)


def slug(text: str) -> str:
    """What people recognise of a configuration; says nothing about which one it is."""
    return re.sub("[^a-z0-9]+", "-", text.lower())[:40]


def digest(text: str) -> str:
    """What tells one configuration from all others."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:20]


def record(event: FakeEvent) -> dict[str, Any]:
    """One event as SuperBench writes it."""
    return {
        "name": event.name,
        "input_shapes": event.input_shapes,
        "input_values": event.concrete_inputs,
        "cpu_time": event.cpu_time,
        "gpu_time": event.device_time,
        "start_time": event.time_range.start,
    }


def clean(value: Any) -> Any:
    """``value`` without what strict JSON in UTF-8 cannot hold: numbers that are none, halves of surrogate pairs."""
    if isinstance(value, str):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, list | tuple):
        return [clean(item) for item in value]
    if isinstance(value, dict):
        return {key: clean(item) for key, item in value.items()}
    return value
