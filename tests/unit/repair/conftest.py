"""A repair of a text, with what must hold of every one of them: the new file is strict JSON that readers have no word against."""

from __future__ import annotations

import gzip
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from pytest_gputrace.repair import Repaired, repair
from pytest_gputrace.traces import open_trace

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


@dataclass
class Result:
    """What a repair said, and what the new file holds."""

    repaired: Repaired
    text: bytes
    root: Any
    note: dict[str, Any] | None = None

    @property
    def events(self) -> list[Any]:
        found: list[Any] = self.root["traceEvents"] if isinstance(self.root, dict) else self.root
        return found

    @property
    def names(self) -> list[Any]:
        return [event.get("name") for event in self.events]

    @property
    def changes(self) -> list[tuple[str, str]]:
        return [(change.found, change.wrote) for change in self.repaired.changes]


def _refuse(token: str) -> Any:
    raise AssertionError(token)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    assert len(dict(pairs)) == len(pairs), "a key twice"
    return dict(pairs)


# Valid JSON, which no repair touches.
_LEFT = {"type", "path", "event"}


def _mend(
    folder: Path, data: bytes | str, *, name: str = "cut.json", out: str = "new.json", document: int = 1
) -> Result:
    path, new = folder / name, folder / out
    path.write_bytes(data if isinstance(data, bytes) else data.encode())
    new.unlink(missing_ok=True)
    before = path.read_bytes()
    repaired = repair(path, new, document=document)
    assert path.read_bytes() == before
    assert {entry.name for entry in folder.iterdir()} == {path.name} | ({new.name} if repaired.out else set())
    if repaired.out is None:
        return Result(repaired, b"", [])
    text = new.read_bytes()
    text = gzip.decompress(text) if out.endswith(".gz") else text
    root = json.loads(text.decode("utf-8"), parse_constant=_refuse, object_pairs_hook=_unique)
    assert "\\ud8" not in json.dumps(root, ensure_ascii=False)
    assert [problem for problem in open_trace(new).problems if problem.kind not in _LEFT] == []
    note = root.pop("gputrace_repaired", None) if isinstance(root, dict) else None
    if note is not None:
        assert not repaired.clean
        assert note["events_kept"] == repaired.events_kept
    result = Result(repaired, text, root)
    result.note = note
    assert repaired.events_kept == len(result.events)
    return result


@pytest.fixture(scope="session")
def mend() -> Callable[..., Result]:
    """In a folder that is given."""
    return _mend


@pytest.fixture
def mended(tmp_path: Path) -> Callable[..., Result]:
    def run(data: bytes | str, **options: Any) -> Result:
        return _mend(tmp_path, data, **options)

    return run
