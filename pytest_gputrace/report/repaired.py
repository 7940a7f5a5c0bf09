"""What a repair came to as text: what was saved, and everything that was changed or lost."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_gputrace.report.wording import count, printable, size

if TYPE_CHECKING:
    from pytest_gputrace.repair import Change, Repaired

__all__ = ["as_text"]


def as_text(repaired: Repaired) -> str:
    """The result in one line, then each change and each loss."""
    lines = [_result(repaired)]
    if repaired.changes:
        lines += ["changed:", *(f"  {_change(change)}" for change in repaired.changes)]
    if repaired.lost:
        lines += ["lost:", *(f"  {printable(what)}" for what in repaired.lost)]
    if repaired.documents > 1:
        lines.append(f"the file holds {repaired.documents:,} documents; each is saved by itself: --document N")
    return "\n".join(lines)


def _result(repaired: Repaired) -> str:
    path = printable(str(repaired.path))
    if repaired.out is None:
        return f"{path}: nothing could be saved"
    saved = f"{path}: {count(repaired.events_kept, 'event')} saved to {printable(str(repaired.out))}"
    if repaired.clean:
        return f"{saved}; there was nothing to repair"
    events = "nobody knows how many events" if repaired.events_lost is None else count(repaired.events_lost, "event")
    # Of a file that was cut nobody knows what it would have held, only what of its text is not in the new one.
    return f"{saved}; lost: {events}, {size(repaired.bytes_lost)} of text"


def _change(change: Change) -> str:
    place = f"byte {change.byte}" if change.event is None else f"event {change.event}, byte {change.byte}"
    more = f" ({change.more:,} more like it)" if change.more else ""
    return f"{place}: {printable(change.found)} -> {printable(change.wrote)}{more}"
