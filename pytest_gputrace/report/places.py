"""Where findings are: places in files, the order of reading, paths as people and as machines take them."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from pytest_gputrace.report.wording import printable

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pytest_gputrace.model import Finding

__all__ = ["in_order", "listed", "place", "relative", "well_formed"]

_SHOWN = 3


def place(finding: Finding) -> str:
    """Where in its file: ``event 12, byte 3456``; empty when that is not known."""
    words = [] if finding.event is None else [f"event {finding.event}"]
    if finding.byte is not None:
        words.append(f"byte {finding.byte}")
    return ", ".join(words)


def in_order(findings: Iterable[Finding]) -> list[Finding]:
    """As a reader meets them: those of the whole file, then by byte, then those of which only the event is known."""

    def key(finding: Finding) -> tuple[int, int, str]:
        if finding.byte is not None:
            return 1, finding.byte, finding.code
        if finding.event is not None:
            return 2, finding.event, finding.code
        return 0, 0, finding.code

    return sorted(findings, key=key)


def relative(path: str) -> str | None:
    """``path`` as seen from the working directory; None when it is not below that."""
    here, whole = os.getcwd(), os.path.abspath(path)
    if os.path.commonpath([here, whole]) != here:
        return None
    return os.path.relpath(whole, here)


def listed(paths: Sequence[str]) -> str:
    """The first few of them."""
    shown = ", ".join(map(printable, paths[:_SHOWN]))
    return shown if len(paths) <= _SHOWN else f"{shown} and {len(paths) - _SHOWN:,} more"


def well_formed(text: str) -> str:
    """``text`` as strict JSON can hold it: without halves of characters, which stand for bytes of odd file names."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")
