"""Profiles of worker processes: asked for from outside, recorded in each, complete on disk before anybody says so.

Public names are resolved on first use.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pytest_gputrace.control.answer import Answer
    from pytest_gputrace.control.client import ProfileClient
    from pytest_gputrace.control.collecting import collect
    from pytest_gputrace.control.coordinator import Coordinator
    from pytest_gputrace.control.endpoint import Endpoint
    from pytest_gputrace.control.expected import Collection, Expected
    from pytest_gputrace.control.handle import LocalWorker, WorkerHandle
    from pytest_gputrace.control.remote import RemoteProfile
    from pytest_gputrace.control.reply import Reply, Written
    from pytest_gputrace.control.request import ProfileRequest
    from pytest_gputrace.control.server import ControlServer
    from pytest_gputrace.control.session import Session
    from pytest_gputrace.control.snapshot import Snapshot
    from pytest_gputrace.control.verdict import RankVerdict

_HOMES = {
    "Answer": "answer",
    "Collection": "expected",
    "ControlServer": "server",
    "Coordinator": "coordinator",
    "Endpoint": "endpoint",
    "Expected": "expected",
    "LocalWorker": "handle",
    "ProfileClient": "client",
    "ProfileRequest": "request",
    "RankVerdict": "verdict",
    "RemoteProfile": "remote",
    "Reply": "reply",
    "Session": "session",
    "Snapshot": "snapshot",
    "WorkerHandle": "handle",
    "Written": "reply",
    "collect": "collecting",
}

__all__ = [
    "Answer",
    "Collection",
    "ControlServer",
    "Coordinator",
    "Endpoint",
    "Expected",
    "LocalWorker",
    "ProfileClient",
    "ProfileRequest",
    "RankVerdict",
    "RemoteProfile",
    "Reply",
    "Session",
    "Snapshot",
    "WorkerHandle",
    "Written",
    "collect",
]


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f"{__name__}.{home}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
