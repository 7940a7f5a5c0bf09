"""What the tests of profiles share: engines, what a machine must have for them, and a look at the disk that judges nothing."""

from __future__ import annotations

import contextlib
import gzip
import importlib.util
import json
import os
import sys
from typing import TYPE_CHECKING, Any

import pytest

from pytest_gputrace.control import ProfileClient, RemoteProfile
from pytest_gputrace.control.activities import protondoor
from pytest_gputrace.fakes import FakeEngine

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pytest_gputrace.control import RankVerdict
    from pytest_gputrace.fakes.engine.faults import EngineFault

__all__ = [
    "GENEROUS_S",
    "calls",
    "control",
    "engine_of",
    "events",
    "files",
    "judged",
    "need",
    "on_linux",
    "settle_up",
]

on_linux = pytest.mark.skipif(sys.platform != "linux", reason="needs Linux: processes that die with their parent")
GENEROUS_S = 30.0
_SHORT_S = 0.5  # for what is there already, or will never be
_PACKAGES = {"CPU": "torch", "GPU": "torch", "MEM": "torch", "VIZTRACER": "viztracer"}


def need(*activities: str) -> None:
    """Skip where one of these cannot be recorded."""
    for word in activities:
        package = _PACKAGES.get(word)
        if package is not None and importlib.util.find_spec(package) is None:
            pytest.skip(f"needs {package}: a real session records {word} with it")
        if word == "PROTON" and (why := protondoor.missing()):
            pytest.skip(f"needs proton: {why}")


@contextlib.contextmanager
def engine_of(
    root: Path, *faults: EngineFault, activities: tuple[str, ...] = (), **options: Any
) -> Iterator[FakeEngine]:
    """An engine that can record ``activities``, whatever profiler's settings the environment has."""
    need(*activities)
    engine = FakeEngine(
        root, faults=faults, **{"prepare": activities, "node": None, "timeout_s": GENEROUS_S, **options}
    )
    with contextlib.ExitStack() as end:
        with pytest.MonkeyPatch.context() as environment:
            for name in list(os.environ):
                if name.startswith(("GPUTRACE_", "TOKENSPEED_")):
                    environment.delenv(name)
            end.enter_context(engine)
        yield engine


def control(engine: FakeEngine, folder: str = "") -> RemoteProfile:
    """Control its profiles, in a folder below that of the engine."""
    client = ProfileClient(engine.url, kind=engine.kind, timeout_s=GENEROUS_S)
    return RemoteProfile(client, engine.folder / folder)


def judged(remote: RemoteProfile, ranks: int = 2) -> dict[str, RankVerdict]:
    """Stop, and have the engine and then this side of it judge each rank: they agree."""
    answer = remote.stop()
    collection = remote.collect(ranks, timeout_s=_SHORT_S)
    assert {each.rank: each.verdict for each in collection.ranks} == {
        each.rank: each.verdict for each in answer.ranks
    }, f"{answer.describe()}\n{collection.describe()}"
    assert collection.ok == answer.ok == all(each.verdict == "ok" for each in answer.ranks)
    return {each.rank: each for each in answer.ranks}


def settle_up(remote: RemoteProfile, ranks: int = 2) -> dict[str, bytes]:
    """Stop a profile of which every rank must be ok; its files."""
    verdicts = judged(remote, ranks)
    assert [each.describe() for each in verdicts.values() if each.verdict != "ok"] == []
    assert len(verdicts) == ranks
    return files(remote.folder)


def files(folder: Path) -> dict[str, bytes]:
    """Name and content of what is there under final names."""
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir()) if not path.name.startswith(".")}


def events(content: bytes) -> list[dict[str, Any]]:
    """The events of a trace; an error where it is not whole."""
    text = gzip.decompress(content) if content.startswith(b"\x1f\x8b") else content
    found: list[dict[str, Any]] = json.loads(text)["traceEvents"]
    return found


def calls(content: bytes) -> dict[str, int]:
    """How many steps of each stage a trace of VizTracer or Proton saw."""
    names = [event["name"].partition(" ")[0] for event in events(content) if event["ph"] == "X"]
    return {stage: count for stage in ("prefill", "decode") if (count := names.count(f"{stage}_batch"))}
