"""Which format a trace has, told from its content: the keys around its events, the first event, the words it uses.

A name is never trusted.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Literal

from pytest_gputrace.traces.skim import first_keys

if TYPE_CHECKING:
    from pytest_gputrace.traces.columns import Columns

__all__ = ["EXPECTED", "Format", "format_of", "of_first_item", "of_no_trace"]

Format = Literal["kineto", "proton", "proton-tree", "viztracer", "superbench", "merged", "chrome", "unknown"]

_MERGED_KEY = "gputrace_merge"
"""The mark at the root of a timeline that `gputrace merge` wrote, whatever words its events have."""

_KINETO_KEYS = frozenset({"schemaVersion", "deviceProperties", "distributedInfo", "trace_id", "traceName"})
_KINETO_CATEGORIES = frozenset({
    "cpu_op", "user_annotation", "gpu_user_annotation", "gpu_memcpy", "gpu_memset", "kernel",
    "external_correlation", "cuda_runtime", "cuda_driver", "cpu_instant_event", "python_function", "overhead",
    "cuda_sync", "cuda_event", "cuda_profiler_range", "collective_comm", "Trace", "fwdbwd", "ac2g", "mtia_runtime",
    "mtia_ccp_events", "mtia_insight", "mtia_counters", "glow_runtime", "hpu_op", "xpu_runtime", "xpu_driver",
    "xpu_sync", "xpu_scope_profiler", "privateuse1_runtime", "privateuse1_driver", "hardware_counters",
    # Those of 2021 and 2022.
    "Kernel", "Memcpy", "Memset", "Runtime", "async_cpu_to_gpu",
})  # fmt: skip
_VIZTRACER_CATEGORIES = frozenset({"FEE", "fee"})
_PROTON_CATEGORIES = frozenset({"scope", "metric"})
_PROTON_FLOW = "launch->kernel"
_PROTON_CORE = re.compile(r".* Core\d+ CTA\d+", re.DOTALL)
_TREE_KEYS = frozenset({b"frame", b"children", b"metrics"})
_SUPERBENCH_KEYS = frozenset({b"cpu_time", b"gpu_time", b"start_time"})

# What is told by its first bytes, and what by its first keys.
_BINARIES = {
    b"SQLite format 3": "an SQLite database, as Nsight Systems and rocprof write",
    b"PK\x03\x04": "a zip archive",
    b"\x28\xb5\x2f\xfd": "text compressed by zstd",
    b"BZh": "text compressed by bzip2",
    b"\xfd7zXZ": "text compressed by xz",
    b"\x80\x02": "a Python pickle, as memory snapshots of torch are",
    b"\x80\x03": "a Python pickle, as memory snapshots of torch are",
    b"\x80\x04": "a Python pickle, as memory snapshots of torch are",
    b"\x80\x05": "a Python pickle, as memory snapshots of torch are",
    b"<": "a web page",
    b"version https://git-lfs": "a Git LFS pointer; its content was not fetched",
}
_DOCUMENTS: dict[frozenset[bytes], str] = {
    frozenset({b"rocprofiler-sdk-tool"}): "the JSON of rocprofiler-sdk, which is no Chrome trace",
    frozenset({b"segments", b"device_traces"}): "a memory snapshot of torch",
    frozenset({b"schema", b"nodes"}): "an execution trace of torch (Chakra), which holds no times",
    frozenset({b"$schema", b"runs"}): "a report of findings (SARIF)",
}
# Enough for the first keys of a document; those of a trace may lie around a list of any length.
_BEGINNING = 4096
EXPECTED = "expected a Chrome trace (Kineto, Proton, VizTracer), a SuperBench event list or a Proton tree"


def of_first_item(text: bytes) -> Format | None:
    """The format of a list that begins with ``text``, its opening bracket left out; None where its events decide."""
    start = text.lstrip(b" \t\r\n")
    if not start.startswith(b"{"):
        return None
    keys, whole = first_keys(start)
    # Proton writes the children of a node before its frame.
    if b"frame" in keys or (keys and not whole and keys <= _TREE_KEYS):
        return "proton-tree"
    return "superbench" if b"ph" not in keys and keys & _SUPERBENCH_KEYS else None


def of_no_trace(text: bytes) -> str:
    """In words, what a file that begins with ``text`` is, where it is known and no trace; empty otherwise."""
    start = text.lstrip(b" \t\r\n")
    for magic, what in _BINARIES.items():
        if text.startswith(magic) or (magic == b"<" and start.startswith(magic)):
            return f"{what}; {EXPECTED}"
    if start.startswith(b"{"):
        beginning = start[:_BEGINNING]
        for wanted, what in _DOCUMENTS.items():
            if all(word in beginning for word in wanted):  # seldom, so that the keys are seldom looked for
                keys, _ = first_keys(beginning)
                if wanted <= keys and b"traceEvents" not in keys:
                    return f"{what}; {EXPECTED}"
    return ""


def format_of(metadata: dict[str, Any], columns: Columns) -> Format:
    """The format of a Chrome trace, from what stands around its events and from their words."""
    if _MERGED_KEY in metadata:
        return "merged"
    categories = set(columns.categories)
    if "viztracer_metadata" in metadata:
        return "viztracer"
    if _KINETO_KEYS & metadata.keys():
        return "kineto"
    if metadata.get("displayTimeUnit") == "us" or _is_proton(categories, columns):
        return "proton"
    if categories & _VIZTRACER_CATEGORIES:
        return "viztracer"
    return "kineto" if categories & _KINETO_CATEGORIES else "chrome"


def _is_proton(categories: set[str], columns: Columns) -> bool:
    if categories & _PROTON_CATEGORIES or ("flow" in categories and _PROTON_FLOW in columns.names):
        return True
    return any(map(_PROTON_CORE.fullmatch, columns.ids))
