"""Which files are merged, each once, and what is said of those that are not."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pytest_gputrace.errors import MergeError, UnknownPathError
from pytest_gputrace.timeline.inputs import Input, collect

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with two ranks, a report that tells none, and what lies beside traces; the current directory."""
    monkeypatch.chdir(tmp_path)
    for name in (
        "run/rank0.json", "run/rank1.json.gz", "run/viz.json", "run/memory.pickle", "run/tree.hatchet_msgpack",
        "run/.gputrace-abc", "run/rank2.json.tmp", "run/notes.txt", "empty/notes.txt", "alone.txt",
    ):  # fmt: skip
        Path(name).parent.mkdir(exist_ok=True)
        Path(name).write_text("[]")
    return tmp_path


def collected(inputs: Iterable[str], ranks: Mapping[int, Iterable[str]] | None = None) -> list[tuple[str, int | None]]:
    return [(str(each.path), each.rank) for each in collect(inputs, ranks or {})[0]]


def refused(inputs: Iterable[str], ranks: Mapping[int, Iterable[str]] | None = None) -> list[str]:
    with pytest.raises(MergeError) as caught:
        collect(inputs, ranks or {})
    assert all(reason in str(caught.value) for reason in caught.value.reasons)
    return list(caught.value.reasons)


@pytest.mark.usefixtures("files")
def test_a_folder_gives_its_traces_and_tells_what_it_passes_over() -> None:
    given, left_out = collect(["run"], {})
    assert given == [
        Input(Path("run", name), None, named=False) for name in ("rank0.json", "rank1.json.gz", "viz.json")
    ]
    lost = "unfinished: its writer was killed, or still writes; what a rank recorded may be lost here"
    tree = 'not placeable: a tree of Proton has no times; record with data="trace" and the format chrome_trace'
    assert [(each.path.name, each.why) for each in left_out] == [
        (".gputrace-abc", lost),
        ("memory.pickle", "not placeable: a memory snapshot has no times on this axis"),
        ("notes.txt", "not called like a trace"),
        ("rank2.json.tmp", lost),
        ("tree.hatchet_msgpack", tree),
    ]


@pytest.mark.usefixtures("files")
def test_a_named_file_is_read_whatever_it_is_called() -> None:
    assert collect(["alone.txt", "run/rank2.json.tmp"], {}) == (
        [Input(Path("alone.txt"), None, named=True), Input(Path("run/rank2.json.tmp"), None, named=True)],
        [],
    )


@pytest.mark.usefixtures("files")
def test_a_named_file_that_its_folder_passes_over_is_not_left_out() -> None:
    given, left_out = collect(["run", "run/notes.txt"], {})
    assert Path("run/notes.txt") in [each.path for each in given]
    assert Path("run/notes.txt") not in [each.path for each in left_out]


@pytest.mark.usefixtures("files")
@pytest.mark.parametrize(
    "inputs", [["run", "run/rank0.json", "alone.txt"], ["alone.txt", "./run/rank0.json", "run", "run/"]]
)
def test_each_file_is_there_once_whatever_the_order(inputs: list[str]) -> None:
    given, _ = collect(inputs, {})
    assert [(str(each.path), each.named) for each in given] == [
        ("alone.txt", True), ("run/rank0.json", True), ("run/rank1.json.gz", False), ("run/viz.json", False),
    ]  # fmt: skip


@pytest.mark.usefixtures("files")
def test_a_link_is_not_a_second_file() -> None:
    """Its own name says whose it is, not that of the link."""
    os.symlink("rank0.json", "run/latest.json")
    os.symlink("run", "again")
    given, left_out = collect(["run", "again"], {})
    assert [str(each.path) for each in given] == ["run/rank0.json", "run/rank1.json.gz", "run/viz.json"]
    assert {str(each.path): each.why for each in left_out if each.why.startswith("the same")} == {
        f"{folder}/{name}": f"the same file as run/{kept}"
        for folder, name, kept in (
            ("run", "latest.json", "rank0.json"), ("again", "latest.json", "rank0.json"),
            ("again", "rank0.json", "rank0.json"), ("again", "rank1.json.gz", "rank1.json.gz"),
            ("again", "viz.json", "viz.json"),
        )
    }  # fmt: skip


@pytest.mark.usefixtures("files")
def test_equal_content_is_not_one_file() -> None:
    assert len(collected(["run/rank0.json", "run/viz.json"])) == 2


@pytest.mark.usefixtures("files")
@pytest.mark.parametrize(
    ("inputs", "ranks", "expected"),
    [
        ([], {3: ["run"]}, [("run/rank0.json", 3), ("run/rank1.json.gz", 3), ("run/viz.json", 3)]),
        (["run"], {3: ["run/viz.json"]}, [("run/rank0.json", None), ("run/rank1.json.gz", None), ("run/viz.json", 3)]),
        ([], {1: ["run/viz.json"], 0: ["alone.txt"]}, [("alone.txt", 0), ("run/viz.json", 1)]),
        ([], {2_000_000: ["alone.txt", "./alone.txt"]}, [("alone.txt", 2_000_000)]),
    ],
)
def test_a_rank_that_is_said(
    inputs: list[str], ranks: dict[int, list[str]], expected: list[tuple[str, int | None]]
) -> None:
    assert collected(inputs, ranks) == expected


@pytest.mark.usefixtures("files")
def test_one_path_may_be_given_as_it_is() -> None:
    assert [(each.path, each.rank) for each in collect("alone.txt", {0: Path("run/viz.json")})[0]] == [  # type: ignore[dict-item]
        (Path("alone.txt"), None), (Path("run/viz.json"), 0),
    ]  # fmt: skip


@pytest.mark.usefixtures("files")
@pytest.mark.parametrize(
    ("inputs", "ranks", "reasons"),
    [
        (
            [], {3: ["run/viz.json"], 4: ["./run/../run/viz.json"]},
            ["run/../run/viz.json: one file under two ranks: --rank 3 run/viz.json and --rank 4 run/../run/viz.json"],
        ),
        (
            ["alone.txt"], {3: ["link.txt"]},
            ["alone.txt: one file with a rank and without: --rank 3 link.txt and alone.txt"],
        ),
        (["run"], {-1: ["alone.txt"]}, ["--rank -1: ranks go from 0 to 2,000,000"]),
        (["run"], {2_000_001: ["alone.txt"]}, ["--rank 2000001: ranks go from 0 to 2,000,000"]),
        (["run"], {0: []}, ["--rank 0: no file is given"]),
        (["run"], {0: ["empty"]}, ["--rank 0: empty: no trace is in it"]),
        ([], {}, ["there is nothing to merge: give files, or folders that hold some"]),
        (
            ["empty"], {},
            ["there is nothing to merge. Passed over: empty: no trace is in it; empty/notes.txt: not called like a trace"],
        ),
    ],
)  # fmt: skip
def test_what_cannot_be_merged_is_told(inputs: list[str], ranks: dict[int, list[str]], reasons: list[str]) -> None:
    os.symlink("alone.txt", "link.txt")
    assert refused(inputs, ranks) == reasons


@pytest.mark.usefixtures("files")
def test_all_that_is_wrong_is_told_at_once() -> None:
    assert len(refused(["run"], {-1: ["alone.txt"], 0: [], 1: ["run/viz.json"], 2: ["run/viz.json"]})) == 3


@pytest.mark.usefixtures("files")
def test_a_folder_without_traces_beside_others_is_told() -> None:
    _, left_out = collect(["run", "empty"], {})
    assert ("empty", "no trace is in it") in [(str(each.path), each.why) for each in left_out]


def test_a_pipe_cannot_be_read_twice(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.json")
    [reason] = refused([str(tmp_path / "pipe.json")])
    assert reason == f"{tmp_path / 'pipe.json'}: no regular file; each file is read twice, so save it first"


def test_a_long_list_of_what_is_passed_over_is_cut(tmp_path: Path) -> None:
    for number in range(20):
        (tmp_path / f"{number:02}.txt").touch()
    [reason] = refused([str(tmp_path)])
    assert "06.txt" in reason
    assert "07.txt" not in reason
    assert reason.endswith("; and 13 more")


def test_a_path_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    for ranks in ({}, {0: [tmp_path / "nowhere"]}):
        with pytest.raises(UnknownPathError, match="nowhere: there is no such file or folder"):
            collect([] if ranks else [tmp_path / "nowhere"], ranks)
