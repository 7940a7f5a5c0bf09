"""Python's garbage collector, held while records are built.

Building many objects that all stay alive makes the collector walk them again and again and find nothing: half of the
time that torch's ``events()`` takes.
"""

from __future__ import annotations

import contextlib
import gc
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["collector_paused"]


@contextlib.contextmanager
def collector_paused() -> Iterator[None]:
    """Run the block without automatic collections; afterwards the collector is as it was, whatever happened."""
    was_on = gc.isenabled()
    try:
        gc.disable()
        yield
    finally:
        if was_on:
            gc.enable()
