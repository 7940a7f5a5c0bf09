"""Put a file on disk so that its final name only ever holds a complete one.

Every kind of file is written beside its target, under a short private name in the same folder, and brought to the disk
(fsync) before it gets its final name:

* a **qualified** file is published without replacing anything: when the name is taken, the next attempt's name is;
* the **legacy** file is replaced at once (``os.replace``), last write wins, as its consumers expect;
* a **new** file has the one name that the user gave: when that is taken, nothing is published;
* a **forced** file replaces the file that the user named at once, and nothing but a file;
* a **written** file is one that a profiler wrote itself, published as a qualified one.

A process killed at any moment leaves private files behind (``.gputrace-*``), never a cut file under a final name.
This module must not know what the bytes mean.
"""

from __future__ import annotations

import abc
import base64
import contextlib
import errno
import hashlib
import os
import secrets
import select
import stat
import time
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_gputrace.errors import NamingError, PublishError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = [
    "PRIVATE_PREFIX",
    "ForcedFile",
    "LegacyFile",
    "NewFile",
    "PrivateFile",
    "QualifiedFile",
    "publish_written",
]

PRIVATE_PREFIX = ".gputrace-"
"""What the name of every private file starts with; readers of a folder pass them over."""

_ATTEMPTS = 100_000
_STALLED_READER_S = 30.0
_COPY_BYTES = 1 << 20
# What a file system answers that knows no hard links: FAT and exFAT, SMB, many FUSE mounts, one-link file systems.
_LINKS_REFUSED = {errno.EPERM, errno.EOPNOTSUPP, errno.ENOTSUP, errno.ENOSYS, errno.EMLINK, errno.EACCES, errno.EXDEV}
# What fsync answers where there is nothing to bring to a disk: a pipe, a device, a folder of some network systems.
_NOTHING_TO_SYNC = {errno.EINVAL, errno.EOPNOTSUPP, errno.ENOTSUP, errno.EBADF, errno.EACCES, errno.EISDIR}
_TAKEN = "it exists, and nothing is ever overwritten; choose another name"
_KINDS = {
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a pipe",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFLNK: "a symbolic link that came meanwhile",
}


class PrivateFile(abc.ABC):
    """A new file under a private name, in the folder where it will be published.

    Raises:
        PublishError: from every method, naming the final path and the system's error; the private file is gone then.
    """

    def __init__(self, target: Path) -> None:
        self.target = target
        self._fd: int | None = None
        with self._reported():
            self._path, self._fd = _create_private(self._folder())

    def write(self, data: bytes) -> None:
        """Append ``data``, all of it."""
        with self._reported():
            assert self._fd is not None
            _write_all(self._fd, data)

    def publish(self) -> Path:
        """Give the file its final name, and return that."""
        with self._reported():
            assert self._fd is not None
            _sync(self._fd)
            path = self._place()
            self._close()
            _sync_folder(path.parent)
        return path

    def discard(self) -> None:
        """Remove the private file; harmless when it was published or discarded before."""
        if self._fd is not None:
            self._close()
            with contextlib.suppress(OSError):
                self._path.unlink()

    def _folder(self) -> Path:
        """Where the private file is created; an `OSError` where it can be told already that it will not be published."""
        return self.target.parent

    @abc.abstractmethod
    def _place(self) -> Path:
        """Bring the complete private file to its final name, and return that."""

    def _close(self) -> None:
        fd, self._fd = self._fd, None
        assert fd is not None
        os.close(fd)

    @contextlib.contextmanager
    def _reported(self) -> Iterator[None]:
        try:
            yield
        except (OSError, ValueError) as error:  # ValueError: a name with NUL, or one that cannot be encoded
            self.discard()
            raise PublishError(f"cannot write {_shown(self.target)}: {error}", path=self.target) from error
        except BaseException:
            self.discard()
            raise


class QualifiedFile(PrivateFile):
    """A capture's own file: never replaces another one.

    ``name_of`` gives the file name of each attempt, 1 first; the first one that is free becomes the file's name.
    """

    def __init__(self, folder: Path, name_of: Callable[[int], str]) -> None:
        self._name_of = name_of
        super().__init__(folder / name_of(1))

    def _place(self) -> Path:
        return _publish_first_free(self._path, self.target.parent, self._name_of)


class LegacyFile(PrivateFile):
    """The file that older consumers read: shared by configurations and nodes, last write wins.

    Replaced at once, with its mode and, where allowed, its owner kept. Where a replacement would break what the
    target is (a symbolic link, one of several hard links, a pipe or device) or is not allowed (somebody else's file in
    a sticky folder), it is written in place instead, from the complete private file. ``is_capture`` says of a file
    name whether it is a capture's own: what shares its content with one is replaced, never written into.
    """

    def __init__(self, target: Path, is_capture: Callable[[str], bool] = lambda _name: False) -> None:
        self._is_capture = is_capture
        super().__init__(target)

    def _place(self) -> Path:
        assert self._fd is not None
        try:
            status = self.target.lstat()
        except FileNotFoundError:
            status = None
        if status is not None and self._is_shared(status) and not self._leads_to_a_capture(status):
            self._write_in_place()
            return self.target
        if status is not None and stat.S_ISREG(status.st_mode):
            _take_over(self._fd, status)
        try:
            os.replace(self._path, self.target)
        except PermissionError:
            if status is None:
                raise
            self._write_in_place()
        return self.target

    @staticmethod
    def _is_shared(status: os.stat_result) -> bool:
        return not stat.S_ISREG(status.st_mode) or status.st_nlink > 1

    def _leads_to_a_capture(self, status: os.stat_result) -> bool:
        """Whether writing in place would write into a capture: deduplication links equal files to one another."""
        if stat.S_ISLNK(status.st_mode):
            return self._is_capture(self.target.resolve().name)
        if not stat.S_ISREG(status.st_mode):
            return False
        with os.scandir(self.target.parent) as entries:
            return any(entry.inode() == status.st_ino and self._is_capture(entry.name) for entry in entries)

    def _write_in_place(self) -> None:
        assert self._fd is not None
        # O_NONBLOCK: a named pipe that nobody reads must be an error now, not a wait without end.
        target = os.open(self.target, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NONBLOCK, 0o666)
        try:
            with self._path.open("rb") as complete:
                while data := complete.read(_COPY_BYTES):
                    _write_all(target, data)
            _sync(target)
        finally:
            os.close(target)
        self._path.unlink()


class NewFile(PrivateFile):
    """A file of this name and no other: never replaces one, told at once where there is one already."""

    def _folder(self) -> Path:
        if os.path.lexists(self.target):
            raise FileExistsError(_TAKEN)
        return super()._folder()

    def _place(self) -> Path:
        try:
            _publish_new(self._path, self.target)
        except _ClaimedError:
            raise
        except FileExistsError:
            raise FileExistsError(_TAKEN) from None
        return self.target


class ForcedFile(PrivateFile):
    """Replaces the file of this name at once, where there is one, with its mode and, where allowed, its owner kept.

    A symbolic link stays one: the file it leads to is replaced. What is no regular file is left alone.
    """

    def _folder(self) -> Path:
        with contextlib.suppress(FileNotFoundError):
            _refuse_other_kinds(os.stat(self.target))  # not of the real path: that of /dev/stdout may be no path at all
        self._real = Path(os.path.realpath(self.target))
        return self._real.parent

    def _place(self) -> Path:
        assert self._fd is not None
        with contextlib.suppress(FileNotFoundError):
            status = self._real.lstat()
            _refuse_other_kinds(status)
            _take_over(self._fd, status)
        os.replace(self._path, self._real)
        return self._real


def publish_written(private: Path, folder: Path, name_of: Callable[[int], str]) -> Path:
    """Bring a file that somebody else wrote to the disk and give it the first of its names that is free.

    Args:
        private: the file, complete; in ``folder``, or elsewhere on its file system.
        folder: where it shall be.
        name_of: the file name of each attempt, 1 first.

    Raises:
        PublishError: it is not there, empty or no regular file, or it cannot be published; it is left where it is.
    """
    target = folder
    try:
        target = folder / name_of(1)
        # O_NONBLOCK: to open a pipe that nobody writes to must be an error, not a wait without end.
        fd = os.open(private, os.O_RDONLY | os.O_NONBLOCK | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0))
        try:
            _refuse_unwritten(os.fstat(fd))
            _sync(fd)
            path = _publish_first_free(private, folder, name_of)
        finally:
            os.close(fd)
        _sync_folder(folder)
    except (OSError, ValueError, NamingError) as error:
        raise PublishError(f"cannot publish {_shown(private)} as {_shown(target)}: {error}", path=target) from error
    return path


def _refuse_unwritten(status: os.stat_result) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise OSError(f"it is {_KINDS.get(stat.S_IFMT(status.st_mode), 'no regular file')}, not the file of a profiler")
    if not status.st_size:
        raise OSError("it is empty; did the profiler fail, is the disk full?")


class _ClaimedError(FileExistsError):
    """The name is about to be taken by another writer, or was when that was killed."""


def _refuse_other_kinds(status: os.stat_result) -> None:
    if not stat.S_ISREG(status.st_mode):
        kind = _KINDS.get(stat.S_IFMT(status.st_mode), "no regular file")
        raise FileExistsError(f"it is {kind}, and nothing but a file is replaced; choose another name")


def _shown(path: Path) -> str:
    """``path`` for a message: printable, and not longer than a line or two."""
    text = os.fspath(path).encode("utf-8", "backslashreplace").decode("utf-8")
    text = "".join(char if char.isprintable() else ascii(char)[1:-1] for char in text)
    return text if len(text) <= 1000 else f"{text[:500]}...{text[-500:]}"


def _create_private(folder: Path) -> tuple[Path, int]:
    while True:
        path = folder / f"{PRIVATE_PREFIX}{secrets.token_hex(8)}.tmp"
        # os.open, not tempfile: the published file must have the mode that the umask gives, not 0600.
        with contextlib.suppress(FileExistsError):
            return path, os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0), 0o666)


def _write_all(fd: int, data: bytes) -> None:
    view = memoryview(data)
    deadline = time.monotonic() + _STALLED_READER_S
    while view:
        try:
            view = view[os.write(fd, view) :]
        except BlockingIOError:
            # Only a pipe gets here: wait for its reader, but not for ever.
            poll = select.poll()  # select() knows no descriptor above 1023
            poll.register(fd, select.POLLOUT)
            if not poll.poll(max(0.0, deadline - time.monotonic()) * 1000):
                raise TimeoutError(
                    errno.ETIMEDOUT, f"its reader is too slow: not {len(data)} bytes in {_STALLED_READER_S:g} s"
                ) from None


def _publish_first_free(private: Path, folder: Path, name_of: Callable[[int], str]) -> Path:
    for attempt in range(1, _ATTEMPTS + 1):
        path = folder / name_of(attempt)
        try:
            _publish_new(private, path)
        except FileExistsError:
            continue
        return path
    raise FileExistsError(errno.EEXIST, f"all {_ATTEMPTS} attempts of this name are taken; clear the folder")


def _publish_new(private: Path, path: Path) -> None:
    """Give ``private`` the name ``path``; `FileExistsError` when that is taken."""
    try:
        os.link(private, path)
    except FileExistsError:
        # NFS may repeat a link whose answer was lost, and then finds its own.
        if not os.path.samestat(os.lstat(private), os.lstat(path)):
            raise
    except OSError as error:
        if error.errno not in _LINKS_REFUSED:
            raise
        _rename_new(private, path)
        return
    with contextlib.suppress(OSError):  # published; a private name left over harms nobody
        private.unlink()


def _rename_new(private: Path, path: Path) -> None:
    """Publish by rename, where hard links are refused.

    The name is claimed first, by creating a file exclusively. The claim has a private name of its own: claiming the
    final name itself would leave an empty file there if the process were killed before the rename. A claim left by a
    killed process costs the next writer one attempt, nothing else; a writer that has but one is told of the claim.
    """
    digest = base64.b32encode(hashlib.sha256(os.fsencode(path.name)).digest()[:10]).decode("ascii").lower()
    claim = path.with_name(f"{PRIVATE_PREFIX}{digest}.claim")
    try:
        os.close(os.open(claim, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666))
    except FileExistsError:
        raise _ClaimedError(f"another writer claims its name; if none is at work, remove {claim.name}") from None
    try:
        if os.path.lexists(path):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(path))
        os.rename(private, path)
    finally:
        claim.unlink()


def _take_over(fd: int, status: os.stat_result) -> None:
    """Mode and owner of the file that is about to be replaced."""
    own = os.fstat(fd)
    if (own.st_uid, own.st_gid) != (status.st_uid, status.st_gid):
        with contextlib.suppress(OSError):  # only root may give files away, and only to users that are known here
            os.fchown(fd, status.st_uid, status.st_gid)
    os.fchmod(fd, stat.S_IMODE(status.st_mode))


def _sync(fd: int) -> None:
    try:
        os.fsync(fd)
    except OSError as error:
        if error.errno not in _NOTHING_TO_SYNC:
            raise


def _sync_folder(folder: Path) -> None:
    """Bring the folder's entries to the disk, so that a name survives a power cut; not every system can."""
    try:
        fd = os.open(folder, os.O_RDONLY | getattr(os, "O_DIRECTORY", 0))
    except OSError:  # a folder one may write to but not read, or Windows
        return
    try:
        _sync(fd)
    finally:
        os.close(fd)
