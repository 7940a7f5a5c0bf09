"""What is new in a folder since it was looked at."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from pytest_gputrace.control.snapshot import Snapshot

if TYPE_CHECKING:
    from pathlib import Path


def names(files: dict[str, object]) -> list[str]:
    return sorted(os.path.basename(path) for path in files)


def test_a_folder_that_is_not_there_is_empty(tmp_path: Path) -> None:
    assert not Snapshot.of(tmp_path / "later").files


def test_new_files_are_found_in_folders_below_too(tmp_path: Path) -> None:
    (tmp_path / "old.json").write_text("{}")
    before = Snapshot.of(tmp_path)
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "b" / "new.trace.json.gz").write_text("{}")
    assert names(dict(Snapshot.of(tmp_path).since(before))) == ["new.trace.json.gz"]


@pytest.mark.parametrize(
    "name", ["x.pt.trace.json", "x.json.gz", "x.chrome_trace", "x.hatchet", "x.hatchet_msgpack", "x.pickle"]
)
def test_what_profilers_write_counts(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("x")
    assert names(dict(Snapshot.of(tmp_path).since(Snapshot()))) == [name]


@pytest.mark.parametrize(
    "name", [".gputrace-12.json", "x.json.tmp", "server.log", "results.json", "gputrace-test.json"]
)
def test_private_and_other_files_do_not(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("x")
    assert not Snapshot.of(tmp_path).since(Snapshot())


def test_a_file_that_was_written_again_counts_even_with_its_old_size_and_time(tmp_path: Path) -> None:
    longer, replaced, same = (tmp_path / f"{name}.json" for name in ("longer", "replaced", "same"))
    for path in (longer, replaced, same):
        path.write_text("{}")
    before = Snapshot.of(tmp_path)
    longer.write_text("{  }")
    times = replaced.stat()
    other = tmp_path / "other"
    other.write_text("[]")
    os.utime(other, ns=(times.st_atime_ns, times.st_mtime_ns))
    other.replace(replaced)
    after = Snapshot.of(tmp_path)
    assert names(dict(after.since(before))) == ["longer.json", "replaced.json"]
    assert after.others(before) == 1


def test_pipes_and_broken_links_are_passed_over(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.json")
    (tmp_path / "link.json").symlink_to("nowhere")
    assert not Snapshot.of(tmp_path).files


def test_a_folder_is_the_same_by_whatever_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "old.json").write_text("{}")
    monkeypatch.chdir(tmp_path)
    assert not Snapshot.of(tmp_path).since(Snapshot.of("."))


def test_one_that_only_has_another_name_is_not_new(tmp_path: Path) -> None:
    (tmp_path / "old.json").write_text("{}")
    before = Snapshot.of(tmp_path)
    (tmp_path / "kept").mkdir()
    (tmp_path / "old.json").rename(tmp_path / "kept" / "old.json")
    assert Snapshot.of(tmp_path).since(before) == {}


def test_a_file_counts_once_and_a_link_to_it_not_at_all(tmp_path: Path) -> None:
    before = Snapshot.of(tmp_path)
    (tmp_path / "a.json").write_text("{}")
    os.link(tmp_path / "a.json", tmp_path / "b.json")
    (tmp_path / "latest.json").symlink_to("a.json")
    assert names(dict(Snapshot.of(tmp_path).since(before))) == ["a.json"]


@pytest.mark.parametrize("name", ["old.json", "moved.json"])
def test_one_that_is_only_touched_is_not_new_and_one_that_is_written_anew_is(tmp_path: Path, name: str) -> None:
    old, other = tmp_path / "old.json", tmp_path / "other.json"
    for path in (old, other):
        path.write_text("1" * 10_000)
    before = Snapshot.of(tmp_path, marked=True)
    old.rename(tmp_path / name)
    os.utime(tmp_path / name, ns=(1, 1))
    with other.open("r+") as file:
        file.seek(9_990)
        file.write("2")
    os.utime(other, ns=(1, 1))
    assert names(dict(Snapshot.of(tmp_path).since(before))) == ["other.json"]


def test_a_start_is_not_kept_waiting_by_a_folder_of_years(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pytest_gputrace.control.snapshot._MOST_MARKED", 1)
    for number in range(3):
        (tmp_path / f"{number}.json").write_text("{}")
        os.utime(tmp_path / f"{number}.json", ns=(number, number))
    before = Snapshot.of(tmp_path, marked=True)
    assert list(before.marks) == [before.files[str(tmp_path / "2.json")].identity]
