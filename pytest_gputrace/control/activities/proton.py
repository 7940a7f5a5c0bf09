"""PROTON: Triton's profiler, with a file of its own for each window.

Where Proton cuts what it records into parts (phases, or a mode that flushes as it goes), each part is published, the
first one first. Scopes that are open when it stops are not recorded; Proton drops them.
"""

from __future__ import annotations

import contextlib
import os
import re
from typing import TYPE_CHECKING

from pytest_gputrace.control.activities.delivery import deliver
from pytest_gputrace.control.activities.protocol import Saved
from pytest_gputrace.control.activities.protondoor import active, gpu, missing, open_proton
from pytest_gputrace.control.activities.protonsettings import ProtonSettings, owned_since_import
from pytest_gputrace.errors import ActivityError, RequestError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pytest_gputrace.control.activities.protocol import Setup

__all__ = ["ProtonKind"]

_WORD = "PROTON"
_BREAKS_AMD = ("HIP_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES")
_AMD_BACKENDS = ("rocprofiler", "roctracer")
_PART = re.compile(r"\.part_([0-9]+)\.")
_BASE = b'"baseTimeNanoseconds"'
_EDGE_BYTES = 4096
_NO_BASE = (
    "it does not say when it began (no baseTimeNanoseconds), so it cannot be merged with other files; update Proton: "
    "triton 3.9, or tokenspeed-proton 3.8.10.post20260721"
)


class ProtonKind:
    """Proton, as this process has it."""

    words: tuple[str, ...] = (_WORD,)

    def refusals(self, words: tuple[str, ...]) -> Iterator[str]:
        """Why it cannot record now."""
        del words  # there is one
        if reason := missing():
            yield reason
        if reason := owned_since_import(os.environ) or active():
            yield reason
        try:
            backend = ProtonSettings.from_environ(os.environ).backend
        except RequestError as error:
            yield from error.reasons
            return
        if backend in _AMD_BACKENDS or (backend is None and gpu() == "hip"):
            for name in _BREAKS_AMD:
                if name in os.environ:
                    yield f"Proton does not work on AMD GPUs with {name} set; unset it and use ROCR_VISIBLE_DEVICES instead"

    def recorder(self, setup: Setup) -> _ProtonRecorder:
        """What records one window."""
        return _ProtonRecorder(setup, ProtonSettings.from_environ(os.environ))


class _ProtonRecorder:
    profiler = "proton"
    thread_bound = False

    def __init__(self, setup: Setup, settings: ProtonSettings) -> None:
        self._output = setup.output
        self._settings = settings
        self._private = setup.output.private("")
        self._session: int | None = None
        self._lost: list[str] = []

    def start(self) -> None:
        """Begin to record."""
        settings = self._settings
        if reason := active():  # it was not when the profile was asked for, which may be long ago
            raise ActivityError(reason, activity=_WORD)
        self._make_folder()
        self._session = open_proton().start(
            str(self._private), settings.data, settings.backend, settings.mode, settings.hook
        )

    def stop(self) -> None:
        """Record no more."""
        assert self._session is not None
        try:
            open_proton().deactivate(self._session)
        except Exception as error:  # noqa: BLE001  # what it has is still to be written; told with that, or raised
            self._lost.append(f"Proton did not stop when it was to, and recorded on until it wrote: {error}")

    def save(self) -> list[Saved]:
        """Have Proton write, and publish every part of what it wrote that holds an event."""
        assert self._session is not None
        try:
            self._make_folder()  # Proton says nothing where it is gone
        except OSError as error:
            self.discard()  # or its session would keep the next one out
            what = f"Proton cannot write to {self._output.folder}: {error.strerror or error}"
            raise ActivityError(what, activity=_WORD) from error
        try:
            open_proton().finalize(self._session, self._settings.format)
        except Exception as error:
            self._remove_empty()
            raise ActivityError(f"Proton could not write: {error}{self._left()}", activity=_WORD) from error
        saved: list[Saved] = []
        lost = list(self._lost)
        for private in self._written() or [self._private.with_name(f"{self._private.name}.{self._settings.format}")]:
            try:
                saved.extend(self._delivered(private))
            except ActivityError as error:
                lost.append(str(error))
        if lost and saved:  # what there is counts, and so does what is missing
            last = saved[-1]
            saved[-1] = Saved(last.path, last.events, "; ".join(filter(None, [last.problem, *lost])))
        elif lost:
            raise ActivityError("; ".join(lost), activity=_WORD)
        elif not saved:
            raise ActivityError(f"Proton recorded nothing: {_why_nothing()}", activity=_WORD)
        return saved

    def discard(self) -> None:
        """Stop and leave nothing on disk."""
        if self._session is not None:
            with contextlib.suppress(Exception):  # never raises; Proton has nothing that is wanted any more
                open_proton().finalize(self._session, self._settings.format)
        for path in self._written():
            with contextlib.suppress(OSError):
                path.unlink()

    def _delivered(self, private: Path) -> Iterator[Saved]:
        ending = f".{self._settings.format}"
        based = self._settings.format != "chrome_trace" or _has_base(private)
        saved = deliver(self._output, private, activity=_WORD, profiler=self.profiler, ending=ending)
        if saved is not None:
            problems = [saved.problem, "" if based else _NO_BASE]
            yield Saved(saved.path, saved.events, "; ".join(filter(None, problems)))

    def _written(self) -> list[Path]:
        """What Proton wrote for this window, in the order of its parts."""
        with contextlib.suppress(OSError):
            paths = [path for path in self._output.folder.iterdir() if path.name.startswith(f"{self._private.name}.")]
            return sorted(paths, key=lambda path: int(part[1]) if (part := _PART.search(path.name)) else -1)
        return []

    def _remove_empty(self) -> None:
        for path in self._written():
            with contextlib.suppress(OSError):
                if path.stat().st_size == 0:
                    path.unlink()

    def _left(self) -> str:
        left = [path.name for path in self._written()]
        return f"; what it wrote is kept in {self._output.folder} as {', '.join(left)}" if left else ""

    def _make_folder(self) -> None:
        self._output.folder.mkdir(parents=True, exist_ok=True)


def _has_base(path: Path) -> bool:
    """Whether the top level of a trace says when it began; Proton has that first or last."""
    try:
        with path.open("rb") as file:
            head = file.read(_EDGE_BYTES)
            file.seek(max(0, path.stat().st_size - _EDGE_BYTES))
            return _BASE in head or _BASE in file.read()
    except FileNotFoundError:
        return True  # that it is not there is told better elsewhere


def _why_nothing() -> str:
    if gpu():
        return "no kernel ran and no scope of Proton's ended between start and stop"
    return "without a GPU it records scopes alone, and none ended between start and stop"
