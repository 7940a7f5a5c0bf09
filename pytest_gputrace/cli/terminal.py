"""What the commands share about where they print: standard output that may be closed, colours, versions."""

from __future__ import annotations

import importlib.metadata
import os
import sys
from typing import TextIO

from pytest_gputrace.errors import GputraceError

__all__ = ["has_colours", "is_terminal", "keep_standard_error", "package_version", "say"]

_STANDARD_ERROR = 2


def say(text: str) -> None:
    """Print to standard output; a reader that has seen enough (``gputrace rules | head``) is no error.

    Raises:
        GputraceError: the text cannot be written, for example because the disk is full.
    """
    encoding = sys.stdout.encoding or "utf-8"
    try:
        print(text.encode(encoding, "backslashreplace").decode(encoding), flush=True)
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # Python flushes once more at its end
        if not isinstance(error, BrokenPipeError):
            raise GputraceError(f"cannot write to standard output: {error.strerror or error}") from error


def keep_standard_error() -> None:
    """Where it was closed when we were started, have one that nobody reads.

    Else the next file or connection gets its number, and what is printed to it goes to standard output. Commands that we
    start find it closed, as we did.
    """
    if sys.stderr is not None:
        return
    number = os.open(os.devnull, os.O_WRONLY)
    try:
        os.fstat(_STANDARD_ERROR)
    except OSError:
        os.dup2(number, _STANDARD_ERROR, inheritable=False)
    sys.stderr = os.fdopen(number, "w", encoding="utf-8", errors="backslashreplace")


def is_terminal(stream: TextIO | None) -> bool:
    """Whether a person looks at ``stream``, on a terminal that can redraw a line; a closed one is None."""
    return stream is not None and stream.isatty() and os.environ.get("TERM") != "dumb"


def has_colours(stream: TextIO) -> bool:
    """Whether text for ``stream`` may be coloured; any ``NO_COLOR`` that is not empty forbids it."""
    return is_terminal(stream) and not os.environ.get("NO_COLOR")


def package_version(package: str) -> str:
    """The version that is installed; empty when none is."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return ""
