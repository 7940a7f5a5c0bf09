"""What every test of this project shares: pytester, and what a machine must have.

A test that needs something a laptop may lack skips with the reason ``needs <thing>: ...``. Where ``GPUTRACE_REQUIRE``
names the thing (comma-separated; CI sets it), that skip is a failure: CI must not go green by testing less.
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, TypeVar

import hypothesis
import pytest

if TYPE_CHECKING:
    from collections.abc import Generator

pytest_plugins = ["pytester"]

# No deadlines: a loaded machine is no defect. In CI the same examples every time, so that red means this change.
hypothesis.settings.register_profile("gputrace", deadline=None, derandomize="CI" in os.environ)
# For `tox -e proof`: what goes into PROVEN must have been looked at for longer than a change is.
hypothesis.settings.register_profile("proof", deadline=None, max_examples=1000)
hypothesis.settings.load_profile("gputrace")

_Report = TypeVar("_Report", pytest.TestReport, pytest.CollectReport)


def _hold_to_requirements(report: _Report) -> _Report:
    if report.skipped and not hasattr(report, "wasxfail") and isinstance(report.longrepr, tuple):
        reason = report.longrepr[2].removeprefix("Skipped: ")
        needed = re.match(r"needs (\w+)", reason)
        if needed and needed[1] in os.environ.get("GPUTRACE_REQUIRE", "").split(","):
            report.outcome = "failed"
            report.longrepr = f"GPUTRACE_REQUIRE names {needed[1]!r}, and this test would skip: {reason}"
    return report


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    return _hold_to_requirements((yield))


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    return _hold_to_requirements((yield))
