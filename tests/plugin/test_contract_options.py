"""Sizes, deadline and expected failures: command line and ini; a bad value is a usage error."""

from __future__ import annotations

import fnmatch

import pytest

# Loaded before a run inside this process: numpy cannot be imported a second time after it.
import pytest_gputrace.plugin.contractnodes
from pytest_gputrace.plugin.contractoptions import CONTRACT, ContractSettings

assert pytest_gputrace.plugin.contractnodes


def settings(pytester: pytest.Pytester, *args: str) -> ContractSettings:
    return pytester.parseconfigure(*args).stash[CONTRACT]


def test_default(pytester: pytest.Pytester) -> None:
    assert settings(pytester) == ContractSettings(sizes={}, expected=())


def test_sizes(pytester: pytest.Pytester) -> None:
    pytester.makeini("[pytest]\ngputrace_nodes = 5\ngputrace_ranks = 6\n")
    found = settings(pytester, "--gputrace-nodes=3", "--gputrace-configs=4")
    assert found.sizes == {"nodes": 3, "ranks": 6, "configurations": 4}


def test_deadline(pytester: pytest.Pytester) -> None:
    declared = {"deadline_s": 7.0, "model": "gpt"}
    assert settings(pytester).about(declared) == declared
    pytester.makeini("[pytest]\ngputrace_deadline = 90\n")
    assert settings(pytester).about(declared) == declared
    assert settings(pytester).about({"model": "gpt"}) == {"deadline_s": 90.0, "model": "gpt"}
    assert settings(pytester, "--gputrace-deadline=2.5").about(declared) == {"deadline_s": 2.5, "model": "gpt"}


def test_expected_failures_of_both(pytester: pytest.Pytester) -> None:
    pytester.makeini("[pytest]\ngputrace_expect_fail =\n    CT102: in the ini: file\n    CT103:more\n")
    args = ["--gputrace-expect-fail=CT100:issue 12", "--gputrace-expect-fail=CT102:again"]
    assert settings(pytester, *args).expected == (
        ("CT100", "issue 12", "--gputrace-expect-fail=CT100"),
        ("CT102", "again", "--gputrace-expect-fail=CT102"),
        ("CT102", "in the ini: file", "gputrace_expect_fail in the ini file"),
        ("CT103", "more", "gputrace_expect_fail in the ini file"),
    )


@pytest.mark.parametrize(
    ("ini", "args", "message"),
    [
        ("", ["--gputrace-nodes=0"], "--gputrace-nodes: expected a whole number of at least 1, got '0'"),
        ("", ["--gputrace-ranks=two"], "--gputrace-ranks: expected a whole number of at least 1, got 'two'"),
        ("", ["--gputrace-configs=1.5"], "--gputrace-configs: expected a whole number of at least 1, got '1.5'"),
        ("gputrace_nodes = -1", [], "gputrace_nodes in the ini file: expected a whole number of at least 1, got '-1'"),
        ("gputrace_ranks =", [], "gputrace_ranks in the ini file: expected a whole number of at least 1, got ''"),
        ("", ["--gputrace-expect-fail=CT999:x"], "--gputrace-expect-fail: 'CT999' is no check"),
        ("", ["--gputrace-expect-fail=CT102"], "--gputrace-expect-fail: CT102 needs a reason, such as CT102:issue 12"),
        ("", ["--gputrace-expect-fail=CT102: "], "--gputrace-expect-fail: CT102 needs a reason"),
        ("", ["--gputrace-expect-fail=CT102:a", "--gputrace-expect-fail=CT102:b"], "CT102 is given twice"),
        ("gputrace_expect_fail = CT1", [], "gputrace_expect_fail in the ini file: 'CT1' is no check"),
        (
            "",
            ["--gputrace-consumer=a:b"],
            "--gputrace-consumer says something about --gputrace-conformance, which is not",
        ),
        ("", ["--gputrace-unclaimed=hip:x"], "--gputrace-unclaimed says something about --gputrace-conformance"),
        ("", ["--gputrace-legacy-name=x"], "--gputrace-legacy-name says something about --gputrace-conformance"),
        ("", ["--gputrace-model=x"], "--gputrace-model says something about --gputrace-conformance"),
        ("", ["--gputrace-env=A=1"], "--gputrace-env says something about --gputrace-conformance"),
        ("", ["--gputrace-deadline=0"], "--gputrace-deadline: expected a number of seconds above 0 and at most 1e9"),
        ("", ["--gputrace-deadline=-3"], "--gputrace-deadline: expected a number of seconds above 0"),
        ("", ["--gputrace-deadline=soon"], "--gputrace-deadline: expected a number of seconds *, got 'soon'"),
        ("", ["--gputrace-deadline=nan"], "--gputrace-deadline: expected a number of seconds *, got 'nan'"),
        ("gputrace_deadline = 2e9", [], "gputrace_deadline in the ini file: expected a number of seconds above 0"),
        ("gputrace_deadline =", [], "gputrace_deadline in the ini file: expected a number of seconds *, got ''"),
    ],
)
def test_bad_value(pytester: pytest.Pytester, ini: str, args: list[str], message: str) -> None:
    pytester.makeini(f"[pytest]\n{ini}\n")
    with pytest.raises(pytest.UsageError) as caught:
        settings(pytester, *args)
    assert fnmatch.fnmatchcase(str(caught.value), f"*{message}*")


@pytest.mark.parametrize(
    "text",
    [
        "gputrace_nodes = 3",
        "gputrace_nodes = '0'",
        "gputrace_expect_fail = 'CT102:x'",
        "gputrace_deadline = 3",
        "gputrace_deadline = '0'",
    ],
)
def test_a_native_toml_table(pytester: pytest.Pytester, text: str) -> None:
    if pytest.version_tuple < (9,):
        pytest.skip("needs pytest 9: it has no native table before")
    pytester.makepyprojecttoml(f"[tool.pytest]\n{text}\n")
    with pytest.raises(pytest.UsageError, match=text.split()[0]):
        settings(pytester)


def test_a_bad_value_is_exit_code_4(pytester: pytest.Pytester) -> None:
    result = pytester.runpytest_inprocess("--gputrace-expect-fail=CT999:x")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["ERROR: --gputrace-expect-fail: 'CT999' is no check*"])


def test_help(pytester: pytest.Pytester) -> None:
    text = pytester.runpytest_inprocess("--help").stdout.str()
    for words in (
        "--gputrace-conformance=MODULE:CALLABLE", "--gputrace-expect-fail=ID:REASON", "--gputrace-nodes=N",
        "gputrace_expect_fail (linelist):", "gputrace_configs (string):",
        "--gputrace-deadline=SECONDS", "gputrace_deadline (string):", "--gputrace-legacy-name=TEMPLATE",
        "--gputrace-model=NAME", "--gputrace-env=NAME=VALUE",
    ):  # fmt: skip
        assert words in text
