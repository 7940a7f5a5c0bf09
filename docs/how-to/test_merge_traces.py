import pytest

from pytest_gputrace import MergeError, merge
from pytest_gputrace.fakes import FakeTrace


def record(folder, ranks=2, **clock_of_the_second_node):
    for rank in range(ranks):  # stands for your run, one trace a rank, two ranks a node
        clock = clock_of_the_second_node if rank >= 2 else {}
        trace = FakeTrace(rank=rank, world_size=ranks, steps=20, max_pause_ns=200_000, host=f"node{rank // 2}", **clock)
        trace.write(folder / f"trace-rank{rank}.json.gz")


def test_two_ranks_on_one_timeline(tmp_path):
    record(tmp_path)
    result = merge(tmp_path, tmp_path / "timeline.json.gz", expect_ranks=2)
    assert [each.worker for each in result.inputs] == ["rank 0", "rank 1"]
    assert all(each.flows_in == each.flows_out for each in result.inputs)


def test_frames_of_python_and_scopes_of_proton(tmp_path):
    frames = FakeTrace.viztracer(scope_ids=(1, 2)).write(tmp_path / "viz.json")
    scopes = FakeTrace.proton().write(tmp_path / "proton.chrome_trace")
    result = merge([], tmp_path / "timeline.json", ranks={0: [frames, scopes]})
    assert (result.links, result.unlinked) == (2, 0)


def test_a_rank_that_is_lost_is_never_passed_over(tmp_path):
    record(tmp_path)
    (tmp_path / "trace-rank1.json.gz").unlink()
    with pytest.raises(MergeError, match="1 of 2 ranks"):
        merge(tmp_path, tmp_path / "timeline.json.gz")
    result = merge(tmp_path, tmp_path / "timeline.json.gz", allow_missing=True)
    assert result.missing_ranks == (1,)


def test_the_clock_of_the_second_node_is_set_right(tmp_path):
    record(tmp_path, ranks=4, clock_offset_ns=3_000_000)
    result = merge(tmp_path, tmp_path / "timeline.json.gz", align="collectives")
    assert [round(clock.offset_us) for clock in result.clocks] == [0, 0, -3000, -3000]
