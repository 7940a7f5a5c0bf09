"""What is promised of every fault: small, the same each time, told on the page, and a place that exists."""

from __future__ import annotations

import gzip
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from pytest_gputrace.fakes import TraceFault, trace_faults
from pytest_gputrace.fakes.tracefault import ALL, fault

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "fakes.md"
EACH = pytest.mark.parametrize("one", trace_faults.values(), ids=str)
HASHES = """
import hashlib, pathlib, sys
from pytest_gputrace.fakes import trace_faults
for fault in trace_faults.values():
    for write, part in ((fault.write, "bad"), (fault.near_miss, "good")):
        path = write(pathlib.Path(sys.argv[1], part, fault.name, fault.filename))
        files = [path] if path.is_file() else sorted(path.rglob("*.*"))
        data = [b"link" if file.is_symlink() else file.read_bytes() for file in files]
        print(fault.name, hashlib.sha256(b"|".join(data)).hexdigest())
"""


def files(path: Path) -> list[Path]:
    return sorted(file for file in path.rglob("*") if not file.is_dir()) if path.is_dir() else [path]


@EACH
def test_a_fault_is_small_and_unlike_its_near_miss(one: TraceFault, tmp_path: Path) -> None:
    written = one.write(tmp_path / "bad" / one.filename), one.near_miss(tmp_path / "good" / one.filename)
    assert [path.is_dir() for path in written] == [one.is_set] * 2
    for path in written:
        assert files(path)
        assert all(file.is_symlink() or file.stat().st_size < 20_480 for file in files(path))
    bad, good = ([None if file.is_symlink() else file.read_bytes() for file in files(path)] for path in written)
    assert bad != good


@EACH
def test_its_place_exists(one: TraceFault, tmp_path: Path) -> None:
    path = one.write(tmp_path / one.filename)
    if one.is_set:
        assert one.place.file is None or (path / one.place.file).is_symlink() or (path / one.place.file).exists()
        assert one.place.rank is not None or one.place.file is not None
    elif one.place.event is not None and one.family not in ("text",):
        document = json.loads(path.read_bytes())
        assert 0 <= one.place.event < len(document["traceEvents"])
    if one.place.byte is not None and one.filename == "trace.json" and one.name != "gzip_named_plain":
        assert 0 <= one.place.byte <= path.stat().st_size


@EACH
def test_it_is_told_on_the_page(one: TraceFault) -> None:
    row = f"| `{one.name}` | {one.description} | {one.near} |"
    assert row in PAGE.read_text(encoding="utf-8").splitlines(), row


def test_the_page_tells_of_no_other() -> None:
    section = PAGE.read_text(encoding="utf-8").split("### The faults of trace files")[1].split("\n## ")[0]
    assert re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE) == list(trace_faults)


def test_the_bytes_are_the_same_in_every_process(tmp_path: Path) -> None:
    said = []
    for seed in ("1", "2"):
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        command = [sys.executable, "-c", HASHES, str(tmp_path / seed)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True, env=environment)
        said.append(done.stdout)
    assert said[0] == said[1]
    assert len(said[0].splitlines()) == 2 * len(trace_faults)


def test_a_name_that_adds_a_second_fault_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"unescaped_quote: the name of '.*t\.json\.gz' must not end in \.gz"):
        trace_faults["unescaped_quote"].write(tmp_path / "t.json.gz")
    with pytest.raises(ValueError, match=r"truncated_gzip: the name of '.*t\.json' must end in \.gz"):
        trace_faults["truncated_gzip"].near_miss(tmp_path / "t.json")


def test_two_faults_of_one_name_are_refused() -> None:
    with pytest.raises(ValueError, match="the fault nan is there already"):
        fault("text", near="")(ALL["nan"]._make)


def test_files_are_written_below_folders_that_are_not_there_yet(tmp_path: Path) -> None:
    path = trace_faults["truncated_gzip"].near_miss(tmp_path / "a" / "b" / "trace.json.gz")
    assert path == tmp_path / "a" / "b" / "trace.json.gz"
    assert json.loads(gzip.decompress(path.read_bytes()))["schemaVersion"] == 1
    run = trace_faults["unreadable_file"]
    assert run.write(run.write(tmp_path / "run")) == tmp_path / "run", "a link is written anew"
