"""The report as SARIF: what version 2.1.0 asks, and what code scanning asks beyond it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import orjson
import pytest

from pytest_gputrace.checks.outcome import FileReport, Report
from pytest_gputrace.model import Finding, Severity
from pytest_gputrace.report.sarif import as_sarif

if TYPE_CHECKING:
    from pathlib import Path

    from pytest_gputrace.checks.rule import Rule


def sarif(report: Report, rules: dict[str, Rule], version: str = "1.2") -> dict[str, Any]:
    run: dict[str, Any]
    document = orjson.loads(as_sarif(report, rules, lambda code: f"# {code}\n\nthe page", version=version))
    assert document["$schema"].endswith("sarif-schema-2.1.0.json")
    assert document["version"] == "2.1.0"
    [run] = document["runs"]
    return run


def one(path: str, *, byte: int | None = None, message: str = "m") -> Report:
    finding = Finding("GT301", Severity.ERROR, message, byte=byte)
    return Report((FileReport(path, "kineto", 0, 0, 0, findings=(finding,)),))


def location(run: dict[str, Any]) -> dict[str, Any]:
    physical: dict[str, Any] = run["results"][0]["locations"][0]["physicalLocation"]
    return physical


def test_what_every_reader_of_sarif_asks(report: Report, rules: dict[str, Rule]) -> None:
    run = sarif(report, rules)
    driver = run["tool"]["driver"]
    assert driver["name"] == "gputrace"
    assert driver["version"] == "1.2"
    ids = [rule["id"] for rule in driver["rules"]]
    assert ids == ["GT301", "GT309", "GT402", "GT501"]
    assert len(run["results"]) == len(report.all_findings)
    for result in run["results"]:
        assert ids[result["ruleIndex"]] == result["ruleId"]
        assert result["level"] in {"error", "warning", "note"}
        assert result["message"]["text"]
        [place] = result["locations"]  # code scanning refuses the whole file for one result without any
        assert place["physicalLocation"]["artifactLocation"]["uri"]
        assert place["physicalLocation"]["region"]["startLine"] >= 1


def test_a_rule_comes_with_its_page(report: Report, rules: dict[str, Rule]) -> None:
    assert sarif(report, rules)["tool"]["driver"]["rules"][1] == {
        "id": "GT309",
        "name": "missing-base",
        "shortDescription": {"text": "nothing says when times begin"},
        "fullDescription": {"text": "nothing says when times begin"},
        "help": {"text": "# GT309\n\nthe page", "markdown": "# GT309\n\nthe page"},
        "defaultConfiguration": {"level": "warning"},
    }


def test_a_result_says_where(report: Report, rules: dict[str, Rule]) -> None:
    assert sarif(report, rules)["results"][2] == {
        "ruleId": "GT301",
        "ruleIndex": 0,
        "level": "error",
        "message": {"text": "dur -5 us"},
        "locations": [
            {
                "physicalLocation": {
                    "artifactLocation": {"uri": "run/rank%201.json"},
                    "region": {"startLine": 1, "byteOffset": 3456},
                }
            }
        ],
        "properties": {"event": 12, "byte": 3456, "rank": 1, "node": "n0"},
    }


def test_what_is_about_the_set_is_shown_at_the_folder_of_all(report: Report, rules: dict[str, Rule]) -> None:
    [result] = [result for result in sarif(report, rules)["results"] if result["ruleId"] == "GT501"]
    assert result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] == "run"
    here = Report((FileReport("a.json", "kineto", 0, 0, 0),), report.findings)
    assert location(sarif(here, rules))["artifactLocation"]["uri"] == "."


def test_a_byte_of_a_compressed_file_is_no_region_of_it(rules: dict[str, Rule]) -> None:
    run = sarif(one("a.json.gz", byte=7), rules)
    assert location(run)["region"] == {"startLine": 1}
    assert run["results"][0]["properties"] == {"byte": 7}


@pytest.mark.parametrize(
    ("name", "uri"),
    [("a b#?%:.json", "a%20b%23%3F%25%3A.json"), ("é.json", "%C3%A9.json"), (os.fsdecode(b"\x80.json"), "%80.json")],
)
def test_uris_are_percent_encoded_and_relative_where_they_can_be(
    name: str, uri: str, rules: dict[str, Rule], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert location(sarif(one(name, message="a\udc80"), rules))["artifactLocation"]["uri"] == uri
    assert location(sarif(one(str(tmp_path / name)), rules))["artifactLocation"]["uri"] == uri
    assert location(sarif(one(f"/elsewhere/{name}"), rules))["artifactLocation"]["uri"] == f"file:///elsewhere/{uri}"


def test_a_clean_check_is_a_run_without_results(rules: dict[str, Rule]) -> None:
    run = sarif(Report((FileReport("a.json", "kineto", 1, 0, 9),)), rules, version="")
    assert run["results"] == []
    assert run["invocations"] == [{"executionSuccessful": True}]
    assert run["tool"] == {"driver": {"name": "gputrace", "rules": []}}


def test_a_code_without_a_rule_is_named_all_the_same() -> None:
    assert sarif(one("a.json"), {})["tool"]["driver"]["rules"] == [{"id": "GT301"}]
