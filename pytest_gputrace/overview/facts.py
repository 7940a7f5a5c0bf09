"""What of the text around the events may be shown: whose trace it is, when, and made by which versions.

Only what is named here. The rest of a trace's metadata can hold environments, paths and tokens, and is never read.
"""

from __future__ import annotations

import re
from collections import Counter
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

from pytest_gputrace.model import Capture, Mark
from pytest_gputrace.overview.figures import DeviceGroup

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pytest_gputrace.traces import Trace

__all__ = ["backend", "capture", "device_groups", "start_ns", "utc", "versions"]

_EPOCH_US = 1e15
"""Times beyond this count from 1970; below it they count from a base, or from a machine's start."""
_VERSION = re.compile(r"[0-9][\w.+-]{0,30}")
_BACKEND = re.compile(r"[a-z][a-z0-9_:,]{0,40}")


def versions(metadata: Mapping[str, Any]) -> dict[str, str]:
    """Of the runtimes, drivers and profilers that the trace names."""
    found = {
        "cuda_runtime": _cuda(metadata.get("cuda_runtime_version")),
        "cuda_driver": _cuda(metadata.get("cuda_driver_version")),
        "cupti": _plain(metadata.get("cupti_version")),
        "hip_runtime": _hip(metadata.get("hip_runtime_version")),
        "hip_driver": _hip(metadata.get("hip_driver_version")),
        "roctracer": _plain(metadata.get("roctracer_version")),
        "nccl": _plain(_inside(metadata, "distributedInfo").get("nccl_version")),
        "viztracer": _plain(_inside(metadata, "viztracer_metadata").get("version")),
    }
    return {name: version for name, version in found.items() if version}


def backend(metadata: Mapping[str, Any]) -> str | None:
    """What the ranks talk by, such as nccl."""
    value = _inside(metadata, "distributedInfo").get("backend")
    return value if isinstance(value, str) and _BACKEND.fullmatch(value) else None


def capture(names: Iterable[str]) -> Capture | None:
    """Whose capture the marks among the names say it is, None where there are none or they say several."""
    marks = {mark.capture for name in names if name.startswith("gputrace-mark/") and (mark := Mark.parse(name))}
    return marks.pop() if len(marks) == 1 else None


def device_groups(trace: Trace) -> tuple[DeviceGroup, ...]:
    """The devices that the trace lists, those of one name together."""
    counts = Counter((device.name, device.vendor) for device in trace.devices)
    return tuple(DeviceGroup(name, vendor, count) for (name, vendor), count in counts.items())


def start_ns(base_time_ns: int | None, first_us: float | None) -> int | None:
    """When the first event began, since 1970."""
    if first_us is None:
        return None
    if base_time_ns is None:
        return int(first_us * 1000) if first_us > _EPOCH_US else None
    return base_time_ns + round(first_us * 1000)


def utc(time_ns: int | None) -> str | None:
    """A time in words, to the millisecond, where a calendar has it."""
    if time_ns is None:
        return None
    try:
        moment = datetime.fromtimestamp(time_ns // 10**9, timezone.utc)
    except (OverflowError, OSError, ValueError):
        return None
    return f"{moment:%Y-%m-%d %H:%M:%S}.{time_ns % 10**9 // 10**6:03} UTC"


def _inside(metadata: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    value = metadata.get(key)
    return value if isinstance(value, dict) else {}


def _plain(value: Any) -> str | None:
    text = str(value) if type(value) in (int, float, str) else ""
    return text if _VERSION.fullmatch(text) else None


def _cuda(value: Any) -> str | None:
    if type(value) is not int or not 1000 <= value < 10**6:
        return _plain(value)
    return f"{value // 1000}.{value % 1000 // 10}"


def _hip(value: Any) -> str | None:
    if type(value) is not int or not 10**7 <= value < 10**10:
        return _plain(value)
    return f"{value // 10**7}.{value // 10**5 % 100}.{value % 10**5}"
