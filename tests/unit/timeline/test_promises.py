"""What a merge promises where a file is long, a number is odd or a path is spelled in another way."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from pytest_gputrace import MergeError, merge
from pytest_gputrace.fakes import FakeTrace
from pytest_gputrace.timeline.anchors import anchors
from pytest_gputrace.timeline.ids import id_maps
from pytest_gputrace.timeline.names import Names, Other
from pytest_gputrace.timeline.plan import Flows
from pytest_gputrace.timeline.survey import LINK_CATEGORY, LINK_NAME, survey
from pytest_gputrace.timeline.tracks import Member, Tracks
from pytest_gputrace.timeline.workers import Worker
from pytest_gputrace.traces.vocabulary import ON_GPU, ON_HOST

if TYPE_CHECKING:
    from pathlib import Path

    from tests.unit.timeline.conftest import SurveyOf

_RUN = 1 << 18
_PLACE = {"name": "n", "pid": 1, "tid": 1}


@pytest.fixture(params=["compiled", "python"])
def either(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPUTRACE_PURE", "1" if request.param == "python" else "0")


def named(tracks: Tracks) -> list[str]:
    return [event["args"]["name"] for event in tracks.metadata() if event["name"] == "process_name"]


def file(path: Path, *events: str | dict[str, Any], **root: Any) -> Path:
    texts = [each if isinstance(each, str) else json.dumps({**_PLACE, **each}) for each in events]
    path.write_text(json.dumps(root | {"traceEvents": []})[:-2] + ",\n".join(texts) + "]}")
    return path


@pytest.mark.usefixtures("either")
def test_what_is_known_of_a_file_is_of_all_its_runs(tmp_path: Path) -> None:
    """The earliest time is in the second of three, and a double cannot tell it from those of the others."""

    def run(last_digits: str, dur_us: int, flow: int) -> list[str | dict[str, Any]]:
        begin = f'{{"ph":"X","name":"n","pid":1,"tid":1,"ts":1782725898236567.{last_digits},"dur":{dur_us}'
        return [
            f'{begin},"args":{{"text":"{_RUN * "x"}"}}}}',
            {"ph": "s", "cat": "ac2g", "id": flow, "ts": 1782725898236570},
            {"ph": "i"},
        ]

    rows = [*run("124", 900, 5), *run("101", 70, 99), *run("124", 50, 40)]
    found = survey(file(tmp_path / "trace.json", *rows))
    assert (found.problems, found.events, found.untimed, found.flows) == ((), 9, 3, Flows(starts=3))
    assert found.first_ns == 1782725898236567101
    assert found.last_ns == pytest.approx(1782725898236567124 + 900_000, abs=1000)
    assert found.ids == (5, 99)


@pytest.mark.usefixtures("either")
def test_odd_roots_and_numbers_of_a_file(tmp_path: Path) -> None:
    assert survey(file(tmp_path / "a.json", {"ph": "i"}, {"ph": "i"}, baseTimeNanoseconds=0)).base_time_ns == 0
    assert survey(tmp_path / "a.json").untimed == 2
    assert survey(file(tmp_path / "b.json", {"ph": "i", "ts": 1}, file_info=[1]), sources=True).file_info is None
    minus = file(tmp_path / "c.json", {"ph": "X", "ts": 1, "dur": 1, "pid": -1, "tid": -1})
    assert (-1, -1, ON_HOST) in survey(minus).tracks
    minus.write_bytes(b"\xef\xbb\xbf" + minus.read_bytes())
    assert survey(minus).problems == ()


@pytest.mark.usefixtures("either")
def test_only_arrows_that_are_links_are(tmp_path: Path) -> None:
    start = {"ph": "s", "cat": LINK_CATEGORY, "name": LINK_NAME, "id": 7, "ts": 3}
    others = [{**start, "id": 8, "name": "another"}, {**start, "id": 9, "cat": "ac2g"}, {**start, "id": 10, "ph": "f"}]
    nameless = {key: value for key, value in start.items() if key != "id"}
    assert survey(file(tmp_path / "viz.json", start, *others, nameless)).links == {7: 3000}


def test_a_base_that_is_assumed_agrees_with_what_a_file_says(survey_of: SurveyOf) -> None:
    own = survey_of(path="a.json", first_ns=7, base_time_ns=50)
    assert anchors([own], {"a.json": 50}, "anchor") == ([50], [])
    assert "it says itself 50" in anchors([own], {"a.json": 60}, "first-event")[1][0], "whoever says so is wrong"
    assert anchors([survey_of(path="a.json", base_time_ns=0)], {}, "anchor") == ([0], [])


def test_room_is_kept_for_the_links_behind_all_ids() -> None:
    ends = 0, 2**53 - 10
    maps, end = id_maps([ends], 20, lambda index: np.array(ends))
    assert [maps[0].number(old) for old in ends] == [1, 2]
    assert end == 3


def test_no_process_has_the_number_of_a_thread(survey_of: SurveyOf) -> None:
    """Which would be its main thread in a viewer, whatever it is."""
    usual = Tracks([Member(survey_of(tracks=frozenset({(1, 1, ON_HOST)})), Worker(5))]).of(0)[1, 1, ON_HOST].pid
    member = Member(survey_of(tracks=frozenset({(1, usual, ON_HOST)})), Worker(5))
    where = Tracks([member]).of(0)[1, usual, ON_HOST]
    assert (where.tid, where.pid) == (usual, usual + 1)


def test_processes_are_shown_by_number_the_host_before_its_gpus(survey_of: SurveyOf) -> None:
    rows = {(10, 10, ON_HOST), (9, 9, ON_HOST), ("Spans", "a", ON_HOST), (1, 7, ON_GPU), (0, 7, ON_GPU)}
    kineto = survey_of(tracks=frozenset(rows), names=Names(processes={9: "python", 10: "python"}))
    kernels = {(0, 0, ON_HOST), (0, 100_007, ON_GPU), ("K Core0", "w", ON_HOST)}
    proton = survey_of(format="proton", tracks=frozenset(kernels))
    assert named(Tracks([Member(kineto, Worker(0)), Member(proton, Worker(0))])) == [
        f"rank 0 · {what}"
        for what in ("python 9", "python 10", "Spans", "GPU 0", "GPU 1", "Proton", "Proton GPU 0", "Proton K Core0")
    ]


def test_what_is_told_of_a_process_is_told_of_the_host(survey_of: SurveyOf) -> None:
    names = Names(others=[Other("num_cpus", 0, 0, {"number": 2})])
    tracks = Tracks([Member(survey_of(tracks=frozenset({(0, 0, ON_HOST), (0, 7, ON_GPU)}), names=names), Worker(0))])
    (event,) = (event for event in tracks.metadata() if event["name"] == "num_cpus")
    assert event["pid"] == tracks.of(0)[0, 0, ON_HOST].pid


def test_processes_without_a_name_have_one(survey_of: SurveyOf) -> None:
    for format, label in (("kineto", "process 7"), ("viztracer", "python 7")):
        assert named(Tracks([Member(survey_of(format=format, tracks=frozenset({(7, 7, ON_HOST)})), Worker())])) == [
            label
        ]
    nowhere = survey_of(tracks=frozenset({(None, None, ON_HOST), (-1, -1, ON_HOST)}))
    assert named(Tracks([Member(nowhere, Worker())])) == ["no process"]


def test_two_processes_are_never_called_the_same(survey_of: SurveyOf) -> None:
    alike = frozenset({(7, 7, ON_HOST), ("python 7", "", ON_HOST)})
    names = named(Tracks([Member(survey_of(tracks=alike, names=Names(processes={7: "python"})), Worker(0))]))
    assert len(set(names)) == 2
    assert all(name.startswith("rank 0 · python 7") for name in names)


def test_an_input_is_never_replaced_however_its_path_is_spelled(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    folder.mkdir()
    (tmp_path / "link").symlink_to(folder)
    trace = FakeTrace().write(folder / "rank0.json")
    before = trace.read_bytes()
    for output in (tmp_path / "link" / "rank0.json", folder / ".." / "run" / "rank0.json"):
        with pytest.raises(MergeError, match="to be read and to be written"):
            merge(trace, output, force=True)
    assert trace.read_bytes() == before


def test_a_timeline_that_is_named_as_an_input_is_not_replaced(tmp_path: Path) -> None:
    """Found in a folder it is what an earlier merge wrote there; named, it is a mistake."""
    trace = FakeTrace().write(tmp_path / "rank0.json")
    merge(trace, tmp_path / "all.json")
    before = (tmp_path / "all.json").read_bytes()
    with pytest.raises(MergeError, match="to be read and to be written"):
        merge([trace, tmp_path / "all.json"], tmp_path / "all.json", force=True)
    assert (tmp_path / "all.json").read_bytes() == before
