"""Evidence crosses processes as builtins only, and comes out as it went in."""

from __future__ import annotations

import importlib.util
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_gputrace.model import Capture
from pytest_gputrace.plugin.evidence import MANIFEST, Entry, Evidence, read_manifest

if TYPE_CHECKING:
    from pytest_gputrace.report.captures import ItemRecord

EXPECTED = (Capture("node0", 0, "a:x/fp16"), Capture("node \u00e9", 1, "\udcff", 3))


@pytest.fixture
def evidence(tmp_path: Path) -> Evidence:
    traces = tmp_path / "traces"
    traces.mkdir()
    # A name that no text can hold: it must not cost the record.
    Path(os.fsdecode(os.fsencode(traces) + b"/bad-\xff.json")).write_bytes(b"[")
    found = Evidence("test_it.py::test[\u00e9]", "gw1", folder=tmp_path)
    found.begin(Entry("one", (traces,), EXPECTED, faults=("equal_hosts()",), workers=2))
    return found


@pytest.fixture
def record(evidence: Evidence) -> ItemRecord:
    evidence.judge()
    return evidence.record()


def only_builtins(value: Any) -> bool:
    if type(value) is dict:
        return all(type(key) is str and only_builtins(item) for key, item in value.items())
    if type(value) in (list, tuple):
        return all(map(only_builtins, value))
    return value is None or type(value) in (str, int, bool, float)


def test_record(record: ItemRecord) -> None:
    assert only_builtins(record)
    [cluster] = record["clusters"]
    assert cluster["expected"] == [("node0", 0, "a:x/fp16", 0), ("node \u00e9", 1, "\\udcff", 3)]
    assert (cluster["kept"], len(cluster["lost"]), cluster["workers"]) == (0, 2, 2)
    assert any("bad-\\udcff.json: byte 1" in finding["message"] for finding in cluster["findings"])
    json.dumps(record).encode("ascii")
    str(record).encode("utf-8")


@pytest.mark.skipif(importlib.util.find_spec("xdist") is None, reason="needs xdist: it is not installed")
def test_round_trip_through_xdist(pytester: pytest.Pytester, record: ItemRecord) -> None:
    from execnet.gateway_base import dumps, loads

    config = pytester.parseconfigure()
    report = pytest.TestReport("x", ("x", 0, "x"), {}, "passed", None, "teardown", gputrace=record)
    data = config.hook.pytest_report_to_serializable(config=config, report=report)
    back = config.hook.pytest_report_from_serializable(config=config, data=loads(dumps(data)))
    assert back.gputrace == record


def test_manifest_round_trip(evidence: Evidence, tmp_path: Path) -> None:
    assert [path.name for path in tmp_path.iterdir() if path.is_file()] == [MANIFEST]
    back = read_manifest(tmp_path / MANIFEST)
    assert back == evidence
    assert back is not None
    evidence.judge()
    assert back.record(lost="lost") == {**evidence.record(), "lost": "lost"}


@pytest.mark.parametrize("content", ["", "{", "[]", "{}", '{"test": "x", "worker": "", "clusters": [{}]}', "\xff"])
def test_a_broken_manifest_is_none(tmp_path: Path, content: str) -> None:
    (tmp_path / MANIFEST).write_text(content, encoding="latin-1")
    assert read_manifest(tmp_path / MANIFEST) is None
    assert read_manifest(tmp_path / "missing") is None


def test_not_kept_writes_no_manifest(tmp_path: Path) -> None:
    evidence = Evidence("test", kept=False, folder=tmp_path)
    evidence.begin(Entry("", (tmp_path,), EXPECTED))
    evidence.checked([tmp_path], EXPECTED, [], None)
    assert len(evidence.entries) == 1
    assert not (tmp_path / MANIFEST).exists()


def test_a_check_of_a_known_cluster_is_not_told_twice(evidence: Evidence, tmp_path: Path) -> None:
    traces = tmp_path / "traces"
    evidence.checked([traces], EXPECTED[:1], [], None)
    assert len(evidence.entries) == 1
    other = Capture("node9", 9, "x")
    evidence.checked([traces], [other, other], [], None)
    assert [entry.expected for entry in evidence.entries[1:]] == [(other,)]
