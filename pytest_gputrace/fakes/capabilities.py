"""Takes a power of root away from this thread for a while, so that file modes hold for it too. Linux only."""

from __future__ import annotations

import contextlib
import ctypes
import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["CAP_DAC_OVERRIDE", "without_capability"]

CAP_DAC_OVERRIDE = 1
"""To write where the mode forbids it."""

_VERSION = 0x20080522  # _LINUX_CAPABILITY_VERSION_3: two words for each set


class _Header(ctypes.Structure):
    _fields_ = (("version", ctypes.c_uint32), ("pid", ctypes.c_int))


class _Word(ctypes.Structure):
    _fields_ = (("effective", ctypes.c_uint32), ("permitted", ctypes.c_uint32), ("inheritable", ctypes.c_uint32))


@contextlib.contextmanager
def without_capability(number: int) -> Iterator[None]:
    """Inside, the capability is not in effect; it stays permitted, so that it comes back at the end.

    Raises:
        OSError: the system refuses.
    """
    words = (_Word * 2)()
    _call("capget", words)
    word, bit = words[number // 32], 1 << number % 32
    if not word.effective & bit:
        yield
        return
    word.effective &= ~bit
    _call("capset", words)
    try:
        yield
    finally:
        word.effective |= bit
        _call("capset", words)


def _call(name: str, words: ctypes.Array[_Word]) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if getattr(libc, name)(ctypes.byref(_Header(_VERSION, 0)), words) != 0:
        code = ctypes.get_errno()
        raise OSError(code, f"{name}: {os.strerror(code)}")
