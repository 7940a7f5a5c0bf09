from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from pytest_gputrace.fakes import OUTSIDE_LAYOUT, make_rank_dirs, outside_layout

if TYPE_CHECKING:
    from pathlib import Path


def test_folders_are_superbenchs(tmp_path: Path) -> None:
    dirs = make_rank_dirs(tmp_path, ["model-benchmarks:gpt/fp16", "nccl-bw:default"], 2)
    assert dirs["model-benchmarks:gpt/fp16", 1] == tmp_path / "benchmarks/model-benchmarks:gpt/fp16/rank1"
    assert list(dirs) == [
        ("model-benchmarks:gpt/fp16", 0),
        ("model-benchmarks:gpt/fp16", 1),
        ("nccl-bw:default", 0),
        ("nccl-bw:default", 1),
    ]
    assert len(dirs) == 4
    assert all(folder.is_dir() for folder in dirs.values())


def test_ranks_may_be_named(tmp_path: Path) -> None:
    assert [rank for _, rank in make_rank_dirs(tmp_path, ["a"], [3, 10])] == [3, 10]


def test_a_missing_folder_is_a_key_error(tmp_path: Path) -> None:
    with pytest.raises(KeyError):
        make_rank_dirs(tmp_path, ["a"], 1)["a", 1]


def test_making_twice_keeps_what_is_there(tmp_path: Path) -> None:
    note = make_rank_dirs(tmp_path, ["a"], 1)["a", 0] / "note"
    note.touch()
    make_rank_dirs(tmp_path, ["a"], 1)
    assert note.exists()


def test_folders_outside_the_layout(tmp_path: Path) -> None:
    folders = outside_layout(tmp_path)
    assert set(folders) == {
        "other",
        "rank1",
        "benchmarks/config/worker0",
        "benchmarks/config/rankx",
        "benchmarks/config/rank0.bak1",
        "benchmarks/config/rank\u00b2",
        "benchmarks/rank0",
        "other/config/rank0",
    }
    assert all(folder.is_dir() and folder == tmp_path / name for name, folder in folders.items())
    assert tuple(folders) == OUTSIDE_LAYOUT


@pytest.mark.parametrize(
    ("configurations", "ranks", "error", "message"),
    [
        ("a", 1, TypeError, "configurations='a' is one text; give a list"),
        ([], 1, ValueError, "must be at least 1"),
        (["a", "a"], 1, ValueError, "given twice in configurations: 'a'"),
        (["../a"], 1, ValueError, "configuration '../a' has the part '..'"),
        (["a"], 0, ValueError, "ranks=0 must be at least 1"),
        (["a"], "2", TypeError, "ranks='2' must be a whole number"),
        (["a"], True, TypeError, "ranks=True must be a whole number"),
        (["a"], [], ValueError, r"ranks=\[\] is empty"),
        (["a"], [-1], ValueError, "rank=-1 must be at least 0"),
    ],
)
def test_wrong_arguments(tmp_path: Path, configurations: Any, ranks: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=f"make_rank_dirs: .*{message}"):
        make_rank_dirs(tmp_path, configurations, ranks)
    assert list(tmp_path.iterdir()) == []


def test_the_root_may_be_a_text(tmp_path: Path) -> None:
    assert make_rank_dirs(str(tmp_path), ["a"], 1)["a", 0] == tmp_path / "benchmarks/a/rank0"
