"""The section of the contract: what it counts, and that nothing that ended badly is left out."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import pytest

from pytest_gputrace.plugin.contractsummary import summary

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.plugin.conftest import Start


def record(check: str, outcome: str, reason: str = "", exporter: str = "test_x.py::TestMine") -> dict[str, Any]:
    return {"exporter": exporter, "check": check, "outcome": outcome, "reason": reason, "checks": 7}


def test_every_outcome_in_one_line() -> None:
    records = [
        record("CT105", "no verdict"),
        record("CT104", "not checked", "hip: none here"),
        record("CT109", "not checked", "no consumer was given"),
        record("CT103", "broken"),
        record("CT102", "broken"),
        record("CT101", "held"),
        record("CT108", "broken as expected"),
    ]
    parts = [
        "1 held",
        "2 broken (CT102, CT103)",
        "1 broken as expected (CT108)",
        "2 not checked (hip: none here; no consumer was given)",
        "1 no verdict (CT105)",
    ]
    assert summary(records) == [f"test_x.py::TestMine: 7 checks: {', '.join(parts)}"]
    assert summary(records[5:6]) == ["test_x.py::TestMine: 1 of 7 checks: 1 held"]


def test_in_the_order_of_names_and_the_worst_of_several_runs() -> None:
    records = [
        record("CT101", "broken", exporter="b"),
        record("CT101", "held", exporter="b"),
        record("CT101", "held", exporter="a"),
    ]
    expected = ["a: 1 of 7 checks: 1 held", "b: 1 of 7 checks: 1 broken (CT101)"]
    assert summary(records) == summary(reversed(records)) == expected


def test_a_crashed_test_is_counted() -> None:
    crashed = ["test_x.py::TestMine::test_contract[CT102]", "test_x.py::test_other"]
    assert summary([record("CT101", "held")], crashed) == [
        "test_x.py::TestMine: 2 of 7 checks: 1 held, 1 no verdict (CT102)"
    ]


@pytest.mark.skipif(sys.platform != "linux", reason="simulated nodes need Linux")
def test_a_worker_of_xdist_that_dies(start_n2: Start, make_test: Callable[[str], None]) -> None:
    make_test(
        """
from pytest_gputrace import ExporterContract


class TestMine(ExporterContract):
    expected_failures = {"CT102": "issue 12"}

    @pytest.fixture
    def exporter(self, request):
        if "CT102" in request.node.name:
            os.kill(os.getpid(), signal.SIGKILL)
        return export
"""
    )
    result = start_n2("-k", "CT100 or CT102")
    result.assert_outcomes(passed=1, failed=1)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(["test_it.py::TestMine: 2 of * checks: 1 held, 1 no verdict (CT102)"])


def test_nothing_is_said_where_no_check_ran(start: Start, make_test: Callable[[str], None]) -> None:
    make_test("from pytest_gputrace import gputrace_checks\n@gputrace_checks(print)\ndef test_mine(check): check()")
    for args in (["--collect-only"], ["-k", "nothing_of_that_name"]):
        start(*args).stdout.no_fnmatch_line("*gputrace contract*")


@pytest.mark.skipif(sys.platform != "linux", reason="simulated nodes need Linux")
def test_the_other_section_is_silent_where_only_a_contract_ran(start: Start, make_test: Callable[[str], None]) -> None:
    make_test("from pytest_gputrace import gputrace_checks\n@gputrace_checks(export)\ndef test_mine(check): check()")
    result = start("--gputrace", "-k", "CT100")
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["*= gputrace contract =*"])
    result.stdout.no_fnmatch_line("*= gputrace =*")
