"""The files around a repair: compressed ones, the new one's name, and that nothing is ever overwritten."""

from __future__ import annotations

import gzip
import json
import os
import random
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_gputrace.errors import PublishError
from pytest_gputrace.repair import repair

if TYPE_CHECKING:
    from collections.abc import Callable

REAL = Path(os.environ.get("GPUTRACE_TRACES", Path(__file__).parents[4] / "shared" / "traces"))
REAL_TRACES = sorted(
    path for path in REAL.glob("*") if ".json" in path.name or path.suffix in (".chrome_trace", ".hatchet")
)

_RANDOM = random.Random(5)  # names that do not compress to nothing
EVENTS = [
    {"ph": "X", "name": f"{index} {_RANDOM.randbytes(20).hex()}", "pid": 1, "ts": index, "dur": 1}
    for index in range(2000)
]
TEXT = json.dumps({"schemaVersion": 1, "traceEvents": EVENTS, "displayTimeUnit": "ms"}, indent=1) + "\n"


def test_a_clean_file_is_copied_byte_for_byte(mended: Callable[..., Any]) -> None:
    result = mended(TEXT)
    assert result.text.decode() == TEXT
    assert result.repaired.clean
    assert (result.repaired.events_kept, result.repaired.events_lost, result.repaired.bytes_lost) == (2000, 0, 0)


@pytest.mark.skipif(not REAL_TRACES, reason="needs traces: GPUTRACE_TRACES or a folder shared/traces")
@pytest.mark.parametrize("path", REAL_TRACES, ids=lambda path: path.name)
def test_a_real_trace_is_copied_byte_for_byte(tmp_path: Path, path: Path) -> None:
    assert repair(path, tmp_path / "new.json").clean
    data = path.read_bytes()
    assert (tmp_path / "new.json").read_bytes() == (gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data)


def test_the_new_file_is_compressed_where_its_name_says_so(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(TEXT)
    for name in ("b.json.gz", "c.json.gz"):
        assert repair(tmp_path / "a.json", tmp_path / name).clean
    data = (tmp_path / "b.json.gz").read_bytes()
    assert gzip.decompress(data).decode() == TEXT
    assert data == (tmp_path / "c.json.gz").read_bytes(), "no time in it"


def test_gzip_that_ends_too_early(mended: Callable[..., Any]) -> None:
    data = gzip.compress(TEXT.encode())
    result = mended(data[: len(data) // 2], name="a.json.gz")
    assert 500 < len(result.events) < 1500
    assert result.events == EVENTS[: len(result.events)]
    assert result.repaired.events_lost is None
    assert any("gzip stream ends too early" in words for words in result.repaired.lost)


def test_gzip_that_is_damaged_in_the_middle(mended: Callable[..., Any]) -> None:
    data = bytearray(gzip.compress(TEXT.encode()))
    data[len(data) // 2 : len(data) // 2 + 50] = bytes(50)
    result = mended(bytes(data), name="a.json.gz")
    # What comes out behind the damage can be read here and there, but is not what was written.
    assert 900 < len(result.events) < 1100
    assert result.events == EVENTS[: len(result.events)]
    assert result.repaired.events_lost is None
    assert "the gzip stream is damaged, and what comes out of it garbled" in result.repaired.lost[-1]


@pytest.mark.parametrize("damage", [slice(-8, None), slice(-4, None)])
def test_gzip_whose_end_alone_is_damaged(mended: Callable[..., Any], damage: slice) -> None:
    data = bytearray(gzip.compress(TEXT.encode()))
    data[damage] = b"\xff" * len(data[damage])
    result = mended(bytes(data), name="a.json.gz")
    assert result.text.decode() == TEXT
    assert result.repaired.lost == ()
    assert "gzip stream is damaged" in result.changes[0][0]


def test_gzip_without_its_end(mended: Callable[..., Any]) -> None:
    result = mended(gzip.compress(TEXT.encode())[:-6], name="a.json.gz")
    assert result.text.decode() == TEXT
    assert result.repaired.events_lost == 0


def test_members_of_a_gzip_file_that_are_documents(mended: Callable[..., Any]) -> None:
    result = mended(gzip.compress(TEXT.encode()) * 2, name="a.json.gz")
    assert result.root == json.loads(TEXT)
    assert (result.repaired.documents, result.repaired.events_lost) == (2, 2000)


def test_a_wrapping_that_is_not_what_the_name_says(mended: Callable[..., Any]) -> None:
    for data, name in ((gzip.compress(TEXT.encode()), "a.json"), (TEXT.encode(), "b.json.gz")):
        result = mended(data, name=name)
        assert result.text.decode() == TEXT
        assert result.changes[0][1] == "what the new name says"
        (result.repaired.path).unlink()


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text(TEXT)
    (tmp_path / "link.json").symlink_to(path)
    (tmp_path / "dangling.json").symlink_to(tmp_path / "nowhere")
    (tmp_path / "folder").mkdir()
    before = sorted(tmp_path.iterdir())
    for name in ("a.json", "link.json", "dangling.json", "folder"):
        with pytest.raises(PublishError, match=r"cannot write .*it exists, and nothing is ever overwritten"):
            repair(path, tmp_path / name)
    assert path.read_text() == TEXT
    assert sorted(tmp_path.iterdir()) == before


def test_a_file_that_comes_meanwhile_is_not_overwritten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.json").write_text(TEXT)
    out = tmp_path / "b.json"
    monkeypatch.setattr("os.path.lexists", lambda _: False)
    out.write_text("mine")
    with pytest.raises(PublishError, match="nothing is ever overwritten"):
        repair(tmp_path / "a.json", out)
    assert out.read_text() == "mine"
    assert len(list(tmp_path.iterdir())) == 2


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        repair(tmp_path / "a.json", tmp_path / "b.json")
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(TEXT)
    with pytest.raises(PublishError, match="cannot write"):
        repair(tmp_path / "a.json", tmp_path / "nowhere" / "b.json")
