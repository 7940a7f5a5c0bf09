"""The page of each rule: what it checks, why, an example, how to fix it. Markdown files in ``explained/``."""

from __future__ import annotations

from importlib import resources

__all__ = ["name", "page", "page_codes"]

_FOLDER = resources.files("pytest_gputrace.checks") / "explained"


def page(code: str) -> str:
    """The page of a rule, as Markdown.

    Raises:
        KeyError: there is no such page.
    """
    if code not in page_codes():
        raise KeyError(code)
    return (_FOLDER / f"{code}.md").read_text(encoding="utf-8")


def name(code: str) -> str:
    """The name of a rule, as its page's title has it.

    Raises:
        KeyError: there is no such page.
    """
    return page(code).split("\n", 1)[0].partition(": ")[2]


def page_codes() -> list[str]:
    """The codes that have a page, sorted."""
    return sorted(entry.name.removesuffix(".md") for entry in _FOLDER.iterdir() if entry.name.endswith(".md"))
