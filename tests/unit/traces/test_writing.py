"""Writing a trace file: compressed as its name says, for every reader, the same bytes each time, and whole or not there."""

from __future__ import annotations

import gzip
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import textwrap
import tracemalloc
import zlib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from pytest_gputrace.errors import PublishError
from pytest_gputrace.traces import open_trace
from pytest_gputrace.traces.writing import TraceFile

_RANDOM = random.Random(3)  # names that do not compress to nothing
EVENTS = [
    {"ph": "X", "name": _RANDOM.randbytes(20).hex(), "pid": 1, "tid": 1, "ts": index, "dur": 1} for index in range(9000)
]
TEXT = json.dumps({"schemaVersion": 1, "traceEvents": EVENTS, "displayTimeUnit": "ms"}).encode()


def pieces(size: int, text: bytes = TEXT) -> list[bytes]:
    return [text[at : at + size] for at in range(0, len(text), size)]


def written(path: Path, texts: list[bytes], *, force: bool = False) -> bytes:
    file = TraceFile(path, force=force)
    for text in texts:
        file.write(text)
    assert file.publish() == path.stat().st_size
    return path.read_bytes()


@pytest.fixture
def compressed(tmp_path: Path) -> Path:
    written(tmp_path / "a.json.gz", pieces(1000))
    return tmp_path / "a.json.gz"


def test_it_is_not_compressed_where_its_name_does_not_say_so(tmp_path: Path) -> None:
    assert written(tmp_path / "a.json", pieces(1000)) == TEXT
    assert os.listdir(tmp_path) == ["a.json"]


def test_every_reader_of_gzip_takes_it(compressed: Path) -> None:
    assert len(TEXT) > 3 * (1 << 18), "too short to be several blocks"
    assert compressed.stat().st_size < len(TEXT) / 2
    with gzip.open(compressed) as file:
        assert file.read() == TEXT
    assert len(open_trace(compressed).events) == len(EVENTS)
    assert open_trace(compressed).problems == ()


def test_it_is_one_member_that_tells_its_checksum_and_length(compressed: Path) -> None:
    data = compressed.read_bytes()
    reader = zlib.decompressobj(wbits=31)
    assert reader.decompress(data) == TEXT
    assert reader.eof
    assert reader.unused_data == b""
    assert data[-8:] == zlib.crc32(TEXT).to_bytes(4, "little") + len(TEXT).to_bytes(4, "little")


@pytest.mark.skipif(not shutil.which("gzip"), reason="needs gzip: the command")
def test_the_command_gzip_takes_it(compressed: Path) -> None:
    subprocess.run(["gzip", "-t", compressed], check=True, timeout=60)


def test_the_length_of_a_text_of_4_gib_wraps_around(tmp_path: Path) -> None:
    file = TraceFile(tmp_path / "a.json.gz")
    file._length = (1 << 32) - 1  # instead of writing as much
    file.write(b"[]")
    file.publish()
    assert (tmp_path / "a.json.gz").read_bytes()[-4:] == (1).to_bytes(4, "little")


@pytest.mark.parametrize("name", ["a.json", "a.json.gz"])
def test_a_file_without_text(tmp_path: Path, name: str) -> None:
    data = written(tmp_path / name, [b""])
    assert (gzip.decompress(data) if name.endswith(".gz") else data) == b""


def test_no_name_and_no_time_are_in_it(tmp_path: Path, compressed: Path) -> None:
    data = written(tmp_path / "another.json.gz", pieces(1000))
    assert data == compressed.read_bytes()
    assert data[3:10] == b"\0\0\0\0\0\0\xff", "flags, time, level, system"


@pytest.mark.parametrize("size", [7, 1 << 18, (1 << 18) + 1, len(TEXT)])
def test_where_the_text_is_cut_into_writes_changes_nothing(tmp_path: Path, compressed: Path, size: int) -> None:
    assert written(tmp_path / "b.json.gz", pieces(size)) == compressed.read_bytes()


@pytest.mark.parametrize("name", ["a.json", "a.json.gz"])
def test_threads_pack_what_one_appends_to_the_same_bytes(tmp_path: Path, name: str) -> None:
    texts = pieces(10_000)
    results = []
    for folder in (tmp_path / "one", tmp_path / "many"):
        folder.mkdir()
        file = TraceFile(folder / name)
        file.write(b" ")
        with ThreadPoolExecutor(4) as threads:
            packed = threads.map(file.pack, texts) if folder.name == "many" else map(file.pack, texts)
            for text, block in zip(texts, packed, strict=True):
                file.append(text, block)
        file.write(b"\n")
        file.publish()
        results.append((folder / name).read_bytes())
    assert results[0] == results[1]
    assert (gzip.decompress(results[0]) if name.endswith(".gz") else results[0]) == b" " + TEXT + b"\n"


def test_each_packed_block_stands_for_itself(tmp_path: Path) -> None:
    file = TraceFile(tmp_path / "a.json.gz")
    try:
        for text in (b"", *pieces(100_000)):
            block = file.pack(text)
            reader = zlib.decompressobj(wbits=-15)
            assert reader.decompress(block) == text
            assert not reader.eof, "more may follow"
            assert block.endswith(b"\x00\x00\xff\xff"), "ends where a byte ends"
    finally:
        file.discard()


def test_what_was_gathered_comes_before_what_is_appended(tmp_path: Path) -> None:
    file = TraceFile(tmp_path / "a.json.gz")
    for number in range(5):
        file.write(b"%d" % number)
        file.append(b"%d," % number, file.pack(b"%d," % number))
    file.append(b"", file.pack(b""))
    file.publish()
    assert gzip.decompress((tmp_path / "a.json.gz").read_bytes()) == b"00,11,22,33,44,"


def test_small_writes_are_gathered_and_little_is_held(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []
    real_write = os.write

    def write(fd: int, data: Any) -> int:
        calls.append(len(data))
        return real_write(fd, data)

    monkeypatch.setattr(os, "write", write)
    text = b"x" * 1000
    big = b"y" * (8 << 20)
    tracemalloc.start()
    try:
        file = TraceFile(tmp_path / "a.json")
        for _ in range(8000):
            file.write(text)
        file.write(big)
        file.publish()
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert sum(calls) == len(text) * 8000 + len(big)
    assert len(calls) < 70
    assert peak < 1 << 20


def test_a_file_that_exists_is_never_replaced(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_bytes(b"[old]")
    with pytest.raises(PublishError, match=r"cannot write .*a\.json: it exists"):
        TraceFile(path)
    assert path.read_bytes() == b"[old]"
    assert os.listdir(tmp_path) == ["a.json"]


@pytest.mark.parametrize("name", ["a.json", "a.json.gz"])
def test_of_two_writers_of_one_name_the_second_is_told_and_the_first_stays(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    first, second = TraceFile(path), TraceFile(path)
    first.write(b"[1]")
    second.write(b"[2]")
    second.publish()
    won = path.read_bytes()
    with pytest.raises(PublishError, match="it exists"):
        first.publish()
    first.discard()
    assert path.read_bytes() == won
    assert os.listdir(tmp_path) == [name]


def test_force_replaces_what_a_link_leads_to_and_keeps_the_link(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    real, link = tmp_path / "folder" / "real.json", tmp_path / "link.json.gz"
    real.write_bytes(b"[old]")
    link.symlink_to(Path("folder", "real.json"))
    assert gzip.decompress(written(link, [b"[1]"], force=True)) == b"[1]", "the name that was given says how"
    assert os.readlink(link) == "folder/real.json"
    assert os.listdir(real.parent) == ["real.json"]


def test_force_leaves_the_old_file_until_the_new_one_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_bytes(b"[old]")
    file = TraceFile(path, force=True)
    file.write(TEXT)
    assert path.read_bytes() == b"[old]"
    file.discard()
    assert path.read_bytes() == b"[old]"
    assert os.listdir(tmp_path) == ["a.json"]


@pytest.mark.parametrize("force", [False, True])
def test_a_folder_that_is_not_there_is_told_at_once(tmp_path: Path, force: bool) -> None:
    with pytest.raises(PublishError, match=r"cannot write .*nowhere/a\.json: .*No such file or directory"):
        TraceFile(tmp_path / "nowhere" / "a.json", force=force)


@pytest.mark.parametrize("name", ["a.json", "a.json.gz"])
def test_what_cannot_be_written_leaves_nothing(tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    file = TraceFile(tmp_path / name)
    file.write(TEXT)

    def full(*_: Any) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "write", full)
    with pytest.raises(PublishError, match="No space left on device"):
        file.write(TEXT)
    file.discard()
    assert os.listdir(tmp_path) == []


def test_to_discard_is_harmless_at_any_time(tmp_path: Path) -> None:
    file = TraceFile(tmp_path / "a.json.gz")
    file.write(b"[")
    file.discard()
    file.discard()
    assert os.listdir(tmp_path) == []
    file = TraceFile(tmp_path / "a.json.gz")
    file.write(b"[]")
    file.publish()
    file.discard()
    assert gzip.decompress((tmp_path / "a.json.gz").read_bytes()) == b"[]"


KILLED = textwrap.dedent(
    """
    import os, signal, sys
    from pathlib import Path
    from pytest_gputrace.traces.writing import TraceFile

    file = TraceFile(Path(sys.argv[1]), force=sys.argv[2] == "force")
    for _ in range(3):
        file.append(b"[" * 300_000, file.pack(b"[" * 300_000))
    file.write(b"]")
    print(sum(os.path.getsize(entry) for entry in Path(sys.argv[1]).parent.glob(".gputrace-*")))
    sys.stdout.flush()
    os.kill(os.getpid(), signal.SIGKILL)
    """
)


@pytest.mark.parametrize("how", ["new", "force"])
@pytest.mark.parametrize("name", ["a.json", "a.json.gz"])
def test_killed_between_writes_no_cut_file_has_its_name(tmp_path: Path, name: str, how: str) -> None:
    path = tmp_path / name
    if how == "force":
        path.write_bytes(b"[old]")
    command = [sys.executable, "-c", KILLED, str(path), how]
    done = subprocess.run(command, timeout=60, check=False, capture_output=True)
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert int(done.stdout) > 100, "it was killed before anything was written"
    if how == "force":
        assert path.read_bytes() == b"[old]"
    else:
        assert not path.exists()
