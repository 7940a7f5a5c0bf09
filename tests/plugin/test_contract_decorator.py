"""gputrace_checks: a test of each check, and none that passes without having been asked."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

from pytest_gputrace import gputrace_checks

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.plugin.conftest import Start

    MakeTest = Callable[[str], None]

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="simulated nodes need Linux")

BOTH = """
from pytest_gputrace import gputrace_checks


@gputrace_checks(lambda job: export(job), unclaimed={"hip": "we have no AMD machines"})
def test_mine(check):
    check()


class TestThese:
    @gputrace_checks(naive, expected_failures={"CT103": "issue 12"})
    def check_naive(self, check, tmp_path):
        check()
"""


def test_held_and_broken(start: Start, make_test: MakeTest) -> None:
    make_test(BOTH)
    result = start("-v", "-k", "(mine and (CT100 or CT403)) or (naive and (CT102 or CT103))")
    result.assert_outcomes(passed=1, failed=1, skipped=1, xfailed=1)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines_random(
        [
            "*test_it.py::test_mine[[]CT100[]]*",
            "*test_it.py::TestThese::check_naive[[]CT102[]]*",
            "CT102 broken: every node keeps its capture in one shared folder",
            "test_it.py::test_mine: 2 of * checks: 1 held, 1 not checked (hip: we have no AMD machines)",
            "test_it.py::TestThese::check_naive: 2 of * checks: 1 broken (CT102), 1 broken as expected (CT103)",
        ]
    )
    result.stdout.no_fnmatch_line("*raceback*")


@pytest.mark.parametrize(
    ("exporter", "body", "told"),
    [
        ("export", "pass", "CT102: no verdict: test_mine never called check(), so nothing was checked"),
        ("export", "check(); check()", "CT102: no verdict: check() was called before in this test; one call is one*"),
        ("naive", "pytest.raises(BaseException, check)", "CT102 broken: *"),
        ("export", "check(); assert not 'mine'", "E * assert not 'mine'"),
        ("naive", "assert not 'mine'", "E * assert not 'mine'"),
    ],
)
@pytest.mark.parametrize("expected", [False, True])
def test_none_passes_on_nothing(
    start_plain: Start, make_test: MakeTest, exporter: str, body: str, told: str, expected: bool
) -> None:
    make_test(f"""
from pytest_gputrace import gputrace_checks

@gputrace_checks({exporter})
def test_mine(check):
    {body}
""")
    result = start_plain("-k", "CT102", *(["--gputrace-expect-fail=CT102:known"] if expected else []))
    if expected and "broken" in told:
        result.assert_outcomes(xfailed=1)
        return
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines([told])


def test_strict(start: Start, make_test: MakeTest) -> None:
    make_test(BOTH.replace("gputrace_checks(naive", "gputrace_checks(export"))
    result = start("-k", "naive and CT103")
    result.assert_outcomes(failed=1)
    place = "expected_failures in the decorator of TestThese.check_naive"
    result.stdout.fnmatch_lines(
        [f"CT103 holds now, though it was expected to break (issue 12): remove it from {place}"]
    )


def test_beside_other_parameters(start_plain: Start, make_test: MakeTest) -> None:
    make_test(BOTH + '\ntest_mine = pytest.mark.parametrize("word", ["a-b", "c"])(test_mine)\n')
    result = start_plain("-k", "mine and CT100")
    assert "'word'" in result.stdout.str()  # the test does not take it
    make_test(
        (BOTH + '\ntest_mine = pytest.mark.parametrize("word", ["a-b", "c"])(test_mine)\n').replace(
            "def test_mine(check)", "def test_mine(check, word)"
        )
    )
    result = start_plain("-v", "-k", "mine and CT100")
    result.assert_outcomes(passed=2)
    result.stdout.fnmatch_lines(["*::test_mine[[]CT100-a-b[]]*", "*::test_mine[[]CT100-c[]]*"])
    result.stdout.fnmatch_lines(["test_it.py::test_mine[[]a-b[]]: 1 of *", "test_it.py::test_mine[[]c[]]: 1 of *"])


def test_what_cannot_be_decorated() -> None:
    class Mine:
        pass

    def mine(check: Callable[[], None]) -> None:
        check()

    with pytest.raises(TypeError, match=r"decorates a test function, got <class .*Mine'>; a class inherits Exporter"):
        gputrace_checks(print)(Mine)
    with pytest.raises(TypeError, match=r"mine: gputrace_checks is given twice; write a test for each exporter"):
        gputrace_checks(print)(gputrace_checks(print)(mine))
