"""The signals that end a run: held while a load runs, raised where nothing of value can be lost by it."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType

    from typing_extensions import Self

__all__ = ["Ended", "Signals"]

_ENDING = ("SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT")
_PATIENCE_S = 10.0


class Ended(KeyboardInterrupt):
    """A signal that ends the run came; ``number`` says which."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = number


class Signals:
    """What came so far, in ``seen``. A context manager: outside of it the signals do what they did before.

    One that this process ignores, as under ``nohup``, stays ignored. To be used in the main thread.
    """

    def __init__(self) -> None:
        self.seen: list[int] = []
        self._held = self._delayed = False
        self._before: dict[int, object] = {}
        self._patience: threading.Timer | None = None
        self._thread = threading.get_ident()

    def __enter__(self) -> Self:
        """Take the signals over."""
        for name in _ENDING:
            number = getattr(signal, name, None)
            if number is not None and signal.getsignal(number) not in (signal.SIG_IGN, None):
                self._before[number] = signal.signal(number, self._note)
        return self

    def __exit__(self, *_: object) -> None:
        """Give them back."""
        for number, handler in self._before.items():
            signal.signal(number, handler)  # type: ignore[arg-type]  # it is what signal.signal gave

    @property
    def code(self) -> int | None:
        """The exit code that a shell makes of the first one; None where none came."""
        return 128 + self.seen[0] if self.seen else None

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """In here a signal is noted and interrupts nothing."""
        before, self._held = self._held, True
        try:
            yield
        finally:
            self._held = before

    @contextlib.contextmanager
    def delayed(self) -> Iterator[None]:
        """In here the first signal waits for the end of the block, for 10 s or for a second signal; then it interrupts."""
        before, self._delayed = len(self.seen), True
        try:
            yield
        finally:
            self._delayed = False
            if self._patience is not None:
                self._patience.cancel()
        if len(self.seen) > before:
            raise Ended(self.seen[-1])

    def _note(self, number: int, _: FrameType | None) -> None:
        self.seen.append(number)
        if self._held:
            return
        if self._delayed and len(self.seen) == 1:
            self._patience = threading.Timer(_PATIENCE_S, self._lose_patience, (number,))
            self._patience.daemon = True
            self._patience.start()
            # Not by print, which may be at work on this very stream.
            with contextlib.suppress(OSError, ValueError, AttributeError):
                os.write(sys.stderr.fileno(), b"waiting for the engine's answer; once more gives up\n")
            return
        raise Ended(number)

    def _lose_patience(self, number: int) -> None:
        if self._delayed:  # to the thread that waits, as only its own signals end a wait
            signal.pthread_kill(self._thread, number)
