from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pytest

from pytest_gputrace.fakes import OUTSIDE_LAYOUT, Cluster, Job, faults
from pytest_gputrace.fakes.faults import STALE_ROUND
from pytest_gputrace.model import Capture, Mark

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs Linux: simulated nodes")


def test_workers_run_in_the_folders_given(tmp_path: Path) -> None:
    run = Cluster(tmp_path, work_dirs=["a/b", Path("c")]).run(lambda job: (os.getcwd(), str(job.rank_dir)))
    folders = [str(tmp_path / node / name) for node in ("node0", "node1") for name in ("a/b", "c")]
    assert run.values == [(folder, folder) for folder in folders]
    assert not list(tmp_path.rglob("benchmarks"))


def test_such_workers_have_no_configuration_and_a_valid_rank(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path, work_dirs=OUTSIDE_LAYOUT, ranks=len(OUTSIDE_LAYOUT))
    assert cluster.ranks == len(OUTSIDE_LAYOUT)
    run = cluster.run(lambda job: (job.configuration, os.environ["RANK"], os.environ["LOCAL_RANK"], os.getcwd()))
    count = len(OUTSIDE_LAYOUT)
    assert run.values == [
        ("", str(node * count + place), str(place), str(tmp_path / f"node{node}" / name))
        for node in range(2)
        for place, name in enumerate(OUTSIDE_LAYOUT)
    ]
    assert cluster.expected == [Capture(f"node{rank // count}", rank, "") for rank in range(2 * count)]
    assert str(run.outcomes[0].job) == "node0 rank 0 (local rank 0, no configuration)"


def test_their_folders_may_be_their_trace_folders_and_may_be_shared(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path, nodes=1, work_dirs=["same", "same"], shared_trace_dir=False)
    assert cluster.trace_dirs == [tmp_path / "node0" / "same"]
    assert cluster.run(lambda job: str(job.trace_dir)).values == [str(tmp_path / "node0" / "same")] * 2


@pytest.mark.parametrize(
    ("wrong", "error", "message"),
    [
        ({"work_dirs": ["a"], "ranks": 2}, ValueError, "ranks=2, but work_dirs has a folder for 1; leave ranks out"),
        ({"work_dirs": ["a"], "configurations": ["c"]}, ValueError, "configurations cannot be given with it"),
        ({"work_dirs": []}, ValueError, r"work_dirs=\[\]: their number must be at least 1"),
        ({"work_dirs": ["/a"]}, ValueError, "work_dirs: folder '/a' is an absolute path; give a path below the node"),
        ({"work_dirs": ["a/../b"]}, ValueError, "has the part '..'"),
        ({"work_dirs": ["x" * 256]}, ValueError, "more than 255 bytes"),
        ({"work_dirs": "a"}, TypeError, "work_dirs='a' is one text; give a list"),
        ({"work_dirs": 3}, TypeError, "work_dirs=3 must be a list of texts"),
        ({"work_dirs": [3]}, TypeError, "work_dirs: folder=3 must be a text"),
        ({"work_dirs": ["a"], "legacy_name": "{configuration}/x.json"}, ValueError, "gives '/x.json'"),
        ({"first_round": -1}, ValueError, "first_round=-1 must be at least 0"),
        ({"first_round": 1.0}, TypeError, "first_round=1.0 must be a whole number"),
    ],
)
def test_wrong_arguments(tmp_path: Path, wrong: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=f"^Cluster: .*{message}"):
        Cluster(tmp_path, **wrong)
    assert list(tmp_path.iterdir()) == []


def profiled(job: Job) -> list[Capture]:
    found: list[Capture] = []
    for _ in range(job.rounds):
        with job.profiler() as profile:
            pass
        found += {mark.capture for event in profile.events() if (mark := Mark.parse(event.name))}
    return found


def test_rounds_are_counted_from_the_first(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path, nodes=1, configurations=["c"], rounds=2, first_round=5)
    assert cluster.expected == [Capture("node0", rank, "c", round) for rank in (0, 1) for round in (5, 6)]
    run = cluster.run(profiled)
    assert [capture for value in run.values for capture in value or []] == cluster.expected
    job = run.outcomes[0].job
    assert (job.first_round, job.capture(), job.capture(1).round) == (5, Capture("node0", 0, "c", 5), 6)


def test_a_later_run_makes_other_marks(tmp_path: Path) -> None:
    first, second = (Cluster(tmp_path, nodes=1, rounds=3, first_round=number).run(profiled) for number in (0, 3))
    assert not {c for value in first.values for c in value or []} & {c for value in second.values for c in value or []}


def test_stale_files_keep_their_round(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path, nodes=1, ranks=1, first_round=7, faults=[faults.stale_files()])
    cluster.run(lambda job: None)
    assert f"/{STALE_ROUND}/0-of-" in (cluster.trace_dir / "torch-profiler-sb-resnet50-0.json").read_text()
