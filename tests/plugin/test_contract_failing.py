"""An exporter that always fails is tried once: the other checks say so at once, and of no other exporter."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.plugin.conftest import Start

    MakeTest = Callable[[str], None]
    Run = Callable[..., tuple[pytest.RunResult, list[str]]]

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="simulated nodes need Linux")

HOLD = """
import pytest

from pytest_gputrace.conformance import Verdict
from pytest_gputrace.errors import ContractError
from pytest_gputrace.plugin import contractrun


def hold(check, subject, folder, sizes):
    print("HOLD", check.id)
    how = subject.exporter(check.id)
    if how == "held":
        return Verdict(check, True, 1, "")
    error = ContractError("it raises in the plainest run:\\nRuntimeError: no GPU")
    error.always = how == "always"
    raise error


contractrun.hold = hold
"""
"""In place of the real one: what the exporter returns is how its check ends."""

FEW = ("-s", "-k", "CT100 or CT101 or CT102")


PARAMETRIZED = """
@pytest.mark.parametrize("exporter", [lambda check: "always", lambda check: "held"])
class TestMine(ExporterContract):
    pass
"""


@pytest.fixture
def run(pytester: pytest.Pytester, start_plain: Start) -> Run:
    """Run three checks; gives the result, and the checks that were really tried."""

    def run(source: str, *args: str) -> tuple[pytest.RunResult, list[str]]:
        pytester.makeconftest(HOLD)
        pytester.makepyfile(
            test_it=f"import pytest\nfrom pytest_gputrace import ExporterContract, gputrace_checks\n{source}"
        )
        result = start_plain(*FEW, *args)
        return result, [line.split("HOLD ")[1] for line in result.outlines if "HOLD " in line]

    return run


def the(how: str, name: str = "TestMine", fixture: str = "") -> str:
    """A class whose exporter gives ``how``."""
    return f"""
class {name}(ExporterContract):
    @pytest.fixture{fixture}
    def exporter(self):
        return lambda check: {how}
"""


def test_it_is_tried_once(run: Run) -> None:
    result, tried = run(the("'always'"))
    result.assert_outcomes(failed=3)
    assert tried == ["CT100"]
    told = "no verdict: as in CT100: it raises in the plainest run"
    result.stdout.fnmatch_lines(
        [
            "CT100: no verdict: it raises in the plainest run:",
            "RuntimeError: no GPU",
            f"CT101: {told}",
            f"CT102: {told}",
            "test_it.py::TestMine: 3 of * checks: 3 no verdict (CT100, CT101, CT102)",
        ]
    )
    # The short summary says it again where it is not cut, as in CI.
    failures = "\n".join(result.outlines).partition("short test summary")[0]
    assert failures.count("\nRuntimeError: no GPU\n") == 1


def test_another_error_is_of_its_check_only(run: Run) -> None:
    result, tried = run(the("'once'"))
    result.assert_outcomes(failed=3)
    assert tried == ["CT100", "CT101", "CT102"]


def test_from_the_check_on_that_says_so(run: Run) -> None:
    result, tried = run(the("'always' if check == 'CT101' else 'held'"))
    result.assert_outcomes(passed=1, failed=2)
    assert tried == ["CT100", "CT101"]
    result.stdout.fnmatch_lines(["CT102: no verdict: as in CT101: *"])


def test_nothing_is_said_of_another_exporter(run: Run) -> None:
    functions = "".join(
        f"\n@gputrace_checks(lambda check: {how!r})\ndef test_{how}(check): check()\n" for how in ("held", "always")
    )
    result, tried = run(the("'always'") + the("'held'", "TestOther") + functions)
    result.assert_outcomes(passed=6, failed=6)
    assert len(tried) == 1 + 3 + 3 + 1


@pytest.mark.parametrize(
    "source",
    [
        the("request.param", fixture="(params=['always', 'held'])").replace("(self)", "(self, request)"),
        "@pytest.fixture(scope='module', params=['always', 'held'])\ndef machine(request): return request.param\n"
        + the("machine").replace("(self)", "(self, machine)"),
        PARAMETRIZED,
    ],
    ids=["own", "elsewhere", "parametrize"],
)
def test_nothing_is_said_of_another_parameter(run: Run, source: str) -> None:
    result, tried = run(source)
    result.assert_outcomes(passed=3, failed=3)
    assert len(tried) == 1 + 3


def test_what_is_not_checked_stays_so(run: Run) -> None:
    result, _ = run(the("'always'"), "--gputrace-nodes=1")
    result.assert_outcomes(failed=2, skipped=1)


def test_it_is_never_expected(run: Run) -> None:
    result, _ = run(the("'always'"), "--gputrace-expect-fail=CT101:known")
    result.assert_outcomes(failed=3)


def test_a_rerun_tries_again(run: Run, pytester: pytest.Pytester) -> None:
    source = the("'always' if next(count) < 1 else 'held'")
    again = """
import itertools
count = itertools.count()

@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item, nextitem):
    from _pytest.runner import runtestprotocol
    item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    runtestprotocol(item, nextitem=nextitem, log=False)
    item._initrequest()
    for report in runtestprotocol(item, nextitem=nextitem, log=False):
        item.ihook.pytest_runtest_logreport(report=report)
    return True
"""
    result, tried = run(again + source, "-p", "test_it")
    result.assert_outcomes(passed=3)
    assert tried == [id for id in ("CT100", "CT101", "CT102") for _ in range(2)]


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ("raise RuntimeError('no GPU here')", "raises in the plainest run"),
        ("time.sleep(50)", "in the plainest run too"),
    ],
)
def test_the_real_one(make_test: MakeTest, start_plain: Start, body: str, told: str) -> None:
    make_test(f"""
import time
from pytest_gputrace import ExporterContract

def mine(job):
    {body}

class TestMine(ExporterContract):
    exporter = pytest.fixture(lambda self: mine)
    env = {{"MINE": "1"}}
""")
    result = start_plain("--gputrace-deadline=0.5")
    asked = [line for line in result.outlines if line.startswith("CT") and ": no verdict: " in line]
    assert told in asked[0]
    assert all(": no verdict: as in CT100: " in line and told in line for line in asked[1:])
    assert len(asked) > 40
    assert result.duration < 30
