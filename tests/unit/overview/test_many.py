"""Several traces: their first figures, and which stands out."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from pytest_gputrace.overview import compare, glances
from pytest_gputrace.overview.many import Glance

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pytest_gputrace.traces import Trace

    Opened = Callable[..., Trace]

KERNEL = {
    "ph": "X", "cat": "kernel", "name": "a", "pid": 0, "tid": 7, "ts": 10, "dur": 5, "args": {"device": 0, "stream": 7},
}  # fmt: skip


def ranks(*step_us: float | None) -> list[Glance]:
    return [Glance(f"r{rank}", rank=rank, step_median_us=time, span_us=9.0) for rank, time in enumerate(step_us)]


def test_a_glance_has_the_first_figures(opened: Opened) -> None:
    collective = {**KERNEL, "name": "ncclKernel_AllReduce", "ts": 13, "dur": 7}
    info = {"rank": 2, "world_size": 4}
    listed = [{"id": 0, "name": "NVIDIA H100"}]
    trace = opened([KERNEL, collective], distributedInfo=info, deviceProperties=listed)
    (glance,) = glances([trace.path])
    assert glance == Glance(
        str(trace.path), format="kineto", rank=2, world_size=4, device="NVIDIA H100", events=2, kernels=2,
        gpu_busy_us=10, gpu_busy_percent=100, communication_us=7, exposed_us=5, span_us=10,
    )  # fmt: skip


def test_one_bad_file_does_not_hide_the_others(opened: Opened, tmp_path: Path) -> None:
    good = opened([KERNEL]).path
    cut = tmp_path / "cut.json"
    cut.write_text('{"traceEvents": [')
    found = list(glances([tmp_path / "gone.json", cut, good]))
    assert [(glance.broken, glance.error is not None) for glance in found] == [
        (True, True),
        (True, False),
        (False, False),
    ]
    many = compare(found)
    assert (many.broken, many.kernels) == (2, 1)


def test_progress_counts_every_file(opened: Opened) -> None:
    paths = [opened([KERNEL], name).path for name in ("a.json", "b.json")]
    read: list[int] = []
    list(glances(paths, progress=read.append))
    assert sum(read) == sum(path.stat().st_size for path in paths)


def test_files_are_in_order_of_rank_those_without_last() -> None:
    files = [Glance("b"), Glance("a"), *reversed(ranks(1.0, 1.0))]
    assert [file.path for file in compare(files).files] == ["r0", "r1", "a", "b"]


def test_the_slowest_rank_has_the_longest_steps() -> None:
    slowest = compare(ranks(10.0, 12.0, 11.0)).slowest
    assert slowest is not None
    assert (slowest.rank, slowest.figure, slowest.value_us, slowest.median_us) == (1, "step_median_us", 12, 11)


def test_without_steps_of_every_rank_the_longest_span_counts() -> None:
    files = ranks(10.0, None)
    slowest = compare([files[0], replace(files[1], span_us=30.0)]).slowest
    assert slowest is not None
    assert (slowest.rank, slowest.figure) == (1, "span_us")


def test_a_rank_far_from_the_others_is_odd() -> None:
    (odd,) = compare(ranks(100.0, 101.0, 99.0, 140.0)).odd
    assert (odd.rank, odd.figure, odd.value, odd.median) == (3, "step_median_us", 140, 100.5)


@pytest.mark.parametrize(
    "steps", [(100.0, 101.0, 99.0, 108.0), (100.0, 140.0), (10.0, 20.0, 30.0, 40.0)], ids=["near", "two", "all apart"]
)
def test_a_rank_near_the_others_is_not_odd(steps: tuple[float, ...]) -> None:
    assert compare(ranks(*steps)).odd == ()


def test_traces_of_several_jobs_are_not_compared() -> None:
    files = ranks(100.0, 101.0, 99.0, 140.0)
    twice = compare([*files, replace(files[0], path="again")])
    assert (twice.slowest, twice.odd, twice.ranks) == (None, (), 4)
    worlds = compare([*files[:3], replace(files[3], world_size=8), replace(files[2], rank=9, world_size=16)])
    assert (worlds.slowest, worlds.odd, worlds.world_sizes) == (None, (), (8, 16))
