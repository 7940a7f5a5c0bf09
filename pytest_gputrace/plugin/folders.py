"""Where the traces of a run and of each of its tests go. Makes folders, writes nothing into them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["RUN", "new_run", "new_test_folder"]

RUN = pytest.StashKey[str]()
"""The name of this run, one for the controller and all its workers; there with --gputrace only."""

_FIELD_LIMIT = 120


def new_run() -> str:
    """A name that no other run has: the time, for people, and a random part, for two starts in one second."""
    import datetime
    import secrets

    now = datetime.datetime.now(datetime.timezone.utc)
    return f"{now:%Y%m%dT%H%M%SZ}-{secrets.token_hex(4)}"


def new_test_folder(run: Path, nodeid: str) -> Path:
    """Make a folder for one test, a second one where the test runs again (a rerun, or ``--dist each``)."""
    from pytest_gputrace.naming import encode_field

    run.mkdir(parents=True, exist_ok=True)
    name = encode_field(nodeid, limit=_FIELD_LIMIT)
    attempt = 1
    while True:
        folder = run / (name if attempt == 1 else f"{name}.a{attempt}")
        try:
            folder.mkdir()
        except FileExistsError:
            attempt += 1
        else:
            return folder
