from __future__ import annotations

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
