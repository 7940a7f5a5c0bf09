from __future__ import annotations

import re
from pathlib import Path

import pytest

from pytest_gputrace.conformance import CHECKS, page
from pytest_gputrace.conformance.pages import page_ids


@pytest.mark.parametrize("id", CHECKS)
def test_every_check_has_a_page_that_begins_with_its_title(id: str) -> None:
    first = page(id).lstrip().splitlines()[0]
    assert id in first
    assert CHECKS[id].title in page(id)


def test_every_page_has_a_check() -> None:
    assert set(page_ids()) == CHECKS.keys()


@pytest.mark.parametrize("id", ["CT999", "", "../pages"])
def test_there_is_no_other_page(id: str) -> None:
    with pytest.raises(KeyError):
        page(id)


@pytest.mark.parametrize("page", ["README.md", "CHANGELOG.md", "docs/how-to/prove-your-own-exporter.md"])
def test_pages_say_how_many_checks_there_are(page: str) -> None:
    text = (Path(__file__).parents[3] / page).read_text(encoding="utf-8")
    counts = re.findall(r"(\d+) (?:promises|checks, each|such questions)", text)
    assert counts
    assert set(counts) == {str(len(CHECKS))}
