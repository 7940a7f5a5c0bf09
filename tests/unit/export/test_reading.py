"""Which profiles take the raw path: torch's own, untouched, on a proven torch, and nothing that merely looks like one."""

from __future__ import annotations

import functools
import logging
import re
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any
from unittest import mock

import pytest

from pytest_gputrace import WorkerId, export_events
from pytest_gputrace.export import proven
from pytest_gputrace.export.kineto import UnknownToRawPath
from pytest_gputrace.export.proven import raw_profile
from pytest_gputrace.export.reading import read
from pytest_gputrace.export.records import cpu_records
from pytest_gputrace.fakes import fake_events, fake_torch
from pytest_gputrace.model import Capture

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

torch = pytest.importorskip("torch", reason="needs torch: its profiles take the raw path, or do not")

pytestmark = pytest.mark.filterwarnings("ignore:.*Profiler clears events")
on_proven_torch = pytest.mark.usefixtures("proven_torch")


def recorded(kind: Any = None, **options: Any) -> Any:
    """A stopped profile of a few operators."""
    kind = torch.profiler.profile if kind is None else kind
    with kind(activities=[torch.profiler.ProfilerActivity.CPU], record_shapes=True, **options) as profile:
        torch.ones(2, 2).mm(torch.ones(2, 2))
    return profile


@pytest.fixture(autouse=True)
def _asked_anew() -> Iterator[None]:
    proven._proof.cache_clear()
    yield
    proven._proof.cache_clear()


@on_proven_torch
def test_a_plain_profile_takes_the_raw_path_and_the_result_says_so(tmp_path: Path) -> None:
    worker = WorkerId(node="node0", rank=0, local_rank=0, world_size=1)
    profile = recorded()
    result = export_events(profile, model="m", trace_dir=tmp_path, configuration="fp16", worker=worker)
    assert result.read_from == "kineto"
    assert profile.profiler._function_events is None, "events() was made all the same: nothing was saved"


class Subclass(torch.profiler.profile):  # type: ignore[misc, name-defined, unused-ignore]
    """One that leaves operators out, as its users want it."""

    def events(self) -> Any:
        return [event for event in super().events() if "mm" in event.name]


def _filtered(profile: Any) -> Any:
    profile.events = lambda: [event for event in type(profile).events(profile) if "mm" in event.name]
    return profile


def _changed(profile: Any) -> Any:
    del profile.events()[1:]
    return profile


def _summed(profile: Any) -> Any:
    profile.key_averages()
    return profile


def _accumulating() -> Any:
    profile = torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], acc_events=True)
    for _ in range(2):
        with profile:
            torch.ones(2, 2).mm(torch.ones(2, 2))
    return profile


def _with(profile: Any, **attributes: Any) -> Any:
    for name, value in attributes.items():
        setattr(profile.profiler, name, value)
    return profile


def _foreign() -> Any:
    """Results that are not torch's own class, though they read like it."""
    profile = recorded()
    real = profile.profiler.kineto_results
    return _with(profile, kineto_results=SimpleNamespace(events=real.events, trace_start_ns=real.trace_start_ns))


@pytest.mark.parametrize(
    "make",
    [
        pytest.param(lambda: recorded(Subclass), id="a subclass"),
        pytest.param(lambda: _filtered(recorded()), id="events() replaced on the object"),
        pytest.param(lambda: _changed(recorded()), id="events made and changed by its user"),
        pytest.param(lambda: _summed(recorded()), id="events made already"),
        pytest.param(_accumulating, id="events of several recordings"),
        pytest.param(lambda: recorded().events(), id="a list of events"),
        pytest.param(lambda: _with(recorded(), use_device="xpu"), id="a device that was not tried"),
        pytest.param(lambda: _with(recorded(), use_device="hpu"), id="another"),
        pytest.param(lambda: _with(recorded(), use_cpu=False), id="devices alone"),
        pytest.param(_foreign, id="results of another kind"),
        pytest.param(lambda: _with(recorded(), post_processing_timeout_s=1000.0), id="a time limit"),
        pytest.param(
            lambda: _with(recorded(), profiler_kind=torch.autograd.ProfilerState.KINETO_GPU_FALLBACK), id="no GPU half"
        ),
        pytest.param(lambda: mock.MagicMock(**{"events.return_value": fake_events(Capture("n", 0, "c"))}), id="a mock"),
        pytest.param(
            lambda: mock.MagicMock(torch.profiler.profile, **{"events.return_value": fake_events(Capture("n", 0, "c"))}),
            id="a mock of torch's class",
        ),
    ],
)  # fmt: skip
def test_everything_else_is_read_by_events(make: Callable[[], Any]) -> None:
    profile = make()
    reading = read(profile)
    assert reading.read_from == "events"
    records = list(reading.records)
    assert records == list(cpu_records(profile.events() if hasattr(profile, "events") else profile))
    assert records, "nothing was compared"


def test_a_fake_torchs_profile_is_read_by_events() -> None:
    with fake_torch():
        profile = torch.profiler.profile()
        with profile:
            pass
        assert read(profile).read_from == "events"


MEMBERS = [
    pytest.param(looked_up_in, name, member, id=f"{name}.{member}" if member else name)
    for looked_up_in, name, members, _ in proven._STANDS_IN_FOR
    for member in members or [""]
]


@on_proven_torch
@pytest.mark.parametrize(("looked_up_in", "name", "member"), MEMBERS)
def test_a_torch_that_someone_patched_is_read_by_events(
    looked_up_in: str, name: str, member: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = sys.modules[looked_up_in]
    owner, attribute = (getattr(module, name), member) if member else (module, name)
    original = getattr(owner, attribute)
    function: Any = original.fget if isinstance(original, property) else original

    @functools.wraps(function)
    def patched(*arguments: Any, **options: Any) -> Any:
        return function(*arguments, **options)

    profile = recorded()
    monkeypatch.setattr(owner, attribute, property(patched) if isinstance(original, property) else patched)
    assert raw_profile(profile) is None
    monkeypatch.undo()
    assert raw_profile(profile) is not None


@on_proven_torch
@pytest.mark.parametrize(
    ("looked_up_in", "name"), [(row[0], row[1]) for row in proven._STANDS_IN_FOR if row[2]], ids=lambda value: value
)
def test_a_class_of_torch_that_someone_replaced_is_read_by_events(
    looked_up_in: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    profile = recorded()
    module = sys.modules[looked_up_in]
    monkeypatch.setattr(module, name, type(name, (getattr(module, name),), {}))
    assert raw_profile(profile) is None


@on_proven_torch
@pytest.mark.parametrize("name", ["_parse_kineto_results", "_ensure_function_events"])
def test_a_method_that_someone_replaced_on_the_object_is_read_by_events(name: str) -> None:
    profile = recorded()
    setattr(profile.profiler, name, getattr(profile.profiler, name))
    assert raw_profile(profile) is None


@on_proven_torch
def test_gpu_times_are_read_where_a_gpu_was_recorded() -> None:
    for device, gpu in [(None, False), ("cuda", True)]:
        raw = raw_profile(_with(recorded(), use_device=device))
        assert raw is not None
        assert raw.gpu is gpu


@on_proven_torch
def test_what_torch_itself_refuses_to_give_is_refused(tmp_path: Path) -> None:
    profile = recorded()
    profile.profiler.experimental_config = SimpleNamespace(trace_only=True)
    assert raw_profile(profile) is None


def test_a_torch_without_a_proof_is_read_by_events_and_says_so_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(torch, "__version__", "2.99.0+rocm9")
    caplog.set_level(logging.DEBUG, "pytest_gputrace")
    for _ in range(3):
        assert read(recorded()).read_from == "events"
    (record,) = caplog.records
    assert record.levelno == logging.DEBUG
    assert record.getMessage().startswith("torch 2.99.0: not proven")


@on_proven_torch
@pytest.mark.parametrize("what", ["moved", "renamed", "no torch"])
def test_a_torch_of_another_kind_is_read_by_events(what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A later torch may have nothing where the raw path looks."""
    profile = recorded()
    monkeypatch.setattr(torch, "__version__", "2.99.0")
    if what == "moved":
        monkeypatch.delattr(torch.autograd.profiler, "FunctionEvent")
    elif what == "renamed":
        monkeypatch.delattr(torch.profiler.profiler, "profile")
    else:
        monkeypatch.setitem(sys.modules, "torch", None)
    assert raw_profile(profile) is None, "and nothing is raised on the way"


@on_proven_torch
def test_code_that_is_not_there_is_no_proof(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "torch.autograd.profiler_util")
    assert proven._proof(str(torch.__version__).partition("+")[0]) is None


def test_a_build_with_other_code_under_a_proven_number_is_read_by_events(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "pytest_gputrace")
    other = tmp_path / "profiler.py"
    other.write_text("# a vendor's own\n")
    monkeypatch.setattr(torch.autograd.profiler, "__file__", str(other))
    assert read(recorded()).read_from == "events"
    assert "code is not that of the release" in caplog.text
    proven._proof.cache_clear()
    other.unlink()
    assert read(recorded()).read_from == "events"
    assert "code cannot be read" in caplog.text


@on_proven_torch
def test_a_build_of_a_proven_release_counts_whatever_it_was_built_for(monkeypatch: pytest.MonkeyPatch) -> None:
    release = str(torch.__version__).partition("+")[0]
    monkeypatch.setattr(torch, "__version__", f"{release}+rocm7.0")
    assert read(recorded()).read_from == "kineto"


@on_proven_torch
@pytest.mark.parametrize(
    ("error", "level"), [(UnknownToRawPath("something"), logging.DEBUG), (ValueError("something"), logging.WARNING)]
)
def test_results_that_the_raw_path_cannot_read_are_read_by_events(
    error: Exception, level: int, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "pytest_gputrace")

    def fails(*arguments: Any, **options: Any) -> Any:
        raise error

    monkeypatch.setattr("pytest_gputrace.export.reading.kineto_records", fails)
    profile = recorded()
    reading = read(profile)
    assert reading.read_from == "events"
    assert list(reading.records) == list(cpu_records(profile.events()))
    (record,) = caplog.records
    assert record.levelno == level
    assert "something" in record.getMessage()


def test_the_page_names_the_releases_that_are_proven() -> None:
    page = (Path(__file__).parents[3] / "docs/reference/exporter.md").read_text()
    (listed,) = re.findall(r"with the code they were released with: ([\d., \n]+)\.\n", page)
    assert re.split(r",\s+", listed) == list(proven.PROVEN)
