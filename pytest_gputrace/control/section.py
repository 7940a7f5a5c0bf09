"""What a session does one thread at a time: across threads, forks and a signal that comes in the middle."""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

__all__ = ["Section"]


class Section:
    """A lock that a thread may take again inside, that a forked process finds open, and that knows of signal handlers.

    Args:
        forked: called, first of all, in a process that was forked off the one that last used this.
    """

    def __init__(self, forked: Callable[[], None]) -> None:
        self._forked = forked
        self._later: Callable[[], None] | None = None
        self._pid = 0
        self._renew()

    def acquire(self, timeout_s: float = -1) -> bool:
        """Enter; False when another thread was inside for so long."""
        if os.getpid() != self._pid:
            self._renew()
            self._forked()
        if not self._lock.acquire(timeout=timeout_s):
            return False
        self._depth += 1
        self._owner = threading.get_ident()
        return True

    def release(self) -> None:
        """Leave; what a signal handler left to be done is done at the outermost end."""
        self._depth -= 1
        if not self._depth:
            self._owner = 0
        self._lock.release()
        later = self._later
        if later is not None and self._owner != threading.get_ident() and _in_main_thread():
            self._later = None
            later()

    def apart(self, act: Callable[[], None]) -> None:
        """For a signal handler: call ``act`` at once, or at the end of the section that the signal interrupted."""
        if os.getpid() == self._pid and self._owner == threading.get_ident():
            self._later = act
        else:
            act()

    def __enter__(self) -> None:
        self.acquire()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.release()

    def _renew(self) -> None:
        self._lock = threading.RLock()
        self._owner = self._depth = 0
        self._later = None
        self._pid = os.getpid()  # last: another thread of a forked process must not take the lock of its parent


def _in_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()
