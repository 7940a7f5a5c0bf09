"""What can be done to a run on purpose: each fault is a frozen description, carried out by the cluster.

``str`` of a fault reads as it was written. ``Outcome.injected`` names the faults that really struck in a worker. Here
are the functions that make them; what each kind does stands in the modules of the kinds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_gputrace.fakes.faultbase import Fault, Who
from pytest_gputrace.fakes.folderfaults import STALE_ROUND, MissingFolder, ReadOnly, StaleFiles
from pytest_gputrace.fakes.lockstep import Lockstep
from pytest_gputrace.fakes.moments import MOMENTS, Moment
from pytest_gputrace.fakes.profilefaults import BadValues, EmptyProfile, HostileNames, StolenSession
from pytest_gputrace.fakes.strikes import OverwriteLegacy, Sigkill, TruncateLegacy
from pytest_gputrace.fakes.systemfaults import DiskFull, EqualHosts, FrozenClock, RefusedNames
from pytest_gputrace.fakes.validate import check_seconds, one_of, whole

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_gputrace.fakes.job import Job

__all__ = [
    "STALE_ROUND",
    "Fault",
    "Moment",
    "Who",
    "bad_values",
    "disk_full",
    "empty_profile",
    "equal_hosts",
    "frozen_clock",
    "hostile_names",
    "lockstep",
    "missing_folder",
    "overwrite_legacy",
    "read_only",
    "refused_names",
    "sigkill",
    "stale_files",
    "stolen_session",
    "truncate_legacy",
]

_LAST_SECOND = 253_402_300_799  # of the year 9999, the last that a datetime can tell


def _check(where: str, at: object) -> None:
    one_of(where, "moment", at, MOMENTS)


def truncate_legacy(at: Moment, to_bytes: int = 0, who: Callable[[Job], bool] | None = None) -> Fault:
    """Somebody cuts this worker's legacy file to ``to_bytes``.

    ``start`` is before the exporter is called (an empty file is made where there is none), ``legacy-written`` at the
    first file event on another path after this worker's legacy file changed, ``every-open`` at every file event below
    the trace folder, ``end`` after the exporter returned. A file that is no longer than that is left as it is.
    """
    _check("truncate_legacy", at)
    whole("truncate_legacy", "to_bytes", to_bytes, 0)
    return TruncateLegacy(at, to_bytes, who=who)


def overwrite_legacy(at: Moment, who: Callable[[Job], bool] | None = None) -> Fault:
    """Somebody writes another worker's complete capture over this worker's legacy file: same records, other marks.

    Moments are those of ``truncate_legacy``; but for ``start``, nothing is written where there is no such file.
    """
    _check("overwrite_legacy", at)
    return OverwriteLegacy(at, who=who)


def sigkill(
    at: Moment | int | None = None,
    *,
    at_byte: int | None = None,
    opening: int = 0,
    who: Callable[[Job], bool] | None = None,
) -> Fault:
    """The worker dies by SIGKILL: at a moment, at the nth file event below the trace folder, or in a write.

    With ``at_byte`` the process is killed when any file is about to grow past that many bytes; they are on disk. With
    ``opening`` that counts from when it opens its nth file below the trace folder for writing, for an exporter that
    first writes all of it elsewhere.
    """
    if (at is None) == (at_byte is None):
        raise ValueError("sigkill: give either a moment (or the number of a file event) or at_byte")
    if at_byte is not None:
        whole("sigkill", "at_byte", at_byte, 0)
        whole("sigkill", "opening", opening, 0)
    elif opening:
        raise ValueError("sigkill: opening is about at_byte; give that, too")
    elif isinstance(at, int):
        whole("sigkill", "at", at)
    else:
        _check("sigkill", at)
    return Sigkill(at, at_byte, opening, who=who)


def equal_hosts(hostname: str = "localhost") -> Fault:
    """All nodes have one host name. Their process ids are equal in any case."""
    return EqualHosts(hostname)


def stale_files(who: Callable[[Job], bool] | None = None) -> Fault:
    """Complete files of an earlier run lie in the trace folder before the start; their marks name round 999."""
    return StaleFiles(who=who)


def bad_values(*values: complex, who: Callable[[Job], bool] | None = None) -> Fault:
    """Events hold numbers that JSON cannot: NaN, both infinities and a complex one, or the ``values`` given."""
    return BadValues(values, who=who) if values else BadValues(who=who)


def lockstep(patience_s: float = 5.0, *, who: Callable[[Job], bool] | None = None) -> Fault:
    """The selected workers go from file event to file event together, so that whatever can collide does.

    A worker does its nth file event below the trace folder (an open, rename, link, removal, truncation or ``mkdir``)
    only when every other selected worker that has not ended has come to its nth. A question asked before an event
    ("does it exist?") is therefore asked by all before one of them acts. When somebody does not come within
    ``patience_s`` (it waits for a lock that another one holds, or was killed), all go their own ways for the rest of
    the run. It has struck a worker that met another one. Not for a cluster with ``turns``.
    """
    check_seconds("lockstep", "patience_s", patience_s)
    return Lockstep(patience_s, who=who)


def frozen_clock(epoch_s: float = 1_800_000_000.0, *, who: Callable[[Job], bool] | None = None) -> Fault:
    """The wall clock stands still: ``time.time``, ``time_ns``, ``strftime``, ``datetime.now`` and the like.

    Also where the exporter took them by name. ``time.monotonic`` and ``time.sleep`` go on, and so do the times that
    the system gives to files, and the clock of a program that the worker starts.
    """
    if isinstance(epoch_s, bool) or not isinstance(epoch_s, int | float):
        raise TypeError(
            f"frozen_clock: epoch_s={epoch_s!r} must be a number of seconds, not a {type(epoch_s).__name__}"
        )
    if not 0 < epoch_s <= _LAST_SECOND:
        raise ValueError(
            f"frozen_clock: epoch_s={epoch_s!r} must be above 0 and at most {_LAST_SECOND} (the year 9999)"
        )
    return FrozenClock(epoch_s, who=who)


def disk_full(at_byte: int = 4096, *, who: Callable[[Job], bool] | None = None) -> Fault:
    """No file can grow past ``at_byte`` bytes: the write that would is cut short, and the next one fails.

    For any writer, C code too. No test may fill a real disk, so the system's word is that of its limit on the size of
    a file: ``EFBIG``, "File too large", where a full disk says ``ENOSPC``. It counts every regular file the worker
    writes, its own log too; a program that the worker starts is killed by SIGXFSZ there.
    """
    whole("disk_full", "at_byte", at_byte, 0)
    return DiskFull(at_byte, who=who)


def read_only(who: Callable[[Job], bool] | None = None) -> Fault:
    """The trace folder has mode 555 during the run: no name in it can be made, replaced or removed.

    Files that are in it already stay writable. Root ignores modes, so a selected worker that is root gives up that
    power (``CAP_DAC_OVERRIDE``) during the call; ``os.access`` says the old thing all the same, and a program that it
    starts has the power again. The mode is restored however the run ends.
    """
    return ReadOnly(who=who)


def refused_names(who: Callable[[Job], bool] | None = None) -> Fault:
    r"""Below the trace folder, names that SMB and NTFS refuse cannot be made: ``OSError`` with ``EINVAL``.

    Such a name holds one of ``<>:"|?*\`` or a control character, ends in a dot or a space, or is a device's (``NUL``,
    ``com1.json``). Opening for writing, renaming, linking and ``mkdir`` are refused where Python's own calls do it; C
    code is not seen. An exporter that makes no such name is not struck, and that is no error.
    """
    return RefusedNames(who=who)


def missing_folder(who: Callable[[Job], bool] | None = None) -> Fault:
    """The trace folder does not exist when the workers start; it must be empty until then."""
    return MissingFolder(who=who)


def empty_profile(who: Callable[[Job], bool] | None = None) -> Fault:
    """The profiler records nothing: ``events()`` is empty, and an export holds rows about the process only."""
    return EmptyProfile(who=who)


def stolen_session(who: Callable[[Job], bool] | None = None) -> Fault:
    """Another profile took the session before the stop: no events, and an export raises (torch 2.13 dies there)."""
    return StolenSession(who=who)


def hostile_names(*names: str, who: Callable[[Job], bool] | None = None) -> Fault:
    """The profile also holds host events of these names; when left out, of many that break careless writers.

    Those are quotes, backslashes, control characters, separators, a lone surrogate, an emoji, a byte order mark,
    ``NaN``, a blank, and a name of 100,000 characters.
    """
    for name in names:
        if not isinstance(name, str):
            raise TypeError(f"hostile_names: {name!r} must be a text, not a {type(name).__name__}")
    return HostileNames(names, who=who) if names else HostileNames(who=who)
