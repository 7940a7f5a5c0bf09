"""What a scheduler of the fake engine does in a step: a little Python under the names that engines use.

The functions are for a profiler of Python to see; nothing is computed that anybody needs.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

__all__ = ["DECODE", "PREFILL", "Scope", "decode_batch", "prefill_batch"]

PREFILL, DECODE = "PREFILL", "DECODE"
_LAYERS = 3


class Scope(Protocol):
    """Names what is done in a block, as Proton's scopes do."""

    def __call__(self, name: str, /) -> AbstractContextManager[object]:
        """The block."""


def prefill_batch(scope: Scope, device_s: float) -> int:
    """Read a prompt: one forward pass over many tokens."""
    with scope("prefill_batch"):
        return sample(forward(scope, list(range(32)), device_s))


def decode_batch(scope: Scope, device_s: float) -> int:
    """Make one token more."""
    with scope("decode_batch"):
        return sample(forward(scope, [1], device_s))


def forward(scope: Scope, tokens: list[int], device_s: float) -> list[int]:
    """Go through the layers, and wait for the device."""
    with scope("forward"):
        for number in range(_LAYERS):
            tokens = layer(tokens, number)
        time.sleep(device_s)
    return tokens


def layer(tokens: list[int], number: int) -> list[int]:
    """One layer."""
    return [(token * 31 + number) % 997 for token in tokens]


def sample(logits: list[int]) -> int:
    """Choose the next token."""
    return max(logits)
