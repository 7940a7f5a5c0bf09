"""Runs of pytest inside a test: the four ways to start it, and a test file with a real exporter in it."""

from __future__ import annotations

import importlib.util
import re
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

MODES = {"plain": (), "no-xdist": ("-p", "no:xdist"), "n0": ("-n0",), "n2": ("-n2",)}
TIMEOUT_S = 60.0

EXPORTER = """
import os
import signal

import pytest

from pytest_gputrace import Capture, export_events
from pytest_gputrace.fakes.files import event_list


def export(job):
    with job.profiler() as profile:
        pass
    return export_events(profile, model=job.model, trace_dir=job.trace_dir, configuration=job.configuration)


def naive(job):
    import json
    with job.profiler() as profile:
        pass
    # Whole, so that the race has one winner: written in place, two writers' bytes mix in one run of ten.
    beside = job.rank_dir / "trace.tmp"
    beside.write_text(json.dumps(event_list(profile.events())))
    beside.replace(job.legacy_path)
"""
"""The begin of a test file: the exporter of this package, and one that names files as SuperBench does."""


def need_xdist() -> None:
    if importlib.util.find_spec("xdist") is None:
        pytest.skip("needs xdist: it is not installed")


class Start:
    """Starts pytest in a subprocess, one way."""

    def __init__(self, pytester: pytest.Pytester, mode: str) -> None:
        self._pytester, self.mode = pytester, mode

    def __call__(self, *args: str) -> pytest.RunResult:
        every = (*MODES[self.mode], "-p", "no:cacheprovider", "-W", "error", *args)
        return self._pytester.runpytest_subprocess(*every, timeout=TIMEOUT_S)


@pytest.fixture(params=MODES)
def start(request: pytest.FixtureRequest, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Start:
    if request.param in ("n0", "n2"):
        need_xdist()
    monkeypatch.delenv("PYTEST_ADDOPTS", raising=False)
    return Start(pytester, request.param)


@pytest.fixture
def start_n2(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Start:
    need_xdist()
    monkeypatch.delenv("PYTEST_ADDOPTS", raising=False)
    return Start(pytester, "n2")


@pytest.fixture
def start_plain(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Start:
    monkeypatch.delenv("PYTEST_ADDOPTS", raising=False)
    return Start(pytester, "plain")


@pytest.fixture
def make_test(pytester: pytest.Pytester) -> Callable[[str], None]:
    """Write a test file whose tests may use ``export`` and ``naive``."""

    def make(source: str) -> None:
        pytester.makepyfile(test_it=EXPORTER + source)

    return make


@pytest.fixture
def summary_of() -> Callable[[pytest.RunResult], list[str]]:
    """The lines of the summary, the folder of the run masked."""

    def lines(result: pytest.RunResult) -> list[str]:
        found: list[str] = []
        inside = False
        for line in result.outlines:
            if re.fullmatch(r"=+ .+ =+", line):
                inside = " gputrace " in line
            elif inside:
                found.append(re.sub(r"/\S*/\d{8}T\d{6}Z-[0-9a-f]{8}/", "RUN/", line))
        return found

    return lines
