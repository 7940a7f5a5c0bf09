"""What the times of a file count from."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pytest_gputrace.timeline.anchors import anchors

if TYPE_CHECKING:
    from tests.unit.timeline.conftest import SurveyOf

_QUARTER_NS = 7_889_238 * 10**9


def test_each_file_has_its_own_base(survey_of: SurveyOf) -> None:
    """Also where Kineto floored them to different quarters of a year."""
    files = [survey_of(path=f"{n}.json", base_time_ns=n * _QUARTER_NS, first_ns=5) for n in (227, 228)]
    assert anchors(files, {}, "anchor") == ([227 * _QUARTER_NS, 228 * _QUARTER_NS], [])


def test_times_of_old_files_are_since_1970_themselves(survey_of: SurveyOf) -> None:
    assert anchors([survey_of(first_ns=1_682_725_897_226_747_000)], {}, "anchor") == ([0], [])


@pytest.mark.parametrize(
    ("format", "who"),
    [
        ("viztracer", r"VizTracer\(...\).save\(\)"),
        ("proton", "3.9"),
        ("kineto", "torch 2.6"),
        ("chrome", "at its root"),
    ],
)
def test_a_missing_base_names_the_file_and_who_writes_one(format: str, who: str, survey_of: SurveyOf) -> None:
    _, reasons = anchors([survey_of(path="viz/report.json", format=format, first_ns=2_900_000_000_000)], {}, "anchor")
    assert len(reasons) == 1
    assert reasons[0].startswith("viz/report.json: nothing tells what its times count from")
    assert who.replace("\\", "") in reasons[0]
    assert "--assume-base viz/report.json=NS" in reasons[0]


def test_a_base_may_be_assumed(survey_of: SurveyOf) -> None:
    bare, own = survey_of(path="a.json", first_ns=7), survey_of(path="b.json", first_ns=7, base_time_ns=50)
    assert anchors([bare, own], {"./a.json": 40}, "anchor") == ([40, 50], [])
    bases, reasons = anchors([bare, own], {"a.json": 40, "b.json": 60, "c.json": 1}, "anchor")
    assert bases == [40, 50]
    assert [reason.partition(":")[0] for reason in reasons] == ["c.json", "b.json"]


def test_a_base_that_is_no_time_is_refused(survey_of: SurveyOf) -> None:
    for base_ns in (-1, 2**63):
        assert "is no time after 1970" in anchors([survey_of(base_time_ns=base_ns)], {}, "anchor")[1][0]


def test_a_file_without_events_needs_no_base(survey_of: SurveyOf) -> None:
    assert anchors([survey_of(first_ns=None, last_ns=None)], {}, "anchor") == ([0], [])


def test_all_may_begin_at_one_time(survey_of: SurveyOf) -> None:
    files = [
        survey_of(first_ns=100),
        survey_of(base_time_ns=1000, first_ns=30),
        survey_of(base_time_ns=2000, first_ns=1),
    ]
    bases, reasons = anchors(files, {}, "first-event")
    assert reasons == []
    assert {base_ns + (each.first_ns or 0) for base_ns, each in zip(bases, files, strict=True)} == {1030}
