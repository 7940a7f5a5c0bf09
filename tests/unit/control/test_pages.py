"""The pages about profile control name all there is, and their examples run."""

from __future__ import annotations

import importlib.util
import inspect
import re
import subprocess
import sys
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, get_args

import pytest

from pytest_gputrace.cli import main
from pytest_gputrace.control import Session
from pytest_gputrace.control.activities import kinds, protonsettings, viztracer
from pytest_gputrace.control.dialects import DIALECTS, KINDS
from pytest_gputrace.control.reply import Status
from pytest_gputrace.control.request import ACTIVITIES, ProfileRequest
from pytest_gputrace.control.verdict import Verdict
from pytest_gputrace.fakes import FakeEngine, enginefaults

if TYPE_CHECKING:
    from collections.abc import Iterable

DOCS = Path(__file__).parents[3] / "docs" / "reference"
CONTROL = (DOCS / "control.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"```python\n(.*?)```", CONTROL, re.DOTALL)


def section(page: str, title: str) -> str:
    """What stands below a title, up to the next one of any level."""
    match = re.search(rf"^#+ {re.escape(title)}\n(.*?)(?=^#+ |\Z)", page, re.DOTALL | re.MULTILINE)
    assert match, f"there is no {title}"
    return match[1]


def rows(text: str) -> dict[str, list[str]]:
    """The rows of its tables: what is in backticks in the first cell, and the text of the others."""
    found = {}
    for line in re.findall(r"^\| (`.*) \|$", text, re.MULTILINE):
        first, *others = (cell.strip() for cell in line.split("|"))
        found.update(dict.fromkeys(re.findall(r"`([^`]+)`", first), others))
    return found


def quoted(cell: str) -> set[str]:
    return set(re.findall(r"`([^`]+)`", cell))


def parameters(made: type, *without: str) -> set[str]:
    return set(inspect.signature(made).parameters) - set(without)


@pytest.mark.parametrize(
    ("title", "names"),
    [
        ("In an engine of many", parameters(Session)),
        ("What is asked for", {each.name for each in fields(ProfileRequest)}),
        ("States", get_args(Status)),
        ("Activities", ACTIVITIES),
        ("What became of each rank", get_args(Verdict)),
        ("The client", KINDS),
    ],
)
def test_a_table_has_a_row_for_each(title: str, names: Iterable[str]) -> None:
    there = {name for name in rows(section(CONTROL, title)) if not name.startswith(("GPUTRACE_", "Session("))}
    assert there == set(names)


def test_every_activity_has_a_profiler() -> None:
    assert {word for kind in kinds() for word in kind.words} == set(ACTIVITIES)


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "gputrace"])
def test_what_a_kind_can_be_told_is_what_its_row_says(kind: str) -> None:
    told, activities, _ = rows(section(CONTROL, "The client"))[kind]
    assert quoted(told) == set(DIALECTS[kind].names)
    assert quoted(activities) == set(DIALECTS[kind].activities)


def test_defaults_and_limits_stand_in_the_rows() -> None:
    table = rows(section(CONTROL, "What is asked for"))
    request = ProfileRequest(output_dir="profiles", profile_by_stage=True)
    assert quoted(table["activities"][0]) == set(request.activities)
    assert quoted(table["stages"][0]) == set(request.stages)
    assert table["deadline_s"][0] == f"{request.deadline_s:g}"


def test_every_variable_is_in_the_table() -> None:
    ours, theirs = protonsettings._OURS, protonsettings._TOKENSPEEDS
    pairs = {ours[field]: {theirs[field]} for field in ours}
    first, *others = viztracer._MIN_DURATIONS
    pairs |= {viztracer._ENTRIES: set(), viztracer._FILE_INFO: set(), first: set(others)}
    table = {name: quoted(cells[0]) for name, cells in rows(section(CONTROL, "Activities")).items() if "_" in name}
    assert {name: then for name, then in table.items() if name != "CUDA_PROFILER"} == pairs


def test_every_fault_of_an_engine_is_in_the_table() -> None:
    text = section((DOCS / "fakes.md").read_text(encoding="utf-8"), "The faults of an engine")
    shown = re.findall(r"^\| `(\w+)\(.*?\)` \| `(\w+)` \| \S.* \|$", text, re.MULTILINE)
    assert {name: made for made, name in shown} == {name: fault.__name__ for name, fault in enginefaults.FAULTS.items()}


def test_every_argument_of_an_engine_is_in_the_table() -> None:
    text = section((DOCS / "fakes.md").read_text(encoding="utf-8"), "A serving engine")
    assert rows(text).keys() == parameters(FakeEngine, "root")


def test_every_option_of_the_command_is_on_its_page(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["profile", "--help"])
    options = set(re.findall(r"(?<![\w-])--[a-z][a-z-]*", capsys.readouterr().out)) - {"--help"}
    text = (DOCS / "command.md").read_text(encoding="utf-8")
    there = {option for name in rows(section(text, "profile")) for option in re.findall(r"^--[a-z][a-z-]*", name)}
    assert there == options


@pytest.mark.skipif(sys.platform != "linux", reason="needs Linux: the workers are forked")
@pytest.mark.skipif(
    importlib.util.find_spec("viztracer") is None, reason="needs viztracer: the examples record with it"
)
@pytest.mark.parametrize("number", range(len(EXAMPLES)))
def test_an_example_prints_what_the_page_shows(number: int, tmp_path: Path) -> None:
    script = tmp_path / "example.py"
    script.write_text(EXAMPLES[number], encoding="utf-8")
    ran = subprocess.run(
        [sys.executable, "-W", "error", script], check=True, timeout=60, cwd=tmp_path, capture_output=True, text=True
    )
    shown = re.findall(r"```text\n(.*?)```", CONTROL, re.DOTALL)[number]
    assert ran.stdout.replace(str(tmp_path.resolve()), "...") == shown


def test_there_are_examples() -> None:
    assert len(EXAMPLES) == 2
