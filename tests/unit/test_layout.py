"""The folder layout taken apart and put together; nothing here touches the disk but the symbolic link."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_gputrace.errors import LayoutError
from pytest_gputrace.layout import RankFolder, rank_folder, recognise, resolve_configuration

ROOT = Path("/out/run")
# Folder names as an executor may use them: anything but a separator, a NUL and the two names that are no names.
PARTS = st.text(st.characters(codec="utf-8", exclude_characters="/\0"), min_size=1, max_size=12).filter(
    lambda text: text not in {".", ".."}
)


@pytest.mark.parametrize(
    ("path", "root", "configuration", "local_rank"),
    [
        ("/out/run/benchmarks/kernel-launch/rank0", "/out/run", "kernel-launch", 0),
        ("/out/run/benchmarks/kernel-launch/rank0/", "/out/run", "kernel-launch", 0),
        ("/out/run/benchmarks/nccl-bw:default/rank17", "/out/run", "nccl-bw:default", 17),
        ("/out/benchmarks/model-benchmarks:experiment/fp16/rank3", "/out", "model-benchmarks:experiment/fp16", 3),
        ("/benchmarks/c/rank0", "/", "c", 0),
        ("/out/benchmarks/old/benchmarks/c/rank1", "/out/benchmarks/old", "c", 1),
        ("/out/benchmarks/benchmarks/rank1", "/out", "benchmarks", 1),
        ("/out/benchmarks/a/benchmarks/rank1", "/out", "a/benchmarks", 1),
        ("/out/benchmarks/a/../b/./rank1", "/out", "b", 1),
        ("/out/benchmarks/rank0/rank1", "/out", "rank0", 1),
        ("/out/benchmarks/größe-²/rank1", "/out", "größe-²", 1),
    ],
)
def test_a_rank_folder_is_taken_apart(path: str, root: str, configuration: str, local_rank: int) -> None:
    assert recognise(path) == RankFolder(Path(root), configuration, local_rank)
    assert recognise(Path(path)) == RankFolder(Path(root), configuration, local_rank)


@pytest.mark.parametrize(
    "path",
    [
        "other",
        "/",
        "benchmarks",
        "/out/benchmarks/config",
        "/out/benchmarks/config/worker0",
        "/out/benchmarks/config/rank",
        "/out/benchmarks/config/rankx",
        "/out/benchmarks/config/rank-1",
        "/out/benchmarks/config/rank+1",
        "/out/benchmarks/config/rank0.bak1",
        "/out/benchmarks/config/rank²",
        "/out/benchmarks/config/rank٣",
        "/out/benchmarks/config/rank00",
        "/out/benchmarks/config/rank01",
        "/out/benchmarks/config/rank1\n",
        "/out/benchmarks/config/Rank1",
        "/out/benchmarks/config/rank" + "9" * 5000,
        "/out/benchmarks/config/rank0/trace.json",
        "/benchmarks/rank0",
        "/out/benchmarks/rank0",
        "/out/other/config/rank0",
        "/out/Benchmarks/config/rank0",
        "/out/benchmarks.old/config/rank0",
    ],
)
def test_any_other_folder_is_not_the_layout(path: str) -> None:
    assert recognise(path) is None


def test_a_relative_path_is_taken_from_the_current_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "benchmarks" / "a:b" / "rank2"
    folder.mkdir(parents=True)
    monkeypatch.chdir(folder)
    assert recognise(".") == RankFolder(tmp_path, "a:b", 2)
    assert recognise("../rank3") == RankFolder(tmp_path, "a:b", 3)
    monkeypatch.chdir(tmp_path)
    assert recognise("benchmarks/a:b/rank2") == RankFolder(tmp_path, "a:b", 2)


def test_a_symbolic_link_keeps_the_name_it_was_entered_by(tmp_path: Path) -> None:
    scratch = tmp_path / "scratch" / "4711"
    scratch.mkdir(parents=True)
    link = tmp_path / "benchmarks" / "config" / "rank0"
    link.parent.mkdir(parents=True)
    link.symlink_to(scratch)
    assert recognise(link) == RankFolder(tmp_path, "config", 0)
    assert recognise(os.path.realpath(link)) is None


@given(parts=st.lists(PARTS, min_size=1, max_size=4), local_rank=st.integers(0, 10**6))
def test_a_folder_comes_back_as_it_was_made_or_is_refused(parts: list[str], local_rank: int) -> None:
    configuration = "/".join(parts)
    if "benchmarks" in parts[:-1]:
        with pytest.raises(LayoutError):
            rank_folder(ROOT, configuration, local_rank)
    else:
        assert recognise(rank_folder(ROOT, configuration, local_rank)) == RankFolder(ROOT, configuration, local_rank)


@given(first=st.tuples(st.lists(PARTS, min_size=1), st.integers(0, 20)), second=st.integers(0, 20))
def test_two_workers_never_share_a_folder(first: tuple[list[str], int], second: int) -> None:
    configuration = "/".join(first[0]).replace("benchmarks", "b")
    same = rank_folder(ROOT, configuration, first[1]) == rank_folder(ROOT, configuration, second)
    assert same == (first[1] == second)


@pytest.mark.parametrize("configuration", ["", "/abs", "a//b", "a/", "..", "a/../b", ".", "a/./b", "a\0b"])
def test_a_configuration_that_is_no_path_of_names_is_refused(configuration: str) -> None:
    with pytest.raises(LayoutError, match="is not a relative path of plain folder names") as caught:
        rank_folder(ROOT, configuration, 0)
    assert repr(configuration) in str(caught.value)
    assert caught.value.folder is not None


def test_a_configuration_that_would_be_read_back_shorter_is_refused() -> None:
    with pytest.raises(LayoutError, match="'a/benchmarks/b' has a folder 'benchmarks' above another one"):
        rank_folder(ROOT, "a/benchmarks/b", 0)
    assert rank_folder(ROOT, "a/benchmarks", 0) == ROOT / "benchmarks/a/benchmarks/rank0"


@pytest.mark.parametrize("local_rank", [-1, 10**18])
def test_a_local_rank_that_is_none_is_refused(local_rank: int) -> None:
    with pytest.raises(LayoutError, match=f"{local_rank} is not a local rank; local ranks count from 0"):
        rank_folder(ROOT, "config", local_rank)


FOLDER = RankFolder(ROOT, "model-benchmarks:experiment/fp16", 3)


@pytest.mark.parametrize(
    ("explicit", "folder", "configuration"),
    [
        (None, None, None),
        ("mine", None, "mine"),
        (None, FOLDER, FOLDER.configuration),
        (FOLDER.configuration, FOLDER, FOLDER.configuration),
    ],
)
def test_the_configuration_comes_from_whoever_says_it(
    explicit: str | None, folder: RankFolder | None, configuration: str | None
) -> None:
    assert resolve_configuration(explicit, folder) == configuration


@pytest.mark.parametrize("explicit", ["mine", "model-benchmarks:experiment", "model-benchmarks:experiment/FP16"])
def test_two_different_configurations_are_an_error_naming_both(explicit: str) -> None:
    with pytest.raises(LayoutError) as caught:
        resolve_configuration(explicit, FOLDER)
    path = "/out/run/benchmarks/model-benchmarks:experiment/fp16/rank3"
    assert str(caught.value) == (
        f"the configuration given is {explicit!r}, but the rank folder {path} belongs to "
        f"'model-benchmarks:experiment/fp16'; drop the one given, or run in the folder of {explicit!r}"
    )
    assert caught.value.folder == Path(path)


@pytest.mark.parametrize("folder", [None, FOLDER])
def test_an_empty_configuration_is_an_unset_variable(folder: RankFolder | None) -> None:
    with pytest.raises(LayoutError, match="the configuration given is empty, most likely from a variable that is not"):
        resolve_configuration("", folder)
