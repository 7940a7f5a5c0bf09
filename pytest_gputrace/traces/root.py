"""Whole numbers of a trace's root, as its dialects write them."""

from __future__ import annotations

import re
from typing import Any

__all__ = ["member", "whole_number"]

_DIGITS = re.compile(r"[0-9]{1,18}")
# Beyond this, and for a time of many digits in particular, a float is not what was measured.
_EXACT = 2**53


def member(metadata: dict[str, Any], path: tuple[str, ...]) -> Any:
    """What stands in ``metadata`` under the keys of ``path``, one in the other; None where nothing does."""
    value: Any = metadata
    for key in path:
        value = value.get(key) if isinstance(value, dict) else None
    return value


def whole_number(metadata: dict[str, Any], path: tuple[str, ...]) -> int | None:
    """The whole number there, None where there is none. Among what tells of ranks, ``3.0`` and ``"3"`` are one too."""
    value = member(metadata, path)
    if path[0] == "distributedInfo":
        if isinstance(value, str) and _DIGITS.fullmatch(value):
            return int(value)
        if isinstance(value, float) and value.is_integer() and abs(value) <= _EXACT:
            return int(value)
    return value if type(value) is int else None
