"""The pages show the code that runs, and the public names are what they claim."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import pytest

import pytest_gputrace

ROOT = Path(__file__).parents[2]
PAGES = [*sorted((ROOT / "docs").rglob("*.md")), ROOT / "README.md"]
SHOWN = {
    ROOT / "docs/how-to/keep-every-capture.md": ["test_keep_every_capture.py"],
    ROOT / "docs/how-to/check-traces.md": ["test_check_traces.py"],
    ROOT / "docs/how-to/merge-traces.md": ["test_merge_traces.py"],
    ROOT / "docs/how-to/profile-a-server.md": ["my_engine.py", "test_profile_a_server.py"],
    ROOT / "docs/how-to/profile-real-ranks.md": ["train.py", "test_profile_real_ranks.py"],
    ROOT / "docs/how-to/prove-your-own-exporter.md": ["my_exporter.py", "test_prove_your_own_exporter.py"],
}


@pytest.mark.parametrize("page", SHOWN, ids=lambda page: page.name)
def test_a_page_shows_the_files_that_run(page: Path) -> None:
    blocks = re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL)
    for name in SHOWN[page]:
        assert page.with_name(name).read_text() in blocks, f"{page.name} does not show {name} as it is"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)[^)]*\)", page.read_text()):
        if "://" not in target:
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_public_names_are_listed_and_resolve() -> None:
    for name in pytest_gputrace.__all__:
        assert getattr(pytest_gputrace, name).__name__ == name
    assert set(pytest_gputrace.__all__) <= set(dir(pytest_gputrace))
    assert set(pytest_gputrace.__all__) == set(pytest_gputrace._HOMES)


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'pytest_gputrace' has no attribute 'exporter_of_dreams'"):
        importlib.import_module("pytest_gputrace").exporter_of_dreams  # noqa: B018  # reading it is the test
