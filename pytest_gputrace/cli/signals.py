"""The signals that end a run: held while a load runs, raised where nothing of value can be lost by it."""

from __future__ import annotations

import contextlib
import signal
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType

    from typing_extensions import Self

__all__ = ["Ended", "Signals"]

_ENDING = ("SIGINT", "SIGTERM", "SIGHUP")


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
        self._held = False
        self._before: dict[int, object] = {}

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

    def _note(self, number: int, _: FrameType | None) -> None:
        self.seen.append(number)
        if not self._held:
            raise Ended(number)
