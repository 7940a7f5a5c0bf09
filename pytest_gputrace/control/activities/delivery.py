"""From the private file that a profiler left to a published one: looked at, never published cut or empty."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_gputrace.control.activities.protocol import Saved
from pytest_gputrace.errors import ActivityError

if TYPE_CHECKING:
    from pathlib import Path

    from pytest_gputrace.control.output import Output

__all__ = ["deliver"]


def deliver(output: Output, private: Path, *, activity: str, profiler: str, ending: str) -> Saved | None:
    """Look at ``private`` and publish it; ``None``, and the file removed, when it holds no event.

    Raises:
        ActivityError: it is not there, or is cut; a cut one is kept where it is.
        PublishError: it has no final name; it is kept where it is.
    """
    from pytest_gputrace.control.written import examine

    if not private.exists():
        raise ActivityError(
            f"{activity}'s profiler returned and wrote no file; is {private.parent} a folder that it may write to?",
            activity=activity,
        )
    examined = examine(private)
    if not examined.complete:
        raise ActivityError(
            f"{activity}'s profiler left a file that is not whole ({examined.problem}), kept as {private}; "
            "is the disk full?",
            activity=activity,
        )
    if examined.events == 0:
        private.unlink()
        return None
    return Saved(output.publish(private, profiler, ending), examined.events, examined.problem)
