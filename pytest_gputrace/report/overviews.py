"""Several traces as lines for a terminal, one each, and as data for JSON. Prints nothing, computes nothing."""

from __future__ import annotations

from dataclasses import asdict
from os.path import commonpath, dirname, isabs, relpath
from typing import TYPE_CHECKING, Any

from pytest_gputrace.report.wording import UNKNOWN, columns, count, duration, percent, printable, shorten

if TYPE_CHECKING:
    from pytest_gputrace.overview.many import Glance, Many

__all__ = ["data", "lines"]

_HEADER = ["rank", "steps", "kernels", "GPU busy", "collectives", "span", "file"]
_FIGURES = {
    "step_median_us": "median step", "kernels": "kernels", "gpu_busy_us": "GPU busy time",
    "communication_us": "time in collectives", "span_us": "span",
}  # fmt: skip
_NARROWEST_PATH = 30
"""A file is known by its name: a line may be too long for its sake."""
_UNREAD = 8
_DEVICE_WIDTH = 20


def lines(many: Many, *, width: int = 100) -> list[str]:
    """A line for each file, by rank; then all of them together and those that stand out."""
    if not many.files:
        return ["no traces"]
    base = _base(many)
    read = [file for file in many.files if file.error is None]
    devices = {file.device for file in read}
    rows = [_HEADER, *(_row(file, base) for file in read)]
    if len(devices) > 1:
        names = ["device", *(shorten(file.device or UNKNOWN, _DEVICE_WIDTH) for file in read)]
        each = max(map(len, names))
        rows = [[*row[:-1], name.ljust(each), row[-1]] for row, name in zip(rows, names, strict=True)]
    room = max(width - len(columns([[*row[:-1], "|"] for row in rows], indent="")[0]) + 1, _NARROWEST_PATH)
    table = columns([[*row[:-1], shorten(row[-1], room)] for row in rows], indent="")
    one = printable(devices.pop() or UNKNOWN) if len(devices) == 1 else ""
    device = [f"device    {one}"] if one else []
    return [*table, "", *device, *_totals(many), *_broken(many), *_apart(many)]


def data(many: Many) -> dict[str, Any]:
    """Everything, under the names of the fields; null is what a trace does not tell."""
    return {"kind": "overviews", **asdict(many)}


def _base(many: Many) -> str:
    """The folder that all files are in, empty where there is none, or one file."""
    folders = [dirname(file.path) for file in many.files]
    if len(folders) == 1 or len({isabs(folder) for folder in folders}) > 1:
        return ""
    return commonpath(folders)


def _row(file: Glance, base: str) -> list[str]:
    path = relpath(file.path, base) if base else file.path
    no_gpu = not file.kernels and file.gpu_busy_us is None
    return [
        UNKNOWN if file.rank is None else str(file.rank),
        "none" if file.steps is None else f"{file.steps:,} x {duration(file.step_median_us)}",
        f"{file.kernels or 0:,}",
        "none" if no_gpu else percent(file.gpu_busy_percent),
        "none" if file.communication_us is None else duration(file.communication_us),
        duration(file.span_us),
        f"{'BROKEN ' if file.broken else ''}{path}",
    ]


def _totals(many: Many) -> list[str]:
    world = f" of {' or '.join(map(str, many.world_sizes))}" if many.world_sizes else ""
    ranks = (
        f"{many.ranks:,}{world} {'rank' if many.ranks == 1 and not world else 'ranks'}"
        if many.ranks
        else "ranks unknown"
    )
    busy = ""
    if many.gpu_busy_us is not None:
        busy = f", GPU busy {duration(many.gpu_busy_us)} in all (median {percent(many.gpu_busy_median_percent)})"
    counted = f"{count(many.events, 'event')}, {count(many.kernels, 'kernel')}"
    return [f"total     {count(len(many.files), 'file')}, {ranks}, {counted}{busy}"]


def _broken(many: Many) -> list[str]:
    unread = [printable(f"unread    {file.path}: {file.error}") for file in many.files if file.error is not None]
    more = len(unread) - _UNREAD
    unread[_UNREAD:] = [f"unread    {count(more, 'file')} more"] if more > 0 else []
    return [*unread, f"broken    {count(many.broken, 'file')}; see: gputrace check"] if many.broken else unread


def _apart(many: Many) -> list[str]:
    text = []
    slow = many.slowest
    if slow is not None:
        figure = _FIGURES[slow.figure]
        text.append(
            f"slowest   {_who(slow.path, slow.rank)}: {figure} {duration(slow.value_us)};"
            f" the median of all ranks is {duration(slow.median_us)}"
        )
    for odd in many.odd:
        value, middle = _value(odd.figure, odd.value), _value(odd.figure, odd.median)
        text.append(
            f"odd       {_who(odd.path, odd.rank)}: {_FIGURES[odd.figure]} {value}; the median of all ranks is {middle}"
        )
    return text


def _who(path: str, rank: int | None) -> str:
    return printable(path) if rank is None else f"rank {rank}"


def _value(figure: str, value: float) -> str:
    return f"{value:,.0f}" if figure == "kernels" else duration(value)
