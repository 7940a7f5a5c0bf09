"""What the tests of the fake engine ask it, by plain HTTP and by a look at the disk: nothing of the library judges here."""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_gputrace.fakes import FakeEngine

GENEROUS_S = 30.0


def ask(engine: FakeEngine, path: str, body: Any = None, method: str = "POST") -> tuple[int, str]:
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(engine.url + path, data, {"Content-Type": "application/json"}, method=method)
    try:
        with urllib.request.urlopen(request, timeout=GENEROUS_S) as response:
            return response.status, response.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


def running(pid: int) -> bool:
    """Whether the process is there, and no zombie."""
    return state(pid) not in ("", "Z", "X")


def state(pid: int) -> str:
    return stat(pid)[0] if stat(pid) else ""


def stat(pid: int) -> list[str]:
    """State, parent, group, ... of a process; empty where there is none."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []


def until(condition: Callable[[], bool]) -> bool:
    """Whether it became true, with all the time in the world."""
    end_s = time.monotonic() + GENEROUS_S
    while not condition():
        if time.monotonic() > end_s:
            return False
        time.sleep(0.01)
    return True


def names(folder: Path) -> list[str]:
    """Files under final names."""
    return sorted(path.name for path in folder.iterdir() if not path.name.startswith("."))
