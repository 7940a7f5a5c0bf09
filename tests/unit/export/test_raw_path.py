"""The raw path against ``events()``, on real profiles of random programs, with whatever torch is installed.

What is compared: every record, to the type and the last bit, and the bytes of both files.
"""

from __future__ import annotations

import contextlib
import json
import threading
from typing import TYPE_CHECKING, Any

import hypothesis.strategies as st
import pytest
from hypothesis import HealthCheck, given, settings

from pytest_gputrace import ExportResult, WorkerId, export_events
from pytest_gputrace.errors import EmptyCaptureError
from pytest_gputrace.export.kineto import kineto_records
from pytest_gputrace.export.proven import raw_profile
from pytest_gputrace.export.records import cpu_records

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

torch = pytest.importorskip("torch", reason="needs torch: profiles are recorded")

# Torch's word on schedules; as an error in the middle of its state it would end the profile.
pytestmark = [
    pytest.mark.usefixtures("proven_torch"),
    pytest.mark.filterwarnings("ignore:.*Profiler clears events"),
]

WORKER = WorkerId(node="node0", rank=0, local_rank=0, world_size=1)

# A program is a list of steps; a step is what to do, and what is done within it.
Step = tuple[str, Any]

# Names that repeat, so that an event meets its like as parent; a mangled name; one letter, which is one too; a step.
NAMES = [
    "forward",
    "forward",
    "aten::mm",
    "ProfilerStep#7",
    "ProfilerStep*",
    "_ZN3foo3barEv",
    "i",
    "[memory]",
    'é"\\\n',
    "",
]

leaves: st.SearchStrategy[Step] = st.one_of(
    st.tuples(st.just("op"), st.sampled_from(["mm", "add", "cat", "clamp", "complex", "inplace", "item", "version"])),
    st.tuples(st.just("hold"), st.integers(1, 4096)),
    st.tuples(st.just("free"), st.none()),
    st.tuples(st.just("backward"), st.integers(1, 3)),
    st.tuples(st.just("async"), st.sampled_from(NAMES)),
    st.tuples(st.just("oom"), st.none()),
    st.tuples(st.just("call"), st.integers(0, 2)),
    st.tuples(st.just("step"), st.none()),
)
steps = st.recursive(
    leaves,
    lambda inner: st.tuples(st.just("region"), st.tuples(st.sampled_from(NAMES), st.lists(inner, max_size=3))),
    max_leaves=12,
)
programs = st.lists(steps, max_size=8)
# torch's tracer of Python's frames now and then kills the process when it stops: many runs of it are for a proof alone,
# a few are tried by name below.
STACKS = settings.default is not None and settings.default.max_examples >= 1000
options = st.fixed_dictionaries(
    {
        "record_shapes": st.booleans(),
        "profile_memory": st.booleans(),
        "with_stack": st.booleans() if STACKS else st.just(False),
    },
    optional={
        "with_flops": st.just(True),
        **({"verbose": st.just(True)} if STACKS else {}),
        "schedule": st.sampled_from([(1, 1, 2, 1), (0, 1, 1, 0)]),
    },
)


class Machine:
    """Runs a program under the profiler."""

    def __init__(self) -> None:
        self.held: list[Any] = []
        self.square = torch.ones(3, 3)
        self.step: Callable[[], None] = lambda: None

    def run(self, program: list[Step]) -> None:
        for what, detail in program:
            getattr(self, f"_{what}")(detail)

    def _op(self, kind: str) -> None:
        square = self.square
        match kind:
            case "mm":
                square @ square
            case "add":
                square + 2.5
            case "cat":
                torch.cat([square, square], dim=1)
            case "clamp":
                square.clamp(float("-inf"), float("nan"))
            case "complex":
                square.to(torch.complex64).mul(1 + 2j)
            case "inplace":
                square.mul_(1).t_()
            case "item":
                square.sum().item()
            case "version":
                assert square._version >= 0

    def _region(self, detail: tuple[str, list[Step]]) -> None:
        name, inner = detail
        with torch.profiler.record_function(name):
            self.run(inner)

    def _hold(self, size: int) -> None:
        self.held.append(torch.empty(size))

    def _free(self, _: None) -> None:
        self.held.clear()  # outside any operator, so that the memory event stands alone

    def _backward(self, depth: int) -> None:
        value = torch.ones(2, 2, requires_grad=True)
        result = value
        for _ in range(depth):
            result = (result @ value).relu()
        result.sum().backward()  # type: ignore[no-untyped-call, unused-ignore]

    def _async(self, name: str) -> None:
        """An event that begins on this thread and ends on another."""
        future: Any = torch.futures.Future()
        with torch.profiler.record_function(name) as region:
            region._call_end_callbacks_on_future(future)
        other = threading.Thread(target=future.set_result, args=(1,))
        other.start()
        other.join()

    def _oom(self, _: None) -> None:
        with contextlib.suppress(RuntimeError):
            torch.empty(2**60, dtype=torch.uint8)

    def _call(self, depth: int) -> None:
        if depth:
            self._call(depth - 1)

    def _step(self, _: None) -> None:
        self.step()


def record(program: list[Step], options: dict[str, Any], look: Callable[[Any], None]) -> None:
    """Profile ``program``; ``look`` at the profile, with a schedule at that of each cycle."""
    options = dict(options)
    machine = Machine()
    if options.pop("verbose", False):  # what makes older torch tell Python's frames
        options["experimental_config"] = torch._C._profiler._ExperimentalConfig(verbose=True)
    if times := options.pop("schedule", None):
        wait, warmup, active, repeat = times
        options["schedule"] = torch.profiler.schedule(wait=wait, warmup=warmup, active=active, repeat=repeat)
        options["on_trace_ready"] = look
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], **options) as profile:
        machine.step = profile.step
        machine.run(program)
    if not times:
        look(profile)


def rival(events: Any) -> bytes:
    """The records of events as a loop over dicts writes them."""
    records = [
        {
            "name": event.name,
            "input_shapes": event.input_shapes,
            "input_values": event.concrete_inputs,
            "cpu_time": event.cpu_time,
            "gpu_time": event.device_time,
            "start_time": event.time_range.start,
        }
        for event in events
        if event.device_type.name == "CPU"
    ]
    try:
        return json.dumps(records, sort_keys=True).encode()
    except TypeError:  # a complex argument, which the exporter spells and the loop dies of
        return b""


def compare(profile: Any, folder: Path) -> int:
    """Hold the raw path to ``events()`` on one profile; how many records there were."""
    raw = raw_profile(profile)
    assert raw is not None, "this profile would not take the raw path: nothing is compared"
    fast = list(kineto_records(raw.results, dialect=raw.dialect, symbols=raw.symbols, gpu=raw.gpu))
    number = len(list(folder.iterdir()))
    ours, theirs = folder / f"{number}-raw", folder / f"{number}-events"
    with contextlib.suppress(EmptyCaptureError):
        result = export(profile, ours)
        assert result.read_from == "kineto"
        assert result.event_count == len(fast)
    try:
        events = profile.events()
    except UnicodeDecodeError:  # a name that torch's tracer of stacks read from memory it no longer owned
        return len(fast)
    slow = list(cpu_records(events))
    # By their text: it tells 1 from 1.0 and from True, 0.0 from -0.0, and takes nan for equal to itself.
    assert list(map(repr, fast)) == list(map(repr, slow))
    with contextlib.suppress(EmptyCaptureError):
        assert export(events, theirs).read_from == "events"
    files = sorted(path.name for path in theirs.iterdir())
    assert files == sorted(path.name for path in ours.iterdir())
    for name in files:
        assert (ours / name).read_bytes() == (theirs / name).read_bytes()
    assert rival(events) in (b"", (ours / "torch-profiler-sb-m-0.json").read_bytes())
    return len(fast)


def export(profile: Any, folder: Path) -> ExportResult:
    return export_events(profile, model="m", trace_dir=folder, configuration="fp16", worker=WORKER)


@pytest.fixture(scope="module", autouse=True)
def _everything_imported() -> None:
    """Run each step once: of code that is imported while stacks are recorded torch keeps names it no longer owns."""
    kinds = ["mm", "add", "cat", "clamp", "complex", "inplace", "item", "version"]
    Machine().run([*(("op", kind) for kind in kinds), ("backward", 2), ("async", "x"), ("oom", None), ("hold", 1)])


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(program=programs, options=options)
def test_records_and_bytes_are_those_of_events(program: list[Step], options: dict[str, Any], tmp_path: Path) -> None:
    def look(profile: Any) -> None:
        compare(profile, tmp_path)

    record(program, options, look)


MM: Step = ("op", "mm")
ALL = {"record_shapes": True, "profile_memory": True, "with_stack": True}
MEMORY = {"profile_memory": True}
SHAPES = {"record_shapes": True}


@pytest.mark.parametrize(
    ("program", "options", "names"),
    [
        pytest.param(
            [("region", ("x", [("region", ("x", [("region", ("x", [MM])), ])), ]))], SHAPES, {"x": 1, "aten::mm": 1},
            id="a chain of equal names is one record",
        ),
        pytest.param(
            [("region", ("x", [("region", ("x", [MM])), ("region", ("x", []))]))], SHAPES, {"x": 3},
            id="equal names stay where the parent has two children",
        ),
        pytest.param(
            [("region", ("aten::matmul", [MM]))], SHAPES, {"aten::matmul": 1}, id="an operator merges into its region's name",
        ),
        pytest.param([("region", ("ProfilerStep#7", [MM]))], SHAPES, {"ProfilerStep*": 1}, id="a numbered step"),
        pytest.param([("region", ("_ZN3foo3barEv", []))], SHAPES, {"foo::bar()": 1}, id="a mangled name"),
        pytest.param([("region", ("i", []))], SHAPES, {"i": 1}, id="one letter is not demangled"),
        pytest.param(
            [("hold", 8), ("free", None)], MEMORY, {"aten::empty": 1, "[memory]": 1}, id="memory freed outside operators",
        ),
        pytest.param([("hold", 8), ("free", None)], SHAPES, {"[memory]": 0}, id="no memory where it is not asked for"),
        pytest.param([("oom", None)], ALL, {"[OutOfMemory]": 1}, id="an allocation that failed"),
        pytest.param([("async", "later"), MM], SHAPES, {"later": 1}, id="an event that ends on another thread"),
        pytest.param([("backward", 3)], SHAPES, {"AddBackward0": 0}, id="the threads of autograd"),
        pytest.param([("call", 2), MM], {**ALL, "verbose": True}, {"aten::mm": 1}, id="Python frames"),
        pytest.param(
            [MM, ("step", None)] * 5, {**SHAPES, "schedule": (1, 1, 2, 1)}, {"ProfilerStep*": 2}, id="a schedule",
        ),
        pytest.param([("op", "clamp"), ("op", "complex")], SHAPES, {"aten::clamp": 1}, id="nan, inf and complex"),
    ],
)  # fmt: skip
def test_each_case_that_events_treats_apart(
    program: list[Step], options: dict[str, Any], names: dict[str, int], tmp_path: Path
) -> None:
    seen: list[Any] = []

    def look(profile: Any) -> None:
        assert compare(profile, tmp_path) > 0, "a profile without a record compares nothing"
        seen.append([event.name for event in profile.events()])

    record(program, options, look)
    assert seen
    # The case is what it is meant to be, or the comparison was about something else.
    assert {name: seen[0].count(name) for name in names} == names
