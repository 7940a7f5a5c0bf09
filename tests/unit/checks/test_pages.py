from __future__ import annotations

import re
from pathlib import Path

import pytest

from pytest_gputrace.checks import text
from pytest_gputrace.checks.check import check
from pytest_gputrace.checks.pages import page, page_codes
from pytest_gputrace.checks.rules import RULES

TABLE = Path(__file__).parents[3] / "docs" / "reference" / "rules.md"
SECTIONS = ["What it checks", "Why it is bad", "Example", "How to fix it"]
ROW = re.compile(r"^\| (GT\d{3}) \| ([a-z0-9-]+) \| (error|warning|info) \| \S.* \|$", re.MULTILINE)
WITH_JSON = [code for code in page_codes() if "```json" in page(code)]


def head(code: str) -> tuple[str, str]:
    """The name and the severity that a page gives its rule."""
    match = re.match(rf"# {code}: ([a-z0-9]+(?:-[a-z0-9]+)+)\n\n(Error|Warning|Info)\.", page(code))
    assert match, f"{code}.md does not begin with its code, name and severity"
    return match[1], match[2].lower()


def example(code: str) -> str:
    match = re.search(r"```json\n(.*?)\n```", page(code), re.DOTALL)
    assert match
    return match[1]


@pytest.mark.parametrize("code", page_codes())
def test_a_page_has_its_title_and_all_sections(code: str) -> None:
    head(code)
    assert re.findall(r"^## (.*)$", page(code), re.MULTILINE) == SECTIONS


@pytest.mark.parametrize("code", page_codes())
def test_a_page_names_only_codes_that_have_a_page(code: str) -> None:
    assert set(re.findall(r"GT\d{3}", page(code))) <= set(page_codes())


def test_the_table_has_every_page_by_its_name_and_severity() -> None:
    rows = {code: (name, severity) for code, name, severity in ROW.findall(TABLE.read_text(encoding="utf-8"))}
    assert rows == {code: head(code) for code in page_codes()}


def test_every_problem_of_a_text_has_a_page() -> None:
    assert set(text.CODES.values()) <= set(page_codes())


@pytest.mark.parametrize("code", WITH_JSON)
def test_the_example_gives_what_the_page_shows(code: str, tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    path.write_text(example(code), encoding="utf-8")
    [finding] = check([path], select=[code]).all_findings
    place = [f"event {finding.event}"] * (finding.event is not None) + [f"byte {finding.byte}"] * (
        finding.byte is not None
    )
    where = f"trace.json: {', '.join(place)}: " if place else "trace.json: "
    line = f"{where}{code} {head(code)[0]} [{head(code)[1]}] {finding.message}"
    assert " ".join(line.split()) in " ".join(page(code).split())


def test_every_rule_has_a_page_with_its_name_and_severity() -> None:
    pages = {code: head(code) for code in page_codes() if not code.startswith("GT1")}
    assert pages == {code: (rule.name, rule.severity.value) for code, rule in RULES.items()}


@pytest.mark.parametrize("code", ["GT999", "", "../pages"])
def test_there_is_no_other_page(code: str) -> None:
    with pytest.raises(KeyError):
        page(code)
