"""What ends a profile when nobody asks: a thread that looks at the clock, and the signal that ends the process."""

from __future__ import annotations

import atexit
import importlib
import os
import signal
import sys
import threading
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Exit", "Termination", "Watchdog"]


class Watchdog:
    """A thread that calls ``look`` when it is due: ``look`` returns the seconds until the next time, or None at the end."""

    def __init__(self, look: Callable[[], float | None], first_s: float) -> None:
        self._look = look
        self._ended = threading.Event()
        # Daemonic: a process that ends does not wait for a deadline.
        self._thread = threading.Thread(target=self._run, args=(first_s,), name="gputrace-watch", daemon=True)
        self._thread.start()

    def end(self) -> None:
        """Look no more; does not wait for a look that is under way."""
        self._ended.set()

    def _run(self, wait_s: float | None) -> None:
        while wait_s is not None and not self._ended.wait(wait_s):
            wait_s = self._look()


class Termination:
    """SIGTERM, as long as it is held: ``came`` is called, which calls ``go_on`` once everything is on disk.

    Only the main thread can take or give back a signal; in any other one nothing is done.
    """

    def __init__(self, came: Callable[[], None]) -> None:
        self._came = came
        self._previous: Any = None
        self._is_held = False

    def hold(self) -> None:
        """Take the signal, once; whoever had it gets it after us.

        Whoever takes it after that may call us in turn: to take it again would be to go round for ever.
        """
        if self._is_held or not _in_main_thread():
            return
        if signal.getsignal(signal.SIGTERM) is None:  # not Python's: whoever set it in C could not be given it back
            return
        self._previous = signal.signal(signal.SIGTERM, self._handle)
        self._is_held = True

    def release(self) -> None:
        """Give it back, unless somebody has taken it from us meanwhile."""
        if _in_main_thread() and signal.getsignal(signal.SIGTERM) == self._handle:
            signal.signal(signal.SIGTERM, self._previous)
            self._is_held = False

    def go_on(self) -> None:
        """Let happen what would have happened without us."""
        if callable(self._previous):
            self._previous(signal.SIGTERM, None)
        elif self._previous == signal.SIG_DFL:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            os.kill(os.getpid(), signal.SIGTERM)

    def _handle(self, number: int, frame: object) -> None:
        self._came()


class Exit:
    """The end of the process, as long as it is held: ``close`` is called then, unless it was killed."""

    def __init__(self, close: Callable[[], None]) -> None:
        self._close = close
        self._finalizer: Any = None

    def hold(self) -> None:
        """Be called; once, however often this is."""
        self.release()
        atexit.register(self._close)
        # A child of multiprocessing ends without those: it has a list of its own.
        process = sys.modules.get("multiprocessing.process")
        if process is not None and process.parent_process() is not None:
            util = importlib.import_module("multiprocessing.util")
            self._finalizer = util.Finalize(None, self._close, exitpriority=100)

    def release(self) -> None:
        """Be not called."""
        atexit.unregister(self._close)
        if self._finalizer is not None:
            self._finalizer.cancel()
            self._finalizer = None


def _in_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()
