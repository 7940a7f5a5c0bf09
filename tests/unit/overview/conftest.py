"""Traces to look at."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from pytest_gputrace.traces import open_trace

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pytest_gputrace.traces import Trace

    Opened = Callable[..., Trace]


@pytest.fixture
def opened(tmp_path: Path) -> Opened:
    """Writes events (and what stands around them) as a Kineto trace, and opens it."""

    def write(events: list[dict[str, Any]], name: str = "trace.json", **metadata: Any) -> Trace:
        path = tmp_path / name
        path.write_text(json.dumps({"schemaVersion": 1, **metadata, "traceEvents": events}))
        return open_trace(path)

    return write
