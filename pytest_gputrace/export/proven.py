"""Which profiles the raw path may read: those of exactly the torch it was proven equal to ``events()`` on.

The raw path stands in for Python code of torch's own, so a version counts by the digest of that code too: a vendor's
build with other code under the same number is not proven. Everything else, subclasses, mocks and fakes included, is
read by ``events()``.
"""

from __future__ import annotations

import functools
import hashlib
import logging
import sys
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any, NamedTuple

from pytest_gputrace.export.kineto import Dialect, Symbols

__all__ = ["PROVEN", "Proof", "RawProfile", "fingerprint", "raw_profile"]

_LOG = logging.getLogger("pytest_gputrace")

_PROFILER, _AUTOGRAD, _UTIL = "torch.profiler.profiler", "torch.autograd.profiler", "torch.autograd.profiler_util"

# What the raw path stands in for: where torch looks it up, the functions and properties there, and the module that all
# of it must come from.
_STANDS_IN_FOR: list[tuple[str, str, list[str], str]] = [
    (_PROFILER, "profile", ["events"], _PROFILER),
    (_AUTOGRAD, "profile", ["function_events", "_ensure_function_events", "_parse_kineto_results"], _AUTOGRAD),
    (_AUTOGRAD, "EventList", ["__init__", "_build_tree", "_populate_cpu_children", "_remove_dup_nodes"], _UTIL),
    (_AUTOGRAD, "FunctionEvent", ["__init__", "append_kernel", "append_cpu_child", "set_cpu_parent"], _UTIL),
    (_AUTOGRAD, "FunctionEvent", ["cpu_time", "cpu_time_total", "device_time", "device_time_total"], _UTIL),
    (_AUTOGRAD, "MemRecordsAcc", ["__init__", "in_interval"], _UTIL),
    (_AUTOGRAD, "_filter_name", [], _UTIL),
    (_AUTOGRAD, "_rewrite_name", [], _UTIL),
    (_UTIL, "Interval", ["__init__", "elapsed_us"], _UTIL),
    (_UTIL, "StringTable", ["__missing__"], _UTIL),
]

_METHODS = frozenset(name for _, _, names, _ in _STANDS_IN_FOR for name in names)


class Proof(NamedTuple):
    """A torch on which the tests of the raw path passed: `fingerprint` of its code, and how it reads."""

    code: str
    dialect: Dialect


_FROM_2_5 = Dialect(memory_in_us=True, hides_events=False, overhead_apart=False)
_FROM_2_9 = Dialect(memory_in_us=True, hides_events=True, overhead_apart=False)
_FROM_2_11 = Dialect(memory_in_us=False, hides_events=True, overhead_apart=False)
_FROM_2_14 = Dialect(memory_in_us=False, hides_events=True, overhead_apart=True)

PROVEN: dict[str, Proof] = {
    "2.5.0": Proof("0a6302d8caeb8e7c", _FROM_2_5),
    "2.5.1": Proof("0a6302d8caeb8e7c", _FROM_2_5),
    "2.6.0": Proof("c487ea2f4ae0e5cc", _FROM_2_5),
    "2.7.0": Proof("4a91eb2c68d10f4a", _FROM_2_5),
    "2.7.1": Proof("4a91eb2c68d10f4a", _FROM_2_5),
    "2.8.0": Proof("3b500af362d91fff", _FROM_2_5),
    "2.9.0": Proof("667dae4cbad7fa6f", _FROM_2_9),
    "2.9.1": Proof("667dae4cbad7fa6f", _FROM_2_9),
    "2.10.0": Proof("65594368c23e2374", _FROM_2_9),
    "2.11.0": Proof("cb680c6278c6bd29", _FROM_2_11),
    "2.12.0": Proof("9943670d8220c746", _FROM_2_11),
    "2.12.1": Proof("9943670d8220c746", _FROM_2_11),
    "2.13.0": Proof("f7a7da4351c8a06c", _FROM_2_11),
    "2.14.0": Proof("7cc9f569a959812d", _FROM_2_14),
    "2.14.1": Proof("7cc9f569a959812d", _FROM_2_14),
}
"""By release. torch 2.4 is not here because it makes all events when it stops: nothing is left to save."""


class RawProfile(NamedTuple):
    """What the raw path needs to read a profile."""

    results: Any
    dialect: Dialect
    symbols: Symbols
    gpu: bool


def raw_profile(profile: Any) -> RawProfile | None:
    """The raw results of ``profile`` where they may be read in place of its ``events()``, else None."""
    profiler = _module(_PROFILER)
    if profiler is None or type(profile) is not getattr(profiler, "profile", None):
        return None
    torch: Any = _module("torch")
    proof = None if torch is None else _proof(_release(torch.__version__))
    if proof is None or not all(_is_torchs_own(*row) for row in _STANDS_IN_FOR):
        return None
    inner = profile.profiler
    plain = (
        type(inner) is torch.autograd.profiler.profile
        and _METHODS.isdisjoint(vars(profile))
        and _METHODS.isdisjoint(vars(inner))
        and type(inner.kineto_results) is torch._C._autograd._ProfilerResult
        and inner.profiler_kind == torch.autograd.ProfilerState.KINETO
        and inner.use_cpu
        and inner.use_device in (None, "cuda")
        # Made already: they cost nothing more, and whoever made them may have changed them.
        and inner._function_events is None
        and getattr(inner, "post_processing_timeout_s", None) is None
        and not getattr(inner.experimental_config, "trace_only", False)
    )
    if not plain:
        return None
    devices = torch.autograd.DeviceType
    return RawProfile(
        results=inner.kineto_results,
        dialect=proof.dialect,
        symbols=Symbols(cpu=devices.CPU, cuda=devices.CUDA, demangle=torch._C._demangle),
        gpu=inner.use_device is not None,
    )


def fingerprint() -> str:
    """The digest of the code of the torch that is loaded, as far as the raw path stands in for it.

    Raises:
        OSError: the source files of torch are not there.
    """
    digest = hashlib.sha256()
    for name in (_PROFILER, _AUTOGRAD, _UTIL):
        digest.update(Path(str(sys.modules[name].__file__)).read_bytes())
    return digest.hexdigest()[:16]


@functools.cache
def _proof(release: str) -> Proof | None:
    """The proof for the torch that is loaded; a lack of it is said once."""
    proof = PROVEN.get(release)
    why = "" if proof else "this release was not tested"
    if proof is not None:
        try:
            if fingerprint() != proof.code:
                why = "its profiler's code is not that of the release"
        except (OSError, AttributeError, KeyError) as error:
            why = f"its profiler's code cannot be read: {error!r}"
    if not why:
        return proof
    _LOG.debug(
        "torch %s: not proven that its raw profile holds the same records as events() (%s); exports read events(), "
        "which takes longer",
        release,
        why,
    )
    return None


def _release(version: str) -> str:
    """The version without what names the build: ``2.13.0`` of ``2.13.0+rocm7.0``."""
    return str(version).partition("+")[0]


def _module(name: str) -> Any:
    module = sys.modules.get(name)
    return module if isinstance(module, ModuleType) else None


def _is_torchs_own(looked_up_in: str, name: str, members: list[str], home: str) -> bool:
    """Whether a function or a class with its members is that of torch's source: not replaced, patched or wrapped."""
    namespace = vars(_module(home))
    found: Any = getattr(_module(looked_up_in), name, None)
    if getattr(found, "__module__", None) != home or getattr(found, "__qualname__", None) != name:
        return False
    for member in [getattr(found, member, None) for member in members] or [found]:
        function = member.fget if isinstance(member, property) else member
        if type(function) is not FunctionType or function.__globals__ is not namespace:
            return False
    return True
