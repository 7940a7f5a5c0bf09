"""The overview of one trace as lines for a terminal, and as data for JSON. Prints nothing, computes nothing."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from pytest_gputrace.report.wording import (
    UNKNOWN,
    columns,
    count,
    duration,
    kernel,
    percent,
    printable,
    rate,
    shorten,
    size,
)  # fmt: skip

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_gputrace.overview.figures import Communication, DeviceUse, Moves, Named, Overview, Ranking

__all__ = ["data", "lines"]

_FEW = 4
_FEWEST = 3
"""Rows of the tables that come later; JSON has them all."""
_STREAMS = 4
_DEVICES = 8
_LABEL = 10
_NARROWEST = 60
_SHORTEST_GAP_US = 0.1
_FORMATS = {
    "kineto": "Kineto trace", "proton": "Proton trace", "proton-tree": "Proton tree", "viztracer": "VizTracer report",
    "superbench": "SuperBench event list", "merged": "merged timeline", "chrome": "Chrome trace",
    "unknown": "trace of no known format",
}  # fmt: skip
_VERSIONS = {
    "cuda_runtime": "CUDA", "cuda_driver": "driver", "cupti": "CUPTI", "hip_runtime": "HIP", "hip_driver": "",
    "roctracer": "roctracer", "nccl": "NCCL", "viztracer": "VizTracer",
}  # fmt: skip


def lines(overview: Overview, *, width: int = 100) -> list[str]:
    """What a person reads first, no line longer than ``width``."""
    width = max(width, _NARROWEST)
    parts = [
        [*_warned(overview), printable(overview.path), *_head(overview), *_gpus(overview), *_gaps(overview, width)]
    ]
    if overview.gpu_events or overview.format == "proton-tree":
        parts.append(_kernels(overview.kernels, width))
    parts.append(_calls(overview, width) + _memory(overview))
    parts += [_communication(overview.communication), _host(overview, width)]
    text = [line for part in parts if part for line in ["", *part]][1:]
    return [line if len(line) <= width else shorten(line, width) for line in text]


def data(overview: Overview) -> dict[str, Any]:
    """Everything, under the names of the fields; null is what the trace does not tell."""
    return {"kind": "overview", **asdict(overview)}


def _warned(overview: Overview) -> list[str]:
    told = []
    if overview.broken:
        what = count(overview.problems, "problem") if overview.problems else "not read to its end"
        told.append(f"BROKEN: {what}; below is what could be read. See: gputrace check {printable(overview.path)}")
    if overview.format == "merged":
        told.append("MERGED: ranks and profilers are mixed below; for one of them, show the file it came from")
    return told


def _head(overview: Overview) -> list[str]:
    made_by = [
        f"{label} {overview.versions[key]}" for key, label in _VERSIONS.items() if label and key in overview.versions
    ]
    listed = [f"{group.count} x {group.name or 'no name'}" for group in overview.devices]
    rank = UNKNOWN if overview.rank is None else str(overview.rank)
    world = f" of {overview.world_size}" if overview.world_size is not None else ""
    told = [overview.backend] if overview.backend else []
    told += [f"node {overview.node}"] if overview.node else []
    told += [f"configuration {overview.configuration}"] if overview.configuration else []
    kind = _FORMATS.get(overview.format, overview.format)
    rows = [
        ("trace", f"{kind}, {count(overview.events, 'event')}, {size(overview.size_bytes)} of text"),
        ("device", "; ".join([", ".join(listed) or UNKNOWN, *([", ".join(made_by)] if made_by else [])])),
        ("rank", ", ".join([f"{rank}{world}", *told])),
        ("span", f"{duration(overview.span_us)}, begun {overview.start_utc or 'at an unknown time'}"),
        ("steps", _steps(overview)),
    ]
    if overview.gpu_events:
        rows.append(("GPU busy", _busy(overview)))
    elif overview.gpu_time_us is not None:
        rows.append(("GPU time", duration(overview.gpu_time_us)))
    elif overview.format not in ("proton-tree", "viztracer", "superbench"):
        rows.append(("GPU", "no GPU events"))
    return [_labelled(label, value) for label, value in rows]


def _labelled(label: str, value: str) -> str:
    return f"{printable(label):<{_LABEL - 1}} {printable(value)}"


def _steps(overview: Overview) -> str:
    steps = overview.steps
    if steps is None:
        return "none marked"
    first, last = steps.numbers[0], steps.numbers[-1]
    if len(steps.numbers) == 1:
        return f"1 (number {first}): {duration(steps.median_us)}"
    between = f"{duration(steps.min_us)} to {duration(steps.max_us)}"
    return f"{len(steps.numbers):,} ({first} to {last}): median {duration(steps.median_us)}, {between}"


def _busy(overview: Overview) -> str:
    on = f" on {count(len(overview.gpus), 'GPU')}" if len(overview.gpus) > 1 else ""
    return f"{percent(overview.gpu_busy_percent)}: {duration(overview.gpu_busy_us)} of {duration(overview.gpu_span_us)}{on}"


def _gpus(overview: Overview) -> list[str]:
    text = []
    for use in overview.gpus[:_DEVICES]:
        busy = f"{percent(use.busy_percent)} busy, " if len(overview.gpus) > 1 else ""
        text.append(_labelled(f"GPU {_called(use)}", f"{count(use.events, 'event')}, {busy}{_where(use)}"))
    more = len(overview.gpus) - _DEVICES + overview.gpus_left_out
    return [*text, _labelled("", f"and {count(more, 'GPU')} more")] if more > 0 else text


def _called(use: DeviceUse) -> str:
    return UNKNOWN if use.device is None else str(use.device)


def _where(use: DeviceUse) -> str:
    streams = [f"{stream.stream} ({stream.events:,})" for stream in use.streams[:_STREAMS]]
    more = len(use.streams) - len(streams)
    word = "stream" if len(use.streams) == 1 else "streams"
    return f"{use.name or 'name unknown'}, {word} {', '.join(streams)}{f' and {more} more' if more else ''}"


def _gaps(overview: Overview, width: int) -> list[str]:
    if overview.gpu_idle_us is None:
        return []
    every = [(use, gap) for use in overview.gpus for gap in use.gaps if gap.dur_us >= _SHORTEST_GAP_US]
    longest = sorted(every, key=lambda pair: -pair[1].dur_us)[:3]
    text = [_labelled("idle", duration(overview.gpu_idle_us) + ("; longest, and when:" if longest else ""))]
    room = (width - 54) // 2
    rows = []
    for use, gap in longest:
        on = [f"GPU {printable(_called(use))}"] if len(overview.gpus) > 1 else []
        between = f"after {kernel(gap.after, room)}, before {kernel(gap.before, room)}"
        rows.append([duration(gap.dur_us), f"at {duration(gap.start_us)}", *on, between])
    return text + columns(rows, indent=" " * _LABEL)


def _kernels(ranking: Ranking, width: int) -> list[str]:
    if not ranking.calls:
        return ["kernels: none"]
    took = f", {duration(ranking.total_us)} in all"
    title = f"kernels: {count(ranking.calls, 'call')} of {count(ranking.names, 'name')}{took}"
    return [title, *_table(ranking.top, width, share=True)]


def _table(top: Sequence[Named], width: int, *, share: bool) -> list[str]:
    if not top:
        return []
    rows = [["total", *(["share"] if share else []), "calls", "median", "max"]]
    for row in top:
        part = [percent(row.share_percent)] if share else []
        rows.append([duration(row.total_us), *part, f"{row.calls:,}", duration(row.median_us), duration(row.max_us)])
    room = width - len(columns([[*row, "|"] for row in rows])[0]) + 1
    short = kernel if share else shorten
    names = ["name", *(short(row.name, room) for row in top)]
    return columns([[*row, name] for row, name in zip(rows, names, strict=True)])


def _calls(overview: Overview, width: int) -> list[str]:
    launches = overview.launches
    apart = [f"{launches.without_gpu_work:,} launched nothing that is here"] if launches.without_gpu_work else []
    if launches.kernels_without_call:
        apart.append(f"{count(launches.kernels_without_call, 'kernel')} without a launch")
    text = _apis("launches", launches.ranking, width)
    if apart:
        text.append(_labelled("" if text else "launches", ", ".join(apart)))
    return text + _apis("waits", overview.synchronisations, width)


def _apis(title: str, ranking: Ranking, width: int) -> list[str]:
    if not ranking.calls:
        return []
    line = f"{title:<{_LABEL}}{ranking.calls:,} in {duration(ranking.total_us)}"
    for at, row in enumerate(ranking.top):
        more = f"{':' if not at else ','} {printable(row.name)} {row.calls:,}"
        if len(line) + len(more) > width:
            break
        line += more
    return [line]


def _memory(overview: Overview) -> list[str]:
    found = [("copies", overview.copies), ("sets", overview.sets)]
    rows = [[what if not at else "", *_moved(move)] for what, moves in found for at, move in enumerate(moves[:_FEW])]
    if not rows:
        return ["copies    none"] if overview.gpu_events else []
    return columns([[what.ljust(_LABEL - 2), *rest] for what, *rest in rows], indent="")


def _moved(move: Moves) -> list[str]:
    told = "" if move.bytes_told_by in (0, move.count) else f"; {move.bytes_told_by:,} of them tell bytes"
    name = printable(move.name.removeprefix("Memcpy ").removeprefix("Memset "))
    speed = "" if move.bytes is None else rate(move.gb_per_s)
    return [f"{move.count:,}", duration(move.total_us), size(move.bytes), speed, name + told]


def _communication(talk: Communication | None) -> list[str]:
    if talk is None:
        return []
    where = ", on the host"
    if talk.where == "gpu":
        where = f"; no other kernel ran for {duration(talk.exposed_us)} of it"
    rows = []
    for kind in talk.kinds[:_FEW]:
        among = f"among {count(kind.group_size, 'rank')}" if kind.group_size else "ranks unknown"
        of = f"{kind.dtype or 'type unknown'}, {among}" if kind.dtype or kind.group_size else "type and ranks unknown"
        what = f"{kind.name or 'name unknown'}, {of}"
        rows.append([f"{kind.count:,}", duration(kind.total_us), size(kind.in_bytes), printable(what)])
    return [f"collectives: {talk.count:,} in {duration(talk.busy_us)}{where}", *columns(rows)]


def _host(overview: Overview, width: int) -> list[str]:
    ranking = overview.host.ranking
    if not ranking.calls:
        return []
    title = f"{overview.host.kind}: {ranking.calls:,} of {count(ranking.names, 'name')}"
    top = ranking.top[:_FEWEST] if overview.gpu_events else ranking.top
    if all(row.total_us is None for row in top):
        return [f"{title}, times unknown: {', '.join(printable(row.name) for row in top)}"]
    return [f"{title}; times include what they call", *_table(top, width, share=False)]
