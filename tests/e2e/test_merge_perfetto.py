"""Real traces of GPUs, merged in pairs as two ranks: Perfetto makes of the timeline what it makes of the two alone."""

from __future__ import annotations

import gzip
import json
import os
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pytest_gputrace import merge
from tests.perfetto.contents import Amount, amounts, flow_ends, rank_of, together
from tests.perfetto.processor import TraceProcessor, need_perfetto

if TYPE_CHECKING:
    from collections.abc import Iterator

REAL = Path(os.environ.get("GPUTRACE_TRACES", Path(__file__).parents[3] / "shared" / "traces"))
# Recorded within a quarter of a year or two of each other, and the first of each may be a rank 0.
PAIRS = [
    ("cuda-sampled-rank0.json.gz", "cuda-sampled-rank1.json.gz"),
    ("cuda-h100-bert-small.json.gz", "rocm-mi300x-bert-small.json.gz"),
    ("rocm-mi300x-sglang-decode.json.gz", "rocm-mi300x-compile-triton.json.gz"),
    ("rocm-mi300x-resnet-8gpu.json.gz", "rocm-mi210-gpu-only.json.gz"),
    ("rocm-mi250-train.json.gz", "cuda-a100-triton.json.gz"),
    ("cuda-a100-event-sync-streams.json.gz", "proton-3.9-cpu-scopes.chrome_trace"),
]
# What a double cannot hold of a time at Kineto's usual distance from its base, before and after.
ROUNDED_NS = 2
# About when Proton's was recorded, which is merged with a trace that has no base.
SOMEWHEN_NS = 1_796_030_606_000_000_000


@pytest.fixture
def perfetto() -> Iterator[TraceProcessor]:
    need_perfetto()
    with TraceProcessor() as processor:
        yield processor


def without_base(path: Path) -> dict[str | os.PathLike[str], int]:
    """A base for a trace that has none, from which it begins at a time like the others'."""
    trace = json.loads(gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes())
    if "baseTimeNanoseconds" in trace:
        return {}
    first_us = min(event["ts"] for event in trace["traceEvents"] if event["ph"] == "X")
    return {path: SOMEWHEN_NS - int(first_us) * 1000}


@pytest.mark.parametrize("names", PAIRS, ids=lambda names: names[0].partition(".")[0])
def test_a_pair_of_real_traces_is_all_there(perfetto: TraceProcessor, tmp_path: Path, names: tuple[str, str]) -> None:
    paths = [REAL / name for name in names]
    for path in paths:
        if not path.exists():
            pytest.skip(f"needs traces: a folder with {path.name}, named by GPUTRACE_TRACES")
    alone, slices, flows, errors = [], 0, 0, Counter[str]()
    for path in paths:
        perfetto.load(path)
        # With instants of the whole trace, which are those of a process, and of a rank, on the timeline.
        alone.append(Amount(*perfetto.query("select count(*), sum(dur), min(ts), max(ts + dur) from slice")[0]))
        slices += alone[-1].slices
        flows += sum(flow_ends(perfetto).values())
        errors.update(perfetto.errors())
    result = merge(
        [],
        tmp_path / "timeline.json.gz",
        ranks={rank: [path] for rank, path in enumerate(paths)},
        assume_base=without_base(paths[0]) | without_base(paths[1]),
        allow_missing=True,  # of the 128 ranks that one says there were
    )
    perfetto.load(result.path)
    of: dict[int, list[Amount]] = {}
    for process, amount in amounts(perfetto):
        of.setdefault(rank_of(process), []).append(amount)
    assert [each.rank for each in result.inputs] == sorted(of) == [0, 1]
    for each, before in zip(result.inputs, alone, strict=True):
        after = together(of[each.rank or 0])
        assert (after.slices, after.dur_ns) == (before.slices, before.dur_ns)
        moved_ns = each.base_time_ns - result.base_time_ns
        assert after.first_ns == pytest.approx(before.first_ns + moved_ns, rel=0, abs=ROUNDED_NS)
        assert after.last_ns == pytest.approx(before.last_ns + moved_ns, rel=0, abs=ROUNDED_NS)
    assert perfetto.one("select count(*) from slice") == slices
    ends = flow_ends(perfetto)
    assert sum(ends.values()) == flows
    assert not [(out, into) for out, into in ends if rank_of(out) != rank_of(into)]
    more = Counter(perfetto.errors())
    more.subtract(errors)
    assert not {name: count for name, count in more.items() if count > 0}
