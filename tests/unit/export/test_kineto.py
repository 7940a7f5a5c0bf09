"""The raw path on fabricated Kineto results of GPU profiles, against torch's own reading of the same results.

There is no GPU here, so the results are made up; what reads them on the other side is torch's own code.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import given

from pytest_gputrace.export.encode import encode
from pytest_gputrace.export.kineto import UNREADABLE_NAME, Dialect, Symbols, UnknownToRawPath, kineto_records
from pytest_gputrace.export.proven import PROVEN
from pytest_gputrace.export.records import cpu_records

torch = pytest.importorskip("torch", reason="needs torch: its reading of the results is what ours is compared with")

pytestmark = pytest.mark.usefixtures("proven_torch")

PROOF = PROVEN.get(str(torch.__version__).partition("+")[0])
DIALECT = PROOF.dialect if PROOF else Dialect(memory_in_us=False, hides_events=False, overhead_apart=False)
CPU, CUDA = torch.autograd.DeviceType.CPU, torch.autograd.DeviceType.CUDA
SYMBOLS = Symbols(cpu=CPU, cuda=CUDA, demangle=torch._C._demangle)
BASE_NS = 1_790_000_000_123_456_789


@dataclass
class Event:
    """A raw event: the methods of torch's ``_KinetoEvent``."""

    label: str = "op"
    start: int = 0
    end: int = 0
    thread: int = 1
    last_thread: int | None = None
    device: Any = CPU
    correlation: int = 0
    link: int = 0
    detached: bool = False
    hidden: bool = False
    activity: str = "cpu_op"
    sizes: list[list[int]] = field(default_factory=list)

    def name(self) -> str:
        return self.label

    def start_ns(self) -> int:
        return BASE_NS + self.start

    def end_ns(self) -> int:
        return BASE_NS + self.end

    def start_thread_id(self) -> int:
        return self.thread

    def end_thread_id(self) -> int:
        return self.thread if self.last_thread is None else self.last_thread

    def device_type(self) -> Any:
        return self.device

    def correlation_id(self) -> int:
        return self.correlation

    def linked_correlation_id(self) -> int:
        return self.link

    def is_async(self) -> bool:
        return self.detached

    def is_hidden_event(self) -> bool:
        return self.hidden

    def activity_type(self) -> str:
        return self.activity

    def shapes(self) -> list[list[int]]:
        return self.sizes

    def concrete_inputs(self) -> list[Any]:
        return [len(self.sizes), None]

    def cuda_elapsed_us(self) -> int:
        return -1  # only a profile without Kineto's GPU half has it

    def stack(self) -> list[str]:
        return []

    def nbytes(self) -> int:
        return 64

    def __getattr__(self, name: str) -> Any:
        """What a FunctionEvent takes besides, in one version or another, and no record holds."""
        if name.startswith("_"):
            raise AttributeError(name)
        return lambda: 0 if name in ("fwd_thread_id", "scope", "sequence_nr", "device_index", "flow_id") else None


class Results:
    """Kineto's results, as ``_ProfilerResult`` gives them."""

    def __init__(self, events: list[Event]) -> None:
        self._events = events

    def events(self) -> list[Event]:
        return self._events

    def trace_start_ns(self) -> int:
        return BASE_NS - 1001


def torchs(events: list[Event], *, gpu: bool) -> list[Any]:
    """The records by way of torch's own ``events()``."""
    profile = torch.autograd.profiler.profile(use_kineto=True)
    profile.use_device = "cuda" if gpu else None
    profile.kineto_results = Results(events)
    profile._needs_processing = True
    return list(cpu_records(profile.function_events))


def ours(events: list[Event], *, gpu: bool, dialect: Dialect = DIALECT) -> list[Any]:
    return list(kineto_records(Results(events), dialect=dialect, symbols=SYMBOLS, gpu=gpu))


def both(*events: Event, gpu: bool = True) -> list[Any]:
    """The records of ``events``, held to torch's, and the bytes that come of both."""
    records, theirs = ours(list(events), gpu=gpu), torchs(list(events), gpu=gpu)
    assert list(map(repr, records)) == list(map(repr, theirs))
    assert legacy(records) == legacy(theirs)
    return records


def legacy(records: list[Any]) -> bytes:
    """What the legacy file would hold."""
    return b"".join(chunk.legacy for chunk in encode(records))


def gpu_times(records: list[Any]) -> dict[str, float]:
    return {record[4]: record[1] for record in records}


def kernel(link: int, duration: int, start: int = 5000) -> Event:
    return Event("kernel", start, start + duration, thread=7, device=CUDA, correlation=link + 100, link=link)


def test_the_gpu_time_of_an_operator_is_that_of_its_kernels_and_its_childrens() -> None:
    times = gpu_times(
        both(
            Event("parent", 0, 1000, correlation=1),
            Event("child", 100, 200, correlation=2),
            Event("child of child", 110, 150, correlation=3),
            Event("other", 2000, 3000, correlation=4),
            kernel(1, 10_000),
            kernel(2, 200),
            kernel(3, 30),
            kernel(3, 3, start=9000),
        )
    )
    assert times == pytest.approx({"parent": 10.233, "child": 0.233, "child of child": 0.033, "other": 0.0})


def test_without_a_gpu_recorded_its_times_are_zero() -> None:
    assert gpu_times(both(Event("op", 0, 10, correlation=1), kernel(1, 500), gpu=False)) == {"op": 0.0}


@pytest.mark.parametrize(
    "events",
    [
        pytest.param(
            [Event("x", 0, 1000), Event("x", 100, 900), Event("x", 150, 200), Event("x", 300, 400)],
            id="the child's children count as the parent's",
        ),
        pytest.param([Event("x", 0, 1000), Event("x", 1000, 1000)], id="one begins where the other ends"),
        pytest.param([Event("x", 0, 1000), Event("x", 0, 1000)], id="equal times"),
        pytest.param([Event("x", 0, 1000), Event("x", 500, 1001)], id="one ends after the other"),
        pytest.param([Event("x", 0, 1000), Event("[memory]", 1000, 1000)], id="memory where an event ends"),
        pytest.param([Event("x", 0, 1000), Event("[memory]", 0, 0)], id="memory where an event begins"),
        pytest.param(
            [Event("x", 0, 10), Event("k", 100, 1000, device=CUDA), Event("[memory]", 500, 500)],
            id="a kernel holds no memory",
        ),
        pytest.param([Event(f"op {at}", 10 * at, 10 * at + 5) for at in range(700)], id="more than is read at a time"),
    ],
)
def test_edges(events: list[Event]) -> None:
    assert both(*events)


def test_an_operator_takes_the_kernels_of_the_only_child_of_its_name_and_loses_its_own() -> None:
    records = both(
        Event("same", 0, 1000, correlation=1),
        Event("same", 100, 200, correlation=2),
        Event("inner", 110, 150, correlation=3),
        kernel(1, 10_000),
        kernel(2, 200),
        kernel(3, 30),
    )
    assert [record[4] for record in records] == ["same", "inner"]
    assert gpu_times(records) == pytest.approx({"same": 0.23, "inner": 0.03})


def test_a_runtime_call_counts_as_on_the_thread_of_its_operator() -> None:
    apart = [Event("op", 0, 1000), Event("cudaLaunchKernel", 100, 200, thread=9, correlation=50), kernel(50, 300)]
    assert gpu_times(both(*apart))["op"] == 0.0
    linked = [
        Event("op", 0, 1000, correlation=1),
        Event("launch", 100, 200, thread=9, link=1),
        Event("launch", 120, 150),
    ]
    # On one thread the two launches are parent and only child, and become one.
    assert [record[4] for record in both(*linked)] == ["op", "launch"]


def test_an_event_that_crosses_threads_has_no_gpu_time_and_no_children() -> None:
    crossing = Event("op", 0, 1000, correlation=1, last_thread=2)
    detached = Event("op", 0, 1000, correlation=2, detached=True)
    records = both(crossing, detached, Event("op", 10, 20, correlation=3), kernel(1, 50), kernel(2, 50), kernel(3, 50))
    assert [record[1] for record in records] == pytest.approx([0.0, 0.0, 0.05])


def test_memory_stands_alone_where_no_cpu_event_holds_it() -> None:
    held = Event("[memory]", 500, 500, thread=9)
    alone = Event("[memory]", 1500, 1500)
    late = Event("[OutOfMemory]", 500, 500)
    records = both(Event("op", 0, 1000), held, alone, late)
    assert [record[4] for record in records] == ["op", "[OutOfMemory]", "[memory]"]
    assert records[1][2:4] == ([], None)


def test_memory_at_the_edge_of_an_event_falls_where_this_torch_puts_it() -> None:
    """Older torch compares microseconds since 1970 in a double, which are a quarter of a microsecond apart."""
    around = [Event("[memory]", at, at) for at in (*range(-400, 400, 13), *range(600, 1400, 13))]
    records = both(Event("op", 0, 1000), *around)
    other = DIALECT._replace(memory_in_us=not DIALECT.memory_in_us)
    assert records != ours([Event("op", 0, 1000), *around], gpu=True, dialect=other)


def test_a_duration_carries_the_rounding_of_both_ends() -> None:
    start, end = 123_456_789_012_345, 123_456_789_012_348
    (record,) = both(Event("op", start, end))
    assert record[0] != (end - start) / 1000
    assert record[0] == (end + 1001) / 1000 - (start + 1001) / 1000


def test_events_that_torch_hides_are_left_out() -> None:
    records = both(Event("op", 0, 10), Event("hidden", 1, 2, hidden=True), Event("aten::is_leaf", 3, 4))
    assert [record[4] for record in records] == (["op"] if DIALECT.hides_events else ["op", "hidden"])


def test_overhead_takes_kernels_only_where_this_torch_lets_it() -> None:
    events = [Event("op", 0, 10, correlation=1, activity="overhead"), kernel(1, 50)]
    records = both(*events)
    other = DIALECT._replace(overhead_apart=not DIALECT.overhead_apart)
    assert records != ours(events, gpu=True, dialect=other)


def test_what_events_dies_of_is_read_all_the_same() -> None:
    """Neither is rare with stacks: deep recursion, and names that torch's tracer read from memory it no longer owns."""
    deep = [Event(f"op {at}", at, 10_000 - at) for at in range(3000)]
    with pytest.raises(RecursionError):
        torchs(deep, gpu=False)
    assert len(ours(deep, gpu=True)) == 3000

    class Garbage(Event):
        def name(self) -> str:
            return b"\x94".decode() if self.label == "garbage" else self.label

    garbage = [Garbage("before", 0, 5), Garbage("garbage", 1, 2), Garbage("after", 6, 7)]
    with pytest.raises(UnicodeDecodeError):
        torchs(list(garbage), gpu=False)
    assert [record[4] for record in ours(list(garbage), gpu=False)] == ["before", UNREADABLE_NAME, "after"]


def test_what_only_events_can_read_is_refused() -> None:
    with pytest.raises(UnknownToRawPath, match="negative"):
        ours([Event("op", 0, 10), Event("k", 0, 1, link=-1)], gpu=True)
    xpu = Event("kernel", 0, 1, device=torch.autograd.DeviceType.XPU, link=1)
    with pytest.raises(UnknownToRawPath, match="device"):
        ours([Event("op", 0, 10, correlation=1), xpu], gpu=True)


times = st.integers(0, 12).map(lambda step: step * 700) | st.integers(0, 9000)
events = st.builds(
    lambda first, length, **rest: Event(start=first, end=first + length, **rest),
    first=times,
    length=times,
    label=st.sampled_from(
        ["a", "a", "b", "ProfilerStep#3", "ProfilerStep*", "[memory]", "[OutOfMemory]", "aten::is_leaf"]
    ),
    thread=st.integers(1, 2),
    last_thread=st.sampled_from([None, None, None, None, 3]),
    device=st.sampled_from([CPU, CPU, CPU, CUDA]),
    correlation=st.integers(0, 6),
    link=st.sampled_from([0, 0, 0, 1, 2, 3, 4, 5]),
    detached=st.sampled_from([False] * 9 + [True]),
    hidden=st.sampled_from([False] * 9 + [True]),
    activity=st.sampled_from(["cpu_op", "cpu_op", "overhead"]),
    sizes=st.lists(st.lists(st.integers(1, 4), max_size=2), max_size=2),
)


def _nested(depths: list[tuple[int, int, Event]]) -> list[Event]:
    """Events that lie within each other, with edges that meet or miss by one step."""
    result: list[Event] = []
    for depth, shift, event in depths:
        parents = [other for other in result if other.thread == event.thread][-1 - depth :]
        start, end = (parents[0].start, parents[0].end) if parents else (0, 7000)
        event.start, event.end = start + (shift & 3) * 500, max(start, end - (shift >> 2) * 500)
        result.append(event)
    return result


nested = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 15), events), max_size=16).map(_nested)


@given(events=st.lists(events, max_size=24) | nested, gpu=st.booleans())
def test_any_results_read_as_torch_reads_them(events: list[Event], gpu: bool) -> None:
    both(*events, gpu=gpu)
