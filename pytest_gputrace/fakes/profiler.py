"""A stand-in for ``torch.profiler.profile`` on a CUDA or HIP build: same keywords, same life cycle, made-up events.

``fake_torch`` puts it into torch for a while. Nothing here imports torch: it is used where it is already loaded.
"""

from __future__ import annotations

import dataclasses
import gzip
import os
import tempfile
import time
import uuid
import warnings
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, ClassVar

from pytest_gputrace.fakes.events import VENDORS, fake_events
from pytest_gputrace.fakes.files import kineto_text, trace_dict
from pytest_gputrace.fakes.validate import one_of
from pytest_gputrace.model import Capture

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from types import TracebackType

    from typing_extensions import Self

    from pytest_gputrace.fakes.events import Vendor
    from pytest_gputrace.fakes.functionevent import FakeEvent

__all__ = ["CapturePlan", "FakeProfile", "profile_class"]


@dataclasses.dataclass
class CapturePlan:
    """Which capture the next profile of this process records; each profile takes one round.

    ``names`` are those of further host events, ``empty`` lets a profile record nothing, ``stolen`` lets another one
    take its session; ``on_stop`` is called whenever a profile was stopped.
    """

    capture: Capture
    vendor: Vendor = "cuda"
    seed: int = 0
    steps: int = 2
    values: tuple[complex, ...] = ()
    taken: int = 0
    names: tuple[str, ...] = ()
    empty: bool = False
    stolen: bool = False
    on_stop: list[Callable[[], None]] = dataclasses.field(default_factory=list)

    def __post_init__(self) -> None:
        one_of("profile", "vendor", self.vendor, VENDORS)

    def take(self) -> Capture:
        """The next round's capture."""
        self.taken += 1
        return dataclasses.replace(self.capture, round=self.capture.round + self.taken - 1)


class FakeProfile:
    """Stands in for ``torch.profiler.profile``; made by ``fake_torch``, ``Job.profiler`` or ``profile_class``.

    Differences from torch, on purpose: a ``schedule`` is accepted and not followed (the whole ``with`` block is one
    capture, with as many steps as ``step`` was called), and exporting a session that was lost (an inner profile took
    it, or ``stop`` was called twice) raises ``RuntimeError`` where torch 2.13 kills the process.
    """

    plan: ClassVar[CapturePlan] = CapturePlan(Capture("node0", 0, "fake"))
    _recording: ClassVar[FakeProfile | None] = None

    def __init__(
        self,
        *,
        activities: Iterable[Any] | None = None,
        schedule: Callable[[int], Any] | None = None,
        on_trace_ready: Callable[..., Any] | None = None,
        record_shapes: bool = False,
        profile_memory: bool = False,
        with_stack: bool = False,
        with_flops: bool = False,
        with_modules: bool = False,
        experimental_config: Any = None,
        execution_trace_observer: Any = None,
        acc_events: bool = False,
        use_cuda: bool | None = None,
        custom_trace_id_callback: Callable[[], str] | None = None,
        post_processing_timeout_s: float | None = None,
    ) -> None:
        if use_cuda is not None:
            warnings.warn("`use_cuda` is deprecated, use `activities` argument instead", FutureWarning, stacklevel=2)
        self.activities = None if activities is None else set(activities)
        if activities is not None and not self.activities:
            raise AssertionError("No valid profiler activities found")
        self.schedule, self.on_trace_ready = schedule, on_trace_ready
        self.record_shapes, self.profile_memory, self.with_stack = record_shapes, profile_memory, with_stack
        self.with_flops, self.with_modules, self.acc_events = with_flops, with_modules, acc_events
        self.experimental_config, self.execution_trace_observer = experimental_config, execution_trace_observer
        self.custom_trace_id_callback = custom_trace_id_callback
        self.post_processing_timeout_s = post_processing_timeout_s
        self.use_device = "cuda"
        self.step_num = 0
        self.capture = self.plan.take()
        self.profiler: Any = None
        self._events: list[FakeEvent] = []
        self._saved = self._stopped = False
        self._began_ns = 0

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def start(self) -> None:
        """Begin to record; a profile that records at this moment loses its session, as in torch."""
        FakeProfile._recording = self
        self._events, self._stopped, self._saved = [], False, False
        self._began_ns = time.time_ns()
        self.profiler = SimpleNamespace(kineto_results=None)

    def stop(self) -> None:
        """End the recording, make the events and call ``on_trace_ready``."""
        if self.profiler is None:
            raise AssertionError("Profiler must be initialized before stopping trace")
        stolen = self.plan.stolen or FakeProfile._recording is not self
        if FakeProfile._recording is self:
            FakeProfile._recording = None
        start_ns = 0 if stolen else self._began_ns
        self.profiler.kineto_results = SimpleNamespace(trace_start_ns=lambda: start_ns)
        self._events = [] if stolen or self.plan.empty else self._make_events()
        for tell in self.plan.on_stop:
            tell()
        if not self._stopped:
            self._stopped = True
            if self.on_trace_ready is not None:
                self.on_trace_ready(self)

    def step(self) -> None:
        """Signal the next step."""
        self.step_num += 1

    def events(self) -> list[FakeEvent]:
        """The recorded events: the same list each time, empty while recording."""
        if self.profiler is None:
            raise AssertionError("Profiler must be initialized before accessing events")
        return self._events

    def export_chrome_trace(self, path: str, use_python_export: bool = False) -> None:
        """Write a Kineto trace; a missing directory is no error and leaves no file, as in torch."""
        if self.profiler is None:
            raise AssertionError("Profiler must be initialized before exporting chrome trace")
        if use_python_export:
            Path(path).write_text(self._text(path), encoding="utf-8")
        elif path.endswith(".gz"):
            with tempfile.NamedTemporaryFile("w+b", suffix=".json") as plain:
                self._save(plain.name)
                with open(plain.name, "rb") as source, gzip.open(path, "wb") as target:
                    target.writelines(source)
        else:
            self._save(path)

    def get_trace_id(self) -> str:
        """The identifier of this capture, from the callback where one was given."""
        callback = self.custom_trace_id_callback
        return uuid.uuid5(uuid.NAMESPACE_OID, self.capture.mark()).hex if callback is None else callback()

    def _make_events(self) -> list[FakeEvent]:
        plan = self.plan
        steps = self.step_num or plan.steps
        events = fake_events(
            self.capture, vendor=plan.vendor, seed=plan.seed, steps=steps, values=plan.values, names=plan.names
        )
        if not self.record_shapes:
            for event in events:
                event.input_shapes, event.input_dtypes, event.concrete_inputs = [], [], []
                event.structured_input_shapes, event.structured_input_strides = [], []
        return events

    def _text(self, path: str) -> str:
        names = ("with_stack", "profile_memory", "record_shapes", "with_flops", "with_modules")
        options = {name: 1 for name in names if getattr(self, name)}
        return kineto_text(trace_dict(self._events, vendor=self.plan.vendor, trace_name=path, options=options))

    def _save(self, path: str) -> None:
        results = self.profiler.kineto_results
        if results is None:
            raise AttributeError("'NoneType' object has no attribute 'save'")
        if self._saved:
            raise RuntimeError("Trace is already saved.")
        if results.trace_start_ns() == 0:
            raise RuntimeError(
                "the session was lost to another profile or a second stop: torch 2.13 dies here by SIGSEGV"
            )
        self._saved = True
        temporary = f"{path}.tmp"  # Kineto writes beside and renames at the end
        try:
            with open(temporary, "w", encoding="utf-8") as stream:
                stream.write(self._text(path))
        except OSError as error:  # Kineto says so on stderr and returns
            os.write(2, f"ERROR: output_json.cpp:466] Failed to open '{path}' : {error.strerror}\n".encode())
            return
        os.replace(temporary, path)


def profile_class(plan: CapturePlan) -> type[FakeProfile]:
    """A class to use in place of ``torch.profiler.profile``, whose profiles take their captures from ``plan``."""
    return type("profile", (FakeProfile,), {"plan": plan, "__doc__": FakeProfile.__doc__})
