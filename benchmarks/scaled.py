"""Real traces made larger: their events again and again, with later times and ids of their own.

Each copy of the events is the real one shifted: what was launched before it ran still is, ids meet within a copy and never
across copies, and steps count on. Files are kept in the system's temporary folder. ``python -m benchmarks.scaled MB`` makes
them and prints where they are.
"""

from __future__ import annotations

import gzip
import json
import math
import os
import re
import sys
import tempfile
from pathlib import Path
from typing import Any

__all__ = ["REAL", "scaled"]

REAL = ("rocm-mi300x-resnet-8gpu", "cuda-h100-bert-small")
_TRACES = Path(os.environ.get("GPUTRACE_TRACES", Path(__file__).parents[2] / "shared" / "traces"))
# Arguments that are ids: no two copies may share one.
_IDS = ("correlation", "External id", "Ev Idx", "Python id", "Python parent id", "Python module id")
_STEP = re.compile(r"(ProfilerStep#)(\d+)")
# A number that differs from copy to copy stands in the text as one of these, until it is written.
_SLOT = re.compile(r'"\\u0000([tis])(\d+)(\.\d+)?"|\\u0000s(\d+);')


def scaled(name: str, size_mb: int) -> Path:
    """A trace of about ``size_mb`` MB made from the real trace ``name``; made once, then found again.

    Raises:
        FileNotFoundError: the real trace is not there.
    """
    source = _TRACES / f"{name}.json.gz"
    folder = Path(tempfile.gettempdir()) / "gputrace-scaled"
    path = folder / f"{name}-{size_mb}.json"
    if not path.exists():
        root = json.loads(gzip.decompress(source.read_bytes()))
        folder.mkdir(exist_ok=True)
        part = path.with_suffix(f".{os.getpid()}")
        _write(root, part, size_mb * 10**6)
        part.replace(path)
    return path


def _write(root: dict[str, Any], path: Path, size: int) -> None:
    events = root["traceEvents"]
    once = [event for event in events if event["ph"] not in "XsfiBE" or event.get("cat") in (None, "Trace")]
    template, slots = _template([event for event in events if event not in once])
    shifts = _shifts(events)
    before, after = json.dumps({**root, "traceEvents": ["\0"]}, separators=(",", ": ")).split('"\\u0000"')
    with path.open("w", encoding="utf-8") as file:
        written = file.write(before + ",".join(map(_text, once)))
        copy = 0
        while written < size:
            numbers = tuple(number + copy * shifts[kind] for kind, number in slots)
            written += file.write("," + template % numbers)
            copy += 1
        file.write(after)


def _template(events: list[dict[str, Any]]) -> tuple[str, list[tuple[str, int]]]:
    """The text of the events with ``%d`` for each number that is shifted, and those numbers with their kind."""
    text = ",".join(_text(_marked(event)) for event in events).replace("%", "%%")
    slots = [(match[1] or "s", int(match[2] or match[4])) for match in _SLOT.finditer(text)]
    return _SLOT.sub(lambda match: "%d" + (match[3] or ""), text), slots


def _marked(event: dict[str, Any]) -> dict[str, Any]:
    """The event with a mark for each number that is shifted: a time, an id, a step."""
    marked = {**event, "name": _STEP.sub("\\1\0s\\2;", event["name"])}
    if "ts" in event:  # whole microseconds are added, what stands behind the point stays
        marked["ts"] = f"\0t{event['ts']}"
    if "id" in event:
        marked["id"] = f"\0i{event['id']}"
    if "args" in event:
        ids = {key: f"\0i{value}" for key, value in event["args"].items() if key in _IDS and value is not None}
        marked["args"] = {**event["args"], **ids}
    return marked


def _shifts(events: list[dict[str, Any]]) -> dict[str, int]:
    """What each copy adds to times, ids and steps, so that none meets one of the copy before."""
    timed = [event for event in events if event["ph"] == "X"]
    span = max(event["ts"] + event["dur"] for event in timed) - min(event["ts"] for event in timed)
    ids = [event["id"] for event in events if "id" in event]
    ids += [value for event in events for key, value in event.get("args", {}).items() if key in _IDS and value]
    steps = {int(match[2]) for event in events if (match := _STEP.search(event["name"]))}
    return {"t": math.ceil(span) + 1000, "i": max(ids) + 1, "s": max(steps, default=0) - min(steps, default=0) + 1}


def _text(event: dict[str, Any]) -> str:
    return json.dumps(event, separators=(",", ": "))


if __name__ == "__main__":
    for wanted in REAL:
        if (_TRACES / f"{wanted}.json.gz").exists():
            print(scaled(wanted, int(sys.argv[1])))
