"""Which files are read, and what is said of those that are not."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from pytest_gputrace.errors import UnknownPathError
from pytest_gputrace.traces.search import search

if TYPE_CHECKING:
    from pathlib import Path


def made(folder: Path, *names: str) -> list[Path]:
    paths = [folder / name for name in names]
    for path in paths:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("[]")
    return paths


def test_a_folder_gives_what_is_called_like_a_trace(tmp_path: Path) -> None:
    wanted = made(tmp_path, "a.json", "b/c.json.gz", "b/d.chrome_trace", "e.hatchet")
    made(tmp_path, "notes.txt", "memory.pickle", ".gputrace-1.json", "x.json.tmp", "results.json")
    found, ignored = search([tmp_path])
    assert [each.path for each in found] == sorted(wanted)
    assert {os.path.basename(each.path): each.why for each in ignored} == {
        "notes.txt": "not called like a trace",
        "memory.pickle": "not called like a trace",
        ".gputrace-1.json": "unfinished: its writer was killed, or still writes",
        "x.json.tmp": "unfinished: its writer was killed, or still writes",
        "results.json": "no trace, but a file that lies among them",
    }


def test_what_is_no_file_is_passed_over(tmp_path: Path) -> None:
    made(tmp_path, "far/a.json")
    (tmp_path / "root").mkdir()
    (tmp_path / "root" / "folder").symlink_to(tmp_path / "far")
    os.mkfifo(tmp_path / "root" / "pipe.json")
    (tmp_path / "root" / "gone.json").symlink_to(tmp_path / "nowhere")
    found, ignored = search([tmp_path / "root"])
    assert [each.path.name for each in found] == ["gone.json"]  # a lost file, not none
    assert [each.why for each in ignored] == ["a link to a folder", "no regular file"]


def test_a_file_that_is_named_is_read_whatever_it_is_called_and_once(tmp_path: Path) -> None:
    [path] = made(tmp_path, "trace.txt")
    found, ignored = search([path, str(path), tmp_path])
    assert [each.path for each in found] == [path]
    assert ignored == []


def test_a_path_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(UnknownPathError, match=r"nowhere: there is no such file or folder"):
        search([tmp_path / "nowhere"])


def test_a_name_too_long_for_any_file_is_no_crash() -> None:
    with pytest.raises(UnknownPathError):
        search(["a" * 300])
