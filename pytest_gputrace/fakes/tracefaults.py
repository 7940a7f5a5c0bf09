"""Every fault that a trace file, or a folder of them, can be given, by its name."""

from __future__ import annotations

import importlib
from types import MappingProxyType
from typing import TYPE_CHECKING, get_args

from pytest_gputrace.fakes.gpufaults import SECRET
from pytest_gputrace.fakes.tracefault import ALL, Family, Place, TraceFault

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["SECRET", "Place", "TraceFault", "trace_faults"]

# Importing one puts its faults into ALL.
for _module in (
    "charfaults", "shapefaults", "endfaults", "numberfaults", "idfaults", "gpufaults", "setfaults", "mergefaults",
):  # fmt: skip
    importlib.import_module(f"pytest_gputrace.fakes.{_module}")

trace_faults: Mapping[str, TraceFault] = MappingProxyType(
    {name: fault for family in get_args(Family) for name, fault in ALL.items() if fault.family == family}
)
"""The faults by name: of texts first, of what is to be one timeline last."""
