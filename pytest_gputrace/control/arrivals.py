"""The files that come into a folder: which of them are still written to, and what was found in those that are not.

Each state of a file is examined once. It does not know what is waited for.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_gputrace.control.owners import joined, owner, rank_inside
from pytest_gputrace.control.snapshot import Snapshot
from pytest_gputrace.control.written import Examined, examine

if TYPE_CHECKING:
    from pytest_gputrace.control.owners import Owner
    from pytest_gputrace.control.snapshot import FileState

__all__ = ["Arrival", "Arrivals"]


@dataclass
class Arrival:
    """One new file. ``changed_s`` is when it came or was last seen to change, None where it never was.

    ``examined`` is None where its present state was not looked into, as it was not seen twice.
    """

    path: str
    owner: Owner
    state: FileState
    changed_s: float | None
    examined: Examined | None = None

    @property
    def is_complete(self) -> bool:
        """Whether it is known to be whole, whatever is in it."""
        return self.examined is not None and self.examined.complete

    @property
    def flaw(self) -> str:
        """Why it is of no use though it is complete; empty where it is."""
        if self.examined is None or not self.examined.complete:
            return ""
        if self.examined.problem:
            return self.examined.problem
        return "it holds no event" if self.examined.events == 0 else ""


class Arrivals:
    """What came into ``folder`` after the snapshot ``before``; ``look`` finds out what did so far.

    ``files`` are by path, ``owners`` whose each is, ``unrelated`` counts the files beside them.
    """

    def __init__(self, folder: str, before: Snapshot) -> None:
        self.files: dict[str, Arrival] = {}
        self.owners: dict[str, Owner] = {}
        self.unrelated = 0
        self._folder = folder
        self._before = before
        self._first_look_s = -math.inf

    @property
    def quiet_since_s(self) -> float:
        """When anything was last seen to come or to change, or else the first look."""
        return max(
            [self._first_look_s, *(each.changed_s for each in self.files.values() if each.changed_s is not None)]
        )

    @property
    def are_all_examined(self) -> bool:
        """Whether there is no file whose present state was not looked into."""
        return all(each.examined is not None for each in self.files.values())

    def look(self) -> None:
        """Look at the folder once, and into the files that have not changed since the last look."""
        now = Snapshot.of(self._folder)
        new = now.since(self._before)
        self.unrelated = now.others(self._before)
        self.files = {path: self._seen(path, state) for path, state in new.items()}
        if self._first_look_s == -math.inf:
            self._first_look_s = time.monotonic()
        self.owners = joined({path: each.owner for path, each in self.files.items()})

    def _seen(self, path: str, state: FileState) -> Arrival:
        known = self.files.get(path)
        if known is None:
            changed_s = None if self._first_look_s == -math.inf else time.monotonic()
            arrival = Arrival(path, owner(path, self._folder), state, changed_s)
            # Our own names hold complete files from the first moment.
            is_settled = arrival.owner.profile is not None
        elif known.state != state:
            arrival = Arrival(path, known.owner, state, time.monotonic())
            is_settled = False
        else:
            arrival, is_settled = known, True
        if arrival.examined is None:
            if not arrival.owner.told and (rank := rank_inside(path)) is not None:
                arrival.owner = arrival.owner.at(rank)
            if is_settled:
                arrival.examined = _examined(path)
        return arrival


def _examined(path: str) -> Examined | None:
    try:
        return examine(Path(path))
    except FileNotFoundError:  # the next look tells
        return None
    except OSError as error:
        return Examined(False, None, f"it cannot be read: {error.strerror or error}")
