"""Python's garbage collector, held while records are built.

Building many objects that all stay alive makes the collector walk them again and again and find nothing: a third to a
half of the time that torch's ``events()`` takes.
"""

from __future__ import annotations

import contextlib
import gc
import os
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["collector_paused"]

# Exports may overlap, in threads: the first one turns the collector off and the last one on again.
_lock = threading.RLock()
_holders: list[int] = []
_was_on = False


@contextlib.contextmanager
def collector_paused() -> Iterator[None]:
    """Run the block without automatic collections; afterwards they are on again if they were, whatever happened."""
    me = threading.get_ident()
    try:
        _hold(me)
        yield
    finally:
        _release(me)


def _hold(thread: int) -> None:
    global _was_on
    with _lock:
        if not _holders:
            _was_on = gc.isenabled()
        _holders.append(thread)
        gc.disable()


def _release(thread: int) -> None:
    with _lock:
        if thread in _holders:  # not where an interrupt came before it was entered
            _holders.remove(thread)
        if not _holders and _was_on:
            gc.enable()


def _forget_other_threads() -> None:
    """In a forked child no other thread is left that would turn the collector on again."""
    global _lock
    _lock = threading.RLock()
    mine = [thread for thread in _holders if thread == threading.get_ident()]
    ended = len(mine) < len(_holders)
    _holders[:] = mine
    if ended and not mine and _was_on:
        gc.enable()


os.register_at_fork(after_in_child=_forget_other_threads)
