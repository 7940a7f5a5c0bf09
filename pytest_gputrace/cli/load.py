"""The command that is run while a profile records: a child that shares everything with us, waited for whatever happens."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_gputrace.cli.signals import Signals

__all__ = ["LoadResult", "not_runnable", "run_load"]

_NOT_FOUND, _NOT_EXECUTABLE = 127, 126
_GRACE_S = 10.0
_TICK_S = 0.25
_HEARD_S = 1.0


@dataclass(frozen=True)
class LoadResult:
    """How it ended: the ``code`` that a shell would have, and that in words."""

    code: int
    words: str


def not_runnable(command: Sequence[str]) -> LoadResult | None:
    """Why ``command`` cannot be run, as far as can be told without trying; None where it can."""
    name = command[0]
    if shutil.which(name) is not None:
        return None
    if os.sep in name and os.path.exists(name):
        what = "a folder" if os.path.isdir(name) else "not executable"
        return LoadResult(_NOT_EXECUTABLE, f"exit code {_NOT_EXECUTABLE}: {name} is {what}")
    return LoadResult(_NOT_FOUND, f"exit code {_NOT_FOUND}: there is no command {name}")


def run_load(command: Sequence[str], signals: Signals, *, grace_s: float = _GRACE_S) -> LoadResult:
    """Run ``command`` with our own input, output, environment and open files, and wait for its end.

    A signal that ends us is sent on to a command that still runs a second later: whoever ends a whole group has told it
    already, and to be told twice is to be hurried. Ctrl-C on a terminal is never sent on. One that has not ended
    ``grace_s`` after the signal, or when a second one came, is terminated, and killed ``grace_s`` later.
    """
    with signals.held():
        try:
            # In our process group, so that the terminal's Ctrl-C and Ctrl-Z are for both.
            child = subprocess.Popen(command, close_fds=False)
        except OSError as error:
            code = _NOT_FOUND if isinstance(error, FileNotFoundError) else _NOT_EXECUTABLE
            return LoadResult(code, f"exit code {code}: cannot run {command[0]}: {error.strerror or error}")
        try:
            return _result(_waited(child, signals, grace_s))
        finally:
            _end(child)


def _waited(child: subprocess.Popen[bytes], signals: Signals, grace_s: float) -> int:
    """Wait for the end; with each grace that passed after a signal, ask for it more firmly."""
    came, told, asked, until_s, tell_s = 0, 0, 0, float("inf"), float("inf")
    while True:
        with contextlib.suppress(subprocess.TimeoutExpired):
            return child.wait(timeout=_TICK_S)
        now_s = time.monotonic()
        if len(signals.seen) > came:
            came = len(signals.seen)
            until_s, tell_s = now_s + (grace_s if came == 1 else 0.0), now_s + _HEARD_S
        if now_s >= tell_s:
            for number in signals.seen[told:came]:
                if number != signal.SIGINT or not _has_terminal():
                    child.send_signal(number)
            told, tell_s = came, float("inf")
        if time.monotonic() >= until_s:
            child.kill() if asked else child.terminate()
            asked += 1
            until_s = time.monotonic() + grace_s


def _has_terminal() -> bool:
    """Whether we are in the foreground of a terminal, whose Ctrl-C is for all who are."""
    with contextlib.suppress(OSError):
        terminal = os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY | os.O_CLOEXEC)
        try:
            return os.tcgetpgrp(terminal) == os.getpgrp()
        finally:
            os.close(terminal)
    return False


def _end(child: subprocess.Popen[bytes]) -> None:
    """Leave nothing running where the wait itself failed."""
    if child.poll() is None:
        child.kill()
        child.wait()


def _result(code: int) -> LoadResult:
    if code >= 0:
        return LoadResult(code, f"exit code {code}")
    number = -code
    with contextlib.suppress(ValueError):
        return LoadResult(128 + number, f"killed by signal {number} ({signal.Signals(number).name})")
    return LoadResult(128 + number, f"killed by signal {number}")
