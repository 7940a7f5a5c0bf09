"""What a merge came to as text: what is on the timeline, from which file, by which clock, and what is not."""

from __future__ import annotations

import datetime
import itertools
import math
from typing import TYPE_CHECKING

from pytest_gputrace.report.wording import columns, count, duration, printable, size

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from pytest_gputrace.timeline.outcome import MergedInput, MergeResult, WorkerClock

__all__ = ["as_text"]

_SHOWN = 16
"""Of thousands of ranks no more are listed; the file holds all of them."""
_NAMES = {"kineto": "Kineto", "proton": "Proton", "viztracer": "VizTracer", "chrome": "other"}
_FILES = ["worker", "profiler", "events", "arrows", "begins", "file"]
_CLOCKS = ["worker", "node", "offset us", "drift ppm", "residual us", "collectives"]
_BETWEEN_NODES = {
    "anchor": "what their clocks differ by, with NTP milliseconds; --align collectives measures it",
    "collectives": "the residual above; where a clock was left, what it differs by, with NTP milliseconds",
}


def as_text(result: MergeResult) -> str:
    """All of it; lists are cut where they are long."""
    lines = [_result(result), _base(result), *_inputs(result.inputs), *_arrows(result)]
    lines += _clocks(result)
    lines += _missing(result)
    lines += _cut("left out:", [f"  {printable(str(each.path))}: {printable(each.why)}" for each in result.left_out])
    lines += _cut("notes:", [f"  {printable(note)}" for note in result.notes])
    lines += _accuracy(result)
    lines += ["open it: https://ui.perfetto.dev, or chrome://tracing"]
    return "\n".join(lines)


def _result(result: MergeResult) -> str:
    timed = [each for each in result.inputs if _is_timed(each)]
    begin_ns = min((each.first_ns for each in timed), default=0)
    took = duration((max((each.last_ns for each in timed), default=0) - begin_ns) / 1000)
    files = count(len(result.inputs), "file")
    return (
        f"{printable(str(result.path))}: {files}, {count(result.events, 'event')}, {took} from the first event to the last, "
        f"{size(result.size_bytes)}"
    )


def _base(result: MergeResult) -> str:
    seconds, rest_ns = divmod(result.base_time_ns, 10**9)
    moment = datetime.datetime.fromtimestamp(0, datetime.timezone.utc)
    try:
        moment += datetime.timedelta(seconds=seconds)
    except OverflowError:  # a base may be assumed in any year
        return f"its times count from {result.base_time_ns} ns since 1970"
    when = f"{moment:%Y-%m-%d %H:%M:%S}.{rest_ns:09d} UTC"
    return f"its times count from {when} (baseTimeNanoseconds {result.base_time_ns})"


def _inputs(inputs: Sequence[MergedInput]) -> list[str]:
    if not inputs:
        return []
    begin_ns = min((each.first_ns for each in inputs if _is_timed(each)), default=0)
    rows = [_FILES, *(_input(each, begin_ns) for each in inputs[:_SHOWN])]
    return [*columns(rows), *_more(len(inputs), "file")]


def _input(each: MergedInput, begin_ns: int) -> list[str]:
    read, written = sum(each.flows_in), sum(each.flows_out)
    begins = f"+{duration((each.first_ns - begin_ns) / 1000)}" if _is_timed(each) else "-"
    untimed = f" ({each.untimed:,} without a time)" if each.untimed else ""
    return [
        printable(each.worker) or "-",
        _NAMES.get(each.format, each.format),
        f"{each.events:,}{untimed}",
        f"{read:,}" if read == written else f"{read:,} -> {written:,}",
        begins,
        printable(str(each.path)),
    ]


def _is_timed(each: MergedInput) -> bool:
    return each.events > each.untimed


def _arrows(result: MergeResult) -> Iterator[str]:
    read = sum(sum(each.flows_in) for each in result.inputs)
    written = sum(sum(each.flows_out) for each in result.inputs)
    wrong = [each for each in result.inputs if each.flows_in != each.flows_out]
    if wrong:
        yield f"arrows: {count(read, 'end')} read, {written:,} written; they differ in {count(len(wrong), 'file')}"
    elif read:
        yield f"arrows: {count(read, 'end')} read, and all of them written"
    if result.links or result.unlinked:
        lost = f"; {result.unlinked:,} lead to no scope" if result.unlinked else ""
        yield f"links from VizTracer's frames to Proton's scopes: {result.links:,}{lost}"


def _clocks(result: MergeResult) -> list[str]:
    if result.align != "collectives":
        return []
    if not result.clocks:
        return ["clocks: no file tells of collectives, so all stay as their anchors have them"]
    moved = [each for each in result.clocks if not each.why]
    left = [f"  {_who(each)}: {printable(each.why)}" for each in result.clocks if each.why]
    lines = []
    if moved:
        rows = [_CLOCKS, *map(_clock, moved[:_SHOWN])]
        lines += ["clocks, by collectives (offset added, residual before -> after):", *columns(rows)]
        lines += _more(len(moved), "worker")
    return [*lines, *_cut("clocks left as their anchors have them:", left)]


def _clock(each: WorkerClock) -> list[str]:
    residuals = f"{_us(each.residual_before_us)} -> {_us(each.residual_after_us)}"
    return [
        printable(each.worker) or "-", printable(each.node) or "-", _us(each.offset_us), f"{each.drift_ppm:+.3f}", residuals,
        f"{each.used:,}",
    ]  # fmt: skip


def _who(each: WorkerClock) -> str:
    return printable(" on ".join(word for word in (each.worker, each.node) if word)) or "-"


def _us(value: float) -> str:
    return "-" if math.isnan(value) else f"{value:,.1f}"


def _missing(result: MergeResult) -> list[str]:
    if result.expected_ranks is None:
        return []
    if not result.missing_ranks:
        return [
            f"ranks: all {result.expected_ranks:,} are there"
            if result.expected_ranks > 1
            else "ranks: 1, which is there"
        ]
    there = f"{len(result.missing_ranks):,} of {count(result.expected_ranks, 'rank')}"
    return [f"missing ranks: {_ranges(result.missing_ranks)} ({there})"]


def _ranges(ranks: Iterable[int]) -> str:
    """``0, 3-7``: thousands of ranks are missing one node at a time."""
    runs = itertools.groupby(enumerate(sorted(ranks)), lambda pair: pair[1] - pair[0])
    words = []
    for _, run in runs:
        numbers = [rank for _, rank in run]
        words.append(str(numbers[0]) if len(numbers) == 1 else f"{numbers[0]}-{numbers[-1]}")
    more = f" and {len(words) - _SHOWN:,} more ranges" if len(words) > _SHOWN else ""
    return ", ".join(words[:_SHOWN]) + more


def _accuracy(result: MergeResult) -> list[str]:
    drift = any(each.drift_ppm and not each.why for each in result.clocks)
    within = "all distances are kept, apart from the drift that was taken out" if drift else "all distances are kept"
    lines = ["accuracy:", f"  within a file: {within}"]
    if result.align == "first-event":
        return [*lines, "  between files: none, each was made to begin at one time"]
    lines.append("  between profilers on one node: microseconds, more where the clock of a GPU drifts")
    return [*lines, f"  between nodes: {_BETWEEN_NODES[result.align]}"]


def _cut(heading: str, lines: Sequence[str]) -> list[str]:
    return [heading, *lines[:_SHOWN], *_more(len(lines), "line")] if lines else []


def _more(number: int, noun: str) -> list[str]:
    more = number - _SHOWN
    return (
        [f"  and {count(more, noun)} more; all of them: gputrace_merge, at the begin of the file"] if more > 0 else []
    )
