"""Publishing: complete or not at all, never over another capture; what is replaced is replaced at once."""

from __future__ import annotations

import errno
import json
import os
import shutil
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import textwrap
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_gputrace import publish
from pytest_gputrace.errors import NamingError, PublishError
from pytest_gputrace.publish import (
    PRIVATE_PREFIX,
    ForcedFile,
    LegacyFile,
    NewFile,
    QualifiedFile,
    publish_written,
)

if TYPE_CHECKING:
    from collections.abc import Iterator


def name_of(attempt: int) -> str:
    return "capture.json" if attempt == 1 else f"capture.a{attempt}.json"


def put(folder: Path, data: bytes) -> Path:
    file = QualifiedFile(folder, name_of)
    file.write(data)
    return file.publish()


def put_legacy(path: Path, data: bytes) -> Path:
    file = LegacyFile(path)
    file.write(data)
    return file.publish()


def put_new(path: Path, data: bytes) -> Path:
    file = NewFile(path)
    file.write(data)
    return file.publish()


def put_forced(path: Path, data: bytes) -> Path:
    file = ForcedFile(path)
    file.write(data)
    return file.publish()


def private_files(folder: Path) -> list[str]:
    return [name for name in os.listdir(folder) if name.startswith(PRIVATE_PREFIX)]


def refuse_links(*_: Any, **__: Any) -> None:
    raise OSError(errno.EPERM, "Operation not permitted")


@pytest.fixture(params=["links", "no-links"])
def _links(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "no-links":
        monkeypatch.setattr(os, "link", refuse_links)


@pytest.mark.usefixtures("_links")
class TestQualified:
    def test_the_bytes_are_published_whole_and_nothing_else_stays(self, tmp_path: Path) -> None:
        file = QualifiedFile(tmp_path, name_of)
        file.write(b"[1, ")
        file.write(b"2]")
        assert not (tmp_path / "capture.json").exists()
        path = file.publish()
        assert path == tmp_path / "capture.json"
        assert path.read_bytes() == b"[1, 2]"
        assert os.listdir(tmp_path) == ["capture.json"]

    def test_a_capture_that_exists_is_kept_and_this_one_is_the_next_attempt(self, tmp_path: Path) -> None:
        paths = [put(tmp_path, text) for text in (b"[1]", b"[2]", b"[3]")]
        assert [path.name for path in paths] == ["capture.json", "capture.a2.json", "capture.a3.json"]
        assert [path.read_bytes() for path in paths] == [b"[1]", b"[2]", b"[3]"]

    def test_a_dangling_symbolic_link_is_not_written_through(self, tmp_path: Path) -> None:
        (tmp_path / "capture.json").symlink_to(tmp_path / "elsewhere")
        assert put(tmp_path, b"[1]").name == "capture.a2.json"
        assert not (tmp_path / "elsewhere").exists()

    def test_writers_at_once_lose_nothing(self, tmp_path: Path) -> None:
        barrier = threading.Barrier(16)

        def write(number: int) -> None:
            file = QualifiedFile(tmp_path, name_of)
            file.write(str(number).encode())
            barrier.wait(10)
            file.publish()

        threads = [threading.Thread(target=write, args=(number,)) for number in range(16)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(10)
        found = {path.read_bytes() for path in tmp_path.glob("capture*.json")}
        assert found == {str(number).encode() for number in range(16)}
        assert private_files(tmp_path) == []

    def test_the_mode_is_what_the_umask_gives(self, tmp_path: Path) -> None:
        old = os.umask(0o027)
        try:
            path = put(tmp_path, b"[]")
        finally:
            os.umask(old)
        assert stat.S_IMODE(path.stat().st_mode) == 0o640

    def test_a_missing_folder_is_an_error_that_names_it(self, tmp_path: Path) -> None:
        with pytest.raises(PublishError, match=r"cannot write .*/missing/capture\.json: .*No such file or directory"):
            QualifiedFile(tmp_path / "missing", name_of)

    def test_a_name_at_the_limit_still_has_room_for_the_private_one(self, tmp_path: Path) -> None:
        file = QualifiedFile(tmp_path, lambda _attempt: "n" * 250 + ".json")
        file.write(b"[]")
        assert len(file.publish().name) == 255

    def test_a_discarded_file_leaves_nothing(self, tmp_path: Path) -> None:
        file = QualifiedFile(tmp_path, name_of)
        file.write(b"[")
        file.discard()
        file.discard()
        assert os.listdir(tmp_path) == []


def test_a_claim_left_by_a_killed_writer_costs_one_attempt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "link", refuse_links)
    monkeypatch.setattr(os, "rename", refuse_links)
    real_unlink = type(tmp_path).unlink
    monkeypatch.setattr(type(tmp_path), "unlink", lambda self, **_: None)  # killed before it could take the claim back
    with pytest.raises(PublishError):
        put(tmp_path, b"[1]")
    assert len(private_files(tmp_path)) == 2
    monkeypatch.undo()
    monkeypatch.setattr(os, "link", refuse_links)
    assert type(tmp_path).unlink is real_unlink
    assert put(tmp_path, b"[2]").name == "capture.a2.json"


def test_the_claim_gives_way_to_a_file_that_exists(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "capture.json").write_bytes(b"[old]")
    monkeypatch.setattr(os, "link", refuse_links)
    assert put(tmp_path, b"[new]").name == "capture.a2.json"
    assert (tmp_path / "capture.json").read_bytes() == b"[old]"
    assert private_files(tmp_path) == []


def test_a_link_repeated_by_nfs_is_found_to_be_ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real_link = os.link

    def link_twice(source: Path, target: Path) -> None:
        real_link(source, target)
        real_link(source, target)  # the answer was lost; the client asks again

    monkeypatch.setattr(os, "link", link_twice)
    assert put(tmp_path, b"[1]").name == "capture.json"
    assert os.listdir(tmp_path) == ["capture.json"]


def test_a_link_error_that_is_not_a_refusal_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> None:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(os, "link", fail)
    with pytest.raises(PublishError, match=r"cannot write .*capture\.json: \[Errno 5\]") as caught:
        put(tmp_path, b"[1]")
    assert caught.value.path == tmp_path / "capture.json"
    assert os.listdir(tmp_path) == []


def test_when_every_attempt_is_taken_it_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(publish, "_ATTEMPTS", 2)
    put(tmp_path, b"[1]")
    put(tmp_path, b"[2]")
    with pytest.raises(PublishError, match="all 2 attempts of this name are taken; clear the folder"):
        put(tmp_path, b"[3]")


def test_a_private_name_that_is_taken_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tokens = iter(["same", "same", "other"])
    monkeypatch.setattr("secrets.token_hex", lambda _length: next(tokens))
    first, second = QualifiedFile(tmp_path, name_of), QualifiedFile(tmp_path, name_of)
    first.write(b"[1]")
    second.write(b"[2]")
    assert first.publish().read_bytes() == b"[1]"
    assert second.publish().read_bytes() == b"[2]"


def test_a_write_error_names_the_file_and_removes_the_private_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = QualifiedFile(tmp_path, name_of)

    def full(_fd: int, _data: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "write", full)
    with pytest.raises(PublishError, match=r"cannot write .*capture\.json: \[Errno 28\] No space left on device"):
        file.write(b"[1]")
    assert os.listdir(tmp_path) == []


def test_an_interrupt_removes_the_private_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = QualifiedFile(tmp_path, name_of)

    def interrupted(_fd: int, _data: object) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "write", interrupted)
    with pytest.raises(KeyboardInterrupt):
        file.write(b"[1]")
    assert os.listdir(tmp_path) == []


@pytest.fixture
def as_somebody() -> Iterator[Path]:
    """A folder of an ordinary user, who is the user for the time being: root may write anywhere."""
    folder = Path(tempfile.mkdtemp(prefix="gputrace-"))
    nobody = 65534
    is_root = os.geteuid() == 0
    if is_root:
        os.chown(folder, nobody, nobody)
        os.seteuid(nobody)
    try:
        yield folder
    finally:
        if is_root:
            os.seteuid(0)
        folder.chmod(0o700)
        shutil.rmtree(folder)


def test_a_read_only_folder_is_an_error_that_names_it(as_somebody: Path) -> None:
    as_somebody.chmod(0o555)
    with pytest.raises(PublishError, match=f"cannot write {as_somebody}/capture.json: .*Permission denied"):
        QualifiedFile(as_somebody, name_of)


def test_short_writes_are_continued(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real_write = os.write
    monkeypatch.setattr(os, "write", lambda fd, data: real_write(fd, bytes(data[:3])))
    assert put(tmp_path, b"0123456789").read_bytes() == b"0123456789"


def test_data_reaches_the_disk_before_the_name_and_the_name_before_the_return(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[str] = []
    real_fsync, real_link, real_replace = os.fsync, os.link, os.replace

    def fsync(fd: int) -> None:
        calls.append("folder" if stat.S_ISDIR(os.fstat(fd).st_mode) else "file")
        real_fsync(fd)

    def link(source: Path, target: Path) -> None:
        calls.append("link")
        real_link(source, target)

    def replace(source: Path, target: Path) -> None:
        calls.append("replace")
        real_replace(source, target)

    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(os, "link", link)
    monkeypatch.setattr(os, "replace", replace)
    put(tmp_path, b"[1]")
    assert calls == ["file", "link", "folder"]
    calls.clear()
    put_legacy(tmp_path / "legacy.json", b"[1]")
    assert calls == ["file", "replace", "folder"]


def test_a_folder_that_cannot_be_synced_is_no_loss(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real_fsync, real_open = os.fsync, os.open

    def fsync(fd: int) -> None:
        if stat.S_ISDIR(os.fstat(fd).st_mode):
            raise OSError(errno.EINVAL, "Invalid argument")
        real_fsync(fd)

    monkeypatch.setattr(os, "fsync", fsync)
    assert put(tmp_path, b"[1]").read_bytes() == b"[1]"

    def open_(path: Any, flags: int, mode: int = 0o777) -> int:
        if os.path.isdir(path):
            raise PermissionError(errno.EACCES, "Permission denied")
        return real_open(path, flags, mode)

    monkeypatch.setattr(os, "open", open_)
    assert put(tmp_path, b"[2]").read_bytes() == b"[2]"


def test_a_disk_that_fails_to_sync_is_a_loss(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fsync(_fd: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(os, "fsync", fsync)
    with pytest.raises(PublishError, match="Input/output error"):
        put(tmp_path, b"[1]")
    assert os.listdir(tmp_path) == []


class TestLegacy:
    def test_the_last_write_wins_and_keeps_the_mode(self, tmp_path: Path) -> None:
        path = tmp_path / "legacy.json"
        path.write_bytes(b"old, and longer than what comes")
        path.chmod(0o604)
        put_legacy(path, b"[1]")
        put_legacy(path, b"[2]")
        assert path.read_bytes() == b"[2]"
        assert stat.S_IMODE(path.stat().st_mode) == 0o604
        assert os.listdir(tmp_path) == ["legacy.json"]

    def test_it_is_replaced_at_once_for_whoever_has_it_open(self, tmp_path: Path) -> None:
        path = tmp_path / "legacy.json"
        path.write_bytes(b"[old]")
        with path.open("rb") as reader:
            put_legacy(path, b"[new]")
            assert reader.read() == b"[old]"

    @pytest.mark.skipif(os.geteuid() != 0, reason="only root may give a file to another user")
    def test_the_owner_is_kept(self, tmp_path: Path) -> None:
        path = tmp_path / "legacy.json"
        path.write_bytes(b"[old]")
        os.chown(path, 1234, 2345)
        put_legacy(path, b"[new]")
        assert (path.stat().st_uid, path.stat().st_gid) == (1234, 2345)

    def test_an_owner_that_cannot_be_kept_is_no_loss(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        path = tmp_path / "legacy.json"
        path.write_bytes(b"[old]")

        def refused(*_: Any) -> None:
            raise PermissionError(errno.EPERM, "Operation not permitted")

        real_fstat = os.fstat

        class Foreign:
            st_uid = -5
            st_gid = -5

        monkeypatch.setattr(os, "fchown", refused)
        monkeypatch.setattr(os, "fstat", lambda _fd: Foreign)
        put_legacy(path, b"[new]")
        monkeypatch.setattr(os, "fstat", real_fstat)
        assert path.read_bytes() == b"[new]"

    def test_a_symbolic_link_stays_one(self, tmp_path: Path) -> None:
        target, path = tmp_path / "target.json", tmp_path / "legacy.json"
        target.write_bytes(b"old and long")
        path.symlink_to(target)
        put_legacy(path, b"[1]")
        assert path.is_symlink()
        assert target.read_bytes() == b"[1]"
        assert private_files(tmp_path) == []

    def test_hard_links_stay_one_file(self, tmp_path: Path) -> None:
        other, path = tmp_path / "other.json", tmp_path / "legacy.json"
        other.write_bytes(b"old")
        os.link(other, path)
        put_legacy(path, b"[1]")
        assert other.read_bytes() == b"[1]"
        assert path.samefile(other)

    @pytest.mark.parametrize("link", [os.link, os.symlink], ids=["hard", "symbolic"])
    def test_a_link_to_a_capture_is_replaced_and_the_capture_kept(self, tmp_path: Path, link: Any) -> None:
        capture, path = tmp_path / "capture.json", tmp_path / "legacy.json"
        capture.write_bytes(b"[precious]")
        link(capture, path)  # as tools do that find two files with the same bytes
        file = LegacyFile(path, is_capture=lambda name: name == "capture.json")
        file.write(b"[1]")
        file.publish()
        assert capture.read_bytes() == b"[precious]"
        assert path.read_bytes() == b"[1]"
        assert not path.is_symlink()

    def test_a_replacement_that_is_not_allowed_is_written_in_place(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        path = tmp_path / "legacy.json"
        path.write_bytes(b"old and long")

        def sticky(*_: Any) -> None:  # somebody else's file in a folder with the sticky bit
            raise PermissionError(errno.EPERM, "Operation not permitted")

        monkeypatch.setattr(os, "replace", sticky)
        put_legacy(path, b"[1]")
        assert path.read_bytes() == b"[1]"
        assert private_files(tmp_path) == []
        path.unlink()
        with pytest.raises(PublishError, match="Operation not permitted"):
            put_legacy(path, b"[2]")

    def test_a_name_that_the_system_refuses_is_an_error_like_any_other(self, tmp_path: Path) -> None:
        with pytest.raises(PublishError, match=r"cannot write .*a\\x00b: embedded null byte") as caught:
            put_legacy(tmp_path / "a\0b", b"[1]")
        assert str(caught.value).isprintable()
        assert private_files(tmp_path) == []
        with pytest.raises(PublishError, match=r"\.\.\."):
            put_legacy(tmp_path / ("x" * 100_000), b"[1]")

    def test_a_device_is_written_to(self, tmp_path: Path) -> None:
        path = tmp_path / "legacy.json"
        path.symlink_to("/dev/null")
        put_legacy(path, b"[1]")
        assert stat.S_ISCHR(path.stat().st_mode)
        assert private_files(tmp_path) == []

    def test_a_pipe_that_nobody_reads_is_an_error_at_once(self, tmp_path: Path) -> None:
        path = tmp_path / "legacy.json"
        os.mkfifo(path)
        with pytest.raises(PublishError, match="No such device or address"):
            put_legacy(path, b"[1]")
        assert private_files(tmp_path) == []

    def test_a_pipe_gets_all_of_it(self, tmp_path: Path) -> None:
        path = tmp_path / "legacy.json"
        os.mkfifo(path)
        data = b"x" * 300_000
        got: list[bytes] = []
        reader_ready = threading.Event()

        def read() -> None:
            fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
            os.set_blocking(fd, True)
            reader_ready.set()
            time.sleep(0.2)  # the pipe fills up, and the writer has to wait for us
            with os.fdopen(fd, "rb") as pipe:
                got.append(pipe.read())

        def write_when_ready() -> None:
            assert reader_ready.wait(10)
            put_legacy(path, data)

        thread = threading.Thread(target=read)
        # Keep one writing end open, so that the reader does not see the end before the writer comes.
        keeper = os.open(path, os.O_RDWR)
        thread.start()
        write_when_ready()
        os.close(keeper)
        thread.join(10)
        assert got == [data]

    def test_a_pipe_whose_reader_stalls_is_given_up(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(publish, "_STALLED_READER_S", 0.05)
        path = tmp_path / "legacy.json"
        os.mkfifo(path)
        reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        try:
            with pytest.raises(PublishError, match=r"its reader is too slow: not 300000 bytes in 0\.05 s"):
                put_legacy(path, b"x" * 300_000)
        finally:
            os.close(reader)

    def test_a_folder_in_its_place_is_an_error(self, tmp_path: Path) -> None:
        path = tmp_path / "legacy.json"
        path.mkdir()
        with pytest.raises(PublishError, match="Is a directory"):
            put_legacy(path, b"[1]")


@pytest.mark.usefixtures("_links")
class TestNew:
    def test_it_has_its_name_once_it_is_whole(self, tmp_path: Path) -> None:
        file = NewFile(tmp_path / "new.json")
        file.write(b"[1]")
        assert not (tmp_path / "new.json").exists()
        assert file.publish().read_bytes() == b"[1]"
        assert os.listdir(tmp_path) == ["new.json"]

    def test_what_exists_is_told_before_anything_is_written(self, tmp_path: Path) -> None:
        (tmp_path / "folder.json").mkdir()
        (tmp_path / "file.json").write_bytes(b"[old]")
        (tmp_path / "link.json").symlink_to(tmp_path / "nowhere")
        before = sorted(tmp_path.iterdir())
        for path in before:
            with pytest.raises(
                PublishError, match=r"cannot write .*\.json: it exists, .* choose another name$"
            ) as caught:
                NewFile(path)
            assert caught.value.path == path
            assert isinstance(caught.value.__cause__, FileExistsError)
        assert sorted(tmp_path.iterdir()) == before
        assert (tmp_path / "file.json").read_bytes() == b"[old]"

    def test_of_writers_at_once_one_wins_and_the_others_are_told(self, tmp_path: Path) -> None:
        path = tmp_path / "new.json"
        barrier = threading.Barrier(8)
        published: list[bytes] = []
        told: list[str] = []

        def write(number: int) -> None:
            file = NewFile(path)
            file.write(str(number).encode())
            barrier.wait(10)
            try:
                file.publish()
            except PublishError as error:
                told.append(str(error))
            else:
                published.append(str(number).encode())

        threads = [threading.Thread(target=write, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(10)
        assert published == [path.read_bytes()]
        assert len(told) == 7
        assert all("it exists" in words or "another writer claims its name" in words for words in told)
        assert os.listdir(tmp_path) == ["new.json"]


def test_a_claim_left_by_a_killed_writer_is_not_told_as_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "link", refuse_links)
    with monkeypatch.context() as killed:
        killed.setattr(os, "rename", refuse_links)
        killed.setattr(type(tmp_path), "unlink", lambda self, **_: None)
        with pytest.raises(PublishError):
            put_new(tmp_path / "new.json", b"[1]")
    with pytest.raises(
        PublishError, match=r"another writer claims its name; if none is at work, remove (\S+)$"
    ) as told:
        put_new(tmp_path / "new.json", b"[2]")
    (tmp_path / str(told.value).split()[-1]).unlink()
    assert put_new(tmp_path / "new.json", b"[3]").read_bytes() == b"[3]"


class TestForced:
    def test_a_file_is_replaced_at_once_and_its_mode_kept(self, tmp_path: Path) -> None:
        path = tmp_path / "forced.json"
        path.write_bytes(b"[old]")
        path.chmod(0o604)
        with path.open("rb") as reader:
            assert put_forced(path, b"[1]") == path
            assert reader.read() == b"[old]"
        assert path.read_bytes() == b"[1]"
        assert stat.S_IMODE(path.stat().st_mode) == 0o604
        assert os.listdir(tmp_path) == ["forced.json"]

    def test_nothing_need_be_there(self, tmp_path: Path) -> None:
        assert put_forced(tmp_path / "forced.json", b"[1]").read_bytes() == b"[1]"
        assert os.listdir(tmp_path) == ["forced.json"]

    @pytest.mark.parametrize("is_there", [True, False], ids=["a-file", "nothing"])
    def test_a_symbolic_link_stays_one_and_what_it_leads_to_is_replaced(self, tmp_path: Path, is_there: bool) -> None:
        folder, between, path = tmp_path / "folder", tmp_path / "between.json", tmp_path / "forced.json"
        folder.mkdir()
        if is_there:
            (folder / "real.json").write_bytes(b"[old]")
        between.symlink_to(Path("folder", "real.json"))
        path.symlink_to("between.json")
        put_forced(path, b"[1]")
        assert (os.readlink(path), os.readlink(between)) == ("between.json", "folder/real.json")
        assert not (folder / "real.json").is_symlink()
        assert (folder / "real.json").read_bytes() == b"[1]"
        assert private_files(tmp_path) + private_files(folder) == []

    def test_it_is_written_beside_the_file_that_a_link_leads_to(self, tmp_path: Path) -> None:
        (tmp_path / "folder").mkdir()  # which may be on another disk
        (tmp_path / "forced.json").symlink_to(Path("folder", "real.json"))
        file = ForcedFile(tmp_path / "forced.json")
        assert (len(private_files(tmp_path)), len(private_files(tmp_path / "folder"))) == (0, 1)
        file.discard()

    def test_a_hard_link_of_the_file_keeps_its_bytes(self, tmp_path: Path) -> None:
        other, path = tmp_path / "other.json", tmp_path / "forced.json"
        other.write_bytes(b"[old]")
        os.link(other, path)
        put_forced(path, b"[1]")
        assert (other.read_bytes(), path.read_bytes()) == (b"[old]", b"[1]")

    def test_what_is_no_file_is_refused_before_anything_is_written(self, tmp_path: Path) -> None:
        (tmp_path / "folder").mkdir()
        os.mkfifo(tmp_path / "pipe")
        (tmp_path / "device").symlink_to("/dev/null")
        (tmp_path / "link").symlink_to("folder")
        before = sorted(tmp_path.iterdir())
        for name, kind in {"folder": "folder", "pipe": "pipe", "device": "device", "link": "folder"}.items():
            path = tmp_path / name
            with pytest.raises(
                PublishError, match=f"cannot write {path}: it is a {kind}, and nothing but a file"
            ) as told:
                ForcedFile(path)
            assert told.value.path == path
        assert sorted(tmp_path.iterdir()) == before

    def test_a_socket_is_refused_too(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(tmp_path)  # a socket's path must be short
        with socket.socket(socket.AF_UNIX) as server:
            server.bind("socket")
            with pytest.raises(PublishError, match="it is no regular file"):
                ForcedFile(Path("socket"))

    def test_what_came_meanwhile_and_is_no_file_is_left_alone(self, tmp_path: Path) -> None:
        pipe, link = tmp_path / "pipe", tmp_path / "link"
        files = [ForcedFile(pipe), ForcedFile(link)]
        os.mkfifo(pipe)
        link.symlink_to("elsewhere")
        for file, kind in zip(files, ("pipe", "symbolic link that came meanwhile"), strict=True):
            with pytest.raises(PublishError, match=f"it is a {kind}, and nothing but a file is replaced"):
                file.publish()
        assert stat.S_ISFIFO(pipe.lstat().st_mode)
        assert link.is_symlink()
        assert private_files(tmp_path) == []

    def test_what_the_system_refuses_leaves_the_old_file(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        path = tmp_path / "forced.json"
        path.write_bytes(b"[old]")
        monkeypatch.setattr(os, "replace", refuse_links)
        with pytest.raises(PublishError, match=r"cannot write .*forced\.json: .*Operation not permitted"):
            put_forced(path, b"[1]")
        assert path.read_bytes() == b"[old]"
        assert os.listdir(tmp_path) == ["forced.json"]

    def test_a_circle_of_links_is_an_error_like_any_other(self, tmp_path: Path) -> None:
        (tmp_path / "a").symlink_to("b")
        (tmp_path / "b").symlink_to("a")
        with pytest.raises(PublishError, match="Too many levels of symbolic links"):
            ForcedFile(tmp_path / "a")
        with pytest.raises(PublishError, match="embedded null byte"):
            ForcedFile(tmp_path / "a\0b")


KILLED = textwrap.dedent(
    """
    import errno, os, signal, sys
    from pathlib import Path
    from pytest_gputrace.publish import ForcedFile, LegacyFile, NewFile, QualifiedFile

    folder, moment, links = Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3] == "links"
    count = 0

    def watch(name):
        real = getattr(os, name)

        def call(*args, **options):
            global count
            count += 1
            if count == moment:
                if name == "write":
                    real(args[0], bytes(args[1])[: len(args[1]) // 2])
                os.kill(os.getpid(), signal.SIGKILL)
            if name == "link" and not links:
                raise OSError(errno.EPERM, "Operation not permitted")
            return real(*args, **options)

        setattr(os, name, call)

    for name in ("open", "write", "fsync", "link", "lstat", "rename", "replace", "unlink", "close"):
        watch(name)
    """
)
CAPTURES = textwrap.dedent(
    """
    legacy = LegacyFile(folder / "legacy.json")
    qualified = QualifiedFile(folder, lambda attempt: f"capture.a{attempt}.json")
    for piece in (b"[1, ", b"2, ", b"3]"):
        qualified.write(piece)
        legacy.write(piece)
    qualified.publish()
    legacy.publish()
    """
)
NAMED = textwrap.dedent(
    """
    for file in (NewFile(folder / "new.json"), ForcedFile(folder / "link.json")):
        for piece in (b"[1, ", b"2, 3]"):
            file.write(piece)
        file.publish()
    """
)


def killed_at(folder: Path, moment: int, links: str, script: str = CAPTURES) -> int:
    command = [sys.executable, "-c", KILLED + script, str(folder), str(moment), links]
    return subprocess.run(command, timeout=60, check=False, cwd=folder).returncode


@pytest.mark.parametrize("links", ["links", "no-links"])
def test_killed_at_any_moment_only_complete_files_have_final_names(tmp_path: Path, links: str) -> None:
    for moment in range(1, 100):
        folder = tmp_path / str(moment)
        folder.mkdir()
        (folder / "legacy.json").write_bytes(b"[0]")
        (folder / "capture.a1.json").write_bytes(b"[0]")
        status = killed_at(folder, moment, links)
        final = {path.name: json.loads(path.read_bytes()) for path in folder.glob("[!.]*")}
        assert final.pop("capture.a1.json") == [0]
        legacy = final.pop("legacy.json")
        assert legacy in ([0], [1, 2, 3])
        assert all(content == [1, 2, 3] for content in final.values()), f"cut after call {moment}: {final}"
        if status == 0:
            break
        assert status == -signal.SIGKILL
    assert moment > 15, "the writer was hardly killed: the test watches the wrong calls"
    assert legacy == [1, 2, 3]
    assert list(final) == ["capture.a2.json"]


@pytest.mark.parametrize("links", ["links", "no-links"])
def test_killed_at_any_moment_a_name_that_was_given_holds_a_complete_file(tmp_path: Path, links: str) -> None:
    for moment in range(1, 100):
        folder = tmp_path / str(moment)
        folder.mkdir()
        (folder / "real.json").write_bytes(b"[0]")
        (folder / "link.json").symlink_to("real.json")
        status = killed_at(folder, moment, links, NAMED)
        final = {path.name: json.loads(path.read_bytes()) for path in folder.glob("[!.]*")}
        assert final.pop("link.json") == final["real.json"]
        assert (folder / "link.json").is_symlink()
        assert final["real.json"] in ([0], [1, 2, 3])
        assert final.get("new.json", [1, 2, 3]) == [1, 2, 3]
        if status == 0:
            break
        assert status == -signal.SIGKILL
    assert moment > 10, "the writer was hardly killed: the test watches the wrong calls"
    assert final == {"new.json": [1, 2, 3], "real.json": [1, 2, 3]}


def written(folder: Path, data: bytes = b"[1]") -> Path:
    """What a profiler left under a private name."""
    private = folder / f"{PRIVATE_PREFIX}0.json"
    private.write_bytes(data)
    return private


@pytest.mark.usefixtures("_links")
class TestWritten:
    def test_it_gets_its_name_and_the_private_one_is_gone(self, tmp_path: Path) -> None:
        path = publish_written(written(tmp_path), tmp_path, name_of)
        assert path == tmp_path / "capture.json"
        assert path.read_bytes() == b"[1]"
        assert os.listdir(tmp_path) == ["capture.json"]

    def test_a_name_that_is_taken_is_left_alone(self, tmp_path: Path) -> None:
        put(tmp_path, b"[0]")
        (tmp_path / "capture.a2.json").symlink_to("nowhere")
        assert publish_written(written(tmp_path), tmp_path, name_of).name == "capture.a3.json"
        assert (tmp_path / "capture.json").read_bytes() == b"[0]"
        assert (tmp_path / "capture.a2.json").is_symlink()

    def test_many_at_once_lose_nothing(self, tmp_path: Path) -> None:
        count = 8
        privates = [tmp_path / f"{PRIVATE_PREFIX}{index}" for index in range(count)]
        for index, private in enumerate(privates):
            private.write_text(str(index))
        threads = [
            threading.Thread(target=publish_written, args=(private, tmp_path, name_of), daemon=True)
            for private in privates
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        there = {path.read_text() for path in tmp_path.glob("[!.]*")}
        assert there == {str(index) for index in range(count)}
        assert private_files(tmp_path) == []

    def test_from_another_folder(self, tmp_path: Path) -> None:
        (tmp_path / "there").mkdir()
        assert publish_written(written(tmp_path), tmp_path / "there", name_of) == tmp_path / "there" / "capture.json"

    def test_data_reaches_the_disk_before_the_name(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        seen: list[tuple[str, bool]] = []
        real = os.fsync

        def fsync(fd: int) -> None:
            is_folder = stat.S_ISDIR(os.fstat(fd).st_mode)
            seen.append(("folder" if is_folder else "file", (tmp_path / "capture.json").exists()))
            real(fd)

        monkeypatch.setattr(os, "fsync", fsync)
        publish_written(written(tmp_path), tmp_path, name_of)
        assert seen == [("file", False), ("folder", True)]

    def test_a_disk_that_fails_leaves_what_was_written(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        def fsync(_fd: int) -> None:
            raise OSError(errno.EIO, "Input/output error")

        monkeypatch.setattr(os, "fsync", fsync)
        private = written(tmp_path)
        with pytest.raises(
            PublishError, match=f"cannot publish {private} as {tmp_path}/capture.json: .*Input/output error"
        ):
            publish_written(private, tmp_path, name_of)
        assert os.listdir(tmp_path) == [private.name]
        assert private.read_bytes() == b"[1]"

    def test_when_every_name_is_taken_what_was_written_is_left(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(publish, "_ATTEMPTS", 2)
        put(tmp_path, b"[0]")
        put(tmp_path, b"[0]")
        private = written(tmp_path)
        with pytest.raises(PublishError, match="all 2 attempts of this name are taken"):
            publish_written(private, tmp_path, name_of)
        assert private.read_bytes() == b"[1]"

    def test_a_name_that_cannot_be_leaves_what_was_written(self, tmp_path: Path) -> None:
        def too_long(attempt: int) -> str:
            raise NamingError("a name of 40 bytes has no room")

        private = written(tmp_path)
        for names, why in (
            (too_long, "no room"),
            (lambda attempt: "x" * 300, "too long"),
            (lambda attempt: "\0", "null"),
        ):
            with pytest.raises(PublishError, match=why):
                publish_written(private, tmp_path, names)
        assert private.read_bytes() == b"[1]"

    def test_what_is_not_there_is_an_error(self, tmp_path: Path) -> None:
        with pytest.raises(PublishError, match="No such file"):
            publish_written(tmp_path / "absent", tmp_path, name_of)
        with pytest.raises(PublishError, match="it is empty"):
            publish_written(written(tmp_path, b""), tmp_path, name_of)
        with pytest.raises(PublishError, match="No such file"):
            publish_written(written(tmp_path), tmp_path / "absent", name_of)
        assert not (tmp_path / "capture.json").exists()

    def test_only_a_regular_file_is_published(self, tmp_path: Path) -> None:
        link, pipe, folder = tmp_path / "link", tmp_path / "pipe", tmp_path / "folder"
        link.symlink_to(written(tmp_path))
        os.mkfifo(pipe)
        folder.mkdir()
        for path, why in ((link, "symbolic link"), (pipe, "it is a pipe"), (folder, "it is a folder")):
            with pytest.raises(PublishError, match=why):
                publish_written(path, tmp_path, name_of)
        assert not (tmp_path / "capture.json").exists()
