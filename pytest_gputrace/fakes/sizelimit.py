"""Sets the system's limit on the size of a file this process writes. What the signal it sends does, others say."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["no_file_beyond"]


@contextlib.contextmanager
def no_file_beyond(count: int) -> Iterator[None]:
    """Inside, no regular file grows past ``count`` bytes: the write that would is cut, the next one gets SIGXFSZ.

    A program that this process starts and that dies of it leaves no core file.
    """
    import resource  # not on every platform

    with contextlib.ExitStack() as undo:
        for name, value in ((resource.RLIMIT_CORE, 0), (resource.RLIMIT_FSIZE, count)):
            soft, hard = resource.getrlimit(name)
            resource.setrlimit(name, (value, hard))
            undo.callback(resource.setrlimit, name, (soft, hard))
        yield
