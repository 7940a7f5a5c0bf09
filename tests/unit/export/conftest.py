"""What the tests of the raw path share."""

from __future__ import annotations

from typing import Any

import pytest

from pytest_gputrace.export.proven import PROVEN, fingerprint


@pytest.fixture(scope="session")
def proven_torch() -> Any:
    """torch, where the raw path is taken on it."""
    torch = pytest.importorskip("torch", reason="needs torch: what is compared is its own reading of a profile")
    release = str(torch.__version__).partition("+")[0]
    if release not in PROVEN or PROVEN[release].code != fingerprint():
        pytest.skip(
            f"needs torch: a release that is in PROVEN, with this code. Add `{release!r}: Proof({fingerprint()!r}, ...)` to it, and "
            "these tests say whether it may stay; for torch 2.4, which makes all events when it stops, there is no gain"
        )
    return torch
