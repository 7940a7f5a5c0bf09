"""--gputrace-conformance: the contract without a test file."""

from __future__ import annotations

import sys
import xml.etree.ElementTree as ET
from typing import TYPE_CHECKING

import pytest

# Loaded before a run inside this process: numpy cannot be imported a second time after it.
import pytest_gputrace.plugin.contractnodes
from pytest_gputrace.conformance import CHECKS
from tests.plugin.conftest import EXPORTER

if TYPE_CHECKING:
    from tests.plugin.conftest import Start

assert pytest_gputrace.plugin.contractnodes

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="simulated nodes need Linux")


@pytest.fixture(autouse=True)
def _exporters(pytester: pytest.Pytester) -> None:
    """Exporters beside no test, a folder of tests, and an ini file that names it."""
    pytester.makepyfile(mine=EXPORTER + "\nnothing = None\ndef consumer(baseline, target): return 'same'\n")
    pytester.mkdir("tests").joinpath("test_other.py").write_text("def test_other(): pass\n")
    pytester.makeini("[pytest]\ntestpaths = tests\n")


def collected(pytester: pytest.Pytester, *args: str) -> list[str]:
    result = pytester.runpytest_inprocess("--collect-only", "-q", "-p", "no:cacheprovider", *args)
    assert result.ret == pytest.ExitCode.OK
    assert "= gputrace contract =" not in result.stdout.str()
    return [line for line in result.outlines if "::" in line]


def test_held_and_broken(start: Start) -> None:
    result = start(
        "--gputrace-conformance=mine:naive", "-v", "-k", "CT100 or CT102 or CT103 or CT403", "--junitxml=out.xml",
        "--gputrace-expect-fail=CT103:issue 12", "--gputrace-unclaimed=hip:we have no AMD machines",
    )  # fmt: skip
    result.assert_outcomes(passed=1, failed=1, skipped=1, xfailed=1)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    told = "1 held, 1 broken (CT102), 1 broken as expected (CT103), 1 not checked (hip: we have no AMD machines)"
    result.stdout.fnmatch_lines_random(
        [
            "*mine:naive::TestContract::test_contract[[]CT100[]]*",
            "CT102 broken: every node keeps its capture in one shared folder",
            f"mine:naive: 4 of * checks: {told}",
        ]
    )
    result.stdout.no_fnmatch_line("*raceback*")
    result.stdout.no_fnmatch_line("*test_other*")
    cases = {(case.get("classname"), case.get("name")) for case in ET.parse("out.xml").iter("testcase")}
    assert ("mine:naive.TestContract", "test_contract[CT102]") in cases


def test_strict(start: Start) -> None:
    result = start("--gputrace-conformance=mine.py:export", "-k", "CT100", "-o", "gputrace_expect_fail=CT100: known")
    result.assert_outcomes(failed=1)
    told = (
        "CT100 holds now, though it was expected to break (known): remove it from gputrace_expect_fail in the ini file"
    )
    result.stdout.fnmatch_lines([told])


def test_only_the_contract(pytester: pytest.Pytester) -> None:
    ids = [f"mine:export::TestContract::test_contract[{check}]" for check in CHECKS]
    assert collected(pytester, "--gputrace-conformance=mine:export") == ids


def test_with_paths_in_addition(pytester: pytest.Pytester) -> None:
    found = collected(pytester, "--gputrace-conformance=mine:export", "tests")
    assert found[0] == "tests/test_other.py::test_other"
    assert len(found) == 1 + len(CHECKS)


def test_whatever_the_ini_calls_a_test(pytester: pytest.Pytester) -> None:
    args = ["-o", "python_classes=Check", "-o", "python_functions=check"]
    assert len(collected(pytester, "--gputrace-conformance=mine:export", *args)) == len(CHECKS)


def test_the_same_checks_in_all_three_ways(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        test_ways="""
        import pytest
        import mine
        from pytest_gputrace import ExporterContract, gputrace_checks

        class TestMine(ExporterContract):
            exporter = pytest.fixture(lambda self: mine.export)

        @gputrace_checks(mine.export)
        def test_mine(check):
            check()
        """
    )
    found = collected(pytester, "--gputrace-conformance=mine.py:export", "test_ways.py")
    ways = [
        "test_ways.py::TestMine::test_contract",
        "test_ways.py::test_mine",
        "mine.py:export::TestContract::test_contract",
    ]
    assert found == [f"{way}[{check}]" for way in ways for check in CHECKS]


def test_consumer_and_legacy_exporter(start_plain: Start) -> None:
    result = start_plain(
        "--gputrace-conformance=mine.py:export", "-k", "CT100 or CT601", "-rs",
        "--gputrace-consumer=mine.py:consumer", "--gputrace-legacy-exporter=mine.py:naive",
    )  # fmt: skip
    result.assert_outcomes(passed=2)


def test_everything_is_declared(start_plain: Start, pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        told=EXPORTER
        + """
def told(job):
    found = (job.model, job.legacy_name, os.environ.get("MINE"), os.environ.get("YOURS"))
    assert found == ("gpt", "prof-gpt-0.json", "a=b", ""), found
    return naive(job)
"""
    )
    result = start_plain(
        "--gputrace-conformance=told:told", "-k", "CT100", "--gputrace-legacy-name=prof-{model}-{local_rank}.json",
        "--gputrace-model=gpt", "--gputrace-env=MINE=a=b", "--gputrace-env=YOURS=", "--gputrace-deadline=30",
    )  # fmt: skip
    result.assert_outcomes(passed=1)


def test_the_deadline_of_the_command_line(start_plain: Start, pytester: pytest.Pytester) -> None:
    pytester.makepyfile(sleeps="import time\ndef export(job): time.sleep(50)\n")
    result = start_plain("--gputrace-conformance=sleeps:export", "-k", "CT100", "--gputrace-deadline=0.5")
    result.assert_outcomes(failed=1)
    assert result.duration < 25


def test_a_path_may_shadow_nothing(start_plain: Start, pytester: pytest.Pytester) -> None:
    folder = pytester.mkdir("exporters")
    folder.joinpath("beside.py").write_text("from mine import export as there\n")
    folder.joinpath("json.py").write_text("from beside import there\n\nclass Kit:\n    export = staticmethod(there)\n")
    result = start_plain("--gputrace-conformance=exporters/json.py:Kit.export", "-k", "CT100")
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["exporters/json.py:Kit.export: 1 of * checks: 1 held"])


@pytest.mark.parametrize(
    ("args", "told"),
    [
        (["mine"], "*=mine: expected MODULE:CALLABLE, such as my_package.traces:export or traces.py:export; *"),
        (["mine.py::TestMine"], "*=mine.py::TestMine: expected MODULE:CALLABLE*a test class needs no option*"),
        (["nowhere:export"], "*nowhere cannot be imported: ModuleNotFoundError: No module named 'nowhere'"),
        (["nowhere.py:export"], "*=nowhere.py:export: there is no file */nowhere.py"),
        (["mine:exprot"], "*=mine:exprot: there is no 'exprot' in mine; did you mean 'export'?"),
        (["mine:nothing"], "*=mine:nothing: nothing cannot be called, it is None"),
        (["broken:export"], "*broken cannot be imported: ZeroDivisionError: division by zero (*broken.py:2)"),
        (["leaves.py:export"], "*leaves.py cannot be imported: SystemExit: 3 (*leaves.py:1)"),
        (
            ["contract.py:TestIt"],
            "*is a test class: run it without --gputrace-conformance, *pytest */contract.py::TestIt*",
        ),
        (["mine:export", "--gputrace-consumer=mine:eat"], "--gputrace-consumer=mine:eat: there is no 'eat' in mine*"),
        (
            ["mine:export", "--gputrace-unclaimed=hop:x"],
            "--gputrace-unclaimed: 'hop' is no capability; did you mean 'hip'*",
        ),
        (["mine:export", "--gputrace-unclaimed=hip"], "--gputrace-unclaimed: hip needs a reason, such as hip:*"),
        (["mine:export", "--gputrace-legacy-name=x-{rang}"], "--gputrace-legacy-name: *did you mean 'rank'?"),
        (["mine:export", "--gputrace-legacy-name=/x"], "--gputrace-legacy-name: *must name a file below*"),
        (["mine:export", "--gputrace-model="], "--gputrace-model: the model is empty; give at least one character"),
        (
            ["mine:export", "--gputrace-env=A"],
            "--gputrace-env=A: expected NAME=VALUE, such as OMP_NUM_THREADS=1",
        ),
        (["mine:export", "--gputrace-env==1"], "--gputrace-env==1: expected NAME=VALUE, such as *"),
        (["mine:export", "--gputrace-env=A=1", "--gputrace-env=A=2"], "--gputrace-env: A is given twice"),
    ],
)
def test_what_cannot_be_held_to_it(pytester: pytest.Pytester, args: list[str], told: str) -> None:
    pytester.makepyfile(broken="zero = 0\n1 / zero", leaves="raise SystemExit(3)")
    pytester.makepyfile(contract="from pytest_gputrace import ExporterContract\nclass TestIt(ExporterContract): pass")
    result = pytester.runpytest_inprocess(f"--gputrace-conformance={args[0]}", *args[1:])
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"ERROR: {told}"])


def test_wrong_use_with_workers(start_n2: Start) -> None:
    result = start_n2("--gputrace-conformance=nowhere:export")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["ERROR: *nowhere cannot be imported*"])
