from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from pytest_gputrace.checks import text
from pytest_gputrace.checks.pages import page, page_codes
from pytest_gputrace.traces.strict import parse

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
def test_the_example_shows_what_the_rule_is_about(code: str) -> None:
    if code not in text.CODES.values():  # of numbers and structure: the text around them is right
        json.loads(example(code))
        return
    found = {text.CODES[problem.kind]: text.hit(problem) for problem in parse(example(code)).problems}
    shown = " ".join(page(code).split())
    hit = found[code]
    assert f"byte {hit.byte}: {code} {head(code)[0]} [{head(code)[1]}] {' '.join(hit.message.split())}" in shown


@pytest.mark.parametrize("code", ["GT999", "", "../pages"])
def test_there_is_no_other_page(code: str) -> None:
    with pytest.raises(KeyError):
        page(code)
