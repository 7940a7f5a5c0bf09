"""Whose trace a file is, by its name and folders, and which files are the ranks of one recording."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from pytest_gputrace.claims import claim
from pytest_gputrace.model import WorkerId
from pytest_gputrace.naming import qualified_name
from pytest_gputrace.windownames import window_name, worker_tag


def of(inside: str) -> tuple[int | None, int | None, str]:
    told = claim(Path("/runs", inside))
    return told.rank, told.local_rank, told.node


@pytest.mark.parametrize(
    ("inside", "rank", "local_rank", "node"),
    [
        ("trace-rank3.json", 3, None, ""),
        ("rank_12.json.gz", 12, None, ""),
        ("profile_rank=7_step.json", 7, None, ""),
        ("global_rank5.json", 5, None, ""),
        ("rank4/trace.json", 4, None, ""),
        ("local_rank2.json", None, 2, ""),
        ("benchmarks/gpt/fp16/rank5/events.json", None, 5, ""),
        ("nodes/host-a/benchmarks/gpt/rank5/events.json", None, 5, "host-a"),
        ("torch-profiler-sb-resnet50-6.json", None, 6, ""),
        ("host_9.1690000000.pt.trace.json", None, None, ""),
        ("crank3.json", None, None, ""),
        ("frank.json", None, None, ""),
        ("ID-DP1-TP3.trace.json.gz", None, None, ""),
        ("dp_rank_0_tp_rank_1.json", None, None, ""),
        ("trace_node_rank_0_1.json", None, None, ""),
        ("model_rank_2.json", None, None, ""),
        ("trace_rank_2.json", 2, None, ""),
        ("llama_lora_rank16.json", None, None, ""),
        ("lora-rank-16/trace_rank_2.json", 2, None, ""),
        ("low_rank8/trace.json", None, None, ""),
        ("flora_rank2.json", 2, None, ""),
        ("fsdp_rank_1.json", 1, None, ""),
        ("model_dp0_pp0_tp1_dcp0_ep0_rank5.123.pt.trace.json.gz", 5, None, ""),  # as vLLM calls them
        ("node1/rank0/t.json", None, 0, "node1"),
        ("hostb/rank0/t.json", None, 0, "hostb"),
        ("hosts/rank0/t.json", 0, None, ""),
    ],
)
def test_what_a_path_tells(inside: str, rank: int | None, local_rank: int | None, node: str) -> None:
    assert of(inside) == (rank, local_rank, node)


def test_a_qualified_name_tells_rank_node_and_attempt() -> None:
    worker = WorkerId(node="node1", rank=9, local_rank=1, world_size=16)
    name = qualified_name(model="gpt", configuration="a:b/fp16", worker=worker)
    told = claim(Path("/runs/traces", name))
    assert (told.rank, told.node, told.attempt, told.legacy) == (9, "node1", 1, False)


@pytest.mark.parametrize(
    "inside",
    [
        ["trace-rank0.json", "trace-rank11.json"],
        ["a/rank0/t.json", "a/rank1/t.json"],
        ["nodes/alpha/benchmarks/gpt/rank0/e.json", "nodes/beta/benchmarks/gpt/rank1/e.json"],
        ["h_9.16900000001.pt.trace.json", "h_12345.16900000002.pt.trace.json"],
        ["torch-profiler-sb-resnet50-0.json", "torch-profiler-sb-resnet50-1.json"],
        ["node0/x.json", "node1/x.json"],
        ["ip-10-0-0-1_314.16900000001.pt.trace.json", "ip-10-0-0-2_271.16900000002.pt.trace.json.gz"],
        ["ID-DP0-TP0.trace.json", "ID-DP1-TP3.trace.json"],
        ["rank0.json", "rank1.json.gz"],
    ],
)
def test_the_ranks_of_one_recording_are_one_group(inside: list[str]) -> None:
    assert len({claim(Path("/runs", each)).group for each in inside}) == 1


@pytest.mark.parametrize(
    "inside",
    [
        ["resnet50-rank0.json", "resnet101-rank0.json"],
        ["bs16/rank0.json", "bs32/rank0.json"],
        ["benchmarks/gpt/fp16/rank0/e.json", "benchmarks/gpt/bf16/rank0/e.json"],
        ["torch-profiler-sb-resnet50-0.json", "torch-profiler-sb-resnet101-0.json"],
        ["a.json", "b.json"],
        ["run1/rank0.json", "run2/rank0.json"],
        ["20240101/rank0.json", "20240102/rank0.json"],
    ],
)
def test_other_recordings_are_other_groups(inside: list[str]) -> None:
    assert len({claim(Path("/runs", each)).group for each in inside}) == len(inside)


def window(
    tag: str, profile_id: str = "17-ab", stage: str | None = None, profiler: str = "torch", attempt: int = 1
) -> str:
    return window_name(profile_id, tag, stage=stage, profiler=profiler, ending=".json", attempt=attempt)


@pytest.mark.parametrize(
    ("tag", "rank", "node"),
    [("DP0-TP1-node=n0-rank1", 1, "n0"), ("rank3", 3, ""), ("DP0-TP1", None, ""), ("node=n0", None, "n0")],
)
def test_the_name_of_a_window_tells_its_worker(tag: str, rank: int | None, node: str) -> None:
    told = claim(Path("/runs/traces", window(tag, stage="DECODE", attempt=2)))
    assert (told.rank, told.local_rank, told.node, told.attempt, told.tag) == (rank, None, node, 2, tag)


def test_words_in_the_id_of_a_profile_tell_nothing() -> None:
    told = claim(Path("/runs", window("DP0-TP1", "night-rank7-dp3")))
    assert (told.rank, told.tag) == (None, "DP0-TP1")


def test_all_workers_and_profilers_of_one_window_are_one_group() -> None:
    long = "p" * 190  # beside some tags it fits into a name, beside others not
    for profile_id in ("17-ab", "Night run", long):
        tags = ["rank0", "DP1-TP0-node=n1-rank2", worker_tag(coordinates={"TP": 1}, node="n" * 99, rank=3)]
        told = [
            claim(Path("/runs", window(tag, profile_id, profiler=profiler, attempt=attempt)))
            for tag, profiler, attempt in itertools.product(tags, ("torch", "viztracer", "proton"), (1, 2))
        ]
        assert len({each.group for each in told}) == len({each.window for each in told}) == 1


def test_two_profiles_and_two_stages_are_two_groups() -> None:
    windows = [("17-ab", None), ("17-ac", None), ("17-ab", "PREFILL"), ("17-ab", "DECODE"), ("17-AB", None)]
    told = [claim(Path("/runs", window("rank0", profile_id, stage))) for profile_id, stage in windows]
    assert len({each.group for each in told}) == len({each.window for each in told}) == len(windows)


def test_a_window_in_another_folder_is_another_group() -> None:
    told = [claim(Path("/runs", folder, window("rank0"))) for folder in ("bs16", "bs32")]
    assert len({each.group for each in told}) == 2
