from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from pytest_gputrace.checks import text
from pytest_gputrace.checks.check import check
from pytest_gputrace.checks.pages import page, page_codes
from pytest_gputrace.checks.rules import RULES
from pytest_gputrace.fakes import trace_faults
from pytest_gputrace.report.findings import as_text, label

TABLE = Path(__file__).parents[3] / "docs" / "reference" / "rules.md"
SECTIONS = ["What it checks", "Why it is bad", "Example", "How to fix it"]
ROW = re.compile(r"^\| (GT\d{3}) \| ([a-z0-9-]+) \| (error|warning|info) \| \S.* \|$", re.MULTILINE)
WITH_JSON = [code for code in page_codes() if "```json" in page(code)]
FAULTS = {
    "GT203": "empty_file",
    "GT206": "not_utf8",
    "GT210": "byte_order_mark",
    "GT213": "bad_gzip_trailer",
    "GT214": "gzip_named_plain",
    "GT218": "nested_too_deep",
    "GT219": "too_large",
    "GT220": "unreadable_file",
    "GT402": "no_gpu_work",
    "GT403": "launches_without_kernels",
    "GT404": "steps_without_gpu",
    "GT405": "head_kernels_missing",
    "GT410": "profiler_errors",
    "GT501": "missing_rank",
    "GT502": "double_rank",
    "GT503": "rank_folder_disagrees",
    "GT504": "same_capture",
    "GT505": "empty_rank",
    "GT506": "uneven_steps",
    "GT507": "uneven_completeness",
    "GT508": "clock_skew",
    "GT509": "quarter_year_apart",
    "GT510": "mixed_worlds",
    "GT601": "environment_inside",
    "GT602": "source_text_inside",
}
"""The fault whose output a page shows, where its example is no text that could stand in it."""
OPTIONS: dict[str, dict[str, Any]] = {
    "GT219": {"max_bytes": 100_000},
    "GT402": {"expect_gpu": True},
    "GT501": {"expect_ranks": 3},
}


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


@pytest.mark.parametrize("code", FAULTS)
def test_the_output_in_the_page_is_that_of_the_fault(code: str, tmp_path: Path) -> None:
    fault = trace_faults[FAULTS[code]]
    path = fault.write(tmp_path / ("traces" if fault.is_set else fault.filename))
    text = as_text(check([path], select=[code], **OPTIONS.get(code, {})), RULES).replace(f"{tmp_path}/", "")
    lines = [line for line in text.splitlines() if f": {label(code, RULES)} [" in line]
    [shown] = re.findall(r"```text\n(?:\$ [^\n]*\n)?(.*?)\n```", page(code), re.DOTALL)
    assert lines
    assert " ".join(" ".join(lines).split()) == " ".join(shown.split())


def test_the_example_of_every_rule_is_held_by_one_of_the_two() -> None:
    assert RULES.keys() - WITH_JSON == FAULTS.keys()


def test_every_rule_has_a_page_with_its_name_and_severity() -> None:
    pages = {code: head(code) for code in page_codes() if not code.startswith("GT1")}
    assert pages == {code: (rule.name, rule.severity.value) for code, rule in RULES.items()}


@pytest.mark.parametrize("code", ["GT999", "", "../pages"])
def test_there_is_no_other_page(code: str) -> None:
    with pytest.raises(KeyError):
        page(code)


@pytest.mark.parametrize("name", ["README.md", "CHANGELOG.md"])
def test_the_number_of_rules_is_told_as_it_is(name: str) -> None:
    text = (TABLE.parents[2] / name).read_text(encoding="utf-8")
    assert re.findall(r"(\d+) rules", text) == [str(len(RULES))]
