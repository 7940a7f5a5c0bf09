from __future__ import annotations

import datetime
import errno
import os
import signal
import sqlite3
import sys
import time
from time import time as taken_by_name
from typing import TYPE_CHECKING, Any, Literal

import pytest

from pytest_gputrace.errors import ClusterError
from pytest_gputrace.fakes import Cluster, Job, faults
from pytest_gputrace.fakes.isolation import namespaces_refused
from pytest_gputrace.fakes.systemfaults import is_refused
from pytest_gputrace.model import WorkerId

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pytest_gputrace.fakes.faults import Fault

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs Linux: simulated nodes")
Identity = Literal["namespaces", "patched"]


@pytest.fixture(params=["namespaces", "patched"])
def identity(request: pytest.FixtureRequest) -> Identity:
    wanted: Identity = request.param
    if wanted == "namespaces" and (reason := namespaces_refused()):
        pytest.skip(f"needs namespaces: this machine refuses them: {reason}")
    return wanted


def one(tmp_path: Path, *given: Fault, **more: Any) -> Cluster:
    return Cluster(tmp_path, nodes=1, ranks=1, configurations=["c"], faults=given, deadline_s=30, **more)


def clocks(job: Job) -> set[float]:
    told: set[float] = set()
    for _ in range(3):
        told |= {time.time(), time.time_ns() / 1e9, taken_by_name(), datetime.datetime.now().timestamp()}
        told |= {float(time.strftime("%s")), datetime.datetime.now(datetime.timezone.utc).timestamp()}
        time.sleep(0.01)
    return told


def test_a_frozen_clock_stands_still_whatever_asks_it(tmp_path: Path, identity: Identity) -> None:
    run = one(tmp_path, faults.frozen_clock(1_234_567_890.0), node_identity=identity).run(clocks)
    assert run.values == [{1_234_567_890.0}]
    assert run.struck == {"frozen_clock(epoch_s=1234567890.0)": 1}
    assert abs(time.time() - time.clock_gettime(time.CLOCK_REALTIME)) < 5, "the test's own clock goes on"


def test_all_workers_read_the_same_frozen_clock_while_the_monotonic_one_goes_on(tmp_path: Path) -> None:
    def tell(job: Job) -> tuple[float, bool]:
        before = time.monotonic()
        time.sleep(0.002)
        return time.time(), time.monotonic() > before

    run = Cluster(tmp_path, faults=[faults.frozen_clock()], turns=True).run(tell)
    assert run.values == [(1_800_000_000.0, True)] * 4
    times = [moment for outcome in run for moment in (outcome.started_ns, outcome.ended_ns)]
    assert times == sorted(times), "what the run knows of its workers' times does not come from the frozen clock"  # type: ignore[type-var]


def test_the_deadline_does_not_depend_on_the_frozen_clock(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path, nodes=1, faults=[faults.frozen_clock(1.0)], deadline_s=0.6)
    with pytest.raises(ClusterError, match="the deadline passed"):
        cluster.run(lambda job: time.sleep(30))


@pytest.mark.parametrize("epoch_s", [0, -1, float("nan"), float("inf"), 10**12])
def test_clocks_that_no_datetime_can_tell_are_refused(epoch_s: float) -> None:
    with pytest.raises(ValueError, match=r"frozen_clock: epoch_s=.* must be above 0 and at most 253402300799"):
        faults.frozen_clock(epoch_s)


@pytest.mark.parametrize("epoch_s", ["1", None, True])
def test_a_clock_is_a_number(epoch_s: Any) -> None:
    with pytest.raises(TypeError, match=r"frozen_clock: epoch_s=.* must be a number of seconds"):
        faults.frozen_clock(epoch_s)


def by_python(path: Path) -> None:
    path.write_bytes(b"x" * 10_000)


def by_sendfile(path: Path) -> None:
    with open(sys.executable, "rb") as source, path.open("wb") as target:
        while os.sendfile(target.fileno(), source.fileno(), None, 4000):
            pass


def by_small_steps(path: Path) -> None:
    with path.open("wb", buffering=0) as stream:
        for _ in range(100):
            stream.write(b"x" * 300)


@pytest.mark.parametrize("write", [by_python, by_sendfile, by_small_steps])
def test_on_a_full_disk_a_file_ends_at_the_limit(
    tmp_path: Path, identity: Identity, write: Callable[[Path], None]
) -> None:
    def export(job: Job) -> tuple[int | None, int]:
        try:
            write(job.legacy_path)
        except OSError as error:
            return error.errno, job.legacy_path.stat().st_size
        return None, job.legacy_path.stat().st_size

    run = one(tmp_path, faults.disk_full(at_byte=1000), node_identity=identity).run(export)
    assert run.values == [(errno.EFBIG, 1000)]
    assert run.struck == {"disk_full(at_byte=1000)": 1}


def test_a_full_disk_is_full_for_c_code_too(tmp_path: Path) -> None:
    def export(job: Job) -> str:
        base = sqlite3.connect(job.trace_dir / "base")
        try:
            with base:
                base.execute("create table t (x)")
                base.executemany("insert into t values (?)", [("y" * 1000,)] * 100)
        except sqlite3.OperationalError as error:
            return str(error)
        finally:
            base.close()
        return "written"

    run = one(tmp_path, faults.disk_full()).run(export)
    assert run.values != ["written"]
    assert run.struck == {"disk_full()": 1}
    assert (tmp_path / "traces" / "base").stat().st_size <= 4096


def test_a_full_disk_is_over_when_the_result_is_written_and_only_for_the_selected(tmp_path: Path) -> None:
    def export(job: Job) -> bytes:
        try:
            (job.trace_dir / f"{job.worker.rank}").write_bytes(b"x" * 9000)
        except OSError:
            return b"e" * 50_000
        return b"ok"

    fault = faults.disk_full(at_byte=0, who=faults.Who(rank=1))
    run = Cluster(tmp_path, nodes=1, faults=[fault]).run(export)
    assert run.values == [b"ok", b"e" * 50_000]
    assert [outcome.injected for outcome in run] == [(), (str(fault),)]


def test_a_full_disk_that_nobody_met_fails_the_run(tmp_path: Path) -> None:
    with pytest.raises(ClusterError, match="no file grew past 4096 bytes; choose a smaller at_byte"):
        one(tmp_path, faults.disk_full()).run(lambda job: job.legacy_path.write_bytes(b"x" * 4096))


def test_a_full_disk_leaves_the_process_as_it_was(tmp_path: Path) -> None:
    import resource

    def state() -> object:
        limits = resource.getrlimit(resource.RLIMIT_FSIZE), resource.getrlimit(resource.RLIMIT_CORE)
        return limits, signal.getsignal(signal.SIGXFSZ)

    before = state()
    job = Job("m", "c", WorkerId("node0", 0, 0, 1), tmp_path, tmp_path)
    with faults.disk_full(10).applied(job) as record, pytest.raises(OSError, match="File too large"):
        (tmp_path / "x").write_bytes(b"y" * 100)
    assert record is not None
    assert record.fired
    assert state() == before
    (tmp_path / "x").write_bytes(b"y" * 100)


REFUSED = [
    "a:b", "a<b", "a>b", 'a"b', "a|b", "a?b", "a*b", "a\\b", "a\tb", "a\x01", "a\x1f", "ends.", "ends ", "...",
    "CON", "nul", "PRN.txt", "aux.tar.gz", "com1.json", "LPT9", "COM\u00b2", "con .txt",
]  # fmt: skip
ALLOWED = [
    "a",
    "a.b",
    ".a",
    "a b",
    " a",
    "a,b;c=d",
    "CONSOLE",
    "xnul",
    "com0",
    "com10",
    "LPT",
    "a%3Ab",
    "\u00e9",
    "\x7f",
]


@pytest.mark.parametrize("name", REFUSED)
def test_refused_names(name: str) -> None:
    assert is_refused(name)


@pytest.mark.parametrize("name", ALLOWED)
def test_allowed_names(name: str) -> None:
    assert not is_refused(name)


WAYS: dict[str, Callable[[Path, Path], object]] = {
    "open": lambda mine, target: target.write_text("x"),
    "os.open": lambda mine, target: os.close(os.open(target, os.O_WRONLY | os.O_CREAT)),
    "append": lambda mine, target: target.open("a").close(),
    "bytes": lambda mine, target: open(os.fsencode(target), "x").close(),
    "rename": lambda mine, target: mine.rename(target),
    "replace": lambda mine, target: os.replace(mine, target),
    "link": lambda mine, target: os.link(mine, target),
    "symlink": lambda mine, target: target.symlink_to("nowhere"),
    "mkdir": lambda mine, target: target.mkdir(),
    "below": lambda mine, target: (target / "fine.json").write_text("x"),
}


@pytest.mark.parametrize("way", WAYS)
def test_a_refused_name_cannot_be_made_in_any_way(tmp_path: Path, identity: Identity, way: str) -> None:
    def export(job: Job) -> list[tuple[int | None, str] | None]:
        said: list[tuple[int | None, str] | None] = []
        for name in ("a:b", "fine"):
            mine = job.trace_dir / "mine"
            mine.touch()
            try:
                WAYS[way](mine, job.trace_dir / name)
            except OSError as error:
                said.append((error.errno, os.path.basename(error.filename)))
            else:
                said.append(None)
        return said

    run = one(tmp_path, faults.refused_names(), node_identity=identity).run(export)
    inside = "fine.json" if way == "below" else "a:b"
    assert run.values == [[(errno.EINVAL, inside), (errno.ENOENT, inside) if way == "below" else None]]
    assert run.struck == {"refused_names()": 1}
    assert not (tmp_path / "traces" / "a:b").exists()


def test_refused_names_may_be_read_removed_and_made_elsewhere(tmp_path: Path) -> None:
    def export(job: Job) -> str:
        (job.rank_dir / "a:b").write_text("elsewhere")
        old = job.trace_dir / "old:file"
        text = old.read_text()
        old.rename(job.trace_dir / "new-file")
        return text

    cluster = one(tmp_path, faults.refused_names())
    cluster.trace_dir.mkdir()
    (cluster.trace_dir / "old:file").write_text("old")
    assert cluster.run(export).values == ["old"]


def test_an_exporter_that_makes_no_refused_name_is_no_error(tmp_path: Path) -> None:
    run = one(tmp_path, faults.refused_names()).run(lambda job: job.legacy_path.write_text("[]"))
    assert run.struck == {"refused_names()": 0}
    fault = faults.refused_names(who=faults.Who(rank=9))
    with pytest.raises(ClusterError, match="selected nobody"):
        one(tmp_path, fault).run(lambda job: None)
    both = [faults.refused_names(), faults.truncate_legacy("end")]
    with pytest.raises(ClusterError, match="1 of 2 faults struck nobody"):
        one(tmp_path / "other", *both).run(lambda job: None)
