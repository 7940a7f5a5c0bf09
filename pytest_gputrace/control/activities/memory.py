"""``MEM``: the history of torch's CUDA memory over a window, as the pickle that pytorch.org/memory_viz shows."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

from pytest_gputrace import torchdoor
from pytest_gputrace.control.activities.delivery import deliver
from pytest_gputrace.errors import ActivityError, MissingDependencyError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_gputrace.control.activities.protocol import Saved, Setup

__all__ = ["MemoryKind", "MemoryRecorder"]

_MOST_ENTRIES = 100_000
"""How many allocations and releases torch keeps, the newest; each takes some KiB in the file."""

_TAKEN = (
    "the history of torch's memory is recorded already in this process, and a second recording would end the first; call "
    "torch.cuda.memory._record_memory_history(enabled=None) where it was begun"
)


class MemoryKind:
    """torch's memory history, as this process has it. torch calls it private, and has kept it since 2.1."""

    words: tuple[str, ...] = ("MEM",)

    def refusals(self, words: tuple[str, ...]) -> Iterator[str]:
        """Without torch, without a GPU, and where a history is recorded or cannot be."""
        try:
            why = torchdoor.missing_gpu()
        except MissingDependencyError as error:
            why = str(error)
        if not why:
            try:
                why = _TAKEN if _is_recorded() else ""
            except RuntimeError as error:
                why = f"torch's memory allocator keeps no history: {error}; see PYTORCH_CUDA_ALLOC_CONF"
        if why:
            yield f"MEM: {why}"

    def recorder(self, setup: Setup) -> MemoryRecorder:
        """What records one window."""
        return MemoryRecorder(setup)


class MemoryRecorder:
    """One history over one window. Any thread may stop it."""

    profiler = "memory"
    thread_bound = False

    def __init__(self, setup: Setup) -> None:
        self._memory: Any = torchdoor.installed_torch().cuda.memory
        self._output = setup.output
        self._written = setup.output.private(".pickle")
        self._lost: OSError | RuntimeError | None = None

    def start(self) -> None:
        """Begin to record.

        Raises:
            ActivityError: a history is recorded already; it goes on.
        """
        with torchdoor.STARTING:
            if _is_recorded():
                raise ActivityError(_TAKEN, activity="MEM")
            self._memory._record_memory_history(max_entries=_MOST_ENTRIES)

    def stop(self) -> None:
        """Write the history, which torch forgets when it ends, and end it; what is lost by then `save` says."""
        try:
            self._output.folder.mkdir(parents=True, exist_ok=True)
            self._memory._dump_snapshot(str(self._written))
        except (OSError, RuntimeError) as error:
            self._lost = error
        finally:
            self._memory._record_memory_history(enabled=None)

    def save(self) -> list[Saved]:
        """Publish the pickle as ``.memory.pickle``.

        Raises:
            ActivityError: torch wrote none, or not all of it; what there is stays, and is named.
            PublishError: it has no final name; the private file stays, and is named.
        """
        if self._lost is not None:
            self._written.unlink(missing_ok=True)
            what = f"torch wrote no memory snapshot into {self._output.folder}: {self._lost}"
            raise ActivityError(what, activity="MEM") from self._lost
        saved = deliver(self._output, self._written, activity="MEM", profiler=self.profiler, ending=".pickle")
        return [] if saved is None else [saved]

    def discard(self) -> None:
        """End the history, and leave nothing."""
        with contextlib.suppress(Exception):
            self._memory._record_memory_history(enabled=None)
        with contextlib.suppress(OSError):
            self._written.unlink(missing_ok=True)


def _is_recorded() -> bool:
    """Whether a history is recorded, as far as this torch tells; one built without CUDA has nothing to tell."""
    is_enabled = getattr(torchdoor.installed_torch()._C, "_cuda_isHistoryEnabled", None)
    return is_enabled is not None and bool(is_enabled())
