"""Proton's trees: one event a node, as deep as they come."""

from __future__ import annotations

import json
import math
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pytest_gputrace.traces import Device, open_trace

REAL = Path(os.environ.get("GPUTRACE_TRACES", Path(__file__).parents[4] / "shared" / "traces"))
TREE = REAL / "proton-3.9-cpu-scopes.hatchet"

frames = st.fixed_dictionaries(
    {"name": st.text(st.characters(codec="utf-8")), "type": st.sampled_from(["function", "kernel"])}
)
metrics = st.fixed_dictionaries(
    {}, optional={"count": st.integers(0, 2**40), "time (ns)": st.integers(0, 2**50) | st.floats(0, 1e9), "device_id": st.sampled_from(["0", "7"])}
)  # fmt: skip
leaves = st.fixed_dictionaries({"frame": frames, "metrics": metrics, "children": st.just([])})
trees = st.recursive(
    leaves,
    lambda inner: st.fixed_dictionaries({"children": st.lists(inner, max_size=3), "frame": frames, "metrics": metrics}),
    max_leaves=8,
)


def written(folder: Path, text: str) -> Path:
    path = folder / "profile.hatchet"
    path.write_text(text, encoding="utf-8")
    return path


def preorder(node: dict[str, Any]) -> list[dict[str, Any]]:
    return [node, *(inner for child in node["children"] for inner in preorder(child))]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(tree=trees, indent=st.sampled_from([None, 4]), is_sorted=st.booleans())
def test_a_tree_is_read_as_pythons_parser_reads_it(tree: Any, indent: Any, is_sorted: bool, tmp_path: Path) -> None:
    devices = {"HIP": {"0": {"arch": "gfx942"}}}
    trace = open_trace(written(tmp_path, "\n" + json.dumps([tree, devices], indent=indent, sort_keys=is_sorted)))
    assert [problem for problem in trace.problems if problem.kind != "path"] == []
    assert trace.format == "proton-tree"
    assert trace.metadata == devices
    assert trace.devices == (Device(0, "gfx942", "rocm"),)
    nodes, columns = preorder(tree), trace.events
    assert [columns.names[row] for row in columns.name] == [node["frame"]["name"] for node in nodes]
    assert [columns.categories[row] for row in columns.category] == [node["frame"]["type"] for node in nodes]
    assert columns.calls is not None
    assert columns.calls.tolist() == [node["metrics"].get("count", -1) for node in nodes]
    assert columns.device.tolist() == [int(node["metrics"].get("device_id", -1)) for node in nodes]
    for node, dur_us in zip(nodes, columns.dur_us.tolist(), strict=True):
        time_ns = node["metrics"].get("time (ns)")
        assert math.isnan(dur_us) if time_ns is None else dur_us == time_ns / 1000
    assert list(trace.arguments(range(len(nodes)))) == list(enumerate(node["metrics"] for node in nodes))


@pytest.mark.skipif(not TREE.exists(), reason="needs traces: a folder of real ones, named by GPUTRACE_TRACES")
def test_a_real_tree_is_read_as_it_is() -> None:
    trace = open_trace(TREE)
    assert (trace.problems, trace.format, trace.metadata, trace.devices) == ((), "proton-tree", {}, ())
    assert [trace.events.names[row] for row in trace.events.name] == ["ROOT", "outer", 'inner "q\\uote é', "timed"]
    assert trace.whole
    assert dict(trace.arguments([3])) == {3: {"cpu_time (ns)": 1074739}}


def test_a_tree_without_a_device_map_is_read(tmp_path: Path) -> None:
    trace = open_trace(written(tmp_path, '[{"frame": {"name": "ROOT", "type": "function"}, "metrics": {}}]'))
    assert (trace.problems, trace.format, len(trace.events)) == ((), "proton-tree", 1)


@pytest.mark.parametrize("is_cut", [False, True])
def test_a_tree_may_be_of_any_depth(is_cut: bool, tmp_path: Path) -> None:
    depth = 3_000
    start = '{"children": [' * depth
    end = '], "frame": {"name": "n", "type": "function"}, "metrics": {"count": 1}}' * depth
    text = "[" + start + end[: len(end) // 2 if is_cut else None] + ("" if is_cut else ", {}]")
    trace = open_trace(written(tmp_path, text))
    assert [problem.kind for problem in trace.problems] == ["cut" if is_cut else "deep"]
    assert len(trace.events) == depth
    assert trace.whole is not is_cut


@pytest.mark.parametrize(
    ("bad", "kind"),
    [('{"count": NaN}', "number"), ('{"count": 1, "count": 2}', "duplicate"), ('{"count": 1, "x": ', "cut")],
)
def test_damage_is_told_of_the_node_before(bad: str, kind: str, tmp_path: Path) -> None:
    tree = (
        '[{"frame": {"name": "ROOT", "type": "function"}, "metrics": {}, "children": [{"frame": {"name": "é", "type": '
        '"kernel"}, "metrics": {"count": 3}, "children": []}, {"frame": {"name": "bad", "type": "kernel"}, "metrics": '
    )
    text = tree + bad + ("" if kind == "cut" else ', "children": []}]}, {}]')
    trace = open_trace(written(tmp_path, text))
    [problem] = trace.problems
    assert (problem.kind, problem.event, problem.where) == (kind, 2, 'node 2 ("bad")')
    assert [trace.events.names[row] for row in trace.events.name] == ["ROOT", "é", "bad"]
    if kind == "number":
        assert problem.byte == text.encode().index(b"NaN")


def test_what_follows_a_tree_is_found(tmp_path: Path) -> None:
    tree = '[{"frame": {"name": "ROOT", "type": "function"}, "metrics": {}}]'
    trace = open_trace(written(tmp_path, tree + ', "x": []'))
    assert [problem.kind for problem in trace.problems] == ["trailing"]


NODE = '{"frame": {"name": "k", "type": "kernel"}, "metrics": {"count": 1}, "children": []}'
TREE_OF = '{"frame": {"name": "ROOT", "type": "x"}, "metrics": {}, "children": [%s]}'


@pytest.mark.parametrize(
    ("rest", "kind", "message"),
    [
        ("[], {}", "root", "something else behind the tree"),
        ("{}, {}", "root", "something else behind the tree"),
        ("null", "root", "something else behind the tree"),
        (f"{NODE}, {{}}", "root", "a second tree"),
    ],
)
def test_what_is_no_map_of_devices_is_told(rest: str, kind: str, message: str, tmp_path: Path) -> None:
    trace = open_trace(written(tmp_path, f"[{TREE_OF % NODE}, {rest}]"))
    [problem] = trace.problems
    assert (problem.kind, problem.event) == (kind, None)
    assert message in problem.message
    assert trace.events.names[:2] == ["ROOT", "k"]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('{"name": "k", "type": "kernel"}', '"x"', "'frame' is str 'x'"),
        ('"name": "k"', '"name": 7', "'name' is int 7"),
        ('{"count": 1}', "[1]", "'metrics' is a list"),
        ('"count": 1', '"count": "x"', "'count' is str 'x'"),
        ('"count": 1', '"time (ns)": "12"', "'time (ns)' is str '12'"),
        ("[]", "null", "'children' is null"),
        ("[]", '{"a": []}', "'children' is an object"),
    ],
)
def test_a_node_of_wrong_values_is_told_and_kept(old: str, new: str, message: str, tmp_path: Path) -> None:
    children = ", ".join([NODE, NODE.replace(old, new), NODE])
    text = f"[{TREE_OF % children}, {{}}]"
    trace = open_trace(written(tmp_path, text))
    [problem] = trace.problems
    assert (problem.kind, problem.message, problem.event) == ("type", message, 2)
    assert problem.byte == [place for place in range(len(text)) if text.startswith('{"frame"', place)][2]
    assert len(trace.events) == 4


def test_what_is_no_node_is_told_of_its_parent_and_the_nodes_are_kept(tmp_path: Path) -> None:
    children = f'1, "x", null, {NODE}, {{}}'
    text = f"[{TREE_OF % children}, {{}}]"
    trace = open_trace(written(tmp_path, text))
    [problem] = trace.problems
    assert (problem.kind, problem.event, problem.where, problem.more) == ("event", 0, 'node 0 ("ROOT")', 3)
    assert problem.byte == text.index('1, "x"')
    assert [trace.events.names[row] for row in trace.events.name] == ["ROOT", "k", ""]


def test_a_number_of_thousands_of_digits_ends_no_tree(tmp_path: Path) -> None:
    children = ", ".join([NODE.replace(": 1}", ": " + "9" * 5000 + "}"), NODE])
    trace = open_trace(written(tmp_path, f"[{TREE_OF % children}]"))
    assert [(problem.kind, problem.event) for problem in trace.problems] == [("number", 1)]
    assert len(trace.events) == 3
