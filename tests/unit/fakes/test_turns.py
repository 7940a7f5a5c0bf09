from __future__ import annotations

import itertools
import os
import resource
import signal
import sys
import time
from typing import TYPE_CHECKING, Any, Literal

import pytest

from pytest_gputrace.errors import ClusterError
from pytest_gputrace.fakes import Cluster, Job, faults
from pytest_gputrace.fakes.isolation import namespaces_refused
from pytest_gputrace.fakes.snapshot import differences, settled_snapshot, snapshot

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs Linux: simulated nodes")
Identity = Literal["namespaces", "patched"]


@pytest.fixture(params=["namespaces", "patched"])
def identity(request: pytest.FixtureRequest) -> Identity:
    wanted: Identity = request.param
    if wanted == "namespaces" and (reason := namespaces_refused()):
        pytest.skip(f"needs namespaces: this machine refuses them: {reason}")
    return wanted


def paths(folder: Path, *names: str) -> tuple[str, ...]:
    return tuple(sorted(str(folder / name) for name in names))


def test_workers_are_called_in_the_order_of_the_outcomes(tmp_path: Path, identity: Identity) -> None:
    cluster = Cluster(tmp_path, configurations=["a", "b"], turns=True, node_identity=identity)
    run = cluster.run(lambda job: time.sleep(0.01))
    times = [(outcome.started_ns or 0, outcome.ended_ns or 0) for outcome in run]
    assert len(times) == 8
    assert times == sorted(times)
    assert all(end <= start for (_, end), (start, _) in itertools.pairwise(times))


def test_the_next_is_called_when_the_one_before_was_killed_or_raised(tmp_path: Path, identity: Identity) -> None:
    def fail(job: Job) -> int:
        (job.trace_dir / f"{job.worker.rank}").touch()
        if job.worker.rank == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        if job.worker.rank == 1:
            raise OSError("full")
        if job.worker.rank == 2:
            os._exit(7)
        return len(list(job.trace_dir.iterdir()))

    cluster = Cluster(tmp_path, turns=True, node_identity=identity, deadline_s=30)
    run = cluster.run(fail, check=False)
    assert run.values == [None, None, None, 4]
    assert [(o.signal, o.error_type, o.exit_code) for o in run] == [
        (signal.SIGKILL, None, None),
        (None, "OSError", 0),
        (None, None, 7),
        (None, None, 0),
    ]
    assert [outcome.touched for outcome in run] == [paths(cluster.trace_dir, str(rank)) for rank in range(4)]


def test_one_that_the_function_lets_run_on_is_not_waited_for_twice(tmp_path: Path) -> None:
    """A worker is over when its own process is: what it forked does not hold up the next."""

    def leave_a_child(job: Job) -> int:
        if os.fork() == 0:
            time.sleep(30)
        return job.worker.rank

    assert Cluster(tmp_path, turns=True, nodes=1, deadline_s=20).run(leave_a_child).values == [0, 1]


def change(job: Job) -> None:
    """Rank 0 makes, rank 1 writes again with the same size, 2 replaces, 3 cuts, 4 removes, 5 only reads."""
    plain, other = job.trace_dir / "plain", job.trace_dir / "sub" / "other"
    if job.worker.rank == 0:
        other.parent.mkdir()
        plain.write_text("0000")
        other.write_text("0000")
    elif job.worker.rank == 1:
        plain.write_text("1111")
    elif job.worker.rank == 2:
        beside = job.trace_dir / "plain.tmp"
        beside.write_text("2222")
        os.replace(beside, plain)
    elif job.worker.rank == 3:
        os.truncate(other, 1)
    elif job.worker.rank == 4:
        other.unlink()
        other.parent.rmdir()
    else:
        plain.read_text()


@pytest.mark.parametrize("outside", [False, True], ids=["below the root", "elsewhere"])
def test_touched_are_files_that_were_made_changed_replaced_or_removed(tmp_path: Path, outside: bool) -> None:
    folder = tmp_path / "mine" if outside else tmp_path / "root" / "traces"
    cluster = Cluster(tmp_path / "root", nodes=1, ranks=6, turns=True, trace_dir=folder)
    run = cluster.run(change)
    assert [outcome.touched for outcome in run] == [
        paths(folder, "plain", "sub/other"),
        paths(folder, "plain"),
        paths(folder, "plain"),
        paths(folder, "sub/other"),
        paths(folder, "sub/other"),
        (),
    ]


def test_touched_are_files_anywhere_below_the_root_but_the_clusters_own(tmp_path: Path) -> None:
    def write(job: Job) -> None:
        (job.rank_dir / "mine").touch()
        (job.trace_dir / f"{job.worker.rank}").touch()
        sys.stdout.write("to the log")

    cluster = Cluster(tmp_path, nodes=1, configurations=["c"], turns=True)
    run = cluster.run(write)
    for rank, outcome in enumerate(run):
        assert outcome.touched == paths(tmp_path, f"node0/benchmarks/c/rank{rank}/mine", f"traces/{rank}")


def test_touched_are_found_where_the_root_lies_in_the_trace_folder(tmp_path: Path) -> None:
    def write(job: Job) -> None:
        (job.trace_dir / "above").write_text(str(job.worker.rank))
        (job.rank_dir / "below").touch()

    run = Cluster(tmp_path / "root", nodes=1, ranks=1, work_dirs=["w"], turns=True, trace_dir=tmp_path).run(write)
    assert run.outcomes[0].touched == paths(tmp_path, "above", "root/node0/w/below")


def test_what_was_there_before_is_nobodys(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path, nodes=1, turns=True, faults=[faults.stale_files()])
    run = cluster.run(lambda job: job.legacy_path.write_text("[]"))
    assert [outcome.touched for outcome in run] == [(str(outcome.job.legacy_path),) for outcome in run]


def test_a_fault_strikes_in_its_workers_turn(tmp_path: Path) -> None:
    fault = faults.truncate_legacy("start", who=faults.Who(rank=1))
    run = Cluster(tmp_path, nodes=1, turns=True, faults=[fault]).run(lambda job: None)
    assert [outcome.touched for outcome in run] == [(), (str(run.outcomes[1].job.legacy_path),)]


def test_without_turns_nothing_is_told(tmp_path: Path) -> None:
    run = Cluster(tmp_path, nodes=1).run(lambda job: job.legacy_path.touch())
    assert [outcome.touched for outcome in run] == [(), ()]


def test_the_deadline_names_the_worker_whose_turn_it_was(tmp_path: Path, identity: Identity) -> None:
    def hang(job: Job) -> None:
        if job.worker.rank == 1:
            time.sleep(60)

    cluster = Cluster(tmp_path, configurations=["c"], turns=True, deadline_s=4, node_identity=identity)
    with pytest.raises(ClusterError) as caught:
        cluster.run(hang)
    assert str(caught.value).splitlines() == [
        "the deadline passed; waited for:",
        "  node0 rank 1 (local rank 1, c): still in the function",
        "  and 2 whose turn did not come",
    ]
    assert len(caught.value.workers) == 3


def test_a_hundred_workers_in_turns_leave_no_descriptor(tmp_path: Path) -> None:
    def append(job: Job) -> None:
        with (job.trace_dir / "shared").open("a") as stream:
            stream.write(f"{job.worker.rank}\n")

    before = os.listdir("/proc/self/fd")
    cluster = Cluster(tmp_path, ranks=50, configurations=["c"], turns=True)
    run = cluster.run(append)
    assert os.listdir("/proc/self/fd") == before
    assert (cluster.trace_dir / "shared").read_text().split() == [str(rank) for rank in range(100)]
    assert {outcome.touched for outcome in run} == {(str(cluster.trace_dir / "shared"),)}


def test_an_agent_that_dies_does_not_hold_up_the_others(tmp_path: Path) -> None:
    def kill_the_node(job: Job) -> int:
        if job.worker.rank == 1:
            os.kill(os.getppid(), signal.SIGKILL)
            time.sleep(30)
        return job.worker.rank

    run = Cluster(tmp_path, turns=True, deadline_s=20, node_identity="patched").run(kill_the_node, check=False)
    assert run.values == [0, None, 2, 3]
    assert (run.outcomes[1].error or "").startswith("lost: ")


def test_one_that_dies_before_its_turn_has_none(tmp_path: Path) -> None:
    if reason := namespaces_refused():
        pytest.skip(f"needs namespaces: this machine refuses them: {reason}")

    def kill_the_second(job: Job) -> int:
        (job.trace_dir / f"{job.worker.rank}").touch()
        if job.worker.rank == 0:
            os.kill(3, signal.SIGKILL)  # worker n of a node has process id n + 2
        return job.worker.rank

    cluster = Cluster(tmp_path, nodes=1, ranks=3, turns=True, deadline_s=20, node_identity="namespaces")
    run = cluster.run(kill_the_second, check=False)
    assert run.values == [0, None, 2]
    assert [outcome.touched for outcome in run] == [paths(cluster.trace_dir, "0"), (), paths(cluster.trace_dir, "2")]


def test_too_few_descriptors_are_told(tmp_path: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (len(os.listdir("/proc/self/fd")) + 3, hard))
    before = os.listdir("/proc/self/fd")
    try:
        with pytest.raises(ClusterError, match="turns=True needs a file descriptor for each of 200 workers: "):
            Cluster(tmp_path, nodes=1, ranks=200, turns=True).run(lambda job: None)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert os.listdir("/proc/self/fd") == before


@pytest.mark.parametrize("wrong", [1, "yes", None])
def test_turns_is_a_flag(tmp_path: Path, wrong: Any) -> None:
    with pytest.raises(TypeError, match=r"turns=.* must be True or False"):
        Cluster(tmp_path, turns=wrong)


def test_a_snapshot_sees_files_and_links_but_for_one_folder(tmp_path: Path) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "b" / "file").touch()
    (tmp_path / "out" / "deep").mkdir(parents=True)
    (tmp_path / "out" / "deep" / "file").touch()
    (tmp_path / "link").symlink_to("nowhere")
    (tmp_path / "folder").symlink_to("a")
    assert set(snapshot([tmp_path], tmp_path / "out")) == set(paths(tmp_path, "a/b/file", "link", "folder"))
    assert snapshot([tmp_path / "missing"]) == {}


def test_after_a_settled_snapshot_every_write_shows(tmp_path: Path) -> None:
    file = tmp_path / "file"
    for number in range(50):
        file.write_text(f"{number:03}")
        before = settled_snapshot([tmp_path])
        file.write_text(f"{number + 1:03}")
        assert differences(before, snapshot([tmp_path])) == (str(file),)
