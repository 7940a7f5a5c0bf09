"""Exporters that write the wrong things into the right file: too many events, too few, or no JSON."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from tests.e2e.exporters.good import Exporter, Replacing, clean, record

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pytest_gputrace.fakes import FakeEvent, FakeProfile, Job


class DeviceEventsToo(Exporter):
    """Kernels stand among the operations that launched them, and their time counts twice."""

    def records(self, job: Job, events: Iterable[FakeEvent]) -> list[dict[str, Any]]:
        return [record(event) for event in events]


class RangesTwice(Exporter):
    """Annotations are told by their flag, so the copy of a range on the GPU's timeline is one more."""

    def records(self, job: Job, events: Iterable[FakeEvent]) -> list[dict[str, Any]]:
        return [record(event) for event in events if event.device_type.name == "CPU" or event.is_user_annotation]


class EachNameOnce(Exporter):
    """A dictionary by name keeps the last call of each operation."""

    def records(self, job: Job, events: Iterable[FakeEvent]) -> list[dict[str, Any]]:
        return list({each["name"]: each for each in super().records(job, events)}.values())


class EveryOtherEvent(Exporter):
    """Thinned out to save room."""

    def records(self, job: Job, events: Iterable[FakeEvent]) -> list[dict[str, Any]]:
        return super().records(job, events)[::2]


class NoGpuTimes(Exporter):
    """Host times only; of the GPU there is nothing."""

    def records(self, job: Job, events: Iterable[FakeEvent]) -> list[dict[str, Any]]:
        return [{**each, "gpu_time": 0.0} for each in super().records(job, events)]


class GpuTimesOfCudaOnly(Exporter):
    """``if torch.version.cuda:`` around what reads the GPU's times: a HIP build has none then."""

    vendor = "cuda"

    def records(self, job: Job, events: Iterable[FakeEvent]) -> list[dict[str, Any]]:
        records = super().records(job, events)
        return records if job.vendor == self.vendor else [{**each, "gpu_time": 0.0} for each in records]


class GpuTimesOfHipOnly(GpuTimesOfCudaOnly):
    """The other way round: written on an MI300X, and never tried elsewhere."""

    vendor = "hip"


class NothingOnHip(Exporter):
    """``if torch.version.cuda:`` around the whole export."""

    def export(self, job: Job, profile: FakeProfile) -> None:
        if job.vendor == "cuda":
            super().export(job, profile)


class NanTokens(Exporter):
    """``json.dump`` writes NaN and Infinity unless it is told not to."""

    def content(self, job: Job, events: list[FakeEvent]) -> bytes:
        records = self.records(job, events)
        for each in records:
            each["name"] = clean(each["name"])
        return json.dumps(records, default=str).encode()


class NumbersRefused(Exporter):
    """``allow_nan=False`` and nothing else: one bad number costs the whole capture."""

    def content(self, job: Job, events: list[FakeEvent]) -> bytes:
        records = self.records(job, events)
        for each in records:
            each["name"] = clean(each["name"])
        return json.dumps(records, allow_nan=False).encode()


class HandMadeJson(Exporter):
    """A format string with quotes in it, which is JSON until a name has a quote."""

    def content(self, job: Job, events: list[FakeEvent]) -> bytes:
        rows = []
        for each in clean(self.records(job, events)):
            name = each.pop("name")
            rows.append(f'{{"name": "{name}", {json.dumps(each, default=str)[1:]}')
        return f"[{', '.join(rows)}]".encode()


class SurrogateCrash(Exporter):
    """``ensure_ascii=False`` into a UTF-8 file: half a surrogate pair in one name costs the whole capture."""

    def content(self, job: Job, events: list[FakeEvent]) -> bytes:
        return json.dumps(numbers_cleaned(self.records(job, events)), ensure_ascii=False, default=str).encode()


class SurrogateEscapes(Exporter):
    """``json.dumps`` as it is escapes half a surrogate pair, which strict readers refuse."""

    def content(self, job: Job, events: list[FakeEvent]) -> bytes:
        return json.dumps(numbers_cleaned(self.records(job, events)), default=str).encode()


def numbers_cleaned(records: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{**clean(each), "name": each["name"]} for each in records]


class KinetosFile(Replacing):
    """torch's own ``export_chrome_trace`` and nothing around it.

    It says nothing when it cannot write, writes an empty profile too, and writes names as they come.
    """

    def export(self, job: Job, profile: FakeProfile) -> None:
        profile.export_chrome_trace(str(job.trace_dir / self.name(job, self.round)))
