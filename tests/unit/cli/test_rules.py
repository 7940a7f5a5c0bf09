"""``gputrace rules``: pages, lists, and what it says of a code that is not there."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pytest_gputrace.cli import main
from pytest_gputrace.conformance import CHECKS, page

if TYPE_CHECKING:
    from pytest_gputrace.checks.rule import Rule

pytestmark = pytest.mark.usefixtures("known_rules")


def test_it_prints_a_page(capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("CT102", "ct102"):
        assert main(["rules", name]) == 0
        assert capsys.readouterr().out.rstrip("\n") == page("CT102").rstrip("\n")


@pytest.mark.parametrize("name", ["GT301", "gt301", "negative-duration", "Negative-Duration"])
def test_a_rule_is_found_by_code_and_by_name(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["rules", name]) == 0
    assert capsys.readouterr().out == "# GT301\n\nwhy\n"


def test_what_a_report_shows_can_be_pasted(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["rules", "GT301", "negative-duration"]) == 0
    assert capsys.readouterr().out == "# GT301\n\nwhy\n"


def test_it_lists_every_check_and_rule(capsys: pytest.CaptureFixture[str], known_rules: dict[str, Rule]) -> None:
    assert main(["rules"]) == 0
    lines = [f"{code}  {rule.name}: {rule.title}" for code, rule in known_rules.items()]
    lines.append("GT106  lost-capture: a finding of gputrace_check")
    lines += [f"{check.id}  {check.title}" for check in CHECKS.values()]
    assert capsys.readouterr().out.splitlines() == lines
    assert "CT102" in CHECKS


@pytest.mark.parametrize("begin", ["CT1", "ct1", "CT10", "ct", "C"])
def test_it_lists_the_checks_that_begin_so(begin: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["rules", begin]) == 0
    lines = [f"{check.id}  {check.title}" for check in CHECKS.values() if check.id.startswith(begin.upper())]
    assert capsys.readouterr().out.splitlines() == lines
    assert len(lines) > 1


@pytest.mark.parametrize(("begin", "count"), [("GT", 4), ("gt3", 2), ("GT5", 1)])
def test_it_lists_the_rules_that_begin_so(begin: str, count: int, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["rules", begin]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == count
    assert all(line.startswith(begin.upper()) for line in lines)


def test_it_prints_several(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["rules", "CT102", "gt301", "CT3"]) == 0
    out = capsys.readouterr().out
    assert out.startswith(f"{page('CT102').rstrip()}\n\n# GT301\n\nwhy\n\nCT301  ")


@pytest.mark.parametrize("name", ["GT106", "lost-capture"])
def test_codes_of_captures_have_a_page_too(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["rules", name]) == 0
    assert capsys.readouterr().out == "# GT106\n\nwhy\n"


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("CT102x", "did you mean CT102?"),
        ("GT391", "did you mean GT301?"),
        ("negativ-duration", "did you mean negative-duration?"),
        ("nonsense", "all of them: gputrace rules"),
    ],
)
def test_it_does_not_know_the_rule(name: str, hint: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["rules", name]) == 2
    assert capsys.readouterr().err == f"gputrace rules: there is no {name}; {hint}\n"
