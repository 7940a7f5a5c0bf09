"""The identity of a simulated node where namespaces are refused: the calls that tell it are replaced for a while.

Code that took such a function by name before (``from socket import gethostname``) still sees the real machine.
"""

from __future__ import annotations

import contextlib
import os
import platform
import socket
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["forget_hostname", "patched_identity"]

_PID_NAMESPACE = "/proc/self/ns/pid"
_FIRST_NAMESPACE = 4_026_600_000  # looks like the kernel's numbers, and lies above those of a usual machine


def forget_hostname() -> None:
    """Drop the host name that ``platform`` remembers from before the fork."""
    invalidate = getattr(platform, "invalidate_caches", None)  # Python 3.14
    if invalidate is not None:
        invalidate()
    elif hasattr(platform, "_uname_cache"):
        platform._uname_cache = None


@contextlib.contextmanager
def patched_identity(hostname: str, pid: int, node_index: int) -> Iterator[None]:
    """Replace what tells the host name, the process id and the pid namespace; undone at the end.

    ``os.kill`` is replaced too, so that a worker that signals "itself" by its simulated id does not hit a process of
    the real machine.
    """
    real_uname, real_stat, real_readlink, real_kill = os.uname, os.stat, os.readlink, os.kill
    real_pid = os.getpid()
    inode = _FIRST_NAMESPACE + node_index

    def uname() -> os.uname_result:
        real = real_uname()
        return os.uname_result((real.sysname, hostname, real.release, real.version, real.machine))

    def stat(path: Any, *args: Any, **kwargs: Any) -> os.stat_result:
        result: os.stat_result = real_stat(path, *args, **kwargs)
        if not isinstance(path, int) and os.fspath(path) == _PID_NAMESPACE:
            return os.stat_result([result[0], inode, *result[2:10]])
        return result

    def readlink(path: Any, *args: Any, **kwargs: Any) -> Any:
        return f"pid:[{inode}]" if os.fspath(path) == _PID_NAMESPACE else real_readlink(path, *args, **kwargs)

    def kill(target: int, number: int) -> None:
        real_kill(real_pid if target == pid else target, number)

    replacements: list[tuple[Any, str, Any]] = [
        (socket, "gethostname", lambda: hostname),
        (platform, "node", lambda: hostname),
        (os, "uname", uname),
        (os, "getpid", lambda: pid),
        (os, "stat", stat),
        (os, "readlink", readlink),
        (os, "kill", kill),
    ]
    forget_hostname()
    saved = [(owner, name, getattr(owner, name)) for owner, name, _ in replacements]
    try:
        for owner, name, value in replacements:
            setattr(owner, name, value)
        yield
    finally:
        for owner, name, value in saved:
            setattr(owner, name, value)
        forget_hostname()
