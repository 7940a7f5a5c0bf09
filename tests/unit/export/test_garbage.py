"""The collector is held while an export builds records, and given back whatever happens."""

from __future__ import annotations

import gc
import os
import threading
from typing import TYPE_CHECKING, Any

import pytest

from pytest_gputrace import WorkerId, export_events
from pytest_gputrace.errors import EmptyCaptureError, ExportError
from pytest_gputrace.export.garbage import collector_paused
from pytest_gputrace.fakes import fake_events
from pytest_gputrace.model import Capture

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture(params=[True, False], ids=["on", "off"])
def was_on(request: pytest.FixtureRequest) -> Iterator[bool]:
    """Whether the user has the collector on."""
    before = gc.isenabled()
    (gc.enable if request.param else gc.disable)()
    yield request.param
    (gc.enable if before else gc.disable)()


class Profile:
    """A profile that notes whether the collector was on while it was read."""

    def __init__(self, error: BaseException | None = None, late: BaseException | None = None, count: int = 4) -> None:
        self.seen: list[bool] = []
        self._error, self._late, self._count = error, late, count

    def events(self) -> Iterator[Any]:
        self.seen.append(gc.isenabled())
        if self._error:
            raise self._error
        return self._each()

    def _each(self) -> Iterator[Any]:
        for event in fake_events(Capture("node0", 0, "fp16"))[: self._count]:
            self.seen.append(gc.isenabled())
            yield event
        if self._late:
            raise self._late


def export(profile: Profile, folder: Path) -> None:
    worker = WorkerId(node="node0", rank=0, local_rank=0, world_size=1)
    export_events(profile, model="m", trace_dir=folder, configuration="fp16", worker=worker)


def test_it_is_held_while_events_are_made_and_read(tmp_path: Path, was_on: bool) -> None:
    profile = Profile()
    export(profile, tmp_path)
    assert len(profile.seen) > 2
    assert not any(profile.seen)
    assert gc.isenabled() is was_on


@pytest.mark.parametrize(
    ("profile", "error"),
    [
        pytest.param(Profile(error=RuntimeError("no")), ExportError, id="events() raises"),
        pytest.param(Profile(late=RuntimeError("no")), ExportError, id="an event raises"),
        pytest.param(Profile(late=KeyboardInterrupt()), KeyboardInterrupt, id="interrupted"),
        pytest.param(Profile(count=0), EmptyCaptureError, id="empty"),
    ],
)
def test_it_is_given_back_whatever_happens(
    profile: Profile, error: type[BaseException], tmp_path: Path, was_on: bool
) -> None:
    with pytest.raises(error):
        export(profile, tmp_path)
    assert gc.isenabled() is was_on


def test_of_two_exports_at_once_the_last_gives_it_back(was_on: bool) -> None:
    inside, leave = threading.Event(), threading.Event()

    def other() -> None:
        with collector_paused():
            inside.set()
            leave.wait(10)

    thread = threading.Thread(target=other)
    with collector_paused():
        thread.start()
        assert inside.wait(10)
    assert not gc.isenabled(), "given back while the other export still builds its records"
    leave.set()
    thread.join()
    assert gc.isenabled() is was_on


@pytest.mark.parametrize("forker", ["export", "other"])
def test_a_forked_child_has_it_as_it_was(forker: str, was_on: bool) -> None:
    """A worker forked while another thread exports has nobody who would give it back."""
    inside, leave = threading.Event(), threading.Event()

    def exporting() -> None:
        with collector_paused():
            inside.set()
            leave.wait(10)

    def fork() -> bool:
        child = os.fork()
        if child == 0:
            os._exit(int(gc.isenabled()))
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 1

    if forker == "export":
        with collector_paused():
            assert fork() is False, "the child goes on with the block, and gives it back at its end"
        return
    thread = threading.Thread(target=exporting)
    thread.start()
    assert inside.wait(10)
    child_has_it = fork()
    leave.set()
    thread.join()
    assert child_has_it is was_on


def test_an_interrupt_before_it_was_held_gives_nothing_back_twice(
    was_on: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(thread: int) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("pytest_gputrace.export.garbage._hold", interrupted)
    with pytest.raises(KeyboardInterrupt), collector_paused():
        pytest.fail("the block ran")
    assert gc.isenabled() is was_on
