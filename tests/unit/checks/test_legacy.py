"""The legacy file must be the copy of a capture that can have been the last one written."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING

import pytest

from pytest_gputrace.checks.captures import LegacyCheck, LegacyWrite, legacy, read_folder
from pytest_gputrace.model import Capture

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

A, B = Capture("node0", 0, "fp16"), Capture("node1", 2, "fp16")
NAME = "torch-profiler-sb-resnet50-0.json"


def data(capture: Capture, extra: str = "") -> bytes:
    records = [{"name": capture.mark(index, 2)} for index in range(2)]
    return (json.dumps(records)[:-1] + extra + "]").encode()


def digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / NAME).write_bytes(data(A))
    return tmp_path


def check(folder: Path, writes: Sequence[LegacyWrite] | None = None) -> LegacyCheck:
    return legacy(read_folder(folder), writes)


def write(folder: Path, capture: Capture, started: int | None, ended: int | None) -> LegacyWrite:
    return LegacyWrite(folder / NAME, digest(data(capture)), started, ended)


@pytest.mark.parametrize(
    ("a", "b", "ok"),
    [
        ((10, 20), (0, 5), True),  # a after b
        ((0, 5), (10, 20), False),  # b began after a ended
        ((0, 10), (5, 20), True),  # at the same time: either
        ((5, 20), (0, 10), True),
        ((0, 100), (10, 20), True),  # b within a
        ((10, 20), (0, 100), True),  # a within b
        ((0, 10), (10, 20), True),  # the clock does not tell
        ((0, None), (10, 20), True),
        ((None, None), (10, 20), True),
        ((0, 5), (None, None), True),
    ],
)
def test_the_last_writer(
    folder: Path, a: tuple[int | None, int | None], b: tuple[int | None, int | None], ok: bool
) -> None:
    result = check(folder, [write(folder, B, *b), write(folder, A, *a)])
    assert result.ok == ok
    assert (result.looked_at, result.equal, result.proved) == (1, int(ok), True)
    if not ok:
        [finding] = result.findings
        assert (finding.code, finding.node, finding.rank) == ("GT109", "node0", 0)
        assert finding.message == (
            f"{NAME} is not the copy of the last capture written: it has the bytes of a write that was not the last; "
            "did a later one fail to replace it?"
        )


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"", "it is broken; who else writes it?"),
        (data(A)[:-1], "it is broken"),
        (data(Capture("node9", 9, "x")), "it holds marks of x on node9 rank 9, but not the bytes any export wrote"),
        (b"[]", "it has the bytes of no export of this run"),
    ],
)
def test_somebody_else_wrote_it(folder: Path, content: bytes, why: str) -> None:
    (folder / NAME).write_bytes(content)
    result = check(folder, [write(folder, A, 0, 1), write(folder, B, 0, 1)])
    [finding] = result.findings
    assert finding.code == "GT109"
    assert why in finding.message


def test_a_file_that_was_removed(folder: Path) -> None:
    (folder / NAME).unlink()
    [finding] = check(folder, [write(folder, A, 0, 1), write(folder, B, 0, 1)]).findings
    assert finding.message == f"{NAME} was written 2 times and is not there; who removed it?"


def test_a_file_that_this_run_did_not_write(folder: Path) -> None:
    (folder / "torch-profiler-sb-resnet50-1.json").write_bytes(data(B))
    result = check(folder, [write(folder, A, 0, 1)])
    assert (result.looked_at, result.equal) == (2, 1)
    assert "no export of this run wrote it; is it a file of an earlier run?" in result.findings[0].message


def test_through_a_link(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    other = tmp_path_factory.mktemp("other") / "link"
    other.symlink_to(folder)
    assert check(folder, [write(other, A, 0, 1)]).ok


NAN = ', {"name": "x", "t": NaN}'


@pytest.mark.parametrize(
    ("content", "ok"),
    [(data(A), True), (data(A, NAN), True), (data(A)[:-9], False), (data(Capture("node0", 5, "fp16")), False)],
)
def test_a_writer_that_died_may_have_been_the_last(folder: Path, content: bytes, ok: bool) -> None:
    (folder / NAME).write_bytes(content)
    dead = LegacyWrite(folder / NAME, None, capture=A)
    assert check(folder, [write(folder, B, 0, 1), dead]).ok == ok


def test_a_writer_that_died_may_have_written_nothing(folder: Path) -> None:
    dead = LegacyWrite(folder / NAME, None, started_ns=50, capture=B)
    assert check(folder, [write(folder, A, 0, 1), dead]).ok
    (folder / NAME).unlink()
    result = check(folder, [dead])
    assert [finding.code for finding in result.findings] == ["GT100"]


def test_without_writes_it_must_equal_another_file(folder: Path) -> None:
    (folder / "a.json").write_bytes(data(A))
    result = check(folder)
    assert result.ok
    assert (result.looked_at, result.equal, result.proved) == (1, 1, False)
    (folder / "a.json").write_bytes(data(B))
    [finding] = check(folder).findings
    assert "no other file has its bytes; pass the exporters' results to see who wrote last" in finding.message


@pytest.mark.parametrize("broken", [b"", b"[", b"[]"])
def test_a_broken_file_proves_nothing_about_a_broken_copy(folder: Path, broken: bytes) -> None:
    (folder / "a.json").write_bytes(broken)
    (folder / NAME).write_bytes(broken)
    result = check(folder)
    assert (result.ok, result.looked_at, result.equal) == (False, 0, 0)


def test_no_legacy_file_is_not_checked(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_bytes(data(A))
    result = check(tmp_path)
    assert [finding.code for finding in result.findings] == ["GT100"]
    assert (result.ok, result.looked_at) == (False, 0)


def test_nothing_to_compare_with_is_not_checked(folder: Path) -> None:
    result = check(folder)
    assert [finding.code for finding in result.findings] == ["GT100"]
    assert "pass the exporters' results" in result.findings[0].message
