from __future__ import annotations

import contextlib
import ctypes
import dataclasses
import json
import os
import re
import sys
import time
from typing import TYPE_CHECKING, Any

import pytest

from pytest_gputrace.conformance import CHECKS, ContractCheck, Sizes, Subject, hold, not_checked
from pytest_gputrace.conformance.judgement import Judgement
from pytest_gputrace.errors import ContractError, DeclarationError
from pytest_gputrace.fakes import faults

if TYPE_CHECKING:
    from pathlib import Path

    from pytest_gputrace.conformance.trial import Trial
    from pytest_gputrace.fakes import Job

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs Linux: simulated nodes")

SIZES = Sizes(2, 2, 2)


def export(job: Job, name: str) -> None:
    """A plain event list under ``name``."""
    with job.profiler() as profile:
        pass
    records = [{"name": event.name} for event in profile.events()]
    (job.trace_dir / name).write_text(json.dumps(records))


def good(job: Job) -> None:
    export(job, f"{job.configuration}-{job.worker.rank}.json")


def by_local_rank(job: Job) -> None:
    export(job, f"{job.configuration}-{job.worker.local_rank}.json")


def subject(exporter: Any, **more: Any) -> Subject:
    return Subject(exporter, unclaimed={"legacy": "it has none"}, **more)


# Why a check is not asked.


@pytest.mark.parametrize(
    ("id", "given", "sizes", "reason"),
    [
        ("CT102", {}, SIZES, ""),
        ("CT102", {"unclaimed": {"multi_node": "one box"}}, SIZES, "multi_node is not claimed: one box"),
        ("CT102", {}, Sizes(1, 2, 2), "needs at least 2 nodes, and the job has 1"),
        ("CT103", {}, Sizes(2, 2, 1), "needs at least 2 configurations, and the job has 1"),
        ("CT601", {}, SIZES, "no consumer was given"),
        ("CT601", {"consumer": print}, SIZES, ""),
        (
            "CT302",
            {"legacy_name": "{model}.json"},
            SIZES,
            "the legacy file is {model}.json, and no legacy exporter was given to compare it with",
        ),
        ("CT302", {"legacy_name": "{model}.json", "legacy_exporter": print}, SIZES, ""),
        ("CT301", {"legacy_name": "{model}.json"}, SIZES, ""),
    ],
)
def test_why_a_check_is_not_asked(id: str, given: dict[str, Any], sizes: Sizes, reason: str) -> None:
    assert not_checked(CHECKS[id], Subject(good, **given), sizes) == reason


def test_what_is_not_asked_cannot_be_held(tmp_path: Path) -> None:
    with pytest.raises(ContractError, match=r"^CT301 cannot be checked: legacy is not claimed: it has none$"):
        hold(CHECKS["CT301"], subject(good), tmp_path, SIZES)


# No verdict.


def raises(job: Job) -> None:
    raise OSError("not mounted")


def leaves(job: Job) -> None:
    print("last words")  # noqa: T201  # the end of the log is shown
    os._exit(3)


def exits(job: Job) -> None:
    raise SystemExit(4)


def crashes(job: Job) -> None:
    ctypes.string_at(0)


def hangs(job: Job) -> None:
    time.sleep(600)


@pytest.mark.parametrize(
    ("exporter", "message"),
    [
        (raises, r"raises in the plainest run too: OSError: not mounted\n\(one worker[^$]*OSError: not mounted$"),
        (leaves, r"1 of 1 workers died in the exporter[^$]*exited with code 3[^$]*last words"),
        (exits, "1 of 1 workers died in the exporter[^$]*SystemExit: 4"),
        (crashes, "1 of 1 workers died in the exporter[^$]*killed by SIGSEGV"),
        (hangs, r"in the plainest run too \(one worker, no fault\): the simulated job gave no verdict: the deadline"),
    ],
)
def test_an_exporter_that_cannot_be_tried_gets_no_verdict(exporter: Any, message: str, tmp_path: Path) -> None:
    with pytest.raises(ContractError, match=message) as caught:
        hold(CHECKS["CT100"], subject(exporter, deadline_s=0.5 if exporter is hangs else 60), tmp_path, SIZES)
    assert caught.value.always


def test_an_exporter_that_fails_in_one_check_only_does_not_always_fail(tmp_path: Path) -> None:
    def dies_of_two(job: Job) -> None:
        if job.worker.world_size > 1:
            os._exit(3)
        good(job)

    with pytest.raises(ContractError, match="2 of 2 workers died in the exporter") as caught:
        hold(CHECKS["CT101"], subject(dies_of_two), tmp_path, SIZES)
    assert not caught.value.always


def test_variables_of_ones_own_reach_the_exporter(tmp_path: Path) -> None:
    def wants(job: Job) -> None:
        assert (os.environ["MY_HOME"], os.environ["RANK"]) == ("/x", "0")
        good(job)

    assert hold(CHECKS["CT100"], subject(wants, env={"MY_HOME": "/x"}), tmp_path, SIZES).ok
    with pytest.raises(ContractError, match="KeyError: 'MY_HOME'"):
        hold(CHECKS["CT100"], subject(wants), tmp_path / "again", SIZES)


def test_files_that_are_no_traces_by_their_name_are_told_of(tmp_path: Path) -> None:
    def writes_lines(job: Job) -> None:
        (job.trace_dir / "trace.jsonl").write_text("{}")

    message = hold(CHECKS["CT100"], subject(writes_lines), tmp_path, SIZES).message
    assert "it wrote trace.jsonl, but traces are looked for as .json, .json.gz, .chrome_trace" in message


def test_a_forgotten_round_is_told_as_such(tmp_path: Path) -> None:
    def once(job: Job) -> None:
        good(dataclasses.replace(job, rounds=1))

    message = hold(CHECKS["CT112"], subject(once), tmp_path, SIZES).message
    assert "no file holds it, only fp16 on node0 rank 0: is every one of job.rounds captured, and kept?" in message


def test_an_exporter_that_is_no_plain_function_is_refused() -> None:
    async def later(job: Job) -> None:
        pass

    with pytest.raises(DeclarationError, match="does nothing when it is called; give a plain function"):
        subject(later)


def check_of(run: Any) -> ContractCheck:
    return ContractCheck("CT999", "a title", run)


def test_a_fault_that_strikes_nobody_gives_no_verdict(tmp_path: Path) -> None:
    def idle(trial: Trial) -> Judgement:
        return trial.run(faults=[faults.truncate_legacy("end")]).judge()

    with pytest.raises(
        ContractError, match=r"struck nobody, so nothing was tried: truncate_legacy\(at='end'\): it looked"
    ):
        hold(check_of(idle), subject(good), tmp_path, SIZES)


def test_nothing_looked_at_is_no_pass(tmp_path: Path) -> None:
    with pytest.raises(ContractError, match=r"^CT999: nothing was looked at, so nothing was checked: much$"):
        hold(check_of(lambda trial: Judgement("much", 0)), subject(good), tmp_path, SIZES)


def test_one_that_raises_only_under_a_fault_is_judged(tmp_path: Path) -> None:
    verdict = hold(CHECKS["CT504"], subject(good), tmp_path, SIZES)
    assert verdict.ok


# What is said.


def test_a_kept_promise_has_no_message(tmp_path: Path) -> None:
    verdict = hold(CHECKS["CT101"], subject(good), tmp_path, SIZES)
    assert (verdict.ok, verdict.message, verdict.looked_at) == (True, "", 2)
    assert verdict.check is CHECKS["CT101"]


def test_the_message_says_who_met_in_which_file(tmp_path: Path) -> None:
    verdict = hold(CHECKS["CT102"], subject(by_local_rank), tmp_path, SIZES)
    assert (
        verdict.message
        == f"""\
CT102 broken: every node keeps its capture in one shared folder
  expected: 2 nodes x 1 rank x 1 configuration: the local rank is 0 on each, the global rank differs; a file of its own for each
  found:    1 of 2 captures kept
            fp16 on node0 rank 0 and node1 rank 1 met in fp16-0.json: it holds fp16 on node1 rank 1
  folder:   {tmp_path}/job0/traces
  why, and how to fix it: gputrace rules CT102"""
    )


def test_the_message_says_at_which_byte_a_file_is_broken(tmp_path: Path) -> None:
    def half(job: Job) -> None:
        good(job)
        os.truncate(job.trace_dir / f"{job.configuration}-{job.worker.rank}.json", 100)

    verdict = hold(CHECKS["CT100"], subject(half), tmp_path, SIZES)
    assert re.search(
        r"found:    0 of 1 capture kept\n +fp16 on node0 rank 0: .*fp16-0\.json.* byte 100", verdict.message
    )


def test_the_message_says_that_nothing_was_written(tmp_path: Path) -> None:
    verdict = hold(CHECKS["CT100"], subject(lambda job: None), tmp_path, SIZES)
    assert "fp16 on node0 rank 0: the exporter returned as if all were well, and no file holds it\n" in verdict.message


def test_the_message_names_the_faults_and_whom_they_struck(tmp_path: Path) -> None:
    def swallows(job: Job) -> None:
        with contextlib.suppress(OSError):
            good(job)

    verdict = hold(CHECKS["CT504"], subject(swallows), tmp_path, SIZES)
    assert "\n  injected: read_only() in 2 of 2 workers\n" in verdict.message


def test_the_message_fits_on_a_screen(tmp_path: Path) -> None:
    def many(trial: Trial) -> Judgement:
        return Judgement("none", 99, tuple(f"problem {number} {'x' * 900}" for number in range(99)))

    message = hold(check_of(many), subject(good), tmp_path, SIZES).message
    lines = message.splitlines()
    assert sum("problem" in line for line in lines) <= 10
    assert len(lines) <= 24
    assert max(map(len, lines)) < 500
    assert re.search(r"\n +and \d\d more\n", message)


@pytest.mark.parametrize("id", ["CT101", "CT105", "CT108", "CT115", "CT402", "CT505"])
def test_real_messages_fit_on_a_screen(id: str, tmp_path: Path) -> None:
    lines = hold(CHECKS[id], subject(lambda job: export(job, "trace.json")), tmp_path, SIZES).message.splitlines()
    assert 4 <= len(lines) <= 24
    assert lines[-1] == f"  why, and how to fix it: gputrace rules {id}"


# Which files keep a capture.


def test_the_legacy_file_keeps_nothing_where_there_were_others(tmp_path: Path) -> None:
    def skips(job: Job) -> None:
        export(job, job.legacy_name)
        if not (job.trace_dir / f"{job.worker.rank}.json").exists():
            export_again(job)

    def export_again(job: Job) -> None:
        records = (job.trace_dir / job.legacy_name).read_bytes()
        (job.trace_dir / f"{job.worker.rank}.json").write_bytes(records)

    verdict = hold(CHECKS["CT113"], Subject(skips), tmp_path, SIZES)
    assert "only the legacy file torch-profiler-sb-resnet50-0.json has it" in verdict.message


def test_where_there_are_no_others_it_does(tmp_path: Path) -> None:
    assert hold(CHECKS["CT100"], Subject(lambda job: export(job, job.legacy_name)), tmp_path, SIZES).ok
