"""``CPU`` and ``GPU``: torch's profiler over a window, and its trace as a file.

One profile records both. What it wrote is looked at, packed as a stream, and only then published.
"""

from __future__ import annotations

import contextlib
import gzip
import shutil
import threading
import time
from typing import TYPE_CHECKING, Any

from pytest_gputrace import torchdoor
from pytest_gputrace.control.activities.protocol import Saved
from pytest_gputrace.errors import ActivityError, MissingDependencyError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pytest_gputrace.control.activities.protocol import Setup

__all__ = ["TorchProfileKind", "TorchRecorder"]

_TAKEN = (
    "a torch profiler records already in this process, and a second one would take its session; stop it first (look for "
    "torch.profiler.profile, and for a profiler of the engine's own)"
)
_COPY_BYTES = 1 << 20
_PACKING = 1  # the fastest: a trace gets ten times smaller all the same


class TorchProfileKind:
    """torch's profiler, as this process has it."""

    words: tuple[str, ...] = ("CPU", "GPU")

    def refusals(self, words: tuple[str, ...]) -> Iterator[str]:
        """Without torch, without the GPU that was asked for, and where a profile is recorded already."""
        try:
            module = torchdoor.profiler()
        except MissingDependencyError as error:
            yield f"{' and '.join(words)}: {error}"
            return
        if "GPU" in words:
            why = torchdoor.missing_gpu()
            if not why and module.ProfilerActivity.CUDA not in module.supported_activities():
                why = "this torch's profiler is built without CUPTI or roctracer; install a build that has it"
            if why:
                yield f"GPU: {why}, or leave GPU out"
        if torchdoor.someone_profiles():
            yield f"{' and '.join(words)}: {_TAKEN}"

    def recorder(self, setup: Setup) -> TorchRecorder:
        """What records one window."""
        return TorchRecorder(setup)


class TorchRecorder:
    """One ``torch.profiler.profile`` over one window, of every thread where this torch can do that."""

    profiler = "torch"

    def __init__(self, setup: Setup) -> None:
        module = torchdoor.profiler()
        every_thread = torchdoor.all_threads()
        activities = {"CPU": module.ProfilerActivity.CPU, "GPU": module.ProfilerActivity.CUDA}
        self.thread_bound = every_thread is None
        self._words = " and ".join(setup.words)
        self._output = setup.output
        self._profile: Any = module.profile(
            activities=[activities[word] for word in setup.words],
            record_shapes=setup.record_shapes,
            with_stack=setup.with_stack,
            experimental_config=every_thread,
        )
        self._thread = 0
        self._started_ns = 0
        self._lost: ActivityError | None = None

    def start(self) -> None:
        """Begin to record.

        Raises:
            ActivityError: another torch profiler records; it goes on.
        """
        with torchdoor.STARTING, torchdoor.torchs_warnings():
            if torchdoor.someone_profiles():
                raise self._error(_TAKEN)
            self._thread = threading.get_ident()
            try:
                self._profile.start()
            except BaseException:
                self._undo_start()
                raise
        self._started_ns = time.time_ns()

    def stop(self) -> None:
        """Record no more; what is lost by then `save` says."""
        if self._is_elsewhere():
            self._lost = self._error(
                "only the thread that started this torch's profiler may stop it, and another one was to; it records on. "
                "Stop it from the thread that runs the steps, or use torch 2.13 or newer, which any thread may stop"
            )
            return
        try:
            with torchdoor.torchs_warnings():
                self._profile.stop()
        except RuntimeError as error:
            # How torch before 2.12 says that another profiler has ended our session.
            stolen = "not running" in str(error)
            self._lost = self._error(torchdoor.STOLEN if stolen else f"torch's profiler did not stop: {error!r}")
            self._lost.__cause__ = error

    def save(self) -> list[Saved]:
        """Bring the trace to disk as ``.torch.json.gz``.

        Raises:
            ActivityError: another profiler took the session, nothing was recorded, or there is no whole file; what
                there is of one stays, and is named.
            PublishError: it has no final name; the private file stays, and is named.
        """
        if self._lost is not None:
            raise self._lost
        if torchdoor.was_stolen(self._profile, self._started_ns):
            raise self._error(torchdoor.STOLEN)  # exporting it kills the process
        self._output.folder.mkdir(parents=True, exist_ok=True)
        plain = self._exported()
        events, problem = self._examined(plain)
        packed = self._packed(plain)
        plain.unlink()
        return [Saved(self._output.publish(packed, self.profiler, ".json.gz"), events, problem)]

    def discard(self) -> None:
        """Stop, and write nothing."""
        if not self._is_elsewhere():
            self._undo_start()

    def _is_elsewhere(self) -> bool:
        return self.thread_bound and threading.get_ident() != self._thread

    def _undo_start(self) -> None:
        """End our session, whatever there is of it: it is torch's only one."""
        with contextlib.suppress(Exception), torchdoor.torchs_warnings():
            if torchdoor.someone_profiles():
                self._profile.stop()

    def _exported(self) -> Path:
        """The trace as torch writes it, under a private name."""
        plain = self._output.private(".json")
        try:
            with torchdoor.torchs_warnings():
                self._profile.export_chrome_trace(str(plain))  # torch takes text only
            if plain.is_file():
                return plain
            # Kineto tells stderr of what it cannot write, and returns.
            raise self._error(f"torch wrote no trace into {plain.parent}; is the folder gone, or the disk full?")
        except (OSError, RuntimeError, AssertionError) as error:
            plain.unlink(missing_ok=True)
            raise self._error(f"torch could not write its trace into {plain.parent}: {error!r}") from error
        finally:
            plain.with_name(f"{plain.name}.tmp").unlink(missing_ok=True)  # where Kineto begins

    def _examined(self, plain: Path) -> tuple[int | None, str]:
        """How many events the trace holds, and what is wrong with it; an error where it is of no use."""
        from pytest_gputrace.control.written import examine

        found = examine(plain)
        if not found.complete:
            raise self._error(f"torch's trace is not whole: {found.problem}; is the disk full? It was left as {plain}")
        if found.events == 0 and not found.problem:
            plain.unlink()
            raise self._error("the profile holds no event; did this process run any torch code while it was recorded?")
        return found.events, found.problem

    def _packed(self, plain: Path) -> Path:
        packed = self._output.private(".json.gz")
        try:
            with (
                plain.open("rb") as source,
                packed.open("xb") as raw,
                gzip.GzipFile("", "wb", _PACKING, raw, mtime=0) as target,
            ):
                shutil.copyfileobj(source, target, _COPY_BYTES)
        except OSError as error:
            packed.unlink(missing_ok=True)
            raise self._error(f"the trace could not be packed: {error}; it was left as it is, in {plain}") from error
        return packed

    def _error(self, message: str) -> ActivityError:
        return ActivityError(message, activity=self._words)
