from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NoReturn

import pytest

from pytest_gputrace.errors import ClusterError, IdentityError
from pytest_gputrace.fakes import Cluster, Job, faults
from pytest_gputrace.fakes.isolation import namespaces_refused

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs Linux: simulated nodes")
Identity = Literal["namespaces", "patched"]


@pytest.fixture(params=["namespaces", "patched"])
def identity(request: pytest.FixtureRequest) -> Identity:
    wanted: Identity = request.param
    if wanted == "namespaces" and (reason := namespaces_refused()):
        pytest.skip(f"needs namespaces: this machine refuses them: {reason}")
    return wanted


def holders(path: Path) -> list[str]:
    """Processes that still have a file open: a pid proves nothing inside a namespace."""
    found = []
    for folder in Path("/proc").glob("[0-9]*/fd"):
        try:
            links = [os.readlink(link) for link in folder.iterdir()]
        except OSError:
            continue
        if str(path) in links:
            found.append(folder.parent.name)
    return found


def gone(path: Path, within_s: float = 5.0) -> bool:
    until = time.monotonic() + within_s
    while holders(path):
        if time.monotonic() > until:
            return False
        time.sleep(0.02)
    return True


def on_rank(rank: int, act: Callable[[], object]) -> Callable[[Job], int]:
    def function(job: Job) -> int:
        if job.worker.rank == rank:
            act()
        return job.worker.rank

    return function


def test_a_killed_worker_is_named_with_its_signal(tmp_path: Path, identity: Identity) -> None:
    def die() -> None:
        sys.stdout.write("last words\n")
        os.kill(os.getpid(), signal.SIGKILL)

    cluster = Cluster(tmp_path, configurations=["fp16"], node_identity=identity)
    with pytest.raises(ClusterError) as caught:
        cluster.run(on_rank(3, die))
    assert caught.value.workers == ("node1 rank 3 (local rank 1, fp16)",)
    text = str(caught.value)
    assert "1 of 4 workers failed" in text
    assert "node1 rank 3 (local rank 1, fp16): killed by SIGKILL" in text
    assert "last words" in text
    run = cluster.run(on_rank(3, die), check=False)
    assert run.values == [0, 1, 2, None]
    assert [(o.signal, o.exit_code) for o in run.failures] == [(signal.SIGKILL, None)]


def test_an_exit_code_is_reported(tmp_path: Path) -> None:
    def leave() -> NoReturn:
        os._exit(7)

    run = Cluster(tmp_path, nodes=1).run(on_rank(1, leave), check=False)
    assert str(run.of("node0", 1)).endswith("exited with code 7 before the function returned")
    assert run.of("node0", 1).exit_code == 7
    assert run.of("node0", 0).ok


def test_sys_exit_is_a_failure_with_its_code(tmp_path: Path) -> None:
    run = Cluster(tmp_path, nodes=1).run(on_rank(0, lambda: sys.exit(3)), check=False)
    outcome = run.of("node0", 0)
    assert (outcome.ok, outcome.exit_code, outcome.error_type) == (False, 3, "SystemExit")


def test_an_exit_status_too_large_for_the_system_is_a_failure_of_its_worker(tmp_path: Path) -> None:
    run = Cluster(tmp_path, nodes=1, deadline_s=20).run(on_rank(0, lambda: sys.exit(2**70 + 3)), check=False)
    assert [(o.exit_code, o.error_type) for o in run.failures] == [(3, "SystemExit")]


def test_an_exception_comes_back_with_its_traceback(tmp_path: Path) -> None:
    def fail() -> NoReturn:
        raise IdentityError("two ranks", sources=["RANK"])

    cluster = Cluster(tmp_path, nodes=1)
    outcome = cluster.run(on_rank(1, fail), check=False).of("node0", 1)
    assert outcome.error_type == "pytest_gputrace.errors.IdentityError"
    assert isinstance(outcome.exception, IdentityError)
    assert outcome.exception.sources == ("RANK",)
    assert outcome.error is not None
    assert "in fail" in outcome.error
    assert str(outcome).endswith("IdentityError: two ranks")
    with pytest.raises(ClusterError, match="IdentityError: two ranks") as caught:
        cluster.run(on_rank(1, fail))
    assert isinstance(caught.value.__cause__, IdentityError)


def test_an_exception_that_cannot_be_pickled_comes_back_as_text(tmp_path: Path) -> None:
    class LocalError(Exception):
        pass

    def fail() -> NoReturn:
        raise LocalError("here")

    outcome = Cluster(tmp_path, nodes=1, ranks=1).run(on_rank(0, fail), check=False).outcomes[0]
    assert outcome.exception is None
    assert outcome.error_type is not None
    assert outcome.error_type.endswith("LocalError")
    assert "LocalError: here" in (outcome.error or "")


def test_a_result_that_cannot_be_pickled_is_named(tmp_path: Path) -> None:
    with pytest.raises(ClusterError, match=r"the result, a _thread\.lock, cannot be pickled: TypeError"):
        Cluster(tmp_path, nodes=1, ranks=1).run(lambda job: threading.Lock())


def test_the_deadline_names_whom_it_waited_for_and_leaves_nobody(tmp_path: Path, identity: Identity) -> None:
    held = tmp_path / "held"

    def hang() -> None:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        with held.open("w"):
            subprocess.Popen(["sleep", "60"], stdout=held.open("w"), start_new_session=True)
            time.sleep(60)

    cluster = Cluster(tmp_path, configurations=["fp16"], deadline_s=3, node_identity=identity)
    began = time.monotonic()
    with pytest.raises(ClusterError) as caught:
        cluster.run(on_rank(2, hang), check=False)
    assert time.monotonic() - began < 20
    assert caught.value.workers == ("node1 rank 2 (local rank 0, fp16)",)
    assert "the deadline passed; waited for:\n  node1 rank 2" in str(caught.value)
    assert "still in the function" in str(caught.value)
    assert held.exists()
    assert holders(held) == [], "the agents waited for their processes"
    assert own_children() == []


def test_what_a_worker_leaves_running_ends_with_the_run(tmp_path: Path, identity: Identity) -> None:
    held = tmp_path / "held"

    def leave_child() -> None:
        subprocess.Popen(["sleep", "60"], stdout=held.open("w"), start_new_session=True)

    Cluster(tmp_path, nodes=1, node_identity=identity, deadline_s=20).run(on_rank(0, leave_child))
    assert held.exists()
    assert holders(held) == []


def own_children() -> list[str]:
    found = []
    for task in Path("/proc/self/task").iterdir():
        found += (task / "children").read_text().split()
    return found


def test_an_interrupt_in_the_parent_leaves_nobody(tmp_path: Path, identity: Identity) -> None:
    held = tmp_path / "held"

    def hang(job: Job) -> None:
        with held.open("w"):
            time.sleep(60)

    def interrupt() -> None:
        until = time.monotonic() + 20
        while not holders(held) and time.monotonic() < until:
            time.sleep(0.02)
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    with pytest.raises(KeyboardInterrupt):
        Cluster(tmp_path, nodes=1, node_identity=identity).run(hang)
    thread.join()
    assert holders(held) == []


PARENT = """
import sys, time
from pytest_gputrace.fakes import Cluster
def hang(job):
    with open(sys.argv[2], "w"):
        time.sleep(60)
Cluster(sys.argv[1], nodes=2, node_identity=sys.argv[3]).run(hang)
"""


def test_a_killed_parent_leaves_nobody(tmp_path: Path, identity: Identity) -> None:
    held = tmp_path / "held"
    parent = subprocess.Popen([sys.executable, "-c", PARENT, str(tmp_path / "cluster"), str(held), identity])
    until = time.monotonic() + 30
    while len(holders(held)) < 4 and time.monotonic() < until:
        time.sleep(0.02)
    assert len(holders(held)) == 4
    parent.kill()
    parent.wait(10)
    assert gone(held)


def test_a_worker_that_dies_before_the_start_does_not_hold_up_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pytest_gputrace.fakes import workerproc

    take_place: Any = workerproc._take_place

    def die(worker: Any) -> None:
        if worker.job.worker.rank == 1:
            os._exit(9)
        take_place(worker)

    monkeypatch.setattr(workerproc, "_take_place", die)
    run = Cluster(tmp_path, nodes=1, ranks=3, deadline_s=20).run(lambda job: job.worker.rank, check=False)
    assert run.values == [0, None, 2]
    assert run.of("node0", 1).exit_code == 9


def test_an_agent_that_fails_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: object) -> None:
        raise OSError("no room")

    monkeypatch.setattr("pytest_gputrace.fakes.nodeagent.take_streams", refuse)
    with pytest.raises(ClusterError, match="node0 could not be simulated: OSError: no room"):
        Cluster(tmp_path, nodes=1, deadline_s=20).run(lambda job: 1)


def test_a_crash_is_told_in_the_workers_log(tmp_path: Path) -> None:
    run = Cluster(tmp_path, nodes=1, ranks=1).run(lambda job: signal.raise_signal(signal.SIGSEGV), check=False)
    assert run.outcomes[0].signal is signal.SIGSEGV


@pytest.mark.parametrize("dies", [True, False])
def test_workers_that_all_end_during_set_up_tell_so_themselves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, dies: bool
) -> None:
    from pytest_gputrace.fakes import workerproc

    def fail(worker: Any) -> None:
        if dies:
            os._exit(9)
        raise OSError("no such room")

    monkeypatch.setattr(workerproc, "_take_place", fail)
    with pytest.raises(ClusterError) as caught:
        Cluster(tmp_path, nodes=1, deadline_s=20, node_identity="patched").run(lambda job: 1)
    said = "exited with code 9 before the function returned" if dies else "OSError: no such room"
    assert f"node0 rank 0 (local rank 0, model-benchmarks:experiment/fp16): {said}" in str(caught.value)


def test_the_headline_is_the_exceptions_first_line(tmp_path: Path) -> None:
    def lose(job: Job) -> NoReturn:
        raise AssertionError("\n2 captures are lost\nthe others are kept: ok")

    cluster = Cluster(tmp_path, nodes=1, configurations=["c"], node_identity="patched")
    run = cluster.run(lose, check=False)
    assert str(run.of("node0", 1)) == "node0 rank 1 (local rank 1, c): AssertionError: 2 captures are lost"


def test_workers_that_failed_alike_are_shown_once(tmp_path: Path) -> None:
    def fail(job: Job) -> NoReturn:
        sys.stdout.write(f"said by {job.worker.rank}\n")
        raise ValueError("all alike")

    with pytest.raises(ClusterError) as caught:
        Cluster(tmp_path, nodes=1, ranks=3, node_identity="patched").run(fail)
    text = str(caught.value)
    assert text.count("Traceback (most recent call last)") == 1
    assert text.count("said by") == 1
    assert "(the same in 2 more)" in text
    assert text.count(": ValueError: all alike") == 3


def test_what_has_no_more_to_show_than_its_headline_is_listed_once(tmp_path: Path) -> None:
    with pytest.raises(ClusterError) as caught:
        Cluster(tmp_path, nodes=1, configurations=["c"], node_identity="patched").run(lambda job: os._exit(7))
    line = "exited with code 7 before the function returned"
    assert str(caught.value).splitlines() == [
        "2 of 2 workers failed",
        f"  node0 rank 0 (local rank 0, c): {line}",
        f"  node0 rank 1 (local rank 1, c): {line}",
    ]


def test_after_an_injected_sigkill_the_text_tells_how_to_see_the_survivors(tmp_path: Path) -> None:
    hint = "pass check=False to look at the survivors"
    given: dict[str, Any] = {
        "nodes": 1, "node_identity": "patched", "faults": [faults.sigkill("start", who=faults.Who(rank=0))]
    }  # fmt: skip
    with pytest.raises(ClusterError, match=hint):
        Cluster(tmp_path, **given).run(lambda job: 1)
    with pytest.raises(ClusterError) as caught:
        Cluster(tmp_path, **given).run(on_rank(1, lambda: signal.raise_signal(signal.SIGKILL)))
    assert hint not in str(caught.value), "one of them was not asked for"


def test_a_forked_child_that_returns_is_not_the_worker(tmp_path: Path, identity: Identity) -> None:
    def lose_itself(job: Job) -> str:
        child = os.fork()
        if child == 0:
            return "CHILD"
        os.waitpid(child, 0)
        os._exit(0)

    outcome = Cluster(tmp_path, nodes=1, ranks=1, node_identity=identity).run(lose_itself, check=False).outcomes[0]
    assert (outcome.ok, outcome.value, outcome.exit_code) == (False, None, 0)
    assert outcome.headline == "exited with code 0 before the function returned"


def test_a_forked_child_ends_with_the_functions_end_and_its_own_status(tmp_path: Path, identity: Identity) -> None:
    def fork_three(job: Job) -> list[int]:
        codes = []
        for act in (lambda: 1, lambda: sys.exit(3), lambda: 1 / 0):
            child = os.fork()
            if child == 0:
                act()
                return []
            codes.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        return codes

    outcome = Cluster(tmp_path, nodes=1, ranks=1, node_identity=identity).run(fork_three).outcomes[0]
    assert outcome.value == [0, 3, 70]
    assert "ZeroDivisionError" in outcome.log_tail()


def test_a_worker_is_ok_only_with_status_0(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from pytest_gputrace.fakes import workerproc

    leave: Any = workerproc._leave

    def leave_and_die(worker: Any, result: Any) -> NoReturn:
        leave(worker, result)
        os._exit(5)

    monkeypatch.setattr(workerproc, "_leave", leave_and_die)
    outcome = Cluster(tmp_path, nodes=1, ranks=1).run(lambda job: 1, check=False).outcomes[0]
    assert (outcome.value, outcome.error) == (None, "exited with code 5 after the function returned")


@pytest.mark.parametrize("killed", [True, False])
def test_a_node_that_cannot_be_made_ends_the_run_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, identity: Identity, killed: bool
) -> None:
    from pytest_gputrace.fakes import nodeagent
    from pytest_gputrace.fakes.workerproc import take_streams

    def refuse(log: Path) -> None:
        if log.name == "node0.log":
            if killed:
                signal.raise_signal(signal.SIGKILL)
            raise OSError("no room")
        take_streams(log)

    monkeypatch.setattr(nodeagent, "take_streams", refuse)
    began = time.monotonic()
    said = "its process ended" if killed else "OSError: no room"
    with pytest.raises(ClusterError, match=f"node0 could not be simulated: {said}"):
        Cluster(tmp_path, nodes=2, deadline_s=30, node_identity=identity).run(lambda job: 1)
    assert time.monotonic() - began < 15
    assert own_children() == []


def test_a_run_that_is_too_late_tells_of_failed_nodes(tmp_path: Path) -> None:
    from pytest_gputrace.fakes.plan import NodePlan, RunPlan
    from pytest_gputrace.fakes.supervisor import _Run

    plan = RunPlan(lambda job: 1, [], "patched", None, 0.0, os.getpid())
    run = _Run([NodePlan(0, "node0", "host", [], tmp_path / "log")], plan)
    try:
        os.write(plan.report, b"failed 0 OSError: no room\n")
        assert "node0 could not be simulated: OSError: no room" in str(run._too_late())
    finally:
        run.stop()


class Leaves:
    def __init__(self, how: Callable[[], object]) -> None:
        self.how = how

    def __reduce__(self) -> tuple[Any, ...]:
        return (self.how, ())


class LeavesError(Exception):
    def __reduce__(self) -> tuple[Any, ...]:
        return (sys.exit, (4,))


def skip() -> NoReturn:
    pytest.skip("not here")


@pytest.mark.parametrize(("how", "said"), [(sys.exit, "SystemExit"), (skip, "Skipped: not here")])
def test_what_unpickling_raises_stays_in_the_outcome(tmp_path: Path, how: Any, said: str) -> None:
    cluster = Cluster(tmp_path, nodes=1, ranks=1, node_identity="patched")
    outcome = cluster.run(lambda job: Leaves(how), check=False).outcomes[0]
    assert outcome.value is None
    assert (outcome.error or "").startswith(f"the result cannot be unpickled: {said}")


def test_an_exception_that_unpickling_turns_into_an_exit_comes_back_as_text(tmp_path: Path) -> None:
    def fail(job: Job) -> NoReturn:
        raise LeavesError("here")

    outcome = Cluster(tmp_path, nodes=1, ranks=1, node_identity="patched").run(fail, check=False).outcomes[0]
    assert outcome.exception is None
    assert "LeavesError: here" in outcome.headline


MANY_FILES = """
import resource, sys
soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
if soft != resource.RLIM_INFINITY and soft < 2000:
    if hard != resource.RLIM_INFINITY and hard < 2000:
        print("refused")
        sys.exit()
    resource.setrlimit(resource.RLIMIT_NOFILE, (2000, hard))
held = [open("/dev/null") for _ in range(1100)]
from pytest_gputrace.fakes import Cluster
from pytest_gputrace.fakes.isolation import namespaces
for identity in ("patched", "auto"):
    assert Cluster(sys.argv[1], deadline_s=20, node_identity=identity).run(lambda job: 1).values == [1] * 4
namespaces()
print("done")
"""


def test_a_process_with_many_files_can_run_a_cluster(tmp_path: Path) -> None:
    command = [sys.executable, "-c", MANY_FILES, str(tmp_path)]
    done = subprocess.run(command, check=True, timeout=60, stdout=subprocess.PIPE, text=True)
    if done.stdout == "refused\n":
        pytest.skip("needs more than 1100 open files: the hard limit is lower")
    assert done.stdout == "done\n"


IGNORED = """
import signal, sys
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
from pytest_gputrace.fakes import Cluster
from pytest_gputrace.fakes.isolation import _probe
before = [_probe(how) for how in ("plain", "user")]
assert Cluster(sys.argv[1], deadline_s=20).run(lambda job: 1).values == [1] * 4
signal.signal(signal.SIGCHLD, signal.SIG_DFL)
assert before == [_probe(how) for how in ("plain", "user")], before
"""


def test_an_ignored_sigchld_changes_nothing(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-c", IGNORED, str(tmp_path)], check=True, timeout=60)


STARTS_OTHERS = """
import subprocess, sys, time
from pytest_gputrace.fakes import Cluster
def hang(job):
    subprocess.Popen(["sleep", "60"], stdout=open(sys.argv[2], "w"), start_new_session=True)
    open(sys.argv[2] + str(job.worker.rank), "w")
    time.sleep(60)
Cluster(sys.argv[1], nodes=2, node_identity=sys.argv[3]).run(hang)
"""


def test_a_killed_parent_leaves_nothing_that_workers_started(tmp_path: Path, identity: Identity) -> None:
    held = tmp_path / "held"
    parent = subprocess.Popen([sys.executable, "-c", STARTS_OTHERS, str(tmp_path / "cluster"), str(held), identity])
    until = time.monotonic() + 30
    while len(list(tmp_path.glob("held?"))) < 4 and time.monotonic() < until:
        time.sleep(0.02)
    assert len(holders(held)) >= 4
    parent.kill()
    parent.wait(10)
    assert gone(held)


def test_killed_at_a_byte_counted_from_the_first_file_in_the_trace_folder(tmp_path: Path) -> None:
    def export(job: Job) -> None:
        whole = job.rank_dir / "whole"
        whole.write_bytes(b"x" * 5000)
        (job.trace_dir / "copy.json").write_bytes(whole.read_bytes())

    fault = faults.sigkill(at_byte=100, opening=1)
    cluster = Cluster(tmp_path, nodes=1, ranks=1, configurations=["c"], faults=[fault])
    run = cluster.run(export, check=False)
    assert run.struck == {"sigkill(at_byte=100, opening=1)": 1}
    assert (cluster.trace_dir / "copy.json").stat().st_size == 100
    with pytest.raises(ClusterError, match="no file grew past 100 bytes after 1 were opened below the trace folder"):
        cluster.run(lambda job: (job.rank_dir / "whole").write_bytes(b"x" * 5000) and None)
    with pytest.raises(ValueError, match="opening is about at_byte"):
        faults.sigkill(1, opening=1)
