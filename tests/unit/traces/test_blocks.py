"""Files block by block: what comes out of a gzip stream, and what is wrong with one."""

from __future__ import annotations

import gzip
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pytest_gputrace.traces.blocks import Blocks

if TYPE_CHECKING:
    from pathlib import Path

TEXT = b"".join(b'{"ph": "X", "name": "%d"},' % number for number in range(3000))


def read(path: Path) -> tuple[bytes, list[tuple[str, int]], list[int]]:
    blocks = Blocks(path)
    text = b"".join(blocks)
    return text, [(problem.kind, problem.byte) for problem in blocks.problems], blocks.members


@pytest.fixture(params=[7, 1000, 1 << 18])
def block_bytes(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr("pytest_gputrace.traces.blocks._BLOCK_BYTES", request.param)
    return int(request.param)


@pytest.mark.usefixtures("block_bytes")
class TestWhatIsInside:
    def test_plain(self, tmp_path: Path) -> None:
        (tmp_path / "a.json").write_bytes(TEXT)
        assert read(tmp_path / "a.json") == (TEXT, [], [])

    def test_one_member(self, tmp_path: Path) -> None:
        (tmp_path / "a.json.gz").write_bytes(gzip.compress(TEXT))
        assert read(tmp_path / "a.json.gz") == (TEXT, [], [])

    def test_several_members_and_padding(self, tmp_path: Path) -> None:
        (tmp_path / "a.json.gz").write_bytes(gzip.compress(TEXT) + gzip.compress(b"[]") + b"\0" * 20)
        assert read(tmp_path / "a.json.gz") == (TEXT + b"[]", [], [len(TEXT)])

    def test_no_block_is_longer_than_asked_for(self, tmp_path: Path, block_bytes: int) -> None:
        (tmp_path / "a.json.gz").write_bytes(gzip.compress(b" " * 3_000_000))  # a stream that inflates a thousandfold
        sizes = list(map(len, Blocks(tmp_path / "a.json.gz")))
        assert sum(sizes) == 3_000_000
        assert max(sizes) <= block_bytes


@pytest.mark.usefixtures("block_bytes")
class TestWhatIsWrong:
    def test_a_cut_stream_gives_what_is_there(self, tmp_path: Path) -> None:
        (tmp_path / "a.json.gz").write_bytes(gzip.compress(TEXT)[:-2000])
        text, problems, _ = read(tmp_path / "a.json.gz")
        assert 0 < len(text) < len(TEXT)
        assert TEXT.startswith(text)
        assert problems == [("cut", len(text))]

    def test_a_bad_trailer(self, tmp_path: Path) -> None:
        data = bytearray(gzip.compress(TEXT))
        data[-6] ^= 0xFF
        (tmp_path / "a.json.gz").write_bytes(data)
        assert read(tmp_path / "a.json.gz") == (TEXT, [("gzip", len(TEXT))], [])

    def test_bytes_after_the_stream(self, tmp_path: Path) -> None:
        (tmp_path / "a.json.gz").write_bytes(gzip.compress(TEXT) + b"{}")
        assert read(tmp_path / "a.json.gz") == (TEXT, [("gzip", len(TEXT))], [])

    def test_a_name_that_lies(self, tmp_path: Path) -> None:
        (tmp_path / "a.json.gz").write_bytes(TEXT)
        assert read(tmp_path / "a.json.gz") == (TEXT, [("wrapping", 0)], [])
        (tmp_path / "a.json").write_bytes(gzip.compress(TEXT))
        assert read(tmp_path / "a.json") == (TEXT, [("wrapping", 0)], [])

    def test_an_empty_file(self, tmp_path: Path) -> None:
        (tmp_path / "a.json").write_bytes(b"")
        assert read(tmp_path / "a.json") == (b"", [("empty", 0)], [])


@pytest.mark.usefixtures("block_bytes")
@pytest.mark.parametrize("zipped", [False, True])
class TestALimit:
    def file(self, tmp_path: Path, zipped: bool) -> Path:
        path = tmp_path / ("a.json.gz" if zipped else "a.json")
        path.write_bytes(gzip.compress(TEXT) if zipped else TEXT)
        return path

    @pytest.mark.parametrize("limit", [0, 1, 1000, len(TEXT) - 1])
    def test_no_more_is_read_than_was_asked_for(self, limit: int, zipped: bool, tmp_path: Path) -> None:
        blocks = Blocks(self.file(tmp_path, zipped), max_bytes=limit)
        assert b"".join(blocks) == TEXT[:limit]
        [problem] = blocks.problems
        assert (problem.kind, problem.byte) == ("large", limit)
        assert f"more text than the {limit} bytes" in problem.message

    def test_a_text_as_long_as_the_limit_is_fine(self, zipped: bool, tmp_path: Path) -> None:
        blocks = Blocks(self.file(tmp_path, zipped), max_bytes=len(TEXT))
        assert b"".join(blocks) == TEXT
        assert blocks.problems == []

    def test_the_bytes_that_were_read_are_told_on_the_way(self, zipped: bool, tmp_path: Path) -> None:
        path = self.file(tmp_path, zipped)
        told: list[int] = []
        for _ in Blocks(path, progress=told.append):
            assert told
        assert sum(told) == path.stat().st_size


def test_a_stream_that_inflates_without_end_is_not_inflated_beyond_the_limit(tmp_path: Path) -> None:
    (tmp_path / "a.json.gz").write_bytes(gzip.compress(b"[" + b" " * 30_000_000))
    told: list[int] = []
    blocks = Blocks(tmp_path / "a.json.gz", max_bytes=100, progress=told.append)
    assert list(map(len, blocks)) == [100]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(place=st.integers(0, 400), bits=st.integers(1, 255), members=st.integers(1, 3))
def test_a_damaged_stream_never_gives_more_than_its_text_unseen(
    place: int, bits: int, members: int, tmp_path: Path
) -> None:
    data = bytearray(b"".join(gzip.compress(TEXT[: 200 * (number + 1)]) for number in range(members)))
    data[place % len(data)] ^= bits
    path = tmp_path / "a.json.gz"
    path.write_bytes(data)
    text, problems, _ = read(path)
    if not problems:
        assert text == gzip.decompress(bytes(data))
