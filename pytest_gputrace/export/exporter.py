"""Events -> the two files of a capture: the qualified one, which is kept, and the legacy one, as it always was.

One pass over the events makes one stream of bytes for both. Neither file is ever read, so nothing that happens to the
legacy file, which other workers write too, can reach the qualified one; and a file that cannot be written does not
stop the other.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_gputrace.errors import EmptyCaptureError, ExportError, GputraceError, SessionStolenError
from pytest_gputrace.export.encode import Chunk, encode
from pytest_gputrace.export.garbage import collector_paused
from pytest_gputrace.export.reading import ReadFrom, Reading, read
from pytest_gputrace.identity import identify
from pytest_gputrace.layout import RankFolder, recognise, resolve_configuration
from pytest_gputrace.naming import is_capture_name, legacy_name, name_limit, qualified_name
from pytest_gputrace.publish import LegacyFile, PrivateFile, QualifiedFile
from pytest_gputrace.torchdoor import STOLEN, was_stolen

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_gputrace.identity import Identity
    from pytest_gputrace.model import WorkerId

__all__ = ["ExportResult", "export_events"]

_LOG = logging.getLogger("pytest_gputrace")


@dataclass(frozen=True)
class ExportResult:
    """What an export wrote.

    ``legacy`` and ``qualified`` are the files' paths, ``None`` for one that was not written (``qualified`` too where
    nothing names a configuration). ``event_count`` is the number of records, ``non_finite`` how many numbers the
    qualified file holds ``null`` for, ``legacy_digest`` the SHA-256 of the legacy file's bytes. ``read_from`` says where
    the records were read: ``"kineto"``, torch's raw results, where they are known to give the same records as
    ``events()`` and many times faster, else ``"events"``.
    """

    legacy: Path | None
    qualified: Path | None
    event_count: int
    non_finite: int
    legacy_digest: str | None
    read_from: ReadFrom = "events"


def export_events(
    profiler_or_events: Any,
    *,
    model: str,
    trace_dir: str | os.PathLike[str],
    configuration: str | None = None,
    worker: WorkerId | None = None,
) -> ExportResult:
    """Write the CPU events of a stopped profile to a qualified file of its own and to the shared legacy file.

    Args:
        profiler_or_events: a stopped ``torch.profiler.profile``, anything else with ``events()``, or the events.
        model: the model's name, as the legacy name has it.
        trace_dir: the folder for both files, shared by as many workers as you like; made when missing.
        configuration: the full configuration. Without it, that of the executor's rank folder
            (``benchmarks/<configuration>/rank<N>``, the working directory or else ``trace_dir``) is taken; where there
            is none either, only the legacy file is written.
        worker: who this process is; found out by `identify` when not given.

    Returns:
        What was written.

    Raises:
        ExportError: at least one file is missing. The other one has been written (``result`` says where) and the
            message names the file, the rank and the cause, which is ``__cause__`` too: `PublishError`,
            `IdentityError`, `LayoutError`, `NamingError` or what ``events()`` raised.
        SessionStolenError: another profiler took the session; nothing was written.
        EmptyCaptureError: there is no CPU event. The legacy file has been written, as an empty list; the qualified
            one has not.
        ValueError: ``trace_dir`` is empty.
    """
    if not os.fspath(trace_dir):
        raise ValueError(
            "trace_dir is empty, most likely from a variable that is not set; '.' is the working directory"
        )
    capture = _Capture(model, Path(trace_dir), configuration, worker)
    if was_stolen(profiler_or_events):
        raise SessionStolenError(f"{capture.label}: {STOLEN}", rank=capture.rank)
    try:
        capture.open()
        with collector_paused():
            reading = read(profiler_or_events)
            capture.write(reading)
        return capture.finish()
    except GputraceError:
        raise
    except Exception as error:
        raise ExportError(f"{capture.label}: cannot read the events: {_told(error)}", rank=capture.rank) from error
    finally:
        capture.close()


class _Half:
    """One of the two files, or why there is none. A half that failed takes no part any more."""

    def __init__(self) -> None:
        self.file: PrivateFile | None = None
        self.path: Path | None = None
        self.error: GputraceError | None = None

    def open(self, make: Callable[[], PrivateFile | None]) -> None:
        try:
            self.file = make()
        except GputraceError as error:
            self.error = error

    def write(self, data: bytes) -> None:
        if self.file is not None:
            try:
                self.file.write(data)
            except GputraceError as error:
                self.file, self.error = None, error

    def publish(self) -> None:
        if self.file is not None:
            try:
                self.path = self.file.publish()
            except GputraceError as error:
                self.error = error
            self.file = None

    def discard(self) -> None:
        if self.file is not None:
            self.file.discard()
            self.file = None


class _Capture:
    """One export under way."""

    def __init__(self, model: str, trace_dir: Path, configuration: str | None, worker: WorkerId | None) -> None:
        self.model = model
        self.trace_dir = trace_dir
        self.worker = worker
        self.legacy = _Half()
        self.qualified = _Half()
        self._digest = hashlib.sha256()
        self._records = 0
        self._non_finite = 0
        self._read_from: ReadFrom = "events"
        self._folder = _rank_folder(trace_dir)
        self.configuration = configuration
        try:
            # Who comes first: the legacy name needs it, whatever is wrong with the configuration.
            if worker is None:
                identity = identify(folder_rank=None if self._folder is None else self._folder.local_rank)
                self.worker = identity.worker
                _warn_of_a_silent_zero(identity)
            self.configuration = resolve_configuration(configuration, self._folder)
        except GputraceError as error:
            self.qualified.error = error

    @property
    def rank(self) -> int | None:
        return None if self.worker is None else self.worker.rank

    @property
    def label(self) -> str:
        who = "unknown rank" if self.worker is None else f"rank {self.worker.rank} on node {self.worker.node}"
        what = "" if self.configuration is None else f" ({_short(self.configuration)})"
        return f"export of {_short(self.model)}{what}, {who}"

    def open(self) -> None:
        # First of all: a folder that is not there cannot say how long its names may be. When it cannot be made, both
        # files will say so.
        with contextlib.suppress(OSError, ValueError):
            self.trace_dir.mkdir(parents=True, exist_ok=True)
        if self.qualified.error is None and self.configuration is not None:
            self.qualified.open(self._qualified_file)
        self.legacy.open(self._legacy_file)

    def write(self, reading: Reading) -> None:
        self._read_from = reading.read_from
        for chunk in encode(reading.records):
            self._add(chunk)
            if self.legacy.file is None and self.qualified.file is None:
                break  # nothing left to write to; finish() says why

    def finish(self) -> ExportResult:
        if self._records:
            self.qualified.publish()
        else:
            self.qualified.discard()
        self.legacy.publish()
        result = ExportResult(
            legacy=self.legacy.path,
            qualified=self.qualified.path,
            event_count=self._records,
            non_finite=self._non_finite,
            legacy_digest=None if self.legacy.path is None else self._digest.hexdigest(),
            read_from=self._read_from,
        )
        causes = [half.error for half in (self.qualified, self.legacy) if half.error is not None]
        if causes:
            raise ExportError(self._loss(result), result=result, rank=self.rank, causes=causes) from causes[0]
        if not self._records:
            raise EmptyCaptureError(
                f"{self.label}: the profile holds no CPU event, so there is no trace to keep; was the code run between "
                "start and stop of the profiler, with ProfilerActivity.CPU?",
                result=result,
                rank=self.rank,
            )
        return result

    def close(self) -> None:
        self.qualified.discard()
        self.legacy.discard()

    def _add(self, chunk: Chunk) -> None:
        self._digest.update(chunk.legacy)
        self.qualified.write(chunk.qualified)
        self.legacy.write(chunk.legacy)
        self._records += chunk.records
        self._non_finite += chunk.non_finite

    def _qualified_file(self) -> PrivateFile:
        worker, configuration = self.worker, self.configuration
        assert worker is not None
        assert configuration is not None
        limit = name_limit(self.trace_dir)

        def name_of(attempt: int) -> str:
            return qualified_name(
                model=self.model, configuration=configuration, worker=worker, attempt=attempt, limit=limit
            )

        return QualifiedFile(self.trace_dir, name_of)

    def _legacy_file(self) -> PrivateFile | None:
        local_rank = self._executor_local_rank() if self.worker is None else self.worker.local_rank
        name = legacy_name(self.model, local_rank)
        if ".." in name.split("/"):
            raise ExportError(f"the legacy name {name!r} leads out of the trace folder; rename the model")
        if is_capture_name(name.rsplit("/", 1)[-1]):
            raise ExportError(
                f"the legacy name {name!r} is the qualified name of another capture, which it would replace; "
                "rename the model"
            )
        return LegacyFile(self.trace_dir / name, is_capture_name)

    def _executor_local_rank(self) -> int:
        """The local rank for the legacy name where it is not clear who the worker is: SuperBench's own rule."""
        variables = ("PROC_RANK", "LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK")
        value = next(filter(None, map(os.environ.get, variables)), None)
        if value is None:
            return 0 if self._folder is None else self._folder.local_rank
        try:
            return int(value)
        except ValueError as error:
            raise ExportError(f"no local rank for the legacy name: {value!r} is not a number") from error

    def _loss(self, result: ExportResult) -> str:
        lines = [f"{self.label}: not everything could be written"]
        for kind, half in (("qualified", self.qualified), ("legacy", self.legacy)):
            if half.error is not None:
                lines.append(f"  {kind} file: {half.error}")
            elif half.path is not None:
                lines.append(f"  {kind} file: written, {half.path}")
        return "\n".join(lines)


def _warn_of_a_silent_zero(identity: Identity) -> None:
    partial = [source for source in identity.sources if source.role == "incomplete"]
    if partial and any(source.name == "default" for source in identity.sources):
        _LOG.warning(
            "this worker counts as rank 0 of 1, though %s is set: not all of that launcher's variables are there; set "
            "RANK, WORLD_SIZE and LOCAL_RANK, or GPUTRACE_RANK and GPUTRACE_WORLD_SIZE",
            " and ".join(map(str, partial)),
        )


def _short(text: str) -> str:
    """A name of the user's for a message: printable, and one line."""
    text = "".join(char if char.isprintable() else ascii(char)[1:-1] for char in text)
    return text if len(text) <= 200 else f"{text[:100]}...{text[-100:]}"


def _told(error: Exception) -> str:
    try:
        return repr(error)
    except Exception:  # noqa: BLE001  # an error that cannot be printed must not hide where it came from
        return type(error).__name__


def _rank_folder(trace_dir: Path) -> RankFolder | None:
    try:
        return recognise(os.getcwd()) or recognise(trace_dir)
    except FileNotFoundError:  # the working directory was deleted under the process
        return recognise(trace_dir) if trace_dir.is_absolute() else None
