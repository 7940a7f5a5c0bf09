"""One value -> what JSON can hold: the slow, careful way, for the few chunks that need it.

`plain` gives what the legacy file holds (``NaN`` tokens and all), `finite` what strict JSON holds.
"""

from __future__ import annotations

import math
import re
from typing import Any

__all__ = ["LONE_SURROGATE", "finite", "plain"]

LONE_SURROGATE = re.compile("[\ud800-\udfff]")
"""A code point that UTF-8 cannot carry; as a JSON escape, strict readers refuse the whole file for it."""

_DEEPEST = 64
_WIDEST = 8192  # bits; Python refuses to print an int of more than 4300 digits
_LONGEST_TEXT = 256
_TOO_LARGE = 10**308


def plain(value: Any, depth: int = 0) -> Any:
    """``value`` with everything that ``json`` has no form for replaced by its text.

    A complex number becomes ``str(value)``, as does any object; a number of numpy or a one-element tensor becomes the
    Python number. What ``json`` can encode stays as it is, non-finite numbers included.
    """
    if value is None or isinstance(value, str | float):
        return value
    if isinstance(value, int):
        return value if value.bit_length() <= _WIDEST else f"<an int of {value.bit_length()} bits>"
    if depth >= _DEEPEST:  # a list that holds itself ends here too
        return "..."
    if isinstance(value, list | tuple):
        return [plain(item, depth + 1) for item in value]
    if isinstance(value, dict):
        return {key if isinstance(key, str) else _text(key): plain(item, depth + 1) for key, item in value.items()}
    number = _scalar(value)
    return _text(value) if number is None else number


def finite(value: Any) -> tuple[Any, int]:
    """``value``, as `plain` gave it, with ``None`` for each number that is not finite; and how many those were.

    An integer beyond a double's range counts too: a reader that takes JSON numbers for doubles gets infinity.
    """
    if isinstance(value, str):
        return LONE_SURROGATE.sub("\ufffd", value), 0
    if isinstance(value, float):
        return (value, 0) if math.isfinite(value) else (None, 1)
    if isinstance(value, int):
        return (value, 0) if abs(value) < _TOO_LARGE else (None, 1)
    if isinstance(value, list):
        pairs = [finite(item) for item in value]
        return [item for item, _ in pairs], sum(lost for _, lost in pairs)
    if isinstance(value, dict):
        members = {finite(key)[0]: finite(item) for key, item in value.items()}
        return {key: item for key, (item, _) in members.items()}, sum(lost for _, lost in members.values())
    return value, 0


def _scalar(value: Any) -> int | float | str | None:
    """The Python number in a numpy scalar or a one-element tensor, else None."""
    try:
        number = value.item()
    except Exception:  # noqa: BLE001  # whatever an unknown object does when asked, its text is the answer
        return None
    if isinstance(number, int | float):
        return number
    return str(number) if isinstance(number, complex) else None


def _text(value: Any) -> str:
    try:
        text = str(value)
    except Exception:  # noqa: BLE001  # an object that cannot even be printed must not cost the capture
        text = f"<{type(value).__name__}>"
    return text if len(text) <= _LONGEST_TEXT else text[: _LONGEST_TEXT - 3] + "..."
