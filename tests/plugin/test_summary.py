"""The summary of a run: the same with and without xdist, with failing tests, and with a worker that was killed."""

from __future__ import annotations

import json
import re
import sys
import textwrap
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

    Start = Callable[..., pytest.RunResult]

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="simulated nodes need Linux")

TESTS = """
def test_a_kept(gputrace_cluster, gputrace_check):
    run = gputrace_cluster(ranks=2, configurations=("a:x/fp16", "a:x/fp32"), node_identity="patched").run(export)
    gputrace_check(run).distinct().valid().finite().complete().legacy()


def test_b_two_clusters(gputrace_cluster, gputrace_fault):
    first = gputrace_cluster(label="one", nodes=1, ranks=1, rounds=2, node_identity="patched")
    first.run(lambda job: [export(job), export(job)])
    second = gputrace_cluster(label="equal hosts", faults=[gputrace_fault.equal_hosts()], node_identity="patched")
    second.run(export)


def test_c_lost(gputrace_cluster, gputrace_check):
    cluster = gputrace_cluster(ranks=1, configurations=("x", "y"), node_identity="patched")
    cluster.run(naive)
    gputrace_check(cluster).complete()


def test_d_killed(gputrace_cluster, gputrace_fault):
    faults = [gputrace_fault.sigkill("start", who=gputrace_fault.Who(rank=1))]
    gputrace_cluster(nodes=1, faults=faults, node_identity="patched").run(export)


def test_e_real_ranks(tmp_path, gputrace_check):
    expected = [Capture("gpu07", rank, "x") for rank in range(2)]
    for capture in expected:
        text = '[{"name": "%s"}]' % capture.mark()
        (tmp_path / f"{capture.rank}.json").write_text(text)
    gputrace_check(tmp_path, expected).complete()


def test_f_nothing_to_tell(gputrace_dir):
    assert gputrace_dir.is_dir()
"""

EXPECTED = """\
    test_it.py::test_a_kept
      2 nodes x 2 ranks x 2 configurations: 8 of 8 captures kept
        legacy files: 2 of 2 equal to the last capture written
        node identity: patched
        folder: RUN/test_it.py-test_a_kept~DIGEST/cluster0/traces
    test_it.py::test_b_two_clusters
      one: 1 node x 1 rank x 1 configuration x 2 rounds: 2 of 2 captures kept
        legacy files: 1 of 1 equal to the last capture written
        node identity: patched
        folder: RUN/test_it.py-test_b_two_clusters~DIGEST/one/traces
      equal hosts: 2 nodes x 2 ranks x 1 configuration: 4 of 4 captures kept
        legacy files: 2 of 2 equal to the last capture written
        injected: equal_hosts() in 4 of 4 workers
        node identity: patched
        folder: RUN/test_it.py-test_b_two_clusters~DIGEST/equal-hosts~DIGEST/traces
    test_it.py::test_c_lost
      2 nodes x 1 rank x 2 configurations: 1 of 4 captures kept
        lost:
          LOST
          LOST
          LOST
        legacy files: 1 there, not checked: no export result or other file to compare with
        node identity: patched
        folder: RUN/test_it.py-test_c_lost~DIGEST/cluster0/traces
    test_it.py::test_d_killed
      1 node x 2 ranks x 1 configuration: 1 of 2 captures kept
        lost:
          LOST
        legacy files: 1 of 1 equal to the last capture written
        injected: sigkill(who=Who(rank=1), at='start') in 1 of 1 worker
        workers: 1 of 2 did not return:
          node0 rank 1 (local rank 1, model-benchmarks:experiment/fp16): killed by SIGKILL
        node identity: patched
        folder: RUN/test_it.py-test_d_killed~DIGEST/cluster0/traces
    test_it.py::test_e_real_ranks
      1 node x 2 ranks x 1 configuration: 2 of 2 captures kept
        legacy files: none there
        folder: TMP
    total: 5 tests, 18 of 22 captures kept, 4 lost
"""


def masked(lines: list[str]) -> list[str]:
    text = "\n".join(lines)
    text = re.sub(r"~[a-z2-7]{16}", "~DIGEST", text)
    text = re.sub(r"^ {6}\S+ on node\d rank \d$", "      LOST", text, flags=re.MULTILINE)
    return re.sub(r"folder: /\S*/test_e_real_ranks0$", "folder: TMP", text, flags=re.MULTILINE).splitlines()


def test_summary(
    start: Start, make_test: Callable[[str], None], summary_of: Callable[[pytest.RunResult], list[str]]
) -> None:
    make_test(TESTS)
    result = start("--gputrace")
    result.assert_outcomes(passed=4, failed=2)
    assert masked(summary_of(result)) == textwrap.dedent(EXPECTED).splitlines()


def test_a_worker_that_is_killed(
    start_n2: Start,
    make_test: Callable[[str], None],
    summary_of: Callable[[pytest.RunResult], list[str]],
    pytester: pytest.Pytester,
) -> None:
    make_test(
        """
def test_killed(gputrace_cluster):
    gputrace_cluster(nodes=1, node_identity="patched").run(export)
    cluster = gputrace_cluster(nodes=1, label="second", node_identity="patched")
    cluster.run(lambda job: export(job) if job.worker.rank else None)
    os.kill(os.getpid(), signal.SIGKILL)


def test_kept(gputrace_cluster):
    gputrace_cluster(nodes=1, node_identity="patched").run(export)
"""
    )
    result = start_n2("--gputrace")
    lines = masked(summary_of(result))
    assert lines[:5] == [
        "test_it.py::test_kept",
        "  1 node x 2 ranks x 1 configuration: 2 of 2 captures kept",
        "    legacy files: 2 of 2 equal to the last capture written",
        "    node identity: patched",
        "    folder: RUN/test_it.py-test_kept~DIGEST/cluster0/traces",
    ]
    assert lines[5] == "test_it.py::test_killed"
    assert lines[6] in ("  lost with its worker gw0; what it left:", "  lost with its worker gw1; what it left:")
    assert lines[7:] == [
        "  1 node x 2 ranks x 1 configuration: 2 of 2 captures kept",
        "    legacy files: 2 of 2 equal to a kept capture (not checked: which one was written last)",
        "    folder: RUN/test_it.py-test_killed~DIGEST/cluster0/traces",
        "  second: 1 node x 2 ranks x 1 configuration: 1 of 2 captures kept",
        "    lost:",
        "      LOST",
        "    legacy files: 1 of 1 equal to a kept capture (not checked: which one was written last)",
        "    folder: RUN/test_it.py-test_killed~DIGEST/second/traces",
        "total: 2 tests, 5 of 6 captures kept, 1 lost",
    ]
    [manifest] = pytester.path.glob(".gputrace/*/test_it.py-test_killed~*/gputrace-test.json")
    data = json.loads(manifest.read_text(encoding="utf-8"))
    assert data["test"] == "test_it.py::test_killed"
    assert [cluster["label"] for cluster in data["clusters"]] == ["", "second"]


def test_a_test_that_never_reported(
    start_plain: Start, make_test: Callable[[str], None], summary_of: Callable[[pytest.RunResult], list[str]]
) -> None:
    make_test(
        """
def test_interrupted(gputrace_cluster):
    gputrace_cluster(nodes=1, ranks=1, node_identity="patched").run(export)
    raise KeyboardInterrupt
"""
    )
    lines = summary_of(start_plain("--gputrace"))
    assert lines[1:3] == [
        "  lost: it never reported its end; what it left:",
        "  1 node x 1 rank x 1 configuration: 1 of 1 captures kept",
    ]


@pytest.mark.parametrize("start", ["plain", "n2"], indirect=True)
def test_nothing_without_the_option(start: Start, make_test: Callable[[str], None], pytester: pytest.Pytester) -> None:
    make_test(
        """
def test_kept(gputrace_cluster, gputrace_check, tmp_path):
    cluster = gputrace_cluster(nodes=1, ranks=1, node_identity="patched")
    gputrace_check(cluster.run(export)).complete()
    assert tmp_path in cluster.root.parents
    assert not list(tmp_path.rglob("gputrace-test.json"))
"""
    )
    result = start()
    result.assert_outcomes(passed=1)
    assert "gputrace" not in "\n".join(result.outlines[5:])
    assert not (pytester.path / ".gputrace").exists()


def test_a_run_without_clusters_says_that_nothing_was_checked(
    pytester: pytest.Pytester, summary_of: Callable[[pytest.RunResult], list[str]]
) -> None:
    pytester.makepyfile("def test_plain(): pass")
    lines = summary_of(pytester.runpytest_inprocess("--gputrace"))
    assert lines == ["not checked: no test ran a cluster or checked a folder for completeness"]
    assert "gputrace ==" not in pytester.runpytest_inprocess("--gputrace", "--collect-only").stdout.str()


def test_a_cluster_in_a_fixture_that_then_fails_and_one_in_a_teardown(
    start_plain: Start, make_test: Callable[[str], None], summary_of: Callable[[pytest.RunResult], list[str]]
) -> None:
    make_test(
        """
@pytest.fixture
def broken(gputrace_cluster):
    gputrace_cluster(nodes=1, ranks=1, node_identity="patched").run(export)
    raise OSError


@pytest.fixture
def late(gputrace_cluster):
    yield
    gputrace_cluster(nodes=1, ranks=1, node_identity="patched").run(export)


def test_setup(broken): ...
def test_teardown(late): ...
"""
    )
    lines = summary_of(start_plain("--gputrace"))
    assert [line for line in lines if not line.startswith("    ")] == [
        "test_it.py::test_setup",
        "  1 node x 1 rank x 1 configuration: 1 of 1 captures kept",
        "test_it.py::test_teardown",
        "  1 node x 1 rank x 1 configuration: 1 of 1 captures kept",
        "total: 2 tests, 2 of 2 captures kept",
    ]


def test_a_folder_is_judged_before_its_test_is_torn_down(
    start_plain: Start, make_test: Callable[[str], None], summary_of: Callable[[pytest.RunResult], list[str]]
) -> None:
    make_test(
        """
import shutil


@pytest.fixture
def vanishing(tmp_path):
    yield tmp_path / "traces"
    shutil.rmtree(tmp_path / "traces")


def test_kept(gputrace_cluster, vanishing):
    gputrace_cluster(nodes=1, ranks=1, node_identity="patched", trace_dir=vanishing).run(export)
"""
    )
    result = start_plain("--gputrace")
    result.assert_outcomes(passed=1)
    assert summary_of(result)[1] == "  1 node x 1 rank x 1 configuration: 1 of 1 captures kept"


def test_where_xdist_is_not_installed(
    make_test: Callable[[str], None], pytester: pytest.Pytester, summary_of: Callable[[pytest.RunResult], list[str]]
) -> None:
    make_test(
        """
def test_kept(gputrace_cluster):
    gputrace_cluster(nodes=1, ranks=1, node_identity="patched").run(export)
"""
    )
    pytester.makefile(
        ".py",
        start="""
        import os, sys
        sys.modules["xdist"] = sys.modules["execnet"] = None
        os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
        import pytest
        raise SystemExit(pytest.main(["--gputrace", "-p", "pytest_gputrace.plugin", "-W", "error"]))
        """,
    )
    result = pytester.runpython(pytester.path / "start.py")
    result.assert_outcomes(passed=1)
    assert summary_of(result)[1] == "  1 node x 1 rank x 1 configuration: 1 of 1 captures kept"
