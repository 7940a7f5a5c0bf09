from __future__ import annotations

import importlib.util
import sys
import types
from typing import TYPE_CHECKING, Any

import pytest

from pytest_gputrace.fakes import Cluster, fake_torch, torchfake
from pytest_gputrace.fakes.torchfake import taken_names_known
from pytest_gputrace.model import Mark

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pytest_gputrace.fakes import Job

torch = pytest.importorskip("torch", reason="needs torch: its profiler's names are the subject")

MODULE = "gputrace_module_of_a_test"


@pytest.fixture
def module(monkeypatch: pytest.MonkeyPatch) -> types.ModuleType:
    """A loaded module that took the profiler by name, twice."""
    made = types.ModuleType(MODULE)
    exec("from torch.profiler import profile\nfrom torch.profiler import profile as prof\nother = 1", vars(made))
    monkeypatch.setitem(sys.modules, MODULE, made)
    return made


def test_a_name_that_was_taken_is_the_fake_and_undone(module: Any) -> None:
    real = torch.profiler.profile
    inside = torch.profiler.profiler.profile
    with fake_torch() as profile:
        assert module.profile is module.prof is profile is torch.profiler.profile
        assert module.other == 1
    assert module.profile is module.prof is real is torch.profiler.profile
    assert torch.profiler.profiler.profile is inside


def test_one_fake_inside_another(module: Any) -> None:
    real = module.profile
    with fake_torch() as outer:
        with fake_torch() as inner:
            assert module.profile is inner
        assert module.profile is outer
    assert module.profile is real


def test_what_a_module_put_there_itself_stays(module: Any) -> None:
    with fake_torch():
        module.profile = "own"
        del module.prof
    assert module.profile == "own"
    assert not hasattr(module, "prof")


class _Touchy(types.ModuleType):
    """A module that any question loads."""

    def __getattribute__(self, name: str) -> Any:
        raise AssertionError(f"asked for {name}")


class _Proxy:
    """No module; it says that it is one."""

    @property  # type: ignore[misc]  # object lets it be set
    def __class__(self) -> Any:
        raise AssertionError("asked for its class")

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(f"asked for {name}")


@pytest.fixture
def odd(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Entries that must not be asked, and a lazy module that is not loaded yet."""
    spec = importlib.util.find_spec("this")
    assert spec is not None
    assert spec.loader is not None
    lazy = importlib.util.module_from_spec(spec)
    importlib.util.LazyLoader(spec.loader).exec_module(lazy)
    asking = types.ModuleType("asking")
    vars(asking)["__getattr__"] = lambda name: pytest.fail(name)
    entries = {
        "none": None,
        "number": 3,
        "touchy": _Touchy("touchy"),
        "proxy": _Proxy(),
        "lazy": lazy,
        "asking": asking,
    }
    for name, entry in entries.items():
        monkeypatch.setitem(sys.modules, f"gputrace_odd_{name}", entry)
    yield lazy
    monkeypatch.undo()


def test_nobody_is_asked_or_loaded(odd: Any, module: Any) -> None:
    with taken_names_known(), fake_torch() as profile:
        assert module.profile is profile
    with fake_torch() as profile:
        assert module.profile is profile
    assert type(odd).__name__ == "_LazyModule", "still not loaded"


def test_those_who_know_do_not_look_again(module: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    late = types.ModuleType("late")
    vars(late)["profile"] = torch.profiler.profile
    with taken_names_known():
        monkeypatch.setitem(sys.modules, "gputrace_late", late)
        with fake_torch() as profile:
            assert module.profile is profile
            assert vars(late)["profile"] is not profile, "loaded after the look"
    with fake_torch() as profile:
        assert vars(late)["profile"] is profile
    assert torchfake._known is None


@pytest.mark.skipif(sys.platform != "linux", reason="needs Linux: simulated nodes")
def test_workers_see_the_fake_under_the_name_that_was_taken(
    tmp_path: Path, module: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = module.profile
    looks: list[int] = []
    look = torchfake._names

    def counted(entry: object) -> dict[str, Any]:
        looks.append(1)
        return look(entry)

    monkeypatch.setattr(torchfake, "_names", counted)

    def export(job: Job) -> tuple[set[Any], int]:
        already = len(looks)
        with module.profile() as profile:
            pass
        return {mark.capture for event in profile.events() if (mark := Mark.parse(event.name))}, already

    run = Cluster(tmp_path).run(export)
    assert [value[0] if value else None for value in run.values] == [{outcome.job.capture()} for outcome in run]
    assert {value[1] for value in run.values if value} == {len(looks)}, "only the test's own process looked"
    assert looks
    assert module.profile is real
