"""No contract loses a check unseen: what is overridden, filtered, hidden or wrongly declared fails its collection."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

# Loaded before a run inside this process: numpy cannot be imported a second time after it.
import pytest_gputrace.plugin.contractnodes
from pytest_gputrace.conformance import CHECKS

if TYPE_CHECKING:
    from tests.plugin.conftest import Start

assert pytest_gputrace.plugin.contractnodes

HEAD = """
import pytest
from pytest_gputrace import ExporterContract, gputrace_checks
"""
CLASS = """
class TestMine(ExporterContract):
    exporter = pytest.fixture(lambda self: print)
"""
LOST = {
    "overridden": (CLASS + "    def test_contract(self): pass", len(CHECKS)),
    "removed": (CLASS + "    test_contract = None", len(CHECKS)),
    "own parameters": (
        CLASS + "    @pytest.mark.parametrize('check', [pytest.param(1, id='CT100')])\n"
        "    def test_contract(self, check): pass",
        len(CHECKS),
    ),
    "filtered": (CLASS + "    def pytest_generate_tests(self, metafunc): del metafunc._calls[1:]", len(CHECKS) - 1),
    "constructor": (CLASS + "    def __init__(self): pass", len(CHECKS)),
    "function filtered": (
        """
def pytest_generate_tests(metafunc):
    del metafunc._calls[1:]

@gputrace_checks(print)
def TestMine(check):
    check()
""",
        len(CHECKS) - 1,
    ),
}


def collect(pytester: pytest.Pytester, source: str, *args: str) -> pytest.RunResult:
    pytester.makepyfile(test_it=HEAD + source)
    return pytester.runpytest_inprocess("--collect-only", "-p", "no:cacheprovider", *args)


@pytest.mark.filterwarnings("ignore:cannot collect test class:pytest.PytestCollectionWarning")  # __init__, on purpose
@pytest.mark.parametrize("name", LOST)
def test_checks_that_are_lost(pytester: pytest.Pytester, name: str) -> None:
    source, count = LOST[name]
    result = collect(pytester, source, "-W", "ignore")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    missing = list(CHECKS)[-count:]
    result.stdout.fnmatch_lines(
        [f"TestMine: {count} of {len(CHECKS)} checks of the contract are not collected: {', '.join(missing)}; *"]
    )


@pytest.mark.parametrize(
    ("source", "told"),
    [
        ("class Mine(ExporterContract): pass", "Mine"),
        ("class TestThese:\n    class Mine(ExporterContract): pass", "TestThese.Mine"),
        ("class TestBase(ExporterContract): __test__ = False\nclass Mine(TestBase): pass", "Mine"),
    ],
)
def test_a_class_that_is_not_collected(pytester: pytest.Pytester, source: str, told: str) -> None:
    result = collect(pytester, source)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stdout.fnmatch_lines(
        [f"{told}: is an ExporterContract, and pytest does not collect it, *python_classes (Test)*__test__ = False*"]
    )


@pytest.mark.parametrize(
    ("source", "told"),
    [
        (CLASS + "    expected_failures = {'CT999': 'why'}", "TestMine: expected_failures: 'CT999' is no check*"),
        (CLASS + "    expected_failures = {'CT102': ' '}", "TestMine: expected_failures: CT102 needs a reason*"),
        (CLASS + "    expected_failures = ['CT102']", "TestMine: expected_failures is a dict of *, got ['CT102']"),
        (CLASS + "    unclaimed = {'hop': 'why'}", "TestMine: unclaimed: 'hop' is no capability; did you mean 'hip'*"),
        (CLASS + "    legacy_name = 'x-{rang}.json'", "TestMine: *rang*"),
        (CLASS + "    deadline_s = 'long'", "TestMine: *deadline_s*"),
        (CLASS + "    model = 3", "TestMine: *model*"),
        (CLASS + "    env = ['A=1']", "TestMine: *env=*must be a mapping of names to texts*"),
        (CLASS + "    expected_failure = {'CT102': 'x'}", "TestMine: *did you mean expected_failures? *"),
        (CLASS + "    expected_fails = {}", "TestMine: *did you mean expected_failures? *call it _expected_fails"),
        (CLASS + "    unclaimd = {}", "TestMine: unclaimd declares nothing; did you mean unclaimed? *"),
        (CLASS + "    deadline = 3.0", "TestMine: deadline declares nothing; did you mean deadline_s? *"),
        (
            CLASS.replace("TestMine", "TestBase").replace(
                "exporter =", "__test__ = False\n    legacy_nam = 'x'\n    exporter ="
            )
            + "class TestMine(TestBase): pass",
            "TestBase: legacy_nam declares nothing; did you mean legacy_name? *",
        ),
        (
            "@gputrace_checks(print, expected_failures={'CT999': 'x'})\ndef test_mine(check): check()",
            "test_mine: *CT999*",
        ),
        ("@gputrace_checks(3)\ndef test_mine(check): check()", "test_mine: exporter=3 cannot be called*"),
        ("@gputrace_checks(print)\ndef test_mine(): pass", "test_mine: gputrace_checks gives an argument 'check'*"),
    ],
)
def test_what_cannot_be_declared(pytester: pytest.Pytester, source: str, told: str) -> None:
    result = collect(pytester, source)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    lines = [line for line in result.outlines if line.startswith(told.split(":")[0] + ":")]
    assert len(lines) == 1
    result.stdout.fnmatch_lines([told.replace("[", "[[]").replace("[[]'CT102']", "[[]'CT102'[]]")])
    result.stdout.no_fnmatch_line("*Error*")  # the message, and no traceback


def test_names_that_are_no_declaration(pytester: pytest.Pytester) -> None:
    names = """
    _models = ['a']
    colour = 'red'
    class Models: pass
    @property
    def models(self): return []
    @classmethod
    def envs(cls): return []
    @pytest.fixture
    def deadline(self): return 3
    @staticmethod
    def expected_failure(): return 3
"""
    assert collect(pytester, CLASS + names).ret == pytest.ExitCode.OK


NO_FIXTURE = """
class TestMine(ExporterContract):
    {}
"""


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ("pass", "TestMine: there is no fixture exporter; write"),
        (
            "exporter = staticmethod(print)",
            "TestMine: exporter in the class is no fixture, and there is no other; write",
        ),
        (
            "def exporter(self, job): pass",
            "TestMine: exporter in the class is no fixture, and there is no other; write",
        ),
        ("exporter = None", "TestMine: exporter in the class is no fixture, and there is no other; write"),
    ],
)
def test_no_fixture_gives_the_exporter(pytester: pytest.Pytester, body: str, told: str) -> None:
    result = collect(pytester, NO_FIXTURE.format(body))
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stdout.fnmatch_lines([told, "    @pytest.fixture", "    def exporter(self):", "        return export  #*"])
    assert sum(line.startswith("TestMine:") for line in result.outlines) == 1


def test_another_name_that_is_no_fixture(pytester: pytest.Pytester) -> None:
    result = collect(pytester, CLASS + "    def consumer(self, baseline, target): pass")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stdout.fnmatch_lines(["TestMine: consumer in the class is no fixture, *", "    def consumer(self):"])


@pytest.mark.parametrize(
    "before",
    [
        "@pytest.fixture\ndef exporter(): return print",
        "@pytest.fixture(params=[1, 2])\ndef exporter(request): return print",
        "from conftest import *",
        "@pytest.mark.parametrize('exporter', [print])",
        "def pytest_generate_tests(metafunc): metafunc.parametrize('exporter', [print])",
    ],
)
@pytest.mark.parametrize("body", ["pass", "exporter = staticmethod(print)"])
def test_an_exporter_of_elsewhere(pytester: pytest.Pytester, before: str, body: str) -> None:
    if "conftest" in before:
        pytester.makeconftest("import pytest\n@pytest.fixture\ndef exporter(): return print\n")
    result = collect(pytester, before + NO_FIXTURE.format(body), "-q")
    assert result.ret == pytest.ExitCode.OK


def test_a_refusal_is_wrong_use_in_every_mode(start: Start, pytester: pytest.Pytester) -> None:
    pytester.makepyfile(test_it=HEAD + LOST["removed"][0])
    pytester.makepyfile(test_fine="def test_fine(): pass")
    assert start().ret == pytest.ExitCode.USAGE_ERROR
    assert start("--continue-on-collection-errors").ret == pytest.ExitCode.USAGE_ERROR


def test_another_collection_error_ends_as_ever(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(test_other="import nothing_of_that_name")
    assert collect(pytester, CLASS).ret == pytest.ExitCode.INTERRUPTED


@pytest.mark.parametrize(
    ("args", "count"),
    [
        (["-k", "CT100 or CT101"], 2),
        (["test_it.py::TestMine::test_contract[CT101]"], 1),
        (["--deselect", "test_it.py::TestMine::test_contract[CT101]"], len(CHECKS) - 1),
        (["-o", "python_functions=check_*"], len(CHECKS)),
        (["-o", "python_classes=*"], len(CHECKS)),
    ],
)
def test_to_select_is_fine(pytester: pytest.Pytester, args: list[str], count: int) -> None:
    hidden = "\nclass TestBase(ExporterContract):\n    __test__ = False\n    def test_contract(self): pass\n"
    result = collect(pytester, CLASS + hidden, "-q", *args)
    assert result.ret == pytest.ExitCode.OK
    assert sum("::test_contract[CT" in line for line in result.outlines) == count


def test_a_subclass_of_a_hidden_base_is_collected(pytester: pytest.Pytester) -> None:
    source = CLASS.replace("exporter =", "__test__ = False\n    exporter =") + "\nclass TestSub(TestMine): pass\n"
    result = collect(pytester, source, "-q")
    assert sum("::TestSub::test_contract[CT" in line for line in result.outlines) == len(CHECKS)
    assert not any("::TestMine::" in line for line in result.outlines)
