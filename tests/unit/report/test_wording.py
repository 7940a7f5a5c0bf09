"""Numbers and names for people."""

from __future__ import annotations

import pytest

from pytest_gputrace.report.wording import columns, duration, kernel, printable, rate, shorten, size

ADD = (
    "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>, std::array<char*, 3ul> >"
    "(int, at::native::CUDAFunctor_add<float>, std::array<char*, 3ul>)"
)


@pytest.mark.parametrize(
    ("us", "text"),
    [
        (None, "unknown"), (0, "0 us"), (0.001, "0.00 us"), (1.76, "1.76 us"), (999.4, "999 us"), (999.6, "1.00 ms"),
        (16798.984, "16.8 ms"), (999_600, "1.00 s"), (13336315.8, "13.3 s"), (4e9, "4,000 s"), (5.2e12, "60.2 days"),
    ],
)  # fmt: skip
def test_durations(us: float | None, text: str) -> None:
    assert duration(us) == text


@pytest.mark.parametrize(
    ("count", "text"), [(None, "unknown"), (0, "0 B"), (999, "999 B"), (999_600, "1.00 MB"), (3.3e9, "3.30 GB")]
)
def test_sizes(count: float | None, text: str) -> None:
    assert size(count) == text


def test_rates() -> None:
    assert rate(0.000446) == "446 kB/s"
    assert rate(None) == "unknown"


@pytest.mark.parametrize(
    ("width", "text"),
    [
        (
            200,
            "at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>, std::array<char*, 3ul>>",
        ),
        (90, "vectorized_elementwise_kernel<4, CUDAFunctor_add<float>, array<char*, 3ul>>"),
        (60, "vectorized_elementwise_kernel<4, CUDAFunctor_add, array>"),
        (40, "vectorized_elementwise_ke..._add, array>"),
        (30, "vectorized_elementwise_kernel"),
        (20, "vectorized_e...ernel"),
    ],
)
def test_a_kernel_loses_first_what_tells_it_apart_least(width: int, text: str) -> None:
    assert kernel(ADD, width) == text
    assert len(text) <= width


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("ncclDevKernel_Generic(ncclDevKernelArgsStorage<4096ul>)", "ncclDevKernel_Generic"),
        ("void (anonymous namespace)::softmax<float>(float*)", "softmax<float>"),
        ("triton_poi_fused_add_cos_sin_0", "triton_poi_fused_add_cos_sin_0"),
        ("odd ) ( name)", "odd ) ( name)"),
        ("cutlass::Kernel2<cutlass_80_wmma_tensorop_bf16>(x)", "Kernel2<cutlass_80...rop_bf16>"),
    ],
)
def test_kernels_of_other_shapes(name: str, text: str) -> None:
    assert kernel(name, 30 if "cutlass" in name else 50) == text[:50]


def test_long_names_keep_their_ends() -> None:
    assert shorten("abcdefghijklmnopqrstuvwxyz", 12) == "abcdef...xyz"


def test_names_cannot_reach_the_terminal() -> None:
    assert printable("a\x1b[2Jb\n\ud800é") == "a\\x1b[2Jb\\n\\ud800é"
    assert kernel("a\x1b[2J<b>()", 50) == "a\\x1b[2J<b>"


def test_columns_stand_in_line() -> None:
    assert columns([["1", "ab", "x"], ["100", "c", "y"]]) == ["    1  ab  x", "  100   c  y"]
    assert columns([]) == []
