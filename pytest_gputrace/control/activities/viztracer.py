"""VIZTRACER: every call of a Python function, with a report of its own for each window.

On Python 3.12 and newer it records all threads. Before that it records the thread that starts it and those that begin
later; a thread that it records keeps its hook until it ends, or starts or stops VizTracer itself, at about 0.1
microseconds a call. Any thread may stop it.

Where its buffer was full the oldest events are lost: the report is published, with that as its problem.
The program's source is left out of the report unless ``GPUTRACE_VIZTRACER_FILE_INFO`` asks for it.
"""

from __future__ import annotations

import builtins
import contextlib
import importlib
import importlib.util
import math
import os
import sys
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pytest_gputrace.control.activities.delivery import deliver
from pytest_gputrace.control.activities.protocol import Saved
from pytest_gputrace.errors import ActivityError, MissingDependencyError, RequestError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pytest_gputrace.control.activities.protocol import Setup

__all__ = ["VizTracerKind"]

_WORD = "VIZTRACER"
_ENTRIES = "GPUTRACE_VIZTRACER_ENTRIES"
_MIN_DURATIONS = ("GPUTRACE_VIZTRACER_MIN_DURATION_US", "TOKENSPEED_VIZTRACER_MIN_DURATION_US")
_FILE_INFO = "GPUTRACE_VIZTRACER_FILE_INFO"
_MOST_ENTRIES = 100_000_000
_GLOBAL = "__viz_tracer__"
"""Where VizTracer keeps the tracer that its ``get_tracer`` returns."""
_MONITORING_TOOL = 2
"""The place in ``sys.monitoring`` that VizTracer takes, whoever has it; that of ``sys.monitoring.PROFILER_ID``."""
_MISSING = "VizTracer is not installed; `pip install viztracer`, or leave VIZTRACER out"
_NO_BASE = "it does not say when it began (no baseTimeNanoseconds), so it cannot be merged with other files; update viztracer to 1.0"


@dataclass(frozen=True)
class _Options:
    entries: int = 1_000_000
    min_duration_us: float = 0.0
    file_info: bool = False

    @classmethod
    def from_environ(cls, environ: Mapping[str, str]) -> _Options:
        reasons: list[str] = []
        duration = next((name for name in _MIN_DURATIONS if environ.get(name, "").strip()), _MIN_DURATIONS[0])
        options = cls(
            int(_number(environ, _ENTRIES, f"a whole number from 1 to {_MOST_ENTRIES}", "1000000", reasons)),
            _number(environ, duration, "a number of microseconds from 0", "0", reasons),
            environ.get(_FILE_INFO, "").strip().lower() in ("1", "true", "yes", "on"),
        )
        if reasons:
            raise RequestError("; ".join(reasons), reasons=reasons)
        return options


class VizTracerKind:
    """VizTracer, as this process has it."""

    words: tuple[str, ...] = (_WORD,)

    def refusals(self, words: tuple[str, ...]) -> Iterator[str]:
        """Why it cannot record now."""
        del words  # there is one
        if not _is_installed():
            yield _MISSING
        if reason := _in_use():
            yield reason
        try:
            _Options.from_environ(os.environ)
        except RequestError as error:
            yield from error.reasons

    def recorder(self, setup: Setup) -> _VizTracerRecorder:
        """What records one window."""
        return _VizTracerRecorder(setup, _Options.from_environ(os.environ))


class _VizTracerRecorder:
    profiler = "viztracer"
    thread_bound = False

    def __init__(self, setup: Setup, options: _Options) -> None:
        self._output = setup.output
        self._options = options
        self._tracer: Any = None
        self._registered_before: Any = None

    def start(self) -> None:
        """Begin to record."""
        if reason := _in_use():  # it was not when the profile was asked for, which may be long ago
            raise ActivityError(reason, activity=_WORD)
        self._registered_before = vars(builtins).get(_GLOBAL)
        try:
            self._tracer = _viztracer().VizTracer(
                verbose=0,
                tracer_entries=self._options.entries,
                min_duration=self._options.min_duration_us,
                file_info=self._options.file_info,
            )
            self._tracer.start()
        except BaseException:
            self.discard()
            raise

    def stop(self) -> None:
        """Record no more."""
        try:
            # Frames that are open then are written as ended then: as openings without an end nobody could tell their length.
            self._tracer.stop(stop_option="flush_as_finish")
        finally:
            self._let_go()

    def save(self) -> list[Saved]:
        """Write the report, and publish it."""
        tracer, self._tracer = self._tracer, None
        private = self._output.private(".json")
        try:
            tracer.save(output_file=str(private))
        except Exception as error:
            what = f"VizTracer could not write its report: {type(error).__name__}: {error}"
            if private.exists() and private.stat().st_size:
                what += f"; what there is of it is {private}"
            else:
                private.unlink(missing_ok=True)  # opened, and nothing came
            raise ActivityError(what, activity=_WORD) from error
        told = tracer.data.get("viztracer_metadata", {})
        tracer.clear()
        saved = deliver(self._output, private, activity=_WORD, profiler=self.profiler, ending=".json")
        if saved is None:
            raise ActivityError(
                "VizTracer recorded nothing: no Python function was called between start and stop in a thread that it sees",
                activity=_WORD,
            )
        problems = [saved.problem, "" if "baseTimeNanoseconds" in told else _NO_BASE]
        if told.get("overflow"):
            # What is lost was seen in the report; here is what to do.
            problems.append(
                f"here it holds {self._options.entries}: raise {_ENTRIES}, or leave short calls out by {_MIN_DURATIONS[0]}"
            )
        return [Saved(saved.path, saved.events, "; ".join(filter(None, problems)))]

    def discard(self) -> None:
        """Stop, and forget what was recorded; it is in memory alone."""
        tracer = self._tracer
        if tracer is not None:
            with contextlib.suppress(Exception):  # never raises; nothing of it is wanted any more
                tracer.stop()
            with contextlib.suppress(Exception):
                tracer.clear()
        self._let_go()
        self._tracer = None

    def _let_go(self) -> None:
        """Take back what VizTracer leaves behind when it stops: its place as the global one, and its hooks."""
        tracer = self._tracer
        if tracer is None:
            return
        if vars(builtins).get(_GLOBAL) is tracer:
            if self._registered_before is None:
                delattr(builtins, _GLOBAL)
            else:
                setattr(builtins, _GLOBAL, self._registered_before)
        if getattr(threading.getprofile(), "__self__", None) is tracer:
            threading.setprofile(None)
        if sys.getprofile() is tracer:
            sys.setprofile(None)


def _viztracer() -> Any:
    """The package, imported here and nowhere else."""
    try:
        return importlib.import_module("viztracer")
    except ImportError as error:
        raise MissingDependencyError(_MISSING, package="viztracer") from error


def _is_installed() -> bool:
    try:
        return importlib.util.find_spec("viztracer") is not None
    except ValueError:  # a module without a spec, such as a test's stand-in
        return True


def _in_use() -> str:
    """What else takes the one place for a profiler of Python functions; empty when it is free."""
    if _records(vars(builtins).get(_GLOBAL)):
        return (
            "another VizTracer records in this process already; stop it first, or run the program without `viztracer`"
        )
    monitoring = getattr(sys, "monitoring", None)
    if monitoring is not None:
        tool = monitoring.get_tool(_MONITORING_TOOL)
        return "" if tool is None else f"{tool} profiles this process already, through sys.monitoring; stop it first"
    for hook in (sys.getprofile(), threading.getprofile()):
        owner = getattr(hook, "__self__", hook)
        if owner is not None and (_records(owner) or not _is_tracer(owner)):
            return f"{type(owner).__name__} profiles this process already, through sys.setprofile; stop it first"
    return ""


def _is_tracer(owner: Any) -> bool:
    # One that has stopped leaves its hook in threads that did not stop it, and is in nobody's way.
    tracer = getattr(sys.modules.get("viztracer"), "VizTracer", None)
    return tracer is not None and isinstance(owner, tracer)


def _records(tracer: Any) -> bool:
    return bool(getattr(tracer, "enable", False))


def _number(environ: Mapping[str, str], name: str, what: str, default: str, reasons: list[str]) -> float:
    text = environ.get(name, "").strip() or default
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if name == _ENTRIES:
        is_good = text.isdecimal() and 1 <= number <= _MOST_ENTRIES
    else:
        is_good = math.isfinite(number) and number >= 0
    if not is_good:
        reasons.append(f"{name} is {text!r}; it is {what}")
        return 0.0
    return number
