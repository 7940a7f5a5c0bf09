"""What arguments may be."""

from __future__ import annotations

import argparse
import os

import pytest

from pytest_gputrace.cli.commands import codes, count, jobs, size_bytes


def test_codes_stand_between_commas() -> None:
    assert codes("GT301, gt4,negative-duration,") == ["GT301", "gt4", "negative-duration"]


@pytest.mark.parametrize(
    ("text", "bytes_"),
    [("1", 1), ("500M", 500 << 20), ("2G", 2 << 30), ("2gb", 2 << 30), ("7k", 7 << 10), ("1T", 1 << 40)],
)
def test_sizes_have_suffixes(text: str, bytes_: int) -> None:
    assert size_bytes(text) == bytes_


def test_no_jobs_means_one_on_each_core() -> None:
    assert jobs("0") == len(os.sched_getaffinity(0))
    assert jobs("3") == 3


@pytest.mark.parametrize("text", ["", "0", "-1", "1.5", "x", "M", "٣", "9" * 20])
def test_what_is_no_number_is_refused(text: str) -> None:
    for kind in (count, size_bytes):
        with pytest.raises(argparse.ArgumentTypeError, match="is no"):
            kind(text)


@pytest.mark.parametrize("text", ["", " , "])
def test_no_code_at_all_is_refused(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="names no code"):
        codes(text)
