"""The summary's text."""

from __future__ import annotations

import textwrap
from typing import Any

import pytest

from pytest_gputrace.report.captures import CaptureData, ClusterRecord, ItemRecord, summary


def captures(nodes: int, ranks: int, configurations: int, rounds: int = 1) -> list[CaptureData]:
    return [
        (f"node{node}", node * ranks + rank, f"c{configuration}", number)
        for node in range(nodes)
        for rank in range(ranks)
        for configuration in range(configurations)
        for number in range(rounds)
    ]


def cluster(**changes: Any) -> ClusterRecord:
    expected = changes.get("expected", captures(2, 8, 8))
    record: ClusterRecord = {
        "label": "", "folder": "/traces", "expected": expected, "kept": len(expected), "lost": [], "findings": [],
        "unchecked": [], "legacy": {"there": 8, "looked_at": 8, "equal": 8, "proved": True}, "faults": [], "failed": [],
        "workers": 4, "node_identity": "namespaces",
    }  # fmt: skip
    record.update(changes)  # type: ignore[typeddict-item]  # the names are those of the record
    return record


def item(*clusters: ClusterRecord, lost: str = "", test: str = "test_a.py::test_a") -> ItemRecord:
    return {"test": test, "folder": "/test", "lost": lost, "clusters": list(clusters)}


def text(*records: ItemRecord) -> str:
    return "\n".join(summary(records))


def test_all_kept() -> None:
    assert text(item(cluster())) == textwrap.dedent("""\
        test_a.py::test_a
          2 nodes x 8 ranks x 8 configurations: 128 of 128 captures kept
            legacy files: 8 of 8 equal to the last capture written
            node identity: namespaces
            folder: /traces""")


def test_everything_that_can_be_said() -> None:
    record = cluster(
        label="equal hosts",
        expected=captures(2, 1, 1),
        kept=1,
        lost=["c0 on node1 rank 1"],
        findings=[
            {"code": "GT106", "message": "no file holds it"},
            {"code": "GT202", "message": "x.json: byte 3: cut"},
        ],
        unchecked=["finite"],
        legacy={"there": 2, "looked_at": 2, "equal": 1, "proved": False},
        faults=["equal_hosts()", "sigkill(at='start')"],
        failed=["node1 rank 1: killed by SIGKILL"],
        workers=2,
        node_identity="patched",
    )
    assert text(item(record)) == textwrap.dedent("""\
        test_a.py::test_a
          equal hosts: 2 nodes x 1 rank x 1 configuration: 1 of 2 captures kept
            lost:
              c0 on node1 rank 1
            not checked, there was nothing to look at: finite
            legacy files: 1 of 2 equal to a kept capture (not checked: which one was written last)
            problems:
              GT202 x.json: byte 3: cut
            injected: equal_hosts(), sigkill(at='start')
            workers: 1 of 2 did not return:
              node1 rank 1: killed by SIGKILL
            node identity: patched
            folder: /traces""")


def test_long_lists_are_cut() -> None:
    lost = [f"capture {index}" for index in range(11)]
    lines = text(item(cluster(lost=lost, kept=117))).splitlines()
    assert lines[3:12] == [*(f"      capture {index}" for index in range(8)), "      and 3 more"]


@pytest.mark.parametrize(
    ("expected", "shape"),
    [
        (captures(1, 1, 1), "1 node x 1 rank x 1 configuration: "),
        (captures(3, 2, 1, 2), "3 nodes x 2 ranks x 1 configuration x 2 rounds: "),
        (captures(2, 2, 2)[1:], "some of 2 nodes, 4 ranks in all, 2 configurations: "),
        ([*captures(1, 2, 1), ("node1", 2, "c0", 0)], "some of 2 nodes, 3 ranks in all, 1 configuration: "),
    ],
)
def test_shape(expected: list[CaptureData], shape: str) -> None:
    assert summary([item(cluster(expected=expected))])[1].startswith(f"  {shape}{len(expected)} of")


def test_total_of_several() -> None:
    kept, lost = cluster(expected=captures(1, 2, 1)), cluster(expected=captures(1, 2, 1), kept=1, lost=["x"])
    assert summary([item(kept), item(kept)])[-1] == "total: 2 tests, 4 of 4 captures kept"
    assert summary([item(kept, lost)])[-1] == "total: 1 test, 3 of 4 captures kept, 1 lost"
    assert not any("total" in line for line in summary([item(kept)]))


def test_not_checked_is_said() -> None:
    nothing = ["not checked: no test ran a cluster or checked a folder for completeness"]
    assert summary([]) == nothing
    assert summary([item()]) == nothing
    assert summary([item(cluster(expected=[]))])[1] == "  not checked: no capture was expected"
    no_legacy = cluster(legacy={"there": 0, "looked_at": 0, "equal": 0, "proved": False})
    assert "    legacy files: none there" in summary([item(no_legacy)])
    alone = cluster(legacy={"there": 2, "looked_at": 0, "equal": 0, "proved": False})
    line = "    legacy files: 2 there, not checked: no export result or other file to compare with"
    assert line in summary([item(alone)])


def test_a_test_that_was_lost() -> None:
    lines = summary([item(cluster(node_identity=""), lost="lost with its worker gw0")])
    assert lines[:3] == [
        "test_a.py::test_a",
        "  lost with its worker gw0; what it left:",
        "  2 nodes x 8 ranks x 8 configurations: 128 of 128 captures kept",
    ]
    assert not any("node identity" in line for line in lines)
    assert summary([item(lost="lost")])[2] == "  not checked: it had begun no cluster"


def test_a_hostile_name_cannot_forge_a_line() -> None:
    hostile = "x\x1b[2J\ntotal: 9 tests, 128 of 128 captures kept"
    lines = summary([item(cluster(lost=[hostile], kept=7))])
    assert all(line.isprintable() for line in lines)
    assert any(r"x\x1b[2J\ntotal: 9 tests" in line for line in lines)
