"""Somebody's package, built and installed, is held to the contract by each of the three ways in."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs Linux: simulated nodes")

SOURCE = Path(__file__).with_name("sample_package")
UNCLAIMED = [
    "--gputrace-unclaimed=legacy:no older consumer reads our files",
    "--gputrace-unclaimed=layout:the configuration is handed over",
]
WAYS = {
    "class": """
import pytest
from pytest_gputrace import ExporterContract
from tracekeeper.adapters import UNCLAIMED, {exporter}

class TestTracekeeper(ExporterContract):
    unclaimed = UNCLAIMED

    @pytest.fixture
    def exporter(self):
        return {exporter}
""",
    "decorator": """
from pytest_gputrace import gputrace_checks
from tracekeeper.adapters import UNCLAIMED, {exporter}

@gputrace_checks({exporter}, unclaimed=UNCLAIMED)
def test_tracekeeper(check):
    check()
""",
    "command": "",
}
# What a name by the rank alone loses. The lengths (CT108, CT109) say the same 182 times; they are left out.
LOST = {"CT103", "CT104", "CT105", "CT106", "CT107", "CT111", "CT112", "CT113", "CT115", "CT505"}
SKIPPED = {"CT301", "CT302", "CT303", "CT304", "CT305", "CT306", "CT307", "CT601", "CT602", "CT603", "CT604"}


@pytest.fixture(scope="session")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the package installed from its wheel, without the network."""
    if importlib.util.find_spec("hatchling") is None or importlib.util.find_spec("pip") is None:
        pytest.skip("needs hatchling: it is not installed, or pip is not")
    folder = tmp_path_factory.mktemp("sample")
    shutil.copytree(SOURCE, folder / "source", ignore=shutil.ignore_patterns("__pycache__"))
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    build = [*pip, "wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", str(folder), str(folder / "source")]
    subprocess.run(build, check=True, timeout=120)
    (wheel,) = folder.glob("tracekeeper-1.0-*.whl")
    install = [*pip, "install", "--no-deps", "--no-index", "--target", str(folder / "site"), str(wheel)]
    subprocess.run(install, check=True, timeout=120)
    return folder / "site"


def pytest_run(installed: Path, folder: Path, way: str, exporter: str, *more: str) -> tuple[int, dict[str, set[str]]]:
    """The exit status of pytest and, for each outcome, the checks that had it."""
    command = [sys.executable, "-m", "pytest", "-rA", "-p", "no:cacheprovider", "-c", "/dev/null", *more]
    if way == "command":
        command += [f"--gputrace-conformance=tracekeeper.adapters:{exporter}", *UNCLAIMED]
    else:
        (folder / "test_it.py").write_text(WAYS[way].format(exporter=exporter))
        command += [f"--rootdir={folder}", "test_it.py"]
    environment = {**os.environ, "PYTHONPATH": str(installed)}
    environment.pop("PYTEST_ADDOPTS", None)
    done = subprocess.run(command, cwd=folder, env=environment, stdout=subprocess.PIPE, text=True, timeout=300)
    outcomes: dict[str, set[str]] = {}
    for word, check in re.findall(r"^(PASSED|FAILED|ERROR|XFAIL) .*\[(CT\d{3})\]", done.stdout, re.MULTILINE):
        outcomes.setdefault(word, set()).add(check)
    outcomes["SKIPPED"] = set(re.findall(r"^SKIPPED .*(CT\d{3}) not checked", done.stdout, re.MULTILINE))
    return done.returncode, outcomes


@pytest.mark.parametrize("way", WAYS)
def test_the_good_exporter_passes(installed: Path, tmp_path: Path, way: str) -> None:
    more = [] if way == "command" else ["-k", "not CT108 and not CT109"]
    status, outcomes = pytest_run(installed, tmp_path, way, "good", *more)
    assert status == 0, outcomes
    assert outcomes.keys() == {"PASSED", "SKIPPED"}
    assert outcomes["SKIPPED"] == SKIPPED
    assert len(outcomes["PASSED"]) == (36 if way == "command" else 34)


@pytest.mark.parametrize("way", WAYS)
def test_the_bad_exporter_fails(installed: Path, tmp_path: Path, way: str) -> None:
    status, outcomes = pytest_run(installed, tmp_path, way, "bad", "-k", "not CT108 and not CT109")
    assert status == 1
    assert outcomes["FAILED"] == LOST
    assert outcomes.keys() == {"PASSED", "FAILED", "SKIPPED"}


def test_what_is_expected_to_fail_does_not_fail_the_run(installed: Path, tmp_path: Path) -> None:
    more = [f"--gputrace-expect-fail={check}:a name by the rank" for check in sorted(LOST - {"CT103"})]
    every = "not CT108 and not CT109"
    status, outcomes = pytest_run(installed, tmp_path, "command", "bad", "-k", f"{every} and not CT103", *more)
    assert (status, outcomes.get("FAILED")) == (0, None)
    assert outcomes["XFAIL"] == LOST - {"CT103"}
