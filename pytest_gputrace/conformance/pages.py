"""The page of each check: what it asks, why, an example, how exporters fix it. Markdown files in ``explained/``."""

from __future__ import annotations

from importlib import resources

__all__ = ["page", "page_ids"]

_FOLDER = resources.files("pytest_gputrace.conformance") / "explained"


def page(id: str) -> str:
    """The page of a check, as Markdown.

    Raises:
        KeyError: there is no such page.
    """
    if id not in page_ids():
        raise KeyError(id)
    return (_FOLDER / f"{id}.md").read_text(encoding="utf-8")


def page_ids() -> list[str]:
    """The ids that have a page, sorted."""
    return sorted(entry.name.removesuffix(".md") for entry in _FOLDER.iterdir() if entry.name.endswith(".md"))
