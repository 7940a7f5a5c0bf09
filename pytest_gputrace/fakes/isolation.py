"""Gives a process of a simulated node its own host name and process ids, and makes it die with its parent.

Linux only, through libc: everywhere else the calls raise ``OSError`` with a message that says so.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import math
import os
import select
import signal
import socket
import sys
import warnings
from pathlib import Path
from typing import Literal

__all__ = [
    "Namespaces",
    "adopt_orphans",
    "children",
    "die_with_parent",
    "enter_namespaces",
    "fork",
    "namespaces",
    "namespaces_refused",
    "readable",
]

Namespaces = Literal["plain", "user"]
"""How namespaces are entered: as they are, or inside a user namespace of one's own."""

_CLONE_NEWUTS, _CLONE_NEWUSER, _CLONE_NEWPID = 0x04000000, 0x10000000, 0x20000000
_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36
_PROBE_DEADLINE_S = 10.0
_LONGEST_POLL_MS = 2**31 - 1  # an int of C's


def fork() -> int:
    """``os.fork`` without Python 3.12's warning about threads.

    The children here leave by ``os._exit`` or a signal and take no lock that another thread of the parent may hold.
    """
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*fork.*", category=DeprecationWarning)
        return os.fork()


@functools.cache
def _libc() -> ctypes.CDLL:
    if sys.platform != "linux":
        raise OSError(f"simulated nodes need Linux (prctl, unshare); this is {sys.platform}")
    return ctypes.CDLL(None, use_errno=True)


def _call(name: str, *args: int) -> None:
    if getattr(_libc(), name)(*args) != 0:
        code = ctypes.get_errno()
        raise OSError(code, f"{name}: {os.strerror(code)}")


def die_with_parent(parent: int | None = None, by: signal.Signals = signal.SIGKILL) -> None:
    """Have the kernel signal this process when its parent ends.

    Args:
        parent: the expected parent; when it is gone already, this process leaves at once.
        by: the signal.
    """
    _call("prctl", _PR_SET_PDEATHSIG, by, 0, 0, 0)
    if parent is not None and os.getppid() != parent:
        os._exit(1)


def adopt_orphans() -> None:
    """Become the parent of descendants whose own parent ends, so that they can be found and ended."""
    _call("prctl", _PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def children() -> list[int]:
    """The process ids of this single-threaded process's children; empty where the kernel does not tell."""
    try:
        return [int(pid) for pid in Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()]
    except OSError:
        return []


def readable(descriptor: int, within_s: float) -> bool:
    """Whether there is something to read, or an end, in that time. ``select`` refuses descriptors from 1024 on."""
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    return bool(poll.poll(math.ceil(min(within_s * 1000, _LONGEST_POLL_MS))))


def enter_namespaces(how: Namespaces, hostname: str) -> None:
    """Give this process its own host name, and the children it will fork their own process ids.

    Raises:
        OSError: the kernel or the container refuses.
    """
    uid, gid = os.geteuid(), os.getegid()
    user = _CLONE_NEWUSER if how == "user" else 0
    _call("unshare", _CLONE_NEWUTS | _CLONE_NEWPID | user)
    if user:
        # Every file keeps the owner it has: the one id that may be mapped is mapped to itself.
        Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/uid_map").write_text(f"{uid} {uid} 1")
        Path("/proc/self/gid_map").write_text(f"{gid} {gid} 1")
    socket.sethostname(hostname)


@functools.cache
def namespaces() -> tuple[Namespaces | None, str]:
    """Which way into namespaces this machine allows, found by a child that tries; and why not, when none."""
    ways: tuple[Namespaces, ...] = ("plain", "user") if os.geteuid() == 0 else ("user",)
    reason = ""
    for how in ways:
        reason = _probe(how)
        if not reason:
            return how, ""
    return None, reason


def namespaces_refused() -> str:
    """Why this machine refuses namespaces; empty when it does not."""
    return namespaces()[1]


def _probe(how: Namespaces) -> str:
    """Try in a child, since half an ``unshare`` cannot be taken back. Returns what went wrong, or nothing."""
    read, write = os.pipe()
    pid = fork()
    if pid == 0:
        _probe_child(how, write)
    os.close(write)
    try:
        answered = readable(read, _PROBE_DEADLINE_S)
        answer = os.read(read, 1000).decode() if answered else f"no answer in {_PROBE_DEADLINE_S:g} s"
    finally:
        os.close(read)
        with contextlib.suppress(ProcessLookupError, ChildProcessError):  # it was waited for: SIGCHLD is ignored
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
    return "" if answer == "1" else answer or "the child that tried died"


def _probe_child(how: Namespaces, write: int) -> None:
    try:
        enter_namespaces(how, "gputrace-probe")
        if fork() == 0:
            os.write(write, str(os.getpid()).encode())
            os._exit(0)
        with contextlib.suppress(ChildProcessError):
            os.wait()
    except OSError as error:
        os.write(write, str(error).encode()[:900])
    finally:
        os._exit(0)
