"""Clocks of nodes, by collectives that end together: known offsets and drifts are put in and have to come out."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import pytest

from pytest_gputrace.timeline.alignment import Collectives, Estimate, align

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Times = NDArray[np.floating]

_EPOCH_NS = 1_780_000_000_123_456_789
_KEYS = ["world AllReduce", "world AllGather", "world ReduceScatter"]


def _steps(rng: np.random.Generator, count: int, *, gap_ns: float = 1e6, jitter_ns: float = 2e5) -> Times:
    """When collectives of a training end: ten a step in a pattern of its own, steps of no two lengths."""
    pattern = np.cumsum(rng.uniform(0.2, 1.8, 10)) * gap_ns
    steps = math.ceil(count / 10)
    begins = np.arange(steps) * (pattern[-1] + gap_ns) + np.cumsum(rng.normal(0, jitter_ns, steps))
    return np.sort((begins[:, None] + pattern).ravel()[:count])


def _seen(
    rng: np.random.Generator, ends: Times, *, offset_ns: int = 0, ppm: float = 0.0, late: float = 0.0, wild: int = 0,
    without: Sequence[int] | NDArray[np.intp] = (), keys: Sequence[str] = _KEYS,
) -> Collectives:  # fmt: skip
    """What a worker writes down of them by its clock: noise of 2 us, some late by 20 to 500 us, few far off."""
    own = ends * (1 + ppm / 1e6) + rng.normal(0, 2000, len(ends))
    own += (rng.random(len(ends)) < late) * rng.uniform(20e3, 500e3, len(ends))
    own[rng.integers(0, len(ends), wild)] += rng.uniform(-5e9, 5e9, wild)
    key = (np.arange(len(ends)) % 10 % len(keys)).astype(np.int32)
    own, key = np.delete(own, without), np.delete(key, without)
    order = np.argsort(own, kind="stable")
    return Collectives(list(keys), key[order], own[order].astype(np.int64) + _EPOCH_NS + offset_ns)


def _error_us(estimate: Estimate, ends: Times, offset_ns: int, ppm: float = 0.0) -> float:
    """How far the clock is off at most within the window, once it is set right."""
    worst = 0
    for end in (ends[0], ends[len(ends) // 2], ends[-1]):
        true_ns = _EPOCH_NS + int(end)
        own_ns = _EPOCH_NS + int(end * (1 + ppm / 1e6)) + offset_ns
        since_ns = own_ns - estimate.about_ns
        set_ns = own_ns + estimate.offset_ns + since_ns * estimate.drift_ppt // 10**12
        worst = max(worst, abs(set_ns - true_ns))
    return worst / 1000


def _stays(estimate: Estimate) -> bool:
    return (estimate.offset_ns, estimate.drift_ppt, estimate.used) == (0, 0, 0)


@pytest.mark.parametrize("most_ns", [20_000, 10**9, 5 * 10**9, 7200 * 10**9])
def test_offsets_and_drifts_come_out_within_5_us(most_ns: int) -> None:
    errors = []
    for seed in range(5):
        rng = np.random.default_rng(seed)
        ends = _steps(rng, 200)
        offset_ns, ppm = int(rng.integers(-most_ns, most_ns)), rng.uniform(-50, 50)
        found = align({0: ("", _seen(rng, ends, late=0.1)), 1: ("", _seen(rng, ends, offset_ns=offset_ns, ppm=ppm))})
        assert found[1].why == ""
        errors.append(_error_us(found[1], ends, offset_ns, ppm))
    assert np.median(errors) < 2
    assert max(errors) < 5


@pytest.mark.parametrize("ppm", [-50.0, 50.0, 200.0])
def test_drift_over_minutes(ppm: float) -> None:
    rng = np.random.default_rng(3)
    ends = _steps(rng, 300, gap_ns=5e8, jitter_ns=5e7)
    found = align({0: ("", _seen(rng, ends)), 1: ("", _seen(rng, ends, offset_ns=10**9, ppm=ppm))})[1]
    assert found.drift_ppt == pytest.approx(-ppm * 1e6 / (1 + ppm / 1e6), abs=10**5)
    assert _error_us(found, ends, 10**9, ppm) < 5
    assert found.residual_before_us > 10**5
    assert found.residual_after_us < 5


def test_a_clock_that_does_not_drift_is_not_made_to() -> None:
    for seed in range(5):
        rng = np.random.default_rng(seed)
        ends = _steps(rng, 200)
        assert align({0: ("", _seen(rng, ends)), 1: ("", _seen(rng, ends, offset_ns=10**8))})[1].drift_ppt == 0


def test_no_drift_from_few_collectives() -> None:
    rng = np.random.default_rng(0)
    ends = _steps(rng, 19, gap_ns=1e9)
    assert align({0: ("", _seen(rng, ends)), 1: ("", _seen(rng, ends, ppm=5))})[1].drift_ppt == 0


def test_stragglers_and_wild_ones_do_not_draw_the_clock() -> None:
    errors = []
    for seed in range(5):
        rng = np.random.default_rng(seed)
        ends = _steps(rng, 300)
        mine, theirs = (_seen(rng, ends, offset_ns=by_ns, late=0.3, wild=3) for by_ns in (0, -(10**9)))
        errors.append(_error_us(align({0: ("", mine), 1: ("", theirs)})[1], ends, -(10**9)))
    assert np.median(errors) < 2
    assert max(errors) < 5


@pytest.mark.parametrize("swapped", [False, True])
@pytest.mark.parametrize(
    "without",
    [range(33), range(270, 300), range(100, 147), range(0, 300, 17), [0, 1, 2, *range(150, 160), 299], range(200)],
    ids=["head", "tail", "middle", "here and there", "everywhere", "most"],
)
def test_missing_collectives(without: Sequence[int], swapped: bool) -> None:
    rng = np.random.default_rng(5)
    ends = _steps(rng, 300)
    by_ns = 2 * 10**9
    first = _seen(rng, ends, late=0.1, without=list(without) if swapped else ())
    second = _seen(rng, ends, offset_ns=by_ns, late=0.1, without=() if swapped else list(without))
    found = align({0: ("", first), 1: ("", second)})[1]
    assert _error_us(found, ends, by_ns) < 5
    assert 0.9 * (300 - len(without)) <= found.used <= 300 - len(without)


def test_a_head_is_missing_here_and_as_long_a_tail_there() -> None:
    rng = np.random.default_rng(6)
    ends = _steps(rng, 300)
    found = align({
        0: ("", _seen(rng, ends, without=list(range(20)))),
        1: ("", _seen(rng, ends, offset_ns=10**9, without=list(range(280, 300)))),
    })[1]  # fmt: skip
    assert _error_us(found, ends, 10**9) < 5


@pytest.mark.parametrize("offset_ns", [0, 2_400_000, -2_400_000])
def test_perfectly_periodic_ones_of_equal_number_are_matched_in_order(offset_ns: int) -> None:
    """Where the clock is off by less than a quarter of a period."""
    rng = np.random.default_rng(1)
    ends = np.arange(100) * 1e7
    first, second = (_seen(rng, ends, offset_ns=by_ns, keys=["AllReduce"]) for by_ns in (0, offset_ns))
    found = align({0: ("", first), 1: ("", second)})[1]
    assert found.why == ""
    assert found.offset_ns == pytest.approx(-offset_ns, abs=2000)


def _regular(apart: str) -> str:
    return (
        f"the collectives are so regular that several settings of the clock fit alike, {apart} ms apart: "
        "it stays as its anchor has it"
    )


@pytest.mark.parametrize(
    ("offset_ns", "without"),
    [(73_000_000, 0), (50_000_000, 0), (50_000_000, 5), (0, -3), (3_000_000_000, 0)],
    ids=["between", "whole periods", "whole periods and the head", "both ends", "windows apart"],
)
def test_perfectly_periodic_ones_that_may_be_others_leave_the_clock(offset_ns: int, without: int) -> None:
    rng = np.random.default_rng(1)
    ends = np.arange(100) * 1e7
    tail = range(100 + min(without, 0), 100)
    first = _seen(rng, ends, keys=["AllReduce"], without=tail)
    second = _seen(rng, ends, offset_ns=offset_ns, keys=["AllReduce"], without=range(abs(without)))
    found = align({0: ("", first), 1: ("", second)})
    assert found[1].why == _regular("10.0")
    assert _stays(found[1])
    assert found[0].why == "no other clock could be compared with it"


def _ten_steps(rng: np.random.Generator, jitter_ns: float) -> Times:
    """Of 100 ms and six collectives each."""
    begins = np.arange(10) * 1e8 + rng.normal(0, jitter_ns, 10)
    return (begins[:, None] + np.array([0, 3, 7, 20, 33, 60]) * 1e6).ravel()


@pytest.mark.parametrize("offset_ns", [0, 3_000_000, 10**9])
@pytest.mark.parametrize("jitter_ns", [0, 2000])
def test_equal_steps_of_which_one_has_the_next(jitter_ns: float, offset_ns: int) -> None:
    """In order they fit as well, a step away from the truth."""
    for seed in range(5):
        rng = np.random.default_rng(seed)
        ends = _ten_steps(rng, jitter_ns)
        first = _seen(rng, ends, keys=["AllReduce"], without=range(54, 60))
        second = _seen(rng, ends, offset_ns=offset_ns, keys=["AllReduce"], without=range(6))
        found = align({0: ("", first), 1: ("", second)})[1]
        assert found.why == _regular("100.0")
        assert _stays(found)


@pytest.mark.parametrize("offset_ns", [0, 3_000_000, -100_000_000, 10**9])
def test_unequal_steps_of_which_one_has_the_next(offset_ns: int) -> None:
    for seed in range(5):
        rng = np.random.default_rng(seed)
        ends = _ten_steps(rng, 100_000)
        first = _seen(rng, ends, keys=["AllReduce"], without=range(54, 60))
        second = _seen(rng, ends, offset_ns=offset_ns, keys=["AllReduce"], without=range(6))
        found = align({0: ("", first), 1: ("", second)})[1]
        assert found.why == ""
        assert _error_us(found, ends, offset_ns) < 5


def test_perfectly_periodic_ones_of_other_number_change_the_clock_least() -> None:
    rng = np.random.default_rng(1)
    ends = np.arange(100) * 1e7
    first = _seen(rng, ends, keys=["AllReduce"])
    second = _seen(rng, ends, offset_ns=300_000, keys=["AllReduce"], without=[0, 1, 2])
    assert align({0: ("", first), 1: ("", second)})[1].offset_ns == pytest.approx(-300_000, abs=2000)


def test_few_of_each_of_many_keys_are_enough_together() -> None:
    rng = np.random.default_rng(2)
    ends = _steps(rng, 20)
    keys = [f"group {number}" for number in range(10)]
    first, second = (_seen(rng, ends, offset_ns=by_ns, keys=keys) for by_ns in (0, 10**9))
    assert _error_us(align({0: ("", first), 1: ("", second)})[1], ends, 10**9) < 5


def test_over_a_third_node() -> None:
    """Node c shares collectives only with b, and b with the first."""
    rng = np.random.default_rng(4)
    ends, later = _steps(rng, 200), _steps(rng, 200) + 1e8
    b = _joined(
        _seen(rng, ends, offset_ns=10**9, ppm=30, keys=["dp 0"]),
        _seen(rng, later, offset_ns=10**9, ppm=30, keys=["dp 1"]),
    )
    found = align({
        0: ("a", _seen(rng, ends, keys=["dp 0"])),
        1: ("b", b),
        2: ("c", _seen(rng, later, offset_ns=-3 * 10**9, ppm=-40, keys=["dp 1"])),
    })  # fmt: skip
    assert _error_us(found[1], ends, 10**9, 30) < 5
    assert _error_us(found[2], later, -3 * 10**9, -40) < 5
    assert found[2].residual_after_us < 5


def _joined(one: Collectives, two: Collectives) -> Collectives:
    key = np.concatenate([one.key, two.key + np.int32(len(one.keys))])
    ends = np.concatenate([one.end_ns, two.end_ns])
    order = np.argsort(ends, kind="stable")
    return Collectives(one.keys + two.keys, key[order], ends[order])


def test_workers_of_a_node_share_its_clock() -> None:
    """Also such as have no collectives, or none with the first node."""
    rng = np.random.default_rng(8)
    ends = _steps(rng, 100)
    none = Collectives([], np.empty(0, np.int32), np.empty(0, np.int64))
    found = align({
        0: ("a", _seen(rng, ends)), 1: ("a", _seen(rng, ends)), 2: ("b", _seen(rng, ends, offset_ns=10**8)),
        3: ("b", _seen(rng, ends, offset_ns=10**8)), 4: ("b", none), 5: ("b", _seen(rng, ends, keys=["tp of b"])),
    })  # fmt: skip
    assert found[0] == found[1]
    assert found[0].offset_ns == 0
    assert found[2] == found[3] == found[4] == found[5]
    assert _error_us(found[2], ends, 10**8) < 5


def test_the_reference_is_the_first_that_can_be_compared() -> None:
    """One before it has no collectives, another none of these."""
    rng = np.random.default_rng(8)
    ends = _steps(rng, 200)
    none = Collectives([], np.empty(0, np.int32), np.empty(0, np.int64))
    found = align({
        0: ("", none), 1: ("", _seen(rng, ends, keys=["of another group"])), 2: ("", _seen(rng, ends)),
        3: ("", _seen(rng, ends, offset_ns=10**7)), 4: ("", _seen(rng, ends, without=range(3, 200))),
    })  # fmt: skip
    assert found[0].why == "there are no collectives, 5 are needed: it stays as its anchor has it"
    assert found[1].why == "no collective is shared with the others, 5 are needed: it stays as its anchor has it"
    assert _stays(found[0])
    assert _stays(found[1])
    assert (found[2].offset_ns, found[2].used, found[2].why) == (0, 200, "")
    assert _error_us(found[3], ends, 10**7) < 5
    assert found[4].why.startswith("3 collectives are shared with ")


def test_the_reference_where_nobody_can_be_compared() -> None:
    rng = np.random.default_rng(8)
    none = Collectives([], np.empty(0, np.int32), np.empty(0, np.int64))
    found = align({0: ("", none), 1: ("", _seen(rng, _steps(rng, 50)))})
    assert found[0].why == "there are no collectives, 5 are needed: it stays as its anchor has it"
    assert found[1].why == "no other clock could be compared with it"


def test_without_a_name_each_worker_has_its_own_clock() -> None:
    rng = np.random.default_rng(9)
    ends = _steps(rng, 100)
    found = align({number: ("", _seen(rng, ends, offset_ns=number * 10**8)) for number in range(4)})
    assert [round(found[number].offset_ns / 10**8) for number in range(4)] == [0, -1, -2, -3]


def test_what_is_told_of_the_reference() -> None:
    """Its distance from the middle of the others, though it is right by definition."""
    rng = np.random.default_rng(9)
    ends = _steps(rng, 100)
    offsets_ns = {0: 0, 1: 3_000_000, 2: 4_000_000, 3: 9_000_000}
    found = align({number: ("", _seen(rng, ends, offset_ns=by_ns)) for number, by_ns in offsets_ns.items()})
    assert found[0][:4] == (0, 0, 0, 100)
    assert found[0].residual_before_us == pytest.approx(4000, abs=5)
    assert found[0].residual_after_us < 5
    assert found[3].residual_before_us == pytest.approx(9000, abs=5)
    assert found[3].residual_after_us < 5


@pytest.mark.parametrize(
    ("count", "why"),
    [
        (0, "there are no collectives, 5 are needed: it stays as its anchor has it"),
        (1, "1 collective is shared with the reference, 5 are needed: it stays as its anchor has it"),
        (4, "4 collectives are shared with the reference, 5 are needed: it stays as its anchor has it"),
    ],
)
def test_too_few(count: int, why: str) -> None:
    rng = np.random.default_rng(0)
    ends = _steps(rng, 50)
    few = _seen(rng, ends, offset_ns=10**6, keys=["world"], without=list(range(count, 50)))
    found = align({0: ("", _seen(rng, ends, keys=["world"])), 1: ("", few)})
    assert found[1].why == why
    assert _stays(found[1])
    assert found[0].why == "no other clock could be compared with it"


def test_five_are_enough() -> None:
    rng = np.random.default_rng(0)
    ends = _steps(rng, 5)
    found = align({0: ("", _seen(rng, ends, keys=["world"])), 1: ("", _seen(rng, ends, offset_ns=9, keys=["world"]))})
    assert found[1].why == ""
    assert found[1].used == 5


def test_a_node_apart_from_all_others() -> None:
    rng = np.random.default_rng(0)
    ends = _steps(rng, 50)
    found = align({0: ("", _seen(rng, ends)), 1: ("", _seen(rng, ends, keys=["of another group"]))})
    assert found[1].why == "no collective is shared with the others, 5 are needed: it stays as its anchor has it"
    assert _stays(found[1])


def test_nodes_that_share_with_one_another_only() -> None:
    rng = np.random.default_rng(0)
    ends = _steps(rng, 50)
    found = align({number: ("", _seen(rng, ends, keys=[f"dp {number // 2}"])) for number in range(4)})
    assert [found[number].why for number in (0, 1)] == ["", ""]
    for number in (2, 3):
        assert found[number].why.startswith(
            "no collective is shared with the reference, nor with a clock that it sets, "
        )
        assert _stays(found[number])


def test_collectives_of_two_runs_are_not_taken_for_the_same() -> None:
    for seed in range(5):
        rng = np.random.default_rng(seed)
        one, other = _seen(rng, _steps(rng, 100)), _seen(rng, _steps(rng, 100))
        found = align({0: ("", one), 1: ("", other)})[1]
        assert found.why == (
            "100 collectives are shared with the reference, and no setting of the clock lets them end together: "
            "it stays as its anchor has it"
        )
        assert _stays(found)


def test_one_clock_alone() -> None:
    rng = np.random.default_rng(0)
    found = align({3: ("a", _seen(rng, _steps(rng, 50))), 5: ("a", _seen(rng, _steps(rng, 50)))})
    assert {each.why for each in found.values()} == {"there is no other clock"}
    assert align({}) == {}


def test_the_order_of_the_workers_changes_nothing() -> None:
    rng = np.random.default_rng(7)
    ends = _steps(rng, 100)
    workers = {number: (f"n{number // 2}", _seen(rng, ends, offset_ns=number // 2 * 10**7)) for number in range(6)}
    assert align(workers) == align(dict(reversed(workers.items())))


def test_many_collectives() -> None:
    rng = np.random.default_rng(7)
    ends = _steps(rng, 20_000, gap_ns=2e5)
    keys = ["AllReduce"]
    first = _seen(rng, ends, late=0.2, keys=keys)
    second = _seen(rng, ends, offset_ns=10**9, ppm=-20, late=0.2, without=np.arange(500), keys=keys)
    found = align({0: ("", first), 1: ("", second)})[1]
    assert _error_us(found, ends, 10**9, -20) < 1
