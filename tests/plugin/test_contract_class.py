"""A class that inherits ExporterContract: what it reports, what it needs, and that an expected failure hides nothing."""

from __future__ import annotations

import sys
import xml.etree.ElementTree as ET
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.plugin.conftest import Start

    MakeTest = Callable[[str], None]

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="simulated nodes need Linux")

TWO = """
from pytest_gputrace import ExporterContract


class TestMine(ExporterContract):
    unclaimed = {"hip": "we have no AMD machines"}

    @pytest.fixture
    def exporter(self):
        return lambda job: export(job)


class TestNaive(ExporterContract):
    expected_failures = {"CT103": "issue 12"}

    @pytest.fixture
    def exporter(self):
        return naive
"""

MINE = """
from pytest_gputrace import ExporterContract


class TestMine(ExporterContract):
    expected_failures = {"CT100": "issue 12"}

    @pytest.fixture
    def exporter(self):
        return mine
"""


def test_held_and_broken(start: Start, make_test: MakeTest) -> None:
    make_test(TWO)
    result = start("-k", "(TestMine and (CT100 or CT403)) or (TestNaive and (CT102 or CT103))", "--junitxml=out.xml")
    result.assert_outcomes(passed=1, failed=1, skipped=1, xfailed=1)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines_random(
        [
            "CT102 broken: every node keeps its capture in one shared folder",
            "  found:    1 of 2 captures kept",
            "  why, and how to fix it: gputrace rules CT102",
            "*= gputrace contract =*",
            "test_it.py::TestMine: 2 of * checks: 1 held, 1 not checked (hip: we have no AMD machines)",
            "test_it.py::TestNaive: 2 of * checks: 1 broken (CT102), 1 broken as expected (CT103)",
        ]
    )
    # The message alone: no traceback, and no word about one that is hidden.
    result.stdout.no_fnmatch_line("*Error*")
    result.stdout.no_fnmatch_line("*raceback*")
    cases = list(ET.parse("out.xml").iter("testcase"))
    assert {case.get("name") for case in cases} == {
        f"test_contract[{id}]" for id in ("CT100", "CT102", "CT103", "CT403")
    }
    assert [failure.get("message", "").split(":")[1] for case in cases for failure in case.iter("failure")] == [
        " CT102 broken"
    ]


def test_what_is_not_checked_says_why(start_plain: Start, make_test: MakeTest) -> None:
    make_test(TWO)
    result = start_plain("-rs", "--gputrace-nodes=1", "-k", "TestMine and (CT403 or CT102 or CT601)")
    result.assert_outcomes(skipped=3)
    result.stdout.fnmatch_lines_random(
        [
            "SKIPPED * CT403 not checked: hip is not claimed: we have no AMD machines",
            "SKIPPED * CT102 not checked: needs at least 2 nodes, and the job has 1",
            "SKIPPED * CT601 not checked: no consumer was given",
        ]
    )


@pytest.mark.parametrize("way", ["option", "ini"])
def test_sizes(start_plain: Start, make_test: MakeTest, pytester: pytest.Pytester, way: str) -> None:
    make_test(TWO)
    if way == "ini":
        pytester.makeini("[pytest]\ngputrace_nodes = 3\ngputrace_configs = 4\ngputrace_ranks = 1\n")
    args = ["--gputrace-nodes=3", "--gputrace-configs=4", "--gputrace-ranks=1"] if way == "option" else []
    result = start_plain("-rs", "--runxfail", "-k", "TestNaive and (CT101 or CT102 or CT103)", *args)
    result.assert_outcomes(failed=2, skipped=1)
    result.stdout.fnmatch_lines_random(
        ["  found:    1 of 3 captures kept", "  found:    1 of 4 captures kept", "*needs at least 2 ranks*"]
    )


def test_strict(start: Start, make_test: MakeTest) -> None:
    make_test(MINE.replace("return mine", "return export"))
    result = start("-k", "CT100", "--gputrace-expect-fail=CT100:the same")
    result.assert_outcomes(failed=1)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    told = "CT100 holds now, though it was expected to break (issue 12; the same): remove it from "
    places = "expected_failures of TestMine and from --gputrace-expect-fail=CT100"
    line = "test_it.py::TestMine: 1 of * checks: 1 held though expected to break (CT100)"
    result.stdout.fnmatch_lines([told + places, line])


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ("os.kill(os.getpid(), signal.SIGKILL)", "CT100: no verdict: *died*"),
        ("__import__('time').sleep(50)", "CT100: no verdict: *"),
        ("raise RuntimeError('no GPU here')", "CT100: no verdict: the exporter raises in the plainest run*"),
        ("os._exit(0)", "CT100: no verdict: *"),
    ],
    ids=["killed", "late", "raises", "exits"],
)
def test_no_verdict_is_never_expected(start_plain: Start, make_test: MakeTest, body: str, told: str) -> None:
    make_test(f"def mine(job):\n    {body}\n" + MINE.replace("    exp", "    deadline_s = 3.0\n    exp", 1))
    result = start_plain("-k", "CT100")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines([told, "test_it.py::TestMine: 1 of * checks: 1 no verdict (CT100)"])
    result.stdout.no_fnmatch_line("*raceback entries*")


@pytest.mark.parametrize(
    ("fixture", "outcomes", "told"),
    [
        ("raise RuntimeError('no licence')", {"errors": 1}, "E * RuntimeError: no licence"),
        ("return 3", {"failed": 1}, "CT100: no verdict: exporter=3 cannot be called; give the function itself"),
        ("pytest.xfail('not today')", {"failed": 1}, "CT100: xfail does not count here; declare expected_failures = *"),
    ],
)
def test_a_fixture_that_fails_is_never_expected(
    start_plain: Start, make_test: MakeTest, fixture: str, outcomes: dict[str, int], told: str
) -> None:
    make_test(MINE.replace("return mine", fixture))
    result = start_plain("-k", "CT100")
    if "xfail" in fixture:  # in a fixture pytest calls it an error
        outcomes = {"errors": 1}
    result.assert_outcomes(**outcomes)
    result.stdout.fnmatch_lines_random([told, "test_it.py::TestMine: 1 of * checks: 1 no verdict (CT100)"])


def test_a_skipping_fixture_is_told(start_plain: Start, make_test: MakeTest) -> None:
    make_test(MINE.replace("return mine", "pytest.skip('no licence')"))
    result = start_plain("-k", "CT100")
    result.assert_outcomes(skipped=1)
    result.stdout.fnmatch_lines(["test_it.py::TestMine: 1 of * checks: 1 not checked (no licence)"])


@pytest.mark.parametrize("exporter", ["naive", "export"])
def test_an_xfail_mark_declares_nothing(start_plain: Start, make_test: MakeTest, exporter: str) -> None:
    source = MINE.replace("return mine", f"return {exporter}").replace('{"CT100": "issue 12"}', "{}")
    make_test(source.replace("class TestMine", "@pytest.mark.xfail\nclass TestMine"))
    result = start_plain("-k", "CT102", "-o", "xfail_strict=false")
    result.assert_outcomes(failed=1)
    state = {"naive": "broken", "export": "held"}[exporter]
    result.stdout.fnmatch_lines(
        [f"CT102: xfail does not count here, and the check is {state}; declare expected_failures = {{'CT102': 'why'}}"]
    )


def test_an_error_beside_the_check_is_not_expected(start_plain: Start, make_test: MakeTest) -> None:
    make_test(MINE.replace("return mine", "yield naive\n        raise RuntimeError('cannot clean up')"))
    result = start_plain("-k", "CT102", "--gputrace-expect-fail=CT102:known")
    result.assert_outcomes(xfailed=1, errors=1)
    assert result.ret == pytest.ExitCode.TESTS_FAILED


def test_runxfail(start_plain: Start, make_test: MakeTest) -> None:
    make_test(TWO)
    result = start_plain("-k", "TestNaive and CT103", "--runxfail")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["test_it.py::TestNaive: 1 of * checks: 1 broken (CT103)"])


MODULE = """
from pytest_gputrace import ExporterContract


@pytest.fixture(scope="module", params=["one", "two"])
def exporter(request):
    return lambda job: export(job)


@pytest.fixture
def consumer():
    raise RuntimeError("the consumer of the module is asked")


@pytest.fixture
def legacy_exporter(nobody_wrote_this):
    return None


class TestMine(ExporterContract):
    pass


class TestNone(ExporterContract):
    @pytest.fixture
    def consumer(self):
        return None

    @pytest.fixture
    def legacy_exporter(self):
        return None
"""


def test_fixtures_of_the_module(start_plain: Start, make_test: MakeTest) -> None:
    make_test(MODULE)
    result = start_plain("-k", "CT100", "-v")
    result.assert_outcomes(passed=2, errors=2)
    result.stdout.fnmatch_lines_random(
        [
            "test_it.py::TestNone::test_contract[[]CT100-one[]] PASSED*",
            "E * RuntimeError: the consumer of the module is asked",
            "test_it.py::TestNone[[]two[]]: 1 of * checks: 1 held",
        ]
    )
    make_test(MODULE.replace('raise RuntimeError("the consumer of the module is asked")', "return None"))
    result = start_plain("-k", "CT100 and TestMine")
    result.assert_outcomes(errors=2)
    result.stdout.fnmatch_lines(["E * fixture 'nobody_wrote_this' not found"])


def test_model_and_legacy_name(start_plain: Start, make_test: MakeTest) -> None:
    make_test(
        """
from pytest_gputrace import ExporterContract


def mine(job):
    assert (job.model, job.legacy_name) == ("gpt", "prof-gpt-0.json"), (job.model, job.legacy_name)
    return naive(job)


class TestBase(ExporterContract):
    __test__ = False
    model = "gpt"

    @pytest.fixture
    def exporter(self):
        return mine


class TestMine(TestBase):
    legacy_name = "prof-{model}-{local_rank}.json"
"""
    )
    result = start_plain("-k", "CT100", "-v")
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["test_it.py::TestMine: 1 of * checks: 1 held"])


def test_traces_are_kept(start_plain: Start, make_test: MakeTest, pytester: pytest.Pytester) -> None:
    make_test(TWO)
    start_plain("-k", "TestMine and CT100", "--gputrace").assert_outcomes(passed=1)
    assert len(list(pytester.path.glob(".gputrace/*/*/job0/traces/*.json"))) == 2  # its own and the legacy file


def test_env(make_test: MakeTest, start_plain: Start) -> None:
    make_test("""
from pytest_gputrace import ExporterContract, gputrace_checks

def mine(job):
    assert os.environ["MINE"] == "1"
    return export(job)

class TestMine(ExporterContract):
    exporter = pytest.fixture(lambda self: mine)
    env = {"MINE": "1"}

@gputrace_checks(mine, env={"MINE": "1"})
def test_mine(check):
    check()
""")
    start_plain("-k", "CT100 or CT101").assert_outcomes(passed=4)
