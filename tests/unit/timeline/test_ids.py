"""New numbers for ids: no two inputs share one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from pytest_gputrace.timeline.ids import id_maps

if TYPE_CHECKING:
    from numpy.typing import NDArray


def never(index: int) -> NDArray[np.int64]:
    raise AssertionError(f"input {index} is read again")


def test_ids_are_moved_one_input_behind_the_other() -> None:
    maps, end = id_maps([(100, 109), None, (100, 101)], 5, never)
    assert [maps[0].number(100), maps[0].number(109), maps[2].number(100), maps[2].number(101)] == [1, 10, 11, 12]
    assert end == 13


def test_a_text_is_its_number_or_is_kept_apart() -> None:
    maps, _ = id_maps([(16, 20), (16, 16)], 0, never)
    assert [each.of("0x10") for each in maps] == ["0x1", "0x6"]
    assert [each.of("0x10") for each in maps] == [hex(each.number(16)) for each in maps]
    assert [each.of("16") for each in maps] == ["0:16", "1:16"]


def test_addresses_are_numbered_one_by_one() -> None:
    far = np.array([-(2**63), 140_001_000, 2**63 - 1])
    maps, end = id_maps([(-(2**63), 2**63 - 1), (7, 9)], 0, lambda index: [far][index])
    assert [maps[0].number(old) for old in far.tolist()] == [1, 2, 3]
    assert maps[0].number(2**63) == 1  # the same 64 bits
    assert maps[1].number(7) == 4
    assert end == 7


@pytest.mark.parametrize("span", [2**32, 2**40])
def test_what_fits_is_not_read_again(span: int) -> None:
    maps, end = id_maps([(0, span)] * 3, 10, never)
    assert end == 3 * (span + 1) + 1
    assert maps[2].number(0) == 2 * (span + 1) + 1
