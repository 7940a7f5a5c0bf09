"""What torch's CUDA half says of its memory's history and of the CUDA runtime, where there is no GPU."""

from __future__ import annotations

import enum
import pickle
import sys
from typing import Any

__all__ = ["FakeCudart", "FakeMemoryHistory"]

_ADDRESS = 0x7F00_0000_0000
_SEGMENT_BYTES = 2 << 20
_BLOCK_BYTES = 16_384
_FIRST_TIME_US = 1_790_000_000_000_000


class FakeMemoryHistory:
    """Stands in for the history of ``torch.cuda.memory``: on or off for the whole process, with a few made-up entries."""

    def __init__(self, device_count: int) -> None:
        self._devices = device_count
        self._most_entries = 0

    def record(self, enabled: Any = "all", *args: Any, max_entries: int = sys.maxsize, **options: Any) -> None:
        """Begin, or with None end and forget, as ``_record_memory_history``."""
        if enabled not in (None, False, True, "state", "all"):
            raise RuntimeError("expected state to be 'state', 'all', or None")
        self._most_entries = max_entries if enabled else 0

    def is_enabled(self) -> bool:
        """Whether it records."""
        return self._most_entries > 0

    def snapshot(self, *args: Any, **options: Any) -> dict[str, Any]:
        """As ``_snapshot``: what is there, and what happened while it was recorded."""
        return {
            "segments": [_segment(device) for device in range(self._devices)],
            "device_traces": [_trace()[: self._most_entries] for _ in range(self._devices)],
            "allocator_settings": {"PYTORCH_CUDA_ALLOC_CONF": "", "expandable_segments": False},
            "external_annotations": [],
        }

    def dump(self, filename: str = "dump_snapshot.pickle", *args: Any, **options: Any) -> None:
        """Write the snapshot, as ``_dump_snapshot``."""
        snapshot = self.snapshot()
        with open(filename, "wb") as file:
            pickle.dump(snapshot, file)


class FakeCudart:
    """Stands in for ``torch.cuda.cudart()``; ``profiling`` says whether a profiler around the process would record."""

    class cudaError(enum.IntEnum):  # noqa: N801  # the runtime's own name
        """What the calls answer."""

        success = 0

    def __init__(self) -> None:
        self.profiling = False

    def cudaProfilerStart(self) -> cudaError:  # noqa: N802  # the runtime's own name
        """Begin the range."""
        self.profiling = True
        return self.cudaError.success

    def cudaProfilerStop(self) -> cudaError:  # noqa: N802  # the runtime's own name
        """End the range."""
        self.profiling = False
        return self.cudaError.success

    def cudaGetErrorString(self, error: int) -> str:  # noqa: N802  # the runtime's own name
        """What a code means."""
        return "no error" if error == 0 else "unrecognized error code"


def _segment(device: int) -> dict[str, Any]:
    used = {"address": _ADDRESS, "size": _BLOCK_BYTES, "requested_size": 16_000, "state": "active_allocated"}
    rest = {"address": _ADDRESS + _BLOCK_BYTES, "size": _SEGMENT_BYTES - _BLOCK_BYTES, "requested_size": 0}
    return {
        "device": device, "address": _ADDRESS, "total_size": _SEGMENT_BYTES, "allocated_size": _BLOCK_BYTES,
        "active_size": _BLOCK_BYTES, "requested_size": 16_000, "stream": 0, "segment_type": "small",
        "segment_pool_id": (0, 0), "is_expandable": False, "frames": [],
        "blocks": [{**used, "frames": []}, {**rest, "state": "inactive", "frames": []}],
    }  # fmt: skip


def _trace() -> list[dict[str, Any]]:
    rows = [("segment_alloc", 0, _SEGMENT_BYTES), ("alloc", 0, _BLOCK_BYTES), ("alloc", _BLOCK_BYTES, _BLOCK_BYTES)]
    rows += [("free_requested", _BLOCK_BYTES, _BLOCK_BYTES), ("free_completed", _BLOCK_BYTES, _BLOCK_BYTES)]
    return [
        {
            "action": action, "addr": _ADDRESS + offset, "size": size, "stream": 0,
            "time_us": _FIRST_TIME_US + 10 * number, "frames": [],
        }
        for number, (action, offset, size) in enumerate(rows)
    ]  # fmt: skip
