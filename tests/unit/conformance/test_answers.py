from __future__ import annotations

import itertools
import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_gputrace.conformance import CHECKS, Sizes, Subject, hold
from pytest_gputrace.conformance.answers import Answer, ask
from pytest_gputrace.conformance.trial import Trial
from pytest_gputrace.errors import ContractError

if TYPE_CHECKING:
    from pytest_gputrace.fakes import Job

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs Linux: simulated nodes")

SIZES = Sizes(2, 2, 2)


def export(job: Job) -> None:
    raise NotImplementedError


@pytest.fixture
def folders(tmp_path: Path) -> tuple[Path, Path]:
    for side in ("baseline", "target"):
        (tmp_path / side).mkdir()
        (tmp_path / side / "a.json").write_text(side)
    return tmp_path / "baseline", tmp_path / "target"


def answer_of(consumer: Any, folders: tuple[Path, Path], tmp_path: Path) -> Answer:
    return ask(Trial(Subject(export, consumer=consumer), SIZES, tmp_path / "trial"), *folders)


def a_file(baseline: Path, target: Path) -> Path:
    (path := target / "out.txt").write_text("written")
    return path


def a_folder(baseline: Path, target: Path) -> Path:
    (target / "deep" / "er").mkdir(parents=True)
    (target / "deep" / "er" / "b").write_text("B")
    (target / "deep" / "a").write_text("A")
    return target / "deep"


@pytest.mark.parametrize(
    ("consumer", "output"),
    [
        (lambda baseline, target: b"\xff", b"\xff"),
        (lambda baseline, target: "text \ud800", b"text \\ud800"),
        (lambda baseline, target: {"b": [1, None], "a": Path("x")}, b'{"a": "x", "b": [1, null]}'),
        (lambda baseline, target: [], b"[]"),
        (a_file, b"written"),
        (a_folder, b"a\nA\ner/b\nB\n"),
        (
            lambda baseline, target: (baseline / "a.json").read_text() + (target / "a.json").read_text(),
            b"baselinetarget",
        ),
    ],
)
def test_outputs_become_bytes(consumer: Any, output: bytes, folders: tuple[Path, Path], tmp_path: Path) -> None:
    assert answer_of(consumer, folders, tmp_path) == Answer("", output)


def test_it_is_called_with_the_same_paths_each_time(folders: tuple[Path, Path], tmp_path: Path) -> None:
    trial = Trial(Subject(export, consumer=lambda *pair: json.dumps([*map(str, pair)])), SIZES, tmp_path / "trial")
    first, second = ask(trial, *folders), ask(trial, *reversed(folders))
    assert first == second


def test_what_it_does_to_its_folders_stays_there(folders: tuple[Path, Path], tmp_path: Path) -> None:
    def removes(baseline: Path, target: Path) -> str:
        (baseline / "a.json").unlink()
        return "done"

    answer_of(removes, folders, tmp_path)
    assert (folders[0] / "a.json").exists()


def test_an_exception_is_an_answer(folders: tuple[Path, Path], tmp_path: Path) -> None:
    answer = answer_of(lambda baseline, target: dict[str, int]()["key"], folders, tmp_path)
    assert answer == Answer("KeyError", b"KeyError: 'key'")
    assert answer.told() == "raised KeyError: 'key'"


def test_an_exception_that_cannot_be_pickled_is_an_answer_too(folders: tuple[Path, Path], tmp_path: Path) -> None:
    class Local(Exception):  # noqa: N818
        pass

    def consumer(baseline: Path, target: Path) -> None:
        raise Local(lambda: None)

    assert "Local" in answer_of(consumer, folders, tmp_path).raised


@pytest.mark.parametrize(
    ("consumer", "message"),
    [
        (lambda baseline, target: {("a",): 1}, "it returned a dict, which cannot be compared: keys must be"),
        (lambda baseline, target: os._exit(3), "exited with code 3"),
        (lambda baseline, target: sys.exit(4), "SystemExit: 4"),
        (lambda baseline, target: os.abort(), "killed by SIGABRT"),
    ],
)
def test_no_answer(consumer: Any, message: str, folders: tuple[Path, Path], tmp_path: Path) -> None:
    with pytest.raises(ContractError, match=f"^the consumer gave no answer: .*{message}"):
        answer_of(consumer, folders, tmp_path)


def test_a_late_answer_is_none(folders: tuple[Path, Path], tmp_path: Path) -> None:
    subject = Subject(export, consumer=lambda *pair: [0 for _ in itertools.repeat(0)], deadline_s=0.3)
    with pytest.raises(ContractError, match=r"^the consumer gave no answer: "):
        ask(Trial(subject, SIZES, tmp_path / "trial"), *folders)


def test_names_are_masked_by_their_place() -> None:
    one, other = Answer("E", b"no a-0 nor a-1"), Answer("E", b"no b-5 nor b-6")
    assert one.masked(["a-0", "a-1"]) == other.masked(["b-5", "b-6"]) == Answer("E", b"no <file 0> nor <file 1>")
    assert one.masked(["a-0", "a-1"]) != other.masked(["b-6", "b-5"])


def both(job: Job) -> None:
    with job.profiler() as profile:
        pass
    records = json.dumps([{"name": event.name} for event in profile.events()])
    for name in (job.legacy_name, f"own-{job.configuration}-{job.worker.rank}.json"):
        (job.trace_dir / name).write_text(records)


@pytest.mark.parametrize("id", ["CT601", "CT602"])
def test_a_consumer_that_raises_for_two_old_folders_is_no_ground_for_a_verdict(id: str, tmp_path: Path) -> None:
    def consumer(baseline: Path, target: Path) -> None:
        raise RuntimeError("no licence")

    with pytest.raises(ContractError, match="raised for two folders of legacy files only: RuntimeError: no licence"):
        hold(CHECKS[id], Subject(both, consumer=consumer), tmp_path, SIZES)


def test_a_consumer_that_says_another_thing_each_time_cannot_be_compared(tmp_path: Path) -> None:
    subject = Subject(both, consumer=lambda baseline, target: os.urandom(8))
    with pytest.raises(ContractError, match="the consumer's output differs when it is called twice"):
        hold(CHECKS["CT602"], subject, tmp_path, SIZES)


def test_no_output_is_no_answer(folders: tuple[Path, Path], tmp_path: Path) -> None:
    with pytest.raises(ContractError, match="it returned None; let it return its output, or the path of what it wrote"):
        answer_of(lambda baseline, target: None, folders, tmp_path)
