"""What a worker answers, as data that crosses a pipe or HTTP."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["Reply", "Status", "Written"]

Status = Literal["idle", "armed", "recording", "stopped", "refused", "failed"]
"""What became of what was asked.

``armed``: accepted, recording begins with a step that is still to come. ``recording``: it records. ``stopped``: the
files are on disk. ``refused``: nothing was changed. ``failed``: something is lost, ``reasons`` say what. ``idle``:
nothing was asked for so far (`Session.status` alone).
"""


@dataclass(frozen=True)
class Written:
    """One file on disk, complete: by which ``profiler``, of which ``stage``, with how many ``steps`` and ``events``.

    ``events`` is None for what holds none, as a memory snapshot.
    """

    path: str
    profiler: str
    stage: str | None = None
    steps: int = 0
    size_bytes: int = 0
    events: int | None = None


@dataclass(frozen=True)
class Reply:
    """The answer of one worker.

    ``ok`` is False for ``refused`` and ``failed``. ``tag`` says which worker (see `pytest_gputrace.windownames`),
    ``step`` how many steps its session has seen. ``files`` are all of this profile so far.
    """

    ok: bool
    status: Status
    message: str
    tag: str
    profile_id: str | None = None
    step: int = 0
    files: tuple[Written, ...] = ()
    reasons: tuple[str, ...] = ()

    def as_json(self) -> dict[str, Any]:
        """Builtins only, as `from_json` takes them."""
        whole = asdict(self)
        return whole | {"files": list(whole["files"]), "reasons": list(self.reasons)}

    @classmethod
    def from_json(cls, given: Mapping[str, Any]) -> Reply:
        """Read one back.

        Raises:
            TypeError: it is none.
        """
        files = tuple(Written(**each) for each in given.get("files", ()))
        return cls(**{**given, "files": files, "reasons": tuple(given.get("reasons", ()))})
