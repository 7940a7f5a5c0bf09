from __future__ import annotations

import enum
import json
from typing import TYPE_CHECKING, Any

import pytest

from pytest_gputrace.fakes.profiler import CapturePlan, profile_class
from pytest_gputrace.model import Capture, Mark

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pytest_gputrace.fakes import FakeProfile

CAPTURE = Capture("node0", 2, "c", 5)


class Action(enum.Enum):
    """Torch's ``ProfilerAction``, by its names only."""

    NONE, WARMUP, RECORD, RECORD_AND_SAVE, DEVICE_STOPPED = range(5)


N, W, R, S = Action.NONE, Action.WARMUP, Action.RECORD, Action.RECORD_AND_SAVE


def repeated(*actions: Any) -> Callable[[int], Any]:
    return lambda step: actions[step % len(actions)]


def told(*actions: Any) -> Callable[[int], Any]:
    """The actions once, and nothing afterwards."""
    return lambda step: actions[step] if step < len(actions) else N


class Seen:
    """A callback that keeps what it could see of each cycle."""

    def __init__(self) -> None:
        self.rounds: list[int] = []
        self.steps: list[list[str]] = []

    def __call__(self, profile: FakeProfile) -> None:
        marks = [mark for event in profile.events() if (mark := Mark.parse(event.name))]
        assert {mark.capture for mark in marks} == {profile.capture}
        host = [event for event in profile.events() if event.device_type.name == "CPU"]
        steps = [event.trace_name for event in host if event.name == "ProfilerStep*"]
        assert {mark.total for mark in marks} == {len(steps) + 2}
        self.rounds.append(profile.capture.round)
        self.steps.append(steps)


@pytest.fixture
def plan() -> CapturePlan:
    return CapturePlan(CAPTURE)


def run(plan: CapturePlan, schedule: Any, steps: int, **options: Any) -> tuple[FakeProfile, Seen]:
    seen = Seen()
    with profile_class(plan)(schedule=schedule, on_trace_ready=seen, **options) as profile:
        for _ in range(steps):
            profile.step()
    return profile, seen


def names(*numbers: int) -> list[str]:
    return [f"ProfilerStep#{number}" for number in numbers]


def test_each_cycle_is_a_capture(plan: CapturePlan) -> None:
    profile, seen = run(plan, repeated(N, W, R, S), 8)
    assert seen.rounds == [5, 6]
    assert seen.steps == [names(2, 3), names(6, 7)]
    assert {mark.capture.round for event in profile.events() if (mark := Mark.parse(event.name))} == {6}
    assert plan.taken == 2


def test_a_cycle_that_is_cut_ends_at_the_stop_with_fewer_steps(plan: CapturePlan) -> None:
    _, seen = run(plan, repeated(W, R, R, S), 6)
    assert seen.rounds == [5, 6]
    assert seen.steps == [names(1, 2, 3), names(5, 6)]
    _, seen = run(plan, told(S), 0)
    assert (seen.rounds, seen.steps) == ([7], [names(0)])


def test_cycles_without_a_pause(plan: CapturePlan) -> None:
    _, seen = run(plan, repeated(R, S), 4)
    assert seen.steps == [names(0, 1), names(2, 3), names(4)]
    _, seen = run(plan, repeated(S), 1)
    assert seen.steps == [names(0), names(1)]


def test_a_profile_that_never_records_takes_no_round(plan: CapturePlan, tmp_path: Path) -> None:
    profile, seen = run(plan, repeated(N), 3)
    with pytest.raises(AssertionError, match="before accessing events"):
        profile.events()
    with pytest.raises(AssertionError, match="before exporting"):
        profile.export_chrome_trace(str(tmp_path / "trace.json"))
    assert seen.rounds == []
    assert plan.taken == 0
    with profile_class(plan)() as plain:
        pass
    assert plain.capture == CAPTURE


def test_an_end_in_the_warmup_leaves_a_file_without_events(plan: CapturePlan, tmp_path: Path) -> None:
    profile, seen = run(plan, repeated(N, W, W, S), 2)
    assert seen.rounds == []
    assert profile.events() == []
    profile.export_chrome_trace(str(tmp_path / "trace.json"))
    rows = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    assert not [row for row in rows if Mark.parse(row["name"])]
    assert plan.taken == 0


def test_the_events_between_the_cycles(plan: CapturePlan) -> None:
    profile = profile_class(plan)(schedule=repeated(N, W, S))
    profile.start()
    with pytest.raises(AssertionError):
        profile.events()
    held = []
    for _ in range(5):
        profile.step()
        held.append(len(profile.events()) > 0)
    assert held == [False, False, True, False, False], "warmup, recording, waiting, warmup, recording"
    assert profile.events() is profile.events()


def test_events_of_all_cycles_when_asked_for(plan: CapturePlan, tmp_path: Path) -> None:
    with profile_class(plan)(schedule=repeated(N, S), acc_events=True) as profile:
        for _ in range(4):
            profile.step()
    assert {mark.capture.round for event in profile.events() if (mark := Mark.parse(event.name))} == {5, 6}
    profile.export_chrome_trace(str(tmp_path / "trace.json"))
    rows = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    assert {mark.capture.round for row in rows if (mark := Mark.parse(row["name"]))} == {6}


def test_the_export_works_once_per_cycle(plan: CapturePlan, tmp_path: Path) -> None:
    def export(profile: FakeProfile) -> None:
        path = str(tmp_path / f"{profile.capture.round}.json")
        profile.export_chrome_trace(path)
        with pytest.raises(RuntimeError, match="already saved"):
            profile.export_chrome_trace(path)

    with profile_class(plan)(schedule=repeated(N, R, S), on_trace_ready=export) as profile:
        for _ in range(6):
            profile.step()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["5.json", "6.json"]
    found = json.loads((tmp_path / "6.json").read_text())["traceEvents"]
    assert {row["name"] for row in found if row["name"].startswith("ProfilerStep")} == set(names(4, 5))


def test_a_profile_inside_takes_the_session_of_one_cycle_only(plan: CapturePlan) -> None:
    lost = []
    outer = profile_class(plan)(
        schedule=repeated(N, S), on_trace_ready=lambda profile: lost.append(not profile.events())
    )
    with outer:
        outer.step()
        with profile_class(plan)():
            pass
        for _ in range(3):
            outer.step()
    assert lost == [True, False]


@pytest.mark.parametrize(
    ("actions", "text", "called"),
    [
        ((W, N), "WARMUP followed by NONE", 0),
        ((R, N), "RECORD followed by NONE", 0),
        ((R, W), "RECORD followed by W", 0),
    ],
)
def test_a_wrong_schedule_is_warned_of(plan: CapturePlan, actions: Any, text: str, called: int) -> None:
    with pytest.warns(UserWarning, match=f"Incorrect schedule: {text}"):
        _, seen = run(plan, told(*actions), 2 if actions[1] is N else 1)
    assert len(seen.rounds) == called


@pytest.mark.parametrize("action", [Action.DEVICE_STOPPED, 2, None, "RECORD"])
def test_an_action_that_is_none(plan: CapturePlan, action: Any) -> None:
    kind = profile_class(plan)
    with pytest.raises(
        ValueError, match=r"profile: the schedule's action for step 0 is .* must be a ProfilerAction: NONE"
    ):
        kind(schedule=told(action))
    with kind(schedule=told(R, action)) as profile, pytest.raises(ValueError, match="for step 1 is"):
        profile.step()
    assert profile.step_num == 0


def test_a_profile_that_is_started_again_goes_on(plan: CapturePlan) -> None:
    seen = Seen()
    profile = profile_class(plan)(schedule=repeated(R, S), on_trace_ready=seen)
    for _ in range(2):
        profile.start()
        profile.stop()
    assert seen.rounds == [5, 6]
    profile.stop()
    assert profile.events() == []
    assert seen.rounds == [5, 6], "a second stop loses the session and tells nobody"


# Torch warns of the events that a next cycle drops; as an error it would leave a session that torch dies of.
@pytest.mark.filterwarnings("ignore:Warning. Profiler clears events")
def test_torchs_own_schedule_and_the_real_profiler_agree(plan: CapturePlan, tmp_path: Path) -> None:
    torch = pytest.importorskip("torch", reason="needs torch: compares with the real one")
    schedule = torch.profiler.schedule(skip_first=1, wait=1, warmup=1, active=2, repeat=2)

    def steps(kind: Any) -> list[list[str]]:
        held: list[list[str]] = []

        def keep(profile: Any) -> None:
            path = tmp_path / f"{kind.__module__}{len(held)}.json"
            profile.export_chrome_trace(str(path))
            rows = json.loads(path.read_text())["traceEvents"]
            found = {row["name"] for row in rows if row["name"].startswith("ProfilerStep")}
            held.append(sorted(found, key=lambda name: int(name.split("#")[1])))

        with kind(activities=[torch.profiler.ProfilerActivity.CPU], schedule=schedule, on_trace_ready=keep) as profile:
            for _ in range(8):
                profile.step()
        return held

    assert steps(profile_class(plan)) == steps(torch.profiler.profile) == [names(3, 4), names(7, 8)]


def test_metadata(plan: CapturePlan, tmp_path: Path) -> None:
    profile = profile_class(plan)(record_shapes=True)
    profile.preset_metadata_json("preset", '{"x": 1}')
    profile.add_metadata("early", "lost, as in torch")
    with profile:
        profile.add_metadata("text", 'a "b" \\')
        profile.add_metadata_json("number", "3")
        profile.toggle_collection_dynamic(False, [])
    profile.add_metadata("late", "lost, too")
    path = tmp_path / "trace.json"
    profile.export_chrome_trace(str(path))
    trace = json.loads(path.read_text())
    where = list(trace).index("record_shapes")
    assert list(trace)[where : where + 5] == ["record_shapes", "preset", "text", "number", "host_name"]
    assert (trace["preset"], trace["text"], trace["number"]) == ({"x": 1}, 'a "b" \\', 3)
    assert not {"early", "late"} & set(trace)


def test_metadata_of_each_cycle(plan: CapturePlan, tmp_path: Path) -> None:
    found = []

    def keep(profile: FakeProfile) -> None:
        path = tmp_path / f"{profile.capture.round}.json"
        profile.export_chrome_trace(str(path))
        found.append({key: value for key, value in json.loads(path.read_text()).items() if key in ("preset", "own")})

    profile = profile_class(plan)(schedule=repeated(N, S), on_trace_ready=keep)
    profile.preset_metadata_json("preset", "1")
    with profile:
        profile.step()
        profile.add_metadata("own", "first")
        for _ in range(3):
            profile.step()
    assert found == [{"preset": 1, "own": "first"}, {"preset": 1}]


@pytest.mark.parametrize("value", ["{", "NaN", ""])
@pytest.mark.parametrize("method", ["add_metadata_json", "preset_metadata_json"])
def test_metadata_that_is_no_json(plan: CapturePlan, method: str, value: str) -> None:
    with pytest.raises(ValueError, match=f"{method}: the value of 'key' is no JSON text: '{value}'"):
        getattr(profile_class(plan)(), method)("key", value)


@pytest.mark.parametrize("method", ["key_averages", "export_stacks", "export_memory_timeline"])
def test_what_there_is_not(plan: CapturePlan, method: str) -> None:
    with profile_class(plan)() as profile:
        pass
    with pytest.raises(NotImplementedError, match=f"the fake profile has no {method}: "):
        getattr(profile, method)("path")
