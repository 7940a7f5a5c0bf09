"""Kills the process it runs in by SIGKILL, at once or in the middle of a write.

Refuses outside a simulated worker: a test process must not be killed by a fault that was applied to the wrong one.
"""

from __future__ import annotations

import contextlib
import ctypes
import signal
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["allow", "dies_of_the_limit", "kill_now", "refuse_outside_workers"]

_allowed = False
_Handler = ctypes.CFUNCTYPE(None, ctypes.c_int)


def allow() -> None:
    """Say that this process is a simulated worker and may be killed."""
    global _allowed
    _allowed = True


def refuse_outside_workers() -> None:
    """Raise ``RuntimeError`` in a process that is no simulated worker."""
    if not _allowed:
        raise RuntimeError("sigkill kills the process it is applied in: hand it to Cluster(faults=...) instead")


def kill_now() -> bool:
    """Die by SIGKILL. Not through ``os.kill``: a simulated process id is not one of the machine's."""
    refuse_outside_workers()
    signal.raise_signal(signal.SIGKILL)
    return True


def _die(number: int) -> None:
    # The write that hit the limit has released the interpreter's lock, so this runs before it returns: no handler
    # or ``finally`` of the exporter comes in between.
    signal.raise_signal(signal.SIGKILL)


_die_callback = _Handler(_die)  # kept: the kernel holds only its address


@contextlib.contextmanager
def dies_of_the_limit() -> Iterator[None]:
    """Inside, a write beyond the limit of ``no_file_beyond`` kills the process by SIGKILL; what is below is written.

    The kernel counts every regular file, the worker's own log too.
    """
    refuse_outside_workers()
    if sys.platform != "linux":
        raise OSError(f"sigkill(at_byte=...) needs Linux; this is {sys.platform}")
    libc = ctypes.CDLL(None)
    libc.signal.restype = ctypes.c_void_p
    libc.signal.argtypes = (ctypes.c_int, ctypes.c_void_p)
    before = libc.signal(signal.SIGXFSZ, ctypes.cast(_die_callback, ctypes.c_void_p))
    try:
        yield
    finally:
        libc.signal(signal.SIGXFSZ, before)
