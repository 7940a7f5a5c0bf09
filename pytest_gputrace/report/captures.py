"""The summary of a test run: what was expected of each test's clusters, what was kept, what was lost, as text.

Takes builtins only, as they come from other processes, and gives lines. It judges nothing and reads no file.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypedDict

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

__all__ = ["CaptureData", "ClusterRecord", "FindingData", "ItemRecord", "LegacyData", "summary"]

CaptureData = tuple[str, int, str, int]
"""Node, rank, configuration, round."""

_SHOWN = 8


class FindingData(TypedDict):
    """A finding that is an error or a warning."""

    code: str
    message: str


class LegacyData(TypedDict):
    """What the legacy check saw, of how many files that are ``there``; ``proved`` when it knew who can have written last."""

    there: int
    looked_at: int
    equal: int
    proved: bool


class ClusterRecord(TypedDict):
    """One cluster, or one folder that was checked for completeness.

    ``lost`` names captures; ``unchecked`` the checks that found nothing to look at; ``failed`` the workers that did
    not return; ``node_identity`` is empty where no simulated node took part.
    """

    label: str
    folder: str
    expected: list[CaptureData]
    kept: int
    lost: list[str]
    findings: list[FindingData]
    unchecked: list[str]
    legacy: LegacyData
    faults: list[str]
    failed: list[str]
    workers: int
    node_identity: str


class ItemRecord(TypedDict):
    """One test. ``lost`` says how it went missing, and is empty for one that reported."""

    test: str
    folder: str
    lost: str
    clusters: list[ClusterRecord]


def summary(records: Sequence[ItemRecord]) -> list[str]:
    """The lines of the summary, one block for each test, and the total where there are several."""
    blocks = [record for record in records if record["clusters"] or record["lost"]]
    if not blocks:
        return ["not checked: no test ran a cluster or checked a folder for completeness"]
    # A name may hold anything, also what clears a terminal or looks like a line of ours.
    return ["".join(char if char.isprintable() else ascii(char)[1:-1] for char in line) for line in _lines(blocks)]


def _lines(blocks: Sequence[ItemRecord]) -> list[str]:
    lines = [line for record in blocks for line in _test(record)]
    clusters = [cluster for record in blocks for cluster in record["clusters"]]
    if len(clusters) > 1:
        expected = sum(len(cluster["expected"]) for cluster in clusters)
        kept = sum(cluster["kept"] for cluster in clusters)
        total = f"total: {_count(len(blocks), 'test')}, {kept} of {expected} captures kept"
        lines.append(total if kept == expected else f"{total}, {expected - kept} lost")
    return lines


def _test(record: ItemRecord) -> list[str]:
    lines = [record["test"]]
    if record["lost"]:
        lines.append(f"  {record['lost']}; what it left:")
    if not record["clusters"]:
        lines.append("  not checked: it had begun no cluster")
    for cluster in record["clusters"]:
        label = f"{cluster['label']}: " if cluster["label"] else ""
        lines.append(f"  {label}{_captures(cluster)}")
        lines += [f"    {line}" for line in _details(cluster)]
    return lines


def _captures(cluster: ClusterRecord) -> str:
    expected = cluster["expected"]
    if not expected:
        return "not checked: no capture was expected"
    return f"{_shape(expected)}: {cluster['kept']} of {len(expected)} captures kept"


def _shape(expected: Sequence[CaptureData]) -> str:
    """``2 nodes x 8 ranks x 8 configurations`` where that is what they are, else the number of each."""
    nodes = sorted({capture[0] for capture in expected})
    by_node = {node: {capture[1] for capture in expected if capture[0] == node} for node in nodes}
    configurations = {capture[2] for capture in expected}
    rounds = {capture[3] for capture in expected}
    per_node = len(by_node[nodes[0]])
    words = [_count(len(nodes), "node"), _count(per_node, "rank"), _count(len(configurations), "configuration")]
    if len(rounds) > 1:
        words.append(_count(len(rounds), "round"))
    full = len(nodes) * per_node * len(configurations) * len(rounds)
    if len(set(expected)) == full and all(len(ranks) == per_node for ranks in by_node.values()):
        return " x ".join(words)
    words[1] = f"{len({capture[:2] for capture in expected})} ranks in all"
    return f"some of {', '.join(words)}"


def _details(cluster: ClusterRecord) -> list[str]:
    lines = []
    if cluster["lost"]:
        lines.append("lost:")
        lines += _first(f"  {name}" for name in cluster["lost"])
    if cluster["unchecked"]:
        lines.append(f"not checked, there was nothing to look at: {', '.join(cluster['unchecked'])}")
    lines.append(_legacy(cluster["legacy"]))
    # That a capture is missing is said above, by its name.
    problems = [finding for finding in cluster["findings"] if finding["code"] != "GT106"]
    if problems:
        lines.append("problems:")
        lines += _first(f"  {finding['code']} {finding['message']}" for finding in problems)
    if cluster["faults"]:
        lines.append(f"injected: {', '.join(cluster['faults'])}")
    if cluster["failed"]:
        lines.append(f"workers: {len(cluster['failed'])} of {cluster['workers']} did not return:")
        lines += _first(f"  {worker}" for worker in cluster["failed"])
    if cluster["node_identity"]:
        lines.append(f"node identity: {cluster['node_identity']}")
    return [*lines, f"folder: {cluster['folder']}"]


def _legacy(legacy: LegacyData) -> str:
    if not legacy["looked_at"]:
        if not legacy["there"]:
            return "legacy files: none there"
        return f"legacy files: {legacy['there']} there, not checked: no export result or other file to compare with"
    count = f"legacy files: {legacy['equal']} of {legacy['looked_at']} equal to"
    if legacy["proved"]:
        return f"{count} the last capture written"
    return f"{count} a kept capture (not checked: which one was written last)"


def _first(lines: Iterable[str]) -> list[str]:
    every = list(lines)
    more = len(every) - _SHOWN
    return every if more <= 0 else [*every[:_SHOWN], f"  and {more} more"]


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
