"""Fake profilers in the test's own process, undone when the test ends."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_gputrace.fakes import FakeProfile, fake_torch

if TYPE_CHECKING:
    import contextlib

    from pytest_gputrace.fakes.events import Vendor
    from pytest_gputrace.model import Capture

__all__ = ["FakeProfilerFactory"]


class FakeProfilerFactory:
    """Replaces ``torch.profiler.profile`` until ``undo`` is closed."""

    def __init__(self, undo: contextlib.ExitStack) -> None:
        self._undo = undo

    def __call__(
        self,
        capture: Capture | None = None,
        *,
        vendor: Vendor = "cuda",
        seed: int = 0,
        steps: int = 2,
        values: tuple[complex, ...] = (),
        device_count: int = 8,
    ) -> type[FakeProfile]:
        """Replace it, in a torch that is imported later too, and return the class that stands in for it.

        Args:
            capture: what the first profile records; the next one records the next round, and so on.
            vendor: the kind of build that torch is made to look like.
            seed: for the made-up events.
            steps: how many steps a profile holds that was not told.
            values: numbers that JSON cannot hold, to put among the events.
            device_count: how many GPUs torch sees.
        """
        context = fake_torch(vendor, capture, seed=seed, steps=steps, values=values, device_count=device_count)
        return self._undo.enter_context(context)
