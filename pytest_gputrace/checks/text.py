"""What reading says of a file's text -> the codes of family C."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from pytest_gputrace.checks.rule import Hit

if TYPE_CHECKING:
    from pytest_gputrace.traces.scanner import Kind, Problem

__all__ = ["ALWAYS_CODES", "CODES", "ENDING_CODES", "GZIP_CODE", "LARGE_CODE", "UNREADABLE_CODE", "hit"]

CODES: dict[Kind, str] = {
    "grammar": "GT201",
    "cut": "GT202",
    "empty": "GT203",
    "number": "GT204",
    "control": "GT205",
    "utf-8": "GT206",
    "surrogate": "GT207",
    "escape": "GT208",
    "duplicate": "GT209",
    "bom": "GT210",
    "second": "GT211",
    "trailing": "GT212",
    "gzip": "GT213",
    "wrapping": "GT214",
    "root": "GT215",
    "event": "GT216",
    "type": "GT216",
    "path": "GT217",
    "deep": "GT218",
    "large": "GT219",
}
GZIP_CODE, LARGE_CODE, UNREADABLE_CODE = "GT213", "GT219", "GT220"
ALWAYS_CODES = ("GT203", "GT214", UNREADABLE_CODE)
"""What can be said of a file of no byte too."""
ENDING_CODES = frozenset({"GT201", "GT202", "GT203", "GT211", "GT213", "GT215", "GT219", UNREADABLE_CODE})
"""What ends reading, so that the rest of a file is seen by no rule."""
_ITS_EVENT = re.compile(r"event \d+(?:, )?")


def hit(problem: Problem) -> Hit:
    """What a rule of the text says: the event by its name, since its number is told beside the message."""
    where = _ITS_EVENT.sub("", problem.where, count=1) if problem.where.startswith("event ") else problem.where
    where = where.strip()
    if where.startswith("("):
        where = where[1:-1]
    message = f"{where}: {problem.message}" if where else problem.message
    more = f" ({problem.more} more like it)" if problem.more else ""
    return Hit(f"{message}{more}", problem.event, problem.byte)
