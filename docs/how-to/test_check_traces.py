from pytest_gputrace import check
from pytest_gputrace.fakes import FakeTrace


def record(folder, ranks=4):
    for rank in range(ranks):  # stands for your run, one trace a rank
        FakeTrace(rank=rank, world_size=ranks).write(folder / f"trace-rank{rank}.json.gz")


def test_every_rank_left_a_sound_trace(tmp_path, gputrace_check):
    record(tmp_path)
    gputrace_check(tmp_path).clean(expect_ranks=4, expect_gpu=True)


def test_what_is_lost_is_named(tmp_path):
    record(tmp_path)
    (tmp_path / "trace-rank2.json.gz").unlink()
    cut = tmp_path / "trace-rank1.json.gz"
    cut.write_bytes(cut.read_bytes()[:-300])
    report = check([tmp_path], expect_ranks=4)
    errors = [(finding.code, finding.rank) for finding in report.all_findings if finding.severity == "error"]
    assert errors == [("GT202", 1), ("GT501", 2)]
    assert not report.ok
