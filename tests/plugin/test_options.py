"""--gputrace and --gputrace-dir: command line, then ini, then default; a bad value is a usage error."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_gputrace.plugin.options import SETTINGS, Settings


def settings(pytester: pytest.Pytester, *args: str) -> Settings:
    return pytester.parseconfigure(*args).stash[SETTINGS]


def test_default(pytester: pytest.Pytester) -> None:
    assert settings(pytester) == Settings(enabled=False, folder=pytester.path / ".gputrace")


def test_command_line(pytester: pytest.Pytester) -> None:
    found = settings(pytester, "--gputrace", "--gputrace-dir=kept/here")
    assert found == Settings(enabled=True, folder=pytester.path / "kept/here")


def test_ini(pytester: pytest.Pytester) -> None:
    pytester.makeini("[pytest]\ngputrace = true\ngputrace_dir = from_ini\n")
    assert settings(pytester) == Settings(enabled=True, folder=pytester.path / "from_ini")


def test_command_line_before_ini(pytester: pytest.Pytester) -> None:
    pytester.makeini("[pytest]\ngputrace = false\ngputrace_dir = from_ini\n")
    found = settings(pytester, "--gputrace", "--gputrace-dir=given")
    assert found == Settings(enabled=True, folder=pytester.path / "given")


def test_ini_is_overridden_on_the_command_line(pytester: pytest.Pytester) -> None:
    pytester.makeini("[pytest]\ngputrace = true\n")
    assert not settings(pytester, "-o", "gputrace=false").enabled


def test_pyproject(pytester: pytest.Pytester) -> None:
    pytester.makepyprojecttoml("[tool.pytest.ini_options]\ngputrace = true\n")
    assert settings(pytester).enabled


def test_relative_to_the_root_folder(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    pytester.makeini("[pytest]\ngputrace_dir = kept\n")
    sub = pytester.mkdir("sub")
    monkeypatch.chdir(sub)
    assert settings(pytester, str(sub)).folder == pytester.path / "kept"


def test_absolute_and_home(pytester: pytest.Pytester, tmp_path_factory: pytest.TempPathFactory) -> None:
    other = tmp_path_factory.mktemp("other")
    assert settings(pytester, f"--gputrace-dir={other}").folder == other
    assert settings(pytester, "--gputrace-dir=~/traces").folder == Path("~/traces").expanduser()


@pytest.mark.parametrize(
    ("ini", "args", "message"),
    [
        ("", ["--gputrace-dir="], "--gputrace-dir: expected a folder, got an empty text"),
        ("", ["--gputrace-dir=~nobody-of-that-name/x"], "names no folder (Could not determine home directory"),
        ("gputrace_dir =", [], "gputrace_dir in the ini file: expected a folder, got an empty text"),
        ("gputrace = perhaps", [], "gputrace in the ini file: expected true or false (invalid truth value 'perhaps')"),
        ("", ["--gputrace", "--gputrace-dir=taken"], "/taken is a file, so no traces can be kept in "),
        ("", ["--gputrace", "--gputrace-dir=taken/below"], "/taken is a file, so no traces can be kept in "),
        ("gputrace_dir = taken", ["--gputrace"], "gputrace_dir in the ini file: "),
    ],
)
def test_bad_value(pytester: pytest.Pytester, ini: str, args: list[str], message: str) -> None:
    pytester.makeini(f"[pytest]\n{ini}\n")
    (pytester.path / "taken").touch()
    with pytest.raises(pytest.UsageError) as caught:
        settings(pytester, *args)
    assert message in str(caught.value)


def test_a_bad_value_is_exit_code_4(pytester: pytest.Pytester) -> None:
    result = pytester.runpytest_inprocess("--gputrace-dir=")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["ERROR: --gputrace-dir: expected a folder, got an empty text"])


def test_help(pytester: pytest.Pytester) -> None:
    text = pytester.runpytest_inprocess("--help").stdout.str()
    for words in ("--gputrace ", "--gputrace-dir=DIR", "gputrace (bool):", "gputrace_dir (string):"):
        assert words in text


def test_without_the_option_nothing_that_works_is_registered(pytester: pytest.Pytester) -> None:
    names = {"gputrace-recording", "gputrace-workers"}
    assert not any(pytester.parseconfigure().pluginmanager.has_plugin(name) for name in names)
    assert all(pytester.parseconfigure("--gputrace").pluginmanager.has_plugin(name) for name in names)
