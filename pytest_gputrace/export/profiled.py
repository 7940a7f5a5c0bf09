"""``with profiled(...)``: torch.profiler around a piece of code, and its capture exported at the end.

The profiled code comes first: whatever goes wrong with profiling or exporting, its result and its exceptions reach
the caller as if nobody had watched.
"""

from __future__ import annotations

import logging
import os
import time
from typing import TYPE_CHECKING, Any

from pytest_gputrace import torchdoor
from pytest_gputrace.errors import ExportError, GputraceError, SessionStolenError
from pytest_gputrace.export.exporter import ExportResult, export_events

if TYPE_CHECKING:
    from types import TracebackType

    from typing_extensions import Self

    from pytest_gputrace.model import WorkerId

__all__ = ["Profiled", "profiled"]

_LOG = logging.getLogger("pytest_gputrace")


def profiled(
    *,
    model: str,
    trace_dir: str | os.PathLike[str],
    configuration: str | None = None,
    worker: WorkerId | None = None,
    strict: bool = False,
    **profile_options: Any,
) -> Profiled:
    """Profile the code of a ``with`` block by ``torch.profiler.profile`` and export it.

    ::

        with profiled(model="resnet50", trace_dir=shared, configuration="fp16") as capture:
            train()
        if capture.error is None:
            print(capture.result.qualified)

    Args:
        model: see `export_events`, as ``trace_dir``, ``configuration`` and ``worker``.
        trace_dir: the folder for the files.
        configuration: the full configuration.
        worker: who this process is.
        strict: raise at the end of the block when the capture is lost. Only when the block itself did not raise, and
            off by default: the value of the profiled code is usually worth more than its profile.
        profile_options: for ``torch.profiler.profile``. ``record_shapes`` is on unless said otherwise. With a
            ``schedule`` each cycle is a capture; your own ``on_trace_ready`` is called after the export.

    Returns:
        A context manager; its ``result`` is the last capture's `ExportResult`.

    Raises:
        MissingDependencyError: torch is not installed.
        TypeError, ValueError: ``trace_dir`` is not a path, or empty.
    """
    return Profiled(
        model=model,
        trace_dir=trace_dir,
        configuration=configuration,
        worker=worker,
        strict=strict,
        profile_options=profile_options,
    )


class Profiled:
    """The context manager of `profiled`.

    ``profiler`` is the ``torch.profiler.profile`` at work, ``results`` every capture exported so far, ``errors`` every
    one that was lost. A loss is logged as an error at once; reading ``result`` raises it.
    """

    def __init__(
        self,
        *,
        model: str,
        trace_dir: str | os.PathLike[str],
        configuration: str | None,
        worker: WorkerId | None,
        strict: bool,
        profile_options: dict[str, Any],
    ) -> None:
        if not os.fspath(trace_dir):
            raise ValueError("trace_dir is empty, most likely from a variable that is not set")
        self._export_options: dict[str, Any] = {
            "model": model,
            "trace_dir": os.path.abspath(trace_dir),  # the profiled code may change the working directory
            "configuration": configuration,
            "worker": worker,
        }
        self._strict = strict
        self._on_trace_ready = profile_options.pop("on_trace_ready", None)
        module = torchdoor.profiler()
        self.profiler: Any = module.profile(
            **{"record_shapes": True, **profile_options, "on_trace_ready": self._trace_ready}
        )
        self.results: list[ExportResult] = []
        self.errors: list[GputraceError] = []
        self._running = False
        self._action = ""
        self._started_ns: int | None = None
        self._seen_step = 0

    @property
    def error(self) -> GputraceError | None:
        """Why a capture was lost, the first one where there are several; `None` when none was."""
        return self.errors[0] if self.errors else None

    @property
    def result(self) -> ExportResult:
        """The last capture's files.

        Raises:
            GputraceError: a capture was lost; this is why.
        """
        if self.error is not None:
            raise self.error
        if not self.results:
            raise ExportError("nothing has been exported yet; read the result after the with block")
        return self.results[-1]

    def step(self) -> None:
        """End a step, as ``torch.profiler.profile.step``."""
        if self._running:
            with torchdoor.torchs_warnings():
                self.profiler.step()
            self._note_start()

    def __enter__(self) -> Self:
        with torchdoor.STARTING, torchdoor.torchs_warnings():
            if torchdoor.someone_profiles():
                # Starting now would take the other profiler's session away, and its export might kill the process.
                self._lose(
                    SessionStolenError(
                        f"{self._label}: a torch profiler is already running in this process, and a second one would "
                        "take its session; the code runs without a profile of ours. Stop the other one first"
                    )
                )
                return self
            try:
                self.profiler.start()
            except Exception as error:  # noqa: BLE001  # the code runs all the same; ends in _lose
                self._lose(self._failed("starting", error))
                return self
        self._running = True
        self._note_start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._running:
            self._running = False
            try:
                with torchdoor.torchs_warnings():
                    self.profiler.stop()
            except Exception as stop_error:  # noqa: BLE001  # the profiled code's outcome comes first; ends in _lose
                self._lose(self._failed("stopping", stop_error))
            if not self.errors and not self.results:
                self._lose(ExportError(f"{self._label}: the schedule ended before it recorded a step"))
        if self._strict and kind is None and self.error is not None:
            raise self.error

    @property
    def _label(self) -> str:
        return f"profile of {self._export_options['model']} into {self._export_options['trace_dir']}"

    def _note_start(self) -> None:
        """Remember when the recording that is under way began: at the start, or in the step that began its cycle."""
        self._seen_step = getattr(self.profiler, "step_num", 0)
        before, self._action = self._action, getattr(getattr(self.profiler, "current_action", None), "name", "RECORD")
        if self._action.startswith("RECORD") and before != "RECORD":
            self._started_ns = time.time_ns()

    def _trace_ready(self, profile: Any) -> None:
        try:
            # Steps that went to the profiler itself were not seen, nor was a start in them.
            seen_all = getattr(profile, "step_num", 0) - self._seen_step <= 1
            if torchdoor.was_stolen(profile, self._started_ns if seen_all else None):
                raise SessionStolenError(f"{self._label}: {torchdoor.STOLEN}")
            self.results.append(export_events(profile, **self._export_options))
        except GputraceError as error:
            self._lose(error)
        except Exception as error:  # noqa: BLE001  # a step must not fail for its export; ends in _lose
            self._lose(self._failed("exporting", error))
        if self._on_trace_ready is not None:
            self._on_trace_ready(profile)

    def _failed(self, doing: str, error: Exception) -> GputraceError:
        failure: GputraceError
        if "not running" in str(error):  # torch before 2.12, when another profiler has ended our session
            failure = SessionStolenError(f"{self._label}: {torchdoor.STOLEN}")
        else:
            failure = ExportError(f"{self._label}: {doing} the profiler failed: {error!r}")
        failure.__cause__ = error
        return failure

    def _lose(self, error: GputraceError) -> None:
        self.errors.append(error)
        _LOG.error("capture lost: %s", error)
