from __future__ import annotations

import gzip
import inspect
import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from pytest_gputrace.fakes import FakeProfile, fake_torch
from pytest_gputrace.fakes.profiler import CapturePlan, profile_class
from pytest_gputrace.model import Capture, Mark

if TYPE_CHECKING:
    from pathlib import Path

CAPTURE = Capture("node0", 2, "config:a/b")


@pytest.fixture
def profile() -> type[FakeProfile]:
    return profile_class(CapturePlan(CAPTURE))


def captures(profile: FakeProfile) -> set[Capture]:
    return {mark.capture for event in profile.events() if (mark := Mark.parse(event.name))}


def test_events_before_start_while_running_and_after(profile: type[FakeProfile]) -> None:
    one = profile()
    with pytest.raises(AssertionError, match="before accessing events"):
        one.events()
    with one:
        assert one.events() == []
    assert len(one.events()) > 10
    assert one.events() is one.events()


def test_each_profile_takes_the_next_round(profile: type[FakeProfile]) -> None:
    with profile() as first:
        pass
    with profile() as second:
        pass
    assert captures(first) == {Capture("node0", 2, "config:a/b", 0)}
    assert captures(second) == {Capture("node0", 2, "config:a/b", 1)}


def test_steps_are_those_that_were_taken(profile: type[FakeProfile]) -> None:
    with profile() as one:
        for _ in range(5):
            one.step()
    assert sum(event.name == "ProfilerStep*" and event.device_type.name == "CPU" for event in one.events()) == 5


def test_on_trace_ready_is_called_once_at_stop(profile: type[FakeProfile]) -> None:
    ready: list[int] = []
    one = profile(on_trace_ready=lambda p: ready.append(len(p.events())))
    one.start()
    assert ready == []
    one.stop()
    assert ready == [len(one.events())]


def test_an_exception_inside_leaves_a_whole_profile(profile: type[FakeProfile]) -> None:
    one = profile()
    with pytest.raises(KeyError), one:
        raise KeyError
    assert one.events()


def test_without_record_shapes_inputs_are_empty(profile: type[FakeProfile]) -> None:
    with profile() as plain, profile(record_shapes=False):
        pass
    with profile(record_shapes=True) as shaped:
        pass
    assert not any(event.concrete_inputs or event.input_shapes for event in plain.events())
    assert any(event.concrete_inputs for event in shaped.events())


def test_an_inner_profile_takes_the_session(profile: type[FakeProfile], tmp_path: Path) -> None:
    with profile() as outer, profile() as inner:
        pass
    assert inner.events()
    assert outer.events() == []
    assert outer.profiler.kineto_results.trace_start_ns() == 0
    with pytest.raises(RuntimeError, match="session was lost"):
        outer.export_chrome_trace(str(tmp_path / "x.json"))


def test_a_second_stop_loses_the_events(profile: type[FakeProfile]) -> None:
    with profile() as one:
        pass
    one.stop()
    assert one.events() == []
    assert one.profiler.kineto_results.trace_start_ns() == 0


def test_the_export_is_a_kineto_file_with_the_marks(profile: type[FakeProfile], tmp_path: Path) -> None:
    with profile(record_shapes=True) as one:
        pass
    path = tmp_path / "trace.json"
    one.export_chrome_trace(str(path))
    trace = json.loads(path.read_text())
    assert list(trace)[:2] == ["schemaVersion", "deviceProperties"]
    assert trace["baseTimeNanoseconds"] % (7_889_238 * 10**9) == 0
    events = trace["traceEvents"]
    assert {"M", "X", "s", "f", "i"} == {event["ph"] for event in events}
    assert {m.capture for e in events if e["ph"] == "X" and (m := Mark.parse(e["name"]))} == {one.capture}
    assert {e["name"] for e in events if e["name"].startswith("ProfilerStep")} == {"ProfilerStep#0", "ProfilerStep#1"}
    starts = {e["id"]: e["ts"] for e in events if e["ph"] == "s"}
    ends = {e["id"]: e for e in events if e["ph"] == "f"}
    assert starts.keys() == ends.keys()
    assert all(ends[flow]["ts"] > starts[flow] and ends[flow]["bp"] == "e" for flow in starts)
    kernels = [e for e in events if e.get("cat") == "kernel"]
    assert all(e["tid"] == e["args"]["stream"] and e["pid"] == e["args"]["device"] for e in kernels)
    assert not list(tmp_path.glob("*.tmp"))


def test_bad_values_still_give_json(tmp_path: Path) -> None:
    profile = profile_class(CapturePlan(CAPTURE, values=(float("nan"), float("inf"), 1 + 2j)))
    with profile(record_shapes=True) as one:
        pass
    path = tmp_path / "trace.json"
    one.export_chrome_trace(str(path))

    def refuse(token: str) -> None:
        raise AssertionError(token)

    trace = json.loads(path.read_text(), parse_constant=refuse)
    inputs = [event["args"]["Concrete Inputs"] for event in trace["traceEvents"] if event.get("cat") == "cpu_op"]
    assert ["", "nan", "[nan, 1.]"] in inputs
    assert ["", "1.+2.j", "[1.+2.j, 1.]"] in inputs


def test_export_in_the_wrong_state(profile: type[FakeProfile], tmp_path: Path) -> None:
    path = str(tmp_path / "trace.json")
    one = profile()
    with pytest.raises(AssertionError, match="before exporting"):
        one.export_chrome_trace(path)
    with one, pytest.raises(AttributeError):
        one.export_chrome_trace(path)
    one.export_chrome_trace(path)
    with pytest.raises(RuntimeError, match="Trace is already saved"):
        one.export_chrome_trace(path)


def test_only_a_text_path_and_only_an_existing_folder(
    profile: type[FakeProfile], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with profile() as one:
        pass
    with pytest.raises(AttributeError):
        one.export_chrome_trace(tmp_path / "trace.json")  # type: ignore[arg-type]  # torch takes text only
    one.export_chrome_trace(str(tmp_path / "missing" / "trace.json"))
    assert "Failed to open" in capfd.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_gz(profile: type[FakeProfile], tmp_path: Path) -> None:
    with profile() as one:
        pass
    one.export_chrome_trace(str(tmp_path / "trace.json.gz"))
    assert json.loads(gzip.decompress((tmp_path / "trace.json.gz").read_bytes()))["traceEvents"]


def test_it_takes_every_keyword_of_torchs_class() -> None:
    torch = pytest.importorskip("torch", reason="needs torch: compares with the real one")
    if not torch.__version__.startswith("2.13."):
        pytest.skip("the fakes are made after torch 2.13; another version has other attributes")
    real = set(inspect.signature(torch.profiler.profile.__init__).parameters)
    assert set(inspect.signature(FakeProfile.__init__).parameters) == real


def read(torch: Any) -> tuple[object, ...]:
    names = ("is_available", "device_count", "get_device_name", "get_device_properties", "synchronize", "set_device")
    return (
        torch.profiler.profile,
        torch.profiler.profiler.profile,
        torch.profiler.supported_activities,
        torch.autograd._profiler_enabled,
        torch.version.cuda,
        torch.version.hip,
        *(getattr(torch.cuda, name) for name in names),
    )


@pytest.mark.parametrize(
    ("vendor", "warp", "cuda", "hip"), [("cuda", 32, True, False), ("hip", 64, False, True)], ids=["cuda", "hip"]
)
def test_fake_torch_looks_like_the_build_and_is_undone(vendor: Any, warp: int, cuda: bool, hip: bool) -> None:
    torch = pytest.importorskip("torch", reason="needs torch: compares with the real one")
    before = read(torch)
    with fake_torch(vendor, CAPTURE, device_count=4) as profile:
        assert torch.profiler.profile is profile
        assert torch.cuda.is_available()
        assert torch.cuda.device_count() == 4
        assert (bool(torch.version.cuda), bool(torch.version.hip)) == (cuda, hip)
        properties = torch.cuda.get_device_properties(0)
        assert properties.name == torch.cuda.get_device_name(0)
        assert properties.warp_size == warp
        assert properties.total_memory > 2**30
        assert properties.multi_processor_count > 1
        assert hasattr(properties, "gcnArchName") is hip
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as one:
            assert torch.autograd._profiler_enabled()
        assert not torch.autograd._profiler_enabled()
        assert captures(one) == {CAPTURE}
    assert read(torch) == before


def test_fake_torch_is_undone_after_an_exception() -> None:
    torch = pytest.importorskip("torch", reason="needs torch: compares with the real one")
    before = read(torch)
    with pytest.raises(KeyError), fake_torch("hip"):
        raise KeyError
    assert read(torch) == before


def test_torch_that_is_imported_inside_is_a_fake_too_and_undone() -> None:
    pytest.importorskip("torch", reason="needs torch: imports it late")
    script = (
        "import sys; from pytest_gputrace.fakes import fake_torch\n"
        "assert 'torch' not in sys.modules\n"
        "with fake_torch('hip') as profile:\n"
        "    import torch\n"
        "    assert torch.profiler.profile is profile and torch.version.hip and torch.cuda.is_available()\n"
        "    assert torch.__spec__.loader is torch.__loader__ and 'fakes' not in type(torch.__loader__).__module__\n"
        "assert torch.profiler.profile is not profile and not torch.version.hip\n"
        "assert not [hook for hook in sys.meta_path if 'gputrace' in type(hook).__module__]\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True, timeout=60)


def test_a_torch_that_is_never_imported_leaves_no_hook() -> None:
    script = (
        "import sys; from pytest_gputrace.fakes import fake_torch\n"
        "before = list(sys.meta_path)\n"
        "with fake_torch('hip'):\n"
        "    import colorsys\n"
        "assert sys.meta_path == before\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True, timeout=60)


def test_without_torch_only_the_profile_is_handed_out() -> None:
    script = (
        "import sys; from pytest_gputrace.fakes import fake_torch\n"
        "with fake_torch('hip') as profile:\n"
        "    with profile() as one: pass\n"
        "assert one.events() and 'torch' not in sys.modules and 'pytest' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True, timeout=60)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"vendor": "cuda12"}, "fake_torch: vendor 'cuda12' is not one of cuda, hip; did you mean 'cuda'"),
        ({"steps": -1}, "fake_torch: steps=-1 must be at least 0"),
        ({"device_count": -1}, "fake_torch: device_count=-1 must be at least 0"),
    ],
)
def test_wrong_arguments(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message), fake_torch(**wrong):
        raise AssertionError("entered")


def test_a_plan_has_a_vendor_there_is() -> None:
    vendor: Any = "rocm"
    with pytest.raises(ValueError, match="profile: vendor 'rocm' is not one of cuda, hip"):
        CapturePlan(CAPTURE, vendor)
