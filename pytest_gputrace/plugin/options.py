"""Options and ini values -> one frozen `Settings`. Looks at the configuration only, touches no folder."""

from __future__ import annotations

import itertools
import os
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["SETTINGS", "TIMELINE_SUFFIXES", "Settings", "add_options"]

DEFAULT_DIR = ".gputrace"
TIMELINE_SUFFIXES = (".json", ".json.gz")


def add_options(parser: pytest.Parser) -> None:
    """Declare everything the plugin reads from the command line and the ini file."""
    group = parser.getgroup("gputrace", "GPU profiler traces")
    group.addoption(
        "--gputrace",
        action="store_true",
        default=None,
        help="keep the traces of tests and say at the end what was kept and what was lost",
    )
    group.addoption(
        "--gputrace-dir",
        default=None,
        metavar="DIR",
        help=f"where traces are kept, relative to the root folder (default: {DEFAULT_DIR})",
    )
    group.addoption(
        "--gputrace-merge",
        nargs="?",
        const="",
        default=None,
        metavar="PATH",
        help="with --gputrace: at the end merge the traces of each test into one timeline, timeline.json.gz in the test's "
        "folder; with =PATH into this file (.json or .json.gz, of one test) or this folder",
    )
    parser.addini("gputrace", "keep traces, as --gputrace does", type="bool", default=None)
    parser.addini("gputrace_dir", "where traces are kept, as --gputrace-dir says", default=None)


class Settings(NamedTuple):  # a frozen dataclass takes five times as long to make, at every start of pytest
    """What the user asked for: ``enabled`` by --gputrace, ``folder`` for the traces of all runs.

    ``merge`` is whether timelines are made at the end, in ``timelines`` where that is given: a file, or a folder.
    """

    enabled: bool
    folder: Path
    merge: bool = False
    timelines: Path | None = None

    @classmethod
    def from_config(cls, config: pytest.Config) -> Self:
        """Command line, then ini, then default.

        Raises:
            pytest.UsageError: a value cannot be used.
        """
        enabled: bool | None = config.getoption("gputrace")
        if enabled is None:
            enabled = _ini_bool(config)
        name: str | None = config.getoption("gputrace_dir")
        source = "--gputrace-dir"
        if name is None:
            name, source = config.getini("gputrace_dir"), "gputrace_dir in the ini file"
        if name is None:
            name = DEFAULT_DIR
        if not name.strip():
            raise pytest.UsageError(f"{source}: expected a folder, got an empty text")
        folder = _path(config, name, source)
        # What is there may also be a file further up; either way no folder can be made.
        taken = next((path for path in (folder, *folder.parents) if path.exists()), folder)
        if enabled and not taken.is_dir():
            raise pytest.UsageError(f"{source}: {taken} is a file, so no traces can be kept in {folder}")
        merge: str | None = config.getoption("gputrace_merge")
        if merge is None:
            return cls(enabled=bool(enabled), folder=folder)
        if not enabled:
            raise pytest.UsageError(
                "--gputrace-merge: there is nothing to merge unless traces are kept; add --gputrace"
            )
        return cls(enabled=True, folder=folder, merge=True, timelines=_timelines(config, merge))


def _path(config: pytest.Config, name: str, source: str) -> Path:
    try:
        return config.rootpath / Path(name).expanduser()
    except RuntimeError as error:  # ~nobody-of-that-name
        raise pytest.UsageError(f"{source}: {name!r} names no folder ({error})") from error


def _timelines(config: pytest.Config, name: str) -> Path | None:
    """The file or folder for timelines; looked at now, so that no run is in vain."""
    if not name:
        return None
    arguments = config.invocation_params.args
    if any(pair == ("--gputrace-merge", name) for pair in itertools.pairwise(arguments)):
        raise pytest.UsageError(
            f"--gputrace-merge {name}: is this what to run, or where timelines go? Say --gputrace-merge={name} for where, "
            "and put a bare --gputrace-merge behind what to run"
        )
    path = _path(config, name, "--gputrace-merge")
    if path.name.endswith(TIMELINE_SUFFIXES):
        if os.path.lexists(path):
            raise pytest.UsageError(f"--gputrace-merge: {path} exists already; give another name, or remove it")
        folder = path.parent
    else:
        folder = path
    taken = next(each for each in (folder, *folder.parents) if each.exists())
    if not taken.is_dir():
        raise pytest.UsageError(f"--gputrace-merge: {taken} is a file, so no timeline can be written to {path}")
    return path


def _ini_bool(config: pytest.Config) -> bool | None:
    try:
        value: bool | None = config.getini("gputrace")
    except (ValueError, pytest.UsageError) as error:  # which of them, depends on the version of pytest
        raise pytest.UsageError(f"gputrace in the ini file: expected true or false ({error})") from error
    return value


SETTINGS = pytest.StashKey[Settings]()
