"""Which collectives are the same, and the line through most points."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from pytest_gputrace.timeline.matching import MOST_DRIFT, Ambiguous, Ends, Line, Matched, fit, match

if TYPE_CHECKING:
    from numpy.typing import NDArray

_LEVEL = Line(0.0, 0.0, 0.0)


def _ends(ns: NDArray[np.floating]) -> Ends:
    return Ends(np.zeros(len(ns), np.int32), ns.astype(np.float64))


def _at_random(count: int) -> NDArray[np.floating]:
    return np.cumsum(np.random.default_rng(1).uniform(1e5, 2e6, count))


def test_the_line_is_that_of_most_points() -> None:
    """A third of them late by up to 500 us, on one side only, move it by less than a microsecond."""
    rng = np.random.default_rng(0)
    ns = np.linspace(0, 1e9, 300)
    ahead = 5e6 + 20e-6 * ns + rng.normal(0, 2000, 300) + (rng.random(300) < 0.33) * rng.uniform(20e3, 500e3, 300)
    line, sigma, error = fit(ns, ahead, Line(0.0, 5.1e6, 0.0))
    assert np.abs(line.ahead(ns) - 5e6 - 20e-6 * ns).max() < 1000
    assert sigma == pytest.approx(2000, rel=0.2)
    assert abs(line.slope - 20e-6) < 4 * error


def test_a_level_line_keeps_its_slope() -> None:
    ns = np.linspace(0, 1e9, 50)
    line, _, _ = fit(ns, 7.0 + 1e-6 * ns, _LEVEL, level=True)
    assert line.slope == 0
    assert line.offset_ns == pytest.approx(507, abs=1)


def test_no_line_is_steeper_than_clocks_drift() -> None:
    ns = np.linspace(0, 1e9, 50)
    assert fit(ns, 1e-3 * ns, _LEVEL)[0].slope == MOST_DRIFT


def test_all_at_one_time_have_no_slope() -> None:
    line, _, error = fit(np.full(9, 5.0), np.full(9, 3.0), _LEVEL)
    assert (line.offset_ns, line.slope, error) == (3.0, 0.0, np.inf)


def test_rows_of_both_sides_that_are_the_same() -> None:
    ends = _at_random(60)
    own, other = np.delete(ends, [0, 1, 30]), np.delete(ends, [10, 58, 59]) + 4e9
    matched = match(_ends(own), _ends(other), 0.0)
    assert isinstance(matched, Matched)
    assert (other[matched.others] - own[matched.rows]).tolist() == pytest.approx([4e9] * 54)
    assert sorted(matched.rows) == [row for row in range(57) if row not in {8, 55, 56}]


def test_only_those_of_one_key_are_the_same() -> None:
    """Of another key a collective may end at the very time at which one is missing."""
    ends = _at_random(40)
    key = np.arange(40, dtype=np.int32) % 2
    other_key = key.copy()
    other_key[20] = 1 - key[20]
    matched = match(_ends(ends)._replace(key=key), _ends(ends)._replace(key=other_key), 0.0)
    assert isinstance(matched, Matched)
    assert sorted(matched.rows) == [row for row in range(40) if row != 20]


def test_none_is_the_same_as_two() -> None:
    ends = _at_random(40)
    twice = np.sort(np.append(ends, ends[7] + 3000))
    matched = match(_ends(twice), _ends(ends), 0.0)
    assert isinstance(matched, Matched)
    assert len(set(matched.others)) == len(matched.others) == 40
    assert 8 not in matched.rows


def test_fewer_than_five_are_not_matched() -> None:
    assert match(_ends(_at_random(4)), _ends(_at_random(40)), 0.0) is None


def test_of_periods_that_fit_alike_the_nearest_is_taken() -> None:
    other = _ends(np.arange(103) * 1e7)
    for lag in range(4):
        matched = match(_ends(np.arange(100) * 1e7), other, lag * 1e7 + 2e6)
        assert isinstance(matched, Matched)
        assert matched.line.offset_ns == pytest.approx(lag * 1e7)


@pytest.mark.parametrize("unchanged_ns", [5e6, 1.4e7, -4e6, 3.4e7, 4.2e7, -1e9, 1e9])
def test_of_periods_about_as_near_none_is_taken(unchanged_ns: float) -> None:
    """Nor where the windows would have to overlap at both ends."""
    matched = match(_ends(np.arange(100) * 1e7), _ends(np.arange(103) * 1e7), unchanged_ns)
    assert isinstance(matched, Ambiguous)
    assert matched.apart_ns == pytest.approx(1e7)


@pytest.mark.parametrize("unchanged_ns", [0.0, 2e6, -4e6])
def test_where_order_and_clock_agree_periods_do_not_matter(unchanged_ns: float) -> None:
    matched = match(_ends(np.arange(100) * 1e7), _ends(np.arange(100) * 1e7), unchanged_ns)
    assert isinstance(matched, Matched)
    assert matched.line.offset_ns == pytest.approx(0)


@pytest.mark.parametrize("unchanged_ns", [1e7, -6e6, 7e7, 1e9])
def test_where_order_and_clock_disagree_none_is_taken(unchanged_ns: float) -> None:
    ends = _ends(np.arange(100) * 1e7)
    assert isinstance(match(ends, ends, unchanged_ns), Ambiguous)
