"""What a repair changed and lost: noted while it goes on, told at its end. Nothing here reads or writes a trace."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["Change", "Ledger", "Repaired", "shown"]

_LISTED = 20
_SHOWN = 80


@dataclass(frozen=True)
class Change:
    """One place where the new file says something else than the old one.

    ``byte`` is an offset into the old text (inflated), ``event`` the number of the event there, None outside of any;
    ``found`` and ``wrote`` say in words what stood there and what stands there now. ``more`` counts further changes of
    the same kind, which are not listed.
    """

    byte: int
    event: int | None
    found: str
    wrote: str
    more: int = 0


@dataclass(frozen=True)
class Repaired:
    """What came of a repair.

    ``out`` is the new file, None when nothing could be saved. ``events_lost`` is None when nobody can know: the rest
    of a file that was cut. ``bytes_lost`` is the text that was there and is not in the new file. ``documents`` counts
    the traces found in the file, of which one was kept. ``lost`` says in words what is gone, longest lists cut short.
    """

    path: Path
    out: Path | None
    events_kept: int
    events_lost: int | None
    bytes_lost: int
    changes: tuple[Change, ...]
    lost: tuple[str, ...]
    documents: int = 1

    @property
    def clean(self) -> bool:
        """Whether there was nothing to repair: the new file is the old one."""
        return not self.changes and not self.lost


class Ledger:
    """The account of one document: what was kept, changed, lost."""

    def __init__(self) -> None:
        self.kept = 0
        self.begun = 0
        self.events_lost = 0
        self.unknown = False
        self.bytes_lost = 0
        self.cut = ""
        self._changes: dict[str, list[Change]] = {}
        self._more: dict[str, int] = {}
        self._lost: list[str] = []
        self._unlisted = 0

    def change(self, kind: str, byte: int, event: int | None, found: str, wrote: str) -> None:
        """Note that something was written differently."""
        listed = self._changes.setdefault(kind, [])
        if len(listed) < _LISTED:
            listed.append(Change(byte, event, found, wrote))
        else:
            self._more[kind] = self._more.get(kind, 0) + 1

    def lose(self, words: str, *, size: int, events: int = 0) -> None:
        """Note that ``size`` bytes, ``events`` events among them, are not in the new file."""
        self.bytes_lost += size
        self.events_lost += events
        if len(self._lost) < _LISTED:
            self._lost.append(words)
        else:
            self._unlisted += 1

    @property
    def changes(self) -> tuple[Change, ...]:
        """The changes in the order of the text, the first ones of each kind."""
        result = []
        for kind, listed in self._changes.items():
            result += [*listed[:-1], replace(listed[-1], more=self._more.get(kind, 0))]
        return tuple(sorted(result, key=lambda change: change.byte))

    @property
    def lost(self) -> tuple[str, ...]:
        """What was lost, in the order of the text."""
        rest = [f"{self._unlisted} more like these"] if self._unlisted else []
        return (*self._lost, *rest, *([self.cut] if self.cut else []))


def shown(text: str) -> str:
    """A name for a message: in quotes, printable, not too long."""
    short = text if len(text) <= _SHOWN else f"{text[: _SHOWN - 3]}..."
    return f'"{"".join(char if char.isprintable() else ascii(char)[1:-1] for char in short)}"'
