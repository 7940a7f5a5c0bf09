"""A stand-in for ``torch.profiler.profile`` on a CUDA or HIP build: same keywords, same life cycle, made-up events.

``fake_torch`` puts it into torch for a while. Nothing here imports torch: it is used where it is already loaded.
"""

from __future__ import annotations

import contextlib
import dataclasses
import gzip
import json
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

_RECORDING = ("RECORD", "RECORD_AND_SAVE")
_ACTIONS = ("NONE", "WARMUP", *_RECORDING)


@dataclasses.dataclass
class CapturePlan:
    """Which capture the next profile of this process records; each profile, or cycle of its schedule, takes one round.

    ``names`` are those of further host events, ``empty`` lets a profile record nothing, ``stolen`` lets another one
    take its session; ``on_stop`` is called whenever a capture was ended.
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

    def following(self) -> Capture:
        """The next round's capture, which stays the next one."""
        return dataclasses.replace(self.capture, round=self.capture.round + self.taken)

    def take(self) -> Capture:
        """The next round's capture."""
        capture = self.following()
        self.taken += 1
        return capture


class FakeProfile:
    """Stands in for ``torch.profiler.profile``; made by ``fake_torch``, ``Job.profiler`` or ``profile_class``.

    Without a ``schedule`` the whole ``with`` block is one capture, with as many steps as ``step`` was called. With one,
    each cycle is a capture of its own, which takes its round when its recording begins. One difference from torch is on
    purpose: exporting a session that was lost (an inner profile took it, or ``stop`` was called twice) raises
    ``RuntimeError`` where torch 2.13 kills the process.
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
        self.capture = self.plan.take() if schedule is None else self.plan.following()
        self.profiler: Any = None
        self.preset_metadata: dict[str, str] = {}
        self._action = self._scheduled(0)
        self._first_step = self._steps = 0
        self._events: list[FakeEvent] = []  # what ``events`` gives
        self._cycle: list[FakeEvent] = []  # what an export writes
        self._metadata: dict[str, Any] = {}
        self._all_metadata: dict[str, Any] = {}
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
        """Begin to record, or what the schedule says; a profile that records then loses its session, as in torch."""
        if self.schedule is None:
            self._prepare()
            self._begin()
        else:
            self._go("NONE", self._action)

    def stop(self) -> None:
        """End the recording, if there is one, make the events and call ``on_trace_ready``."""
        if self.schedule is None:
            self._end()
            self._ready()
        else:
            self._go(self._action, "")

    def step(self) -> None:
        """Signal the next step."""
        action = self._scheduled(self.step_num + 1)  # before anything is changed: it may raise
        self.step_num += 1
        before, self._action = self._action, action
        if self.schedule is not None:
            self._go(before, action)

    def _scheduled(self, step: int) -> str:
        """The name of the schedule's action: torch's class is not needed for it."""
        if self.schedule is None:
            return ""
        action = self.schedule(step)
        name = getattr(action, "name", None)
        if name not in _ACTIONS:
            raise ValueError(
                f"profile: the schedule's action for step {step} is {action!r}; it must be a ProfilerAction: "
                f"{', '.join(_ACTIONS)}"
            )
        return str(name)

    def _go(self, before: str, after: str) -> None:
        """Go from one action of the schedule to the next; the last one of all is empty."""
        recorded, records = before in _RECORDING, after in _RECORDING
        if before == "RECORD" and records:
            self._steps += 1
            return
        wrong = (before == "RECORD" and after != "") or (before == "WARMUP" and after == "NONE")
        if wrong:
            warnings.warn(f"Incorrect schedule: {before} followed by {after}", stacklevel=3)
        if recorded:
            self._end()
            if not wrong:
                self._ready()
        elif before == "WARMUP" and not records and after != "WARMUP":
            self._end_unrecorded()
        if after == "WARMUP" and before in ("NONE", "RECORD_AND_SAVE"):
            self._prepare()
        if records:
            if self.profiler is None or self.profiler.kineto_results is not None:
                self._prepare()
            self.capture = self.plan.take()
            self._first_step, self._steps = self.step_num, 1
            self._begin()

    def _prepare(self) -> None:
        """Forget what was recorded."""
        if self.schedule is None or not self.acc_events:
            self._events = []
        self._cycle, self._metadata, self._saved, self._stopped = [], {}, False, False
        self.profiler = SimpleNamespace(kineto_results=None)

    def _begin(self) -> None:
        FakeProfile._recording = self
        self._began_ns = time.time_ns()
        for key, value in self.preset_metadata.items():
            self.add_metadata_json(key, value)

    def _end(self) -> None:
        """End the recording and make the events."""
        if self.profiler is None:
            raise AssertionError("Profiler must be initialized before stopping trace")
        stolen = self.plan.stolen or FakeProfile._recording is not self
        if FakeProfile._recording is self:
            FakeProfile._recording = None
        start_ns = 0 if stolen else self._began_ns
        self.profiler.kineto_results = SimpleNamespace(trace_start_ns=lambda: start_ns)
        self._cycle = [] if stolen or self.plan.empty else self._make_events()
        accumulate = self.schedule is not None and self.acc_events
        self._events = [*self._events, *self._cycle] if accumulate else self._cycle
        for tell in self.plan.on_stop:
            tell()

    def _end_unrecorded(self) -> None:
        """What torch does with a cycle that came no further than its warmup: a session without events."""
        if self.profiler is None:
            raise AssertionError("Profiler must be initialized before starting trace")
        FakeProfile._recording = None
        start_ns = 0 if self.plan.stolen else time.time_ns()
        self.profiler.kineto_results = SimpleNamespace(trace_start_ns=lambda: start_ns)

    def _ready(self) -> None:
        if not self._stopped:
            self._stopped = True
            if self.on_trace_ready is not None:
                self.on_trace_ready(self)

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
            Path(path).write_text(self._text(path, self._all_metadata), encoding="utf-8")
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

    def add_metadata(self, key: str, value: str) -> None:
        """Add a text to the top level of the export. As in torch, only what is added while recording is in it."""
        self._add(key, value)

    def add_metadata_json(self, key: str, value: str) -> None:
        """Add a value, given as JSON text, in the same way; torch writes any text and so can break the file."""
        self._add(key, _from_json("add_metadata_json", key, value))

    def preset_metadata_json(self, key: str, value: str) -> None:
        """Add a value, given as JSON text, to every recording that begins from now on."""
        _from_json("preset_metadata_json", key, value)
        self.preset_metadata[key] = value

    def _add(self, key: str, value: Any) -> None:
        self._all_metadata[key] = value  # what torch's export in Python writes
        if self.profiler is not None and self.profiler.kineto_results is None:
            self._metadata[key] = value

    def toggle_collection_dynamic(self, enable: bool, activities: Iterable[Any]) -> None:
        """Accepted; the made-up events are the same."""

    def key_averages(self, *args: Any, **options: Any) -> Any:
        """Not there: an average of made-up events says nothing."""
        raise _not_there("key_averages", "use events()")

    def export_stacks(self, *args: Any, **options: Any) -> Any:
        """Not there: the made-up events have no stacks."""
        raise _not_there("export_stacks", "its events have no stacks; use export_chrome_trace()")

    def export_memory_timeline(self, *args: Any, **options: Any) -> Any:
        """Not there: no memory is recorded."""
        raise _not_there("export_memory_timeline", "it records no memory; use export_chrome_trace()")

    def _make_events(self) -> list[FakeEvent]:
        plan = self.plan
        steps = self._steps if self.schedule is not None else self.step_num or plan.steps
        events = fake_events(
            self.capture, vendor=plan.vendor, seed=plan.seed, steps=steps, first_step=self._first_step,
            values=plan.values, names=plan.names,
        )  # fmt: skip
        if not self.record_shapes:
            for event in events:
                event.input_shapes, event.input_dtypes, event.concrete_inputs = [], [], []
                event.structured_input_shapes, event.structured_input_strides = [], []
        return events

    def _text(self, path: str, metadata: dict[str, Any]) -> str:
        names = ("with_stack", "profile_memory", "record_shapes", "with_flops", "with_modules")
        options = {name: 1 for name in names if getattr(self, name)} | metadata
        return kineto_text(trace_dict(self._cycle, vendor=self.plan.vendor, trace_name=path, options=options))

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
        temporary = f"{path}.tmp"  # Kineto writes beside, removes what is there, and renames
        try:
            with open(temporary, "w", encoding="utf-8") as stream:
                stream.write(self._text(path, self._metadata))
        except OSError as error:  # Kineto says so on stderr and returns
            os.write(2, f"ERROR: output_json.cpp:466] Failed to open '{path}' : {error.strerror}\n".encode())
            return
        with contextlib.suppress(OSError):
            os.remove(path)
        try:
            os.rename(temporary, path)
        except OSError as error:
            os.write(2, f"ERROR: output_json.cpp:571] Failed to rename '{temporary}' : {error.strerror}\n".encode())


def _not_there(method: str, instead: str) -> NotImplementedError:
    return NotImplementedError(f"the fake profile has no {method}: {instead}")


def _from_json(method: str, key: str, value: str) -> Any:
    def refuse(word: str) -> None:
        raise ValueError(f"{word} is no JSON")

    try:
        return json.loads(value, parse_constant=refuse)
    except ValueError as error:
        raise ValueError(f"{method}: the value of {key!r} is no JSON text: {value!r} ({error})") from None


def profile_class(plan: CapturePlan) -> type[FakeProfile]:
    """A class to use in place of ``torch.profiler.profile``, whose profiles take their captures from ``plan``."""
    return type("profile", (FakeProfile,), {"plan": plan, "__doc__": FakeProfile.__doc__})
