"""The examples of the fixtures' page run as they stand there, and the pages name every fixture, option and code."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pytest_gputrace.checks import captures
from pytest_gputrace.conformance import CAPABILITIES
from pytest_gputrace.plugin import fixtures
from pytest_gputrace.plugin.contract import DECLARED

if TYPE_CHECKING:
    from collections.abc import Callable

    Start = Callable[..., pytest.RunResult]

PAGES = Path(__file__).parents[2] / "docs" / "reference"


@pytest.mark.skipif(sys.platform != "linux", reason="simulated nodes need Linux")
def test_examples(start_plain: Start, pytester: pytest.Pytester) -> None:
    blocks = re.findall(r"```python\n(.*?)```", (PAGES / "fixtures.md").read_text(encoding="utf-8"), re.DOTALL)
    pytester.makepyfile(test_page="\n".join(blocks))
    # Of each contract one check; the first block is the exporter.
    start_plain("-k", "not contract or CT100").assert_outcomes(passed=len(blocks) - 1)


def test_every_way_into_the_contract_is_on_its_page(pytester: pytest.Pytester) -> None:
    page = (PAGES / "fixtures.md").read_text(encoding="utf-8")
    for name in ("ExporterContract", "gputrace_checks", *DECLARED, *CAPABILITIES):
        assert f"`{name}`" in page
    page = (PAGES / "options.md").read_text(encoding="utf-8")
    options = re.findall(r"--gputrace[a-z-]*", pytester.runpytest_inprocess("--help").stdout.str())
    for name in options:
        assert f"`{name}`" in page or f"`{name}=" in page


def test_every_fixture_and_code_is_on_its_page() -> None:
    page = (PAGES / "fixtures.md").read_text(encoding="utf-8")
    for name in fixtures.__all__:
        assert name == "EVIDENCE" or f"## `{name}`" in page
    page = (PAGES / "options.md").read_text(encoding="utf-8")
    for code in set(re.findall(r"GT\d{3}", captures.__doc__ or "")):
        assert f"| {code} |" in page
