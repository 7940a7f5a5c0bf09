from __future__ import annotations

import json
import math
import sys
from typing import Any

import pytest

from pytest_gputrace.fakes.events import FakeEvent, Vendor, fake_events
from pytest_gputrace.fakes.functionevent import device_types
from pytest_gputrace.model import Capture, Mark

CAPTURE = Capture("node0", 1, "bert:base/fp16", 0)
VENDORS: list[Vendor] = ["cuda", "hip"]
DEPRECATED = ["cuda_time", "cuda_time_total", "self_cuda_time_total", "self_cuda_memory_usage", "metadata_json"]


def facts(events: list[FakeEvent]) -> list[tuple[Any, ...]]:
    return [(e.id, e.name, e.time_range, e.device_type.name, e.concrete_inputs, e.kernels) for e in events]


def marks(events: list[FakeEvent]) -> list[Mark]:
    found = [Mark.parse(event.name) for event in events if event.device_type.name == "CPU"]
    return [mark for mark in found if mark is not None]


def test_the_same_capture_and_seed_give_the_same_events() -> None:
    assert facts(fake_events(CAPTURE, seed=3)) == facts(fake_events(CAPTURE, seed=3))
    assert facts(fake_events(CAPTURE, seed=3)) != facts(fake_events(CAPTURE, seed=4))


@pytest.mark.parametrize("vendor", VENDORS)
def test_there_is_a_mark_at_both_ends_and_one_in_each_step(vendor: Vendor) -> None:
    events = fake_events(CAPTURE, vendor=vendor, steps=3)
    assert marks(events) == [Mark(CAPTURE, index, 5) for index in range(5)]
    steps = [event for event in events if event.name == "ProfilerStep*" and event.device_type.name == "CPU"]
    assert [event.trace_name for event in steps] == ["ProfilerStep#0", "ProfilerStep#1", "ProfilerStep#2"]
    for index, step in enumerate(steps):
        inside = [child for child in step.cpu_children if child.name == CAPTURE.mark(index + 1, 5)]
        assert len(inside) == 1


def test_two_captures_share_no_mark() -> None:
    other = Capture("node1", 1, "bert:base/fp16", 0)
    assert not {m.capture for m in marks(fake_events(CAPTURE))} & {m.capture for m in marks(fake_events(other))}


@pytest.mark.parametrize("vendor", VENDORS)
def test_events_are_sorted_finite_and_gpu_work_takes_time(vendor: Vendor) -> None:
    events = fake_events(CAPTURE, vendor=vendor)
    starts = [event.time_range.start for event in events]
    assert starts == sorted(starts)
    device = [event for event in events if event.device_type.name != "CPU"]
    assert {event.device_type.name for event in device} == {"CUDA"}, "a ROCm build calls its devices CUDA too"
    assert all(0 < event.device_time < math.inf for event in device)
    assert all(0 <= event.cpu_time < math.inf for event in events)
    ops = [event for event in events if event.activity_type == "cpu_op"]
    assert all(event.device_time > 0 for event in ops)


@pytest.mark.parametrize(
    ("vendor", "launches", "collective"),
    [
        ("cuda", {"cudaLaunchKernel", "cudaMemcpyAsync", "cudaMemsetAsync"}, "ncclDevKernel_AllReduce"),
        ("hip", {"hipLaunchKernel", "hipExtModuleLaunchKernel", "hipMemcpyWithStream"}, "ncclDevKernel_Generic"),
    ],
)
def test_launches_and_collectives_have_the_vendors_names(vendor: Vendor, launches: set[str], collective: str) -> None:
    events = fake_events(CAPTURE, vendor=vendor)
    names = {event.name for event in events}
    assert launches <= names
    assert any(name.startswith(collective) for name in names)
    assert {"kernel", "gpu_memcpy", "gpu_memset"} <= {event.activity_type for event in events}


@pytest.mark.parametrize("vendor", VENDORS)
def test_every_launch_leads_to_one_later_activity_on_the_device(vendor: Vendor) -> None:
    events = fake_events(CAPTURE, vendor=vendor)
    launches = {event.flow_id: event for event in events if event.flow_id and event.flow_start}
    work = {event.flow_id: event for event in events if event.flow_id and not event.flow_start}
    assert launches.keys() == work.keys()
    assert launches
    assert all(work[flow].time_range.start >= launches[flow].time_range.start + 2.0 for flow in work)


def test_children_lie_inside_their_parent() -> None:
    children = [event for event in fake_events(CAPTURE) if event.cpu_parent is not None]
    assert children
    for event in children:
        parent = event.cpu_parent
        assert parent is not None
        assert parent.time_range.start <= event.time_range.start
        assert event.time_range.end <= parent.time_range.end


def test_concrete_inputs_hold_what_torch_keeps_and_fit_json() -> None:
    values = [value for event in fake_events(CAPTURE) for value in event.concrete_inputs]
    assert {type(value) for value in values} == {type(None), bool, int, float, list}
    json.dumps(values, allow_nan=False)


def test_bad_values_reach_inputs_and_times() -> None:
    events = fake_events(CAPTURE, values=(math.nan, math.inf, -math.inf, 1 + 2j))
    inputs = [value for event in events for value in event.concrete_inputs]
    assert 1 + 2j in inputs
    assert math.inf in inputs
    assert any(isinstance(value, float) and math.isnan(value) for value in inputs)
    times = [event.cpu_time for event in events]
    assert math.inf in times
    assert -math.inf in times
    assert any(math.isnan(time) for time in times)
    assert len(marks(events)) == 4, "the bad values hide no mark"


@pytest.mark.parametrize("name", DEPRECATED)
def test_deprecated_attributes_warn_and_answer(name: str) -> None:
    event = next(event for event in fake_events(CAPTURE) if event.name == "aten::mm")
    with pytest.warns(FutureWarning, match=name):
        value = getattr(event, name)
    if name == "cuda_time":
        assert value == event.device_time > 0


def test_times_are_counted_where_they_belong() -> None:
    events = fake_events(CAPTURE)
    step = next(event for event in events if event.name == "ProfilerStep*" and event.device_type.name == "CPU")
    assert step.device_time_total == pytest.approx(sum(child.device_time_total for child in step.cpu_children))
    assert step.self_device_time_total == pytest.approx(0)
    assert 0 < step.self_cpu_time_total < step.cpu_time_total
    kernel = next(event for event in events if event.activity_type == "kernel")
    assert kernel.cpu_time == kernel.self_cpu_time_total == kernel.self_cpu_memory_usage == 0
    assert kernel.self_device_time_total == kernel.device_time > 0
    assert (kernel.device_time_str, kernel.cpu_time_str) == (f"{kernel.device_time:.3f}us", "0.000us")


def test_an_attribute_torch_lacks_is_missing() -> None:
    with pytest.raises(AttributeError):
        fake_events(CAPTURE)[0].gpu_time  # type: ignore[attr-defined]  # noqa: B018  # the access is the test


def test_without_torch_the_device_type_is_our_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    assert {member.name: member.value for member in device_types()} == {"CPU": 0, "CUDA": 1, "HIP": 6}


def public(event: object) -> set[str]:
    return {name for name in dir(event) if not name.startswith("_")}


@pytest.mark.filterwarnings("ignore::FutureWarning")  # the comparison reads the deprecated attributes as well
def test_the_attributes_are_those_of_torchs_class() -> None:
    torch = pytest.importorskip("torch", reason="needs torch: compares with the real one")
    if not torch.__version__.startswith("2.13."):
        pytest.skip("the fakes are made after torch 2.13; another version has other attributes")
    with torch.profiler.profile(record_shapes=True) as profile:
        torch.ones(2, 2).mm(torch.ones(2, 2))
    real = next(event for event in profile.events() if event.name == "aten::mm")
    fake = next(event for event in fake_events(CAPTURE) if event.name == "aten::mm")
    assert public(fake) - public(real) == set()
    data = {name for name in public(real) if not callable(getattr(real, name))}
    assert data - public(fake) == set()
    assert fake.device_type is torch.autograd.DeviceType.CPU
    kinds = {name: (type(getattr(fake, name)), type(getattr(real, name))) for name in data}
    same = {name for name, (mine, torchs) in kinds.items() if mine is torchs}
    # A CPU profile has no device, hence None, 0 and other classes there; all else is of the same type.
    different = {"use_device", "time_range", "cpu_parent", "fwd_thread"}
    times = {name for name in data if "time" in name or "memory" in name or "percent" in name}
    assert data - same - different - times == set()


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"vendor": "rocm"}, "fake_events: vendor 'rocm' is not one of cuda, hip"),
        ({"steps": -1}, "fake_events: steps=-1 must be at least 0"),
        ({"ops_per_step": -1}, "fake_events: ops_per_step=-1 must be at least 0"),
    ],
)
def test_wrong_arguments(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        fake_events(CAPTURE, **wrong)
