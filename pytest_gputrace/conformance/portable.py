"""Which file names other file systems refuse. Written out on its own: no naming scheme is asked.

Source: "Naming Files, Paths, and Namespaces" of the Windows API documentation, which NTFS, SMB and exFAT share.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["why_refused"]

_CHARACTERS = frozenset('<>:"/\\|?*')
_DEVICES = frozenset(
    [
        "con",
        "prn",
        "aux",
        "nul",
        *(f"{name}{digit}" for name in ("com", "lpt") for digit in "123456789\u00b9\u00b2\u00b3"),
    ]
)
_LIMIT = 255


def why_refused(parts: Iterable[str]) -> str:
    """Why a path of these names cannot be made elsewhere; empty when it can."""
    return next((why for part in parts if (why := _why(part))), "")


def _why(name: str) -> str:
    bad = next((letter for letter in name if letter in _CHARACTERS or ord(letter) < 32), None)
    if bad is not None:
        return f"holds {bad!r}, which NTFS, SMB and exFAT refuse"
    if name.endswith((".", " ")):
        return "ends in a dot or a space, which NTFS and SMB drop"
    if name.split(".", 1)[0].rstrip(" ").casefold() in _DEVICES:
        return f"is {name.split('.', 1)[0]!r} to NTFS and SMB, the name of a device"
    if len(name.encode("utf-16-le")) // 2 > _LIMIT or len(name.encode("utf-8", "surrogatepass")) > _LIMIT:
        return f"is longer than {_LIMIT} bytes or UTF-16 units"
    return ""
