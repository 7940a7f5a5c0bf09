"""Processes and threads of the timeline: free numbers, names by rank, hosts and GPUs apart."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytest_gputrace.timeline.names import Names
from pytest_gputrace.timeline.tracks import Member, Tracks
from pytest_gputrace.timeline.workers import Worker
from pytest_gputrace.traces.vocabulary import ANYWHERE, FLOW_END, ON_GPU, ON_HOST

if TYPE_CHECKING:
    from pytest_gputrace.timeline.survey import Survey
    from tests.unit.timeline.conftest import SurveyOf

_SPANS = ("Spans", "PyTorch Profiler", ON_HOST)


def kineto(survey_of: SurveyOf, *tracks: tuple[Any, Any, int], **names: Any) -> Survey:
    return survey_of(format="kineto", tracks=frozenset(tracks), names=Names(**names))


def named(tracks: Tracks, what: str = "process_name") -> dict[int, str]:
    return {event["pid"]: event["args"]["name"] for event in tracks.metadata() if event["name"] == what}


def test_two_ranks_with_equal_numbers_share_no_process(survey_of: SurveyOf) -> None:
    file = kineto(survey_of, (4242, 4242, ON_HOST), (0, 7, ON_GPU), _SPANS, processes={4242: "python", 0: "python"})
    tracks = Tracks([Member(file, Worker(3)), Member(file, Worker(5))])
    assert sorted(named(tracks).values()) == [
        "rank 3 · GPU 0", "rank 3 · Spans", "rank 3 · python 4242",
        "rank 5 · GPU 0", "rank 5 · Spans", "rank 5 · python 4242",
    ]  # fmt: skip
    one, two = tracks.of(0), tracks.of(1)
    assert not {where.pid for where in one.values()} & {where.pid for where in two.values()}
    assert named(tracks)[one[0, 7, ON_GPU].pid] == "rank 3 · GPU 0"
    assert one[4242, 4242, ON_HOST].tid == 4242


def test_numbers_do_not_depend_on_other_ranks_and_no_input_uses_them(survey_of: SurveyOf) -> None:
    file = kineto(survey_of, (1, 1, ON_HOST))
    alone = Tracks([Member(file, Worker(5))]).of(0)[1, 1, ON_HOST].pid
    beside = Tracks([Member(file, Worker(2)), Member(file, Worker(5))]).of(1)[1, 1, ON_HOST].pid
    assert alone == beside < 2**31
    user = kineto(survey_of, (alone, alone, ON_HOST))
    tracks = Tracks([Member(user, Worker(2)), Member(file, Worker(5))])
    assert alone not in named(tracks)


def test_python_frames_on_the_number_of_a_gpu_are_not_on_the_gpu(survey_of: SurveyOf) -> None:
    """As tqdm's monitor is in traces of H100 and MI300X; there its thread may have the number of the GPU's stream."""
    names = {"processes": {0: "python"}, "threads": {(0, 0): ["stream 0 0", "thread 0 (tqdm)"]}, "labels": {0: "GPU 0"}}
    file = kineto(survey_of, (0, 0, ON_GPU), (0, 0, ON_HOST), (0, 0, FLOW_END), **names)
    tracks = Tracks([Member(file, Worker(0))])
    gpu, host = tracks.of(0)[0, 0, ON_GPU], tracks.of(0)[0, 0, ON_HOST]
    assert gpu.pid != host.pid
    assert named(tracks) == {host.pid: "rank 0 · python 0", gpu.pid: "rank 0 · GPU 0"}
    assert named(tracks, "thread_name") == {host.pid: "thread 0 (tqdm)", gpu.pid: "stream 0 0"}
    labels = [
        (event["pid"], event["args"]["labels"]) for event in tracks.metadata() if event["name"] == "process_labels"
    ]
    assert labels == [(gpu.pid, "GPU 0")]


def test_an_arrow_of_a_call_that_launched_nothing_stays_with_the_call(survey_of: SurveyOf) -> None:
    file = kineto(survey_of, (9, 9, ON_HOST), (9, 9, FLOW_END), (0, 7, FLOW_END), (0, 7, ON_GPU), (0, 20, FLOW_END))
    tracks = Tracks([Member(file, Worker(0))])
    where = tracks.of(0)
    assert where[9, 9, FLOW_END] == where[9, 9, ON_HOST]
    assert where[0, 20, FLOW_END].pid == where[0, 7, ON_GPU].pid


def test_what_has_no_lane_of_its_own_is_where_the_ranges_of_its_thread_are(survey_of: SurveyOf) -> None:
    """Arrows of every category, ends of ranges without one, instants; on a process that is a GPU and a host at once."""
    gpu_only, host_only, both, neither = 7, 99, 0, 12
    ranges = [(0, gpu_only, ON_GPU), (0, host_only, ON_HOST), (0, both, ON_GPU), (0, both, ON_HOST)]
    rest = [(0, tid, lane) for tid in (gpu_only, host_only, both, neither) for lane in (ANYWHERE, FLOW_END)]
    where = Tracks([Member(kineto(survey_of, *ranges, *rest), Worker(0))]).of(0)
    gpu, host = where[0, gpu_only, ON_GPU].pid, where[0, host_only, ON_HOST].pid
    assert gpu != host
    assert [where[0, gpu_only, lane].pid for lane in (ANYWHERE, FLOW_END)] == [gpu, gpu]
    assert [where[0, host_only, lane].pid for lane in (ANYWHERE, FLOW_END)] == [host, host]
    assert [where[0, both, lane].pid for lane in (ANYWHERE, FLOW_END)] == [host, gpu]
    assert [where[0, neither, lane].pid for lane in (ANYWHERE, FLOW_END)] == [host, host]


def test_an_event_without_a_thread_is_on_that_of_minus_one(survey_of: SurveyOf) -> None:
    file = kineto(survey_of, (5, None, ON_HOST), (5, -1, ON_HOST), (5, 0, ON_HOST))
    where = Tracks([Member(file, Worker(0))]).of(0)
    assert where[5, None, ON_HOST] == where[5, -1, ON_HOST] != where[5, 0, ON_HOST]


def test_no_thread_is_0_or_a_text_or_the_number_of_its_process(survey_of: SurveyOf) -> None:
    """A viewer takes thread 0 for the main thread, and the same text in two processes for one thread."""
    file = kineto(
        survey_of, (0, 0, ON_GPU), (0, 1, ON_GPU), (0, -1, ON_GPU), (0, None, ON_GPU), _SPANS, ("", "", ON_HOST)
    )
    tracks = Tracks([Member(file, Worker(0))])
    tids = {track[1]: where.tid for track, where in tracks.of(0).items()}
    assert tids[1] == 1
    assert len({tids[tid] for tid in (0, 1, -1)}) == 3
    assert all(isinstance(tid, int) and tid > 0 for tid in tids.values())
    assert set(named(tracks).values()) == {"rank 0 · GPU 0", "rank 0 · Spans", "rank 0 · unnamed"}
    pid = tracks.of(0)[0, 0, ON_GPU].pid
    assert pid not in tids.values()


def test_lanes_of_proton(survey_of: SurveyOf) -> None:
    tracks_of_file = {
        (0, 0, ON_HOST),
        (0, 1, ON_HOST),
        (0, 200_007, ON_HOST),
        (0, 1_200_007, ON_GPU),
        ("K Core0 CTA1", "w", ON_HOST),
    }
    file = survey_of(format="proton", tracks=frozenset(tracks_of_file), names=Names(processes={0: "Trace"}))
    tracks = Tracks([Member(file, Worker(3))])
    where = tracks.of(0)
    names = named(tracks)
    assert sorted(names.values()) == [
        "rank 3 · Proton",
        "rank 3 · Proton GPU 0",
        "rank 3 · Proton GPU 1",
        "rank 3 · Proton K Core0 CTA1",
    ]
    assert names[where[0, 0, ON_HOST].pid] == "rank 3 · Proton"
    assert names[where[0, 1_200_007, ON_GPU].pid] == "rank 3 · Proton GPU 1"
    lanes = {event["tid"]: event["args"]["name"] for event in tracks.metadata()
             if event["name"] == "thread_name" and event["pid"] == where[0, 0, ON_HOST].pid}  # fmt: skip
    assert lanes == {where[0, 0, ON_HOST].tid: "CPU Thread 0", where[0, 1, ON_HOST].tid: "CPU Thread 1"}


def test_two_profilers_of_one_process_are_told_apart(survey_of: SurveyOf) -> None:
    python = kineto(survey_of, (4242, 4242, ON_HOST), processes={4242: "python"})
    report = survey_of(
        format="viztracer", tracks=frozenset({(4242, 4242, ON_HOST)}), names=Names(processes={4242: "MainProcess"})
    )
    both = Tracks([Member(report, Worker(0)), Member(python, Worker(0))])
    assert list(named(both).values()) == ["rank 0 · python 4242 (VizTracer)", "rank 0 · python 4242 (Kineto)"]
    assert list(named(Tracks([Member(report, Worker())])).values()) == ["python 4242"]


def test_order_node_and_other_metadata(survey_of: SurveyOf) -> None:
    other = {"ph": "M", "name": "num_cpus", "pid": 8, "tid": 8, "args": {"number": 2}}
    names = Names(thread_order={(8, 8): 3})
    names.read(str(other).replace("'", '"').encode())
    file = survey_of(tracks=frozenset({(8, 8, ON_HOST), (1, 7, ON_GPU)}), names=names)
    tracks = Tracks([Member(file, Worker(0), "host-a"), Member(file, Worker(1), "host-b")])
    events = list(tracks.metadata())
    assert all("ts" not in event for event in events)
    order = [event["args"]["sort_index"] for event in events if event["name"] == "process_sort_index"]
    assert order == sorted(order)
    assert [event["args"]["labels"] for event in events if event["name"] == "process_labels"] == ["node host-a"] * 2 + [
        "node host-b"
    ] * 2
    assert [event["args"] for event in events if event["name"] == "num_cpus"] == [{"number": 2}] * 2
    assert [event["args"] for event in events if event["name"] == "thread_sort_index"] == [{"sort_index": 3}] * 2


def test_only_what_has_events_is_named(survey_of: SurveyOf) -> None:
    """Kineto names sixteen GPUs whether they exist or not."""
    file = kineto(survey_of, (2, 7, ON_GPU), processes=dict.fromkeys(range(16), "python"))
    assert list(named(Tracks([Member(file, Worker(0))])).values()) == ["rank 0 · GPU 2"]
