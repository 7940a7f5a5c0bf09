"""What the commands share of argparse: types of arguments, and what a command is added to."""

from __future__ import annotations

import argparse
import os
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import TypeAlias

    Commands: TypeAlias = argparse._SubParsersAction[argparse.ArgumentParser]

__all__ = ["codes", "count", "jobs", "size_bytes"]

_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}


def codes(text: str) -> list[str]:
    """Codes, or names, between commas, as ruff takes them: ``GT301,GT4``."""
    found = [code.strip() for code in text.split(",") if code.strip()]
    if not found:
        raise argparse.ArgumentTypeError(f"{text!r} names no code; give some, such as GT301,GT4")
    return found


def count(text: str) -> int:
    """A number of things, at least 1."""
    if not re.fullmatch(r"[0-9]{1,9}", text) or not int(text):
        raise argparse.ArgumentTypeError(f"{text!r} is no number of at least 1")
    return int(text)


def jobs(text: str) -> int:
    """A number of processes; 0 stands for one on each core that this process may use."""
    return len(os.sched_getaffinity(0)) if text == "0" else count(text)


def size_bytes(text: str) -> int:
    """A size such as ``500M`` or ``2G``, in units of 1024."""
    match = re.fullmatch(r"([0-9]{1,15})([KMGT]?)B?", text.upper())
    if match is None or not int(match[1]):
        raise argparse.ArgumentTypeError(
            f"{text!r} is no size; give bytes, or a number with K, M, G or T, such as 500M"
        )
    return int(match[1]) * _UNITS[match[2]]
