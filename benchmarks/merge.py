"""``gputrace merge`` on large traces, against a plain loop over ``json.load`` and ``viztracer --combine``; and how it grows.

Every measurement is a process of its own. Ours is timed from outside, start of Python and imports included; a rival only
while it works. Memory is the most that the process held. Every output is removed before the next one is written.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.measure import Measured, made, measure, middle
from benchmarks.table import median_ratio, show
from pytest_gputrace.fakes import FakeTrace

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_RANKS = (1, 2, 4, 8)
_SMALL_RANKS = 1000
# What is read, what is written, and of how many ranks.
_KINDS = ((".json", ".json", _RANKS), (".json.gz", ".json", _RANKS), (".json.gz", ".json.gz", _RANKS[-1:]))
# The CUDA trace tells what its times count from near its end.
_BASE, _TAIL = re.compile(rb'"baseTimeNanoseconds": *(\d+)'), 1000

# Each finds the output first and the inputs after it; the arguments of ours come ready.
_OURS = "from pytest_gputrace.cli import main; assert main(['merge', '--output', *given]) == 0, 'not merged'"
_LOOP = """
roots = [json.load(open(each, encoding="utf-8")) for each in given[1:]]
base_ns = min(root["baseTimeNanoseconds"] for root in roots)
events = []
for root in roots:
    shift_us = (root["baseTimeNanoseconds"] - base_ns) / 1000
    for event in root["traceEvents"]:
        if "ts" in event:
            event["ts"] += shift_us
    events += root["traceEvents"]
with open(path, "w", encoding="utf-8") as file:
    json.dump({"baseTimeNanoseconds": base_ns, "traceEvents": events}, file)
"""
_VIZTRACER = (
    "import orjson; from viztracer.main import main; sys.argv = ['viztracer', '--combine', *given[1:], '-o', path]",
    "main()",
)


def main(count: int, size_mb: int = 100) -> None:
    """Print the time and memory of one pair, of more and more ranks, and of a thousand small ones."""
    names = made(size_mb)
    with tempfile.TemporaryDirectory(prefix="gputrace-bench-") as folder:
        if len(names) < 2:
            print("\nmerge: left out, needs traces: a folder of real ones, named by GPUTRACE_TRACES", file=sys.stderr)
        else:
            _one_pair(names, Path(folder), count)
            _more_ranks(names[1], Path(folder), count)
        _many_small_ranks(Path(folder), count)


def _one_pair(names: Sequence[str], folder: Path, count: int) -> None:
    """A ROCm and a CUDA trace to one file, by all."""
    out = folder / "merged.json"
    expected = sum(map(os.path.getsize, names))
    # The ROCm trace says itself that it is rank 0, of a larger world.
    mine = [*_by_rank(names), "--expect-ranks", "2"]
    rivals = {"json loop": ("import json", _LOOP)}
    if importlib.util.find_spec("viztracer"):
        rivals["viztracer --combine, which aligns nothing"] = _VIZTRACER
    else:
        print("\nmerge: viztracer left out, since it is not installed", file=sys.stderr)
    measured: dict[str, list[Measured]] = {}
    for _ in range(count + 1):
        for name, environ in (("gputrace merge", {}), ("gputrace merge, GPUTRACE_PURE=1", {"GPUTRACE_PURE": "1"})):
            measured.setdefault(name, []).append(_merge(out, mine, environ))
            _is_whole(out, name, expected)
        for name, (prepare, work) in rivals.items():
            measured.setdefault(name, []).append(measure(sys.executable, prepare, work, out, *names))
            _is_whole(out, name, expected)
    _compared(f"{' and '.join(_about(name) for name in names)}, to one file", measured)


def _more_ranks(name: str, folder: Path, count: int) -> None:
    """The same trace as that of 1, 2, 4 and 8 ranks, one and two at a time."""
    plain = _ranks_of(name, folder)
    packed = [_packed(path) for path in plain]
    rows = []
    for read, written, all_ranks in _KINDS:
        out = folder / f"merged{written}"
        for ranks in all_ranks:
            inputs = _by_rank((packed if read.endswith(".gz") else plain)[:ranks])
            # None is uncounted: the pair has warmed what there is, and the files lie in memory, just written.
            measured = [[_once(out, [*inputs, "--jobs", str(jobs)]) for jobs in (2, 1)] for _ in range(count)]
            two, one = (middle([each[at] for each in measured]) for at in (0, 1))
            ratio = median_ratio([(each[0].seconds, each[1].seconds) for each in measured])
            speed = f"{ranks * os.path.getsize(name) / 1e6 / one.seconds:.0f} MB/s"
            rows.append([f"{read} to {written}", str(ranks), *_shown(one), speed, *_shown(two), f"{ratio:.2f}x"])
    show(
        f"Ranks of {os.path.getsize(name) / 1e6:.0f} MB each, {os.path.getsize(packed[0]) / 1e6:.1f} MB compressed",
        ["", "ranks", "time", "peak memory", "unpacked input", "--jobs 2", "peak memory", "faster (median of pairs)"],
        rows,
    )


def _many_small_ranks(folder: Path, count: int) -> None:
    """A thousand small files of one job."""
    traces = folder / "traces"
    traces.mkdir()
    for rank in range(_SMALL_RANKS):
        FakeTrace(rank=rank, world_size=_SMALL_RANKS).write(traces / f"trace-rank{rank}.json")
    paths = sorted(traces.iterdir())
    out = folder / "merged.json"
    measured: dict[str, list[Measured]] = {}
    for _ in range(count + 1):
        for jobs in (1, 2):
            arguments = [str(traces), "--expect-ranks", str(_SMALL_RANKS), "--jobs", str(jobs)]
            measured.setdefault(f"gputrace merge --jobs {jobs}", []).append(_once(out, arguments))
        measured.setdefault("json loop", []).append(measure(sys.executable, "import json", _LOOP, out, *paths))
        out.unlink()
    total = sum(path.stat().st_size for path in paths)
    _compared(f"{_SMALL_RANKS:,} ranks of one job, a small file each, {total / 1e6:.1f} MB in all", measured)


def _is_whole(out: Path, name: str, expected: int) -> None:
    """Somebody who wrote less than he read was not fast; the file is removed."""
    written = out.stat().st_size
    out.unlink()
    if not 0.7 * expected < written < 1.5 * expected:
        raise RuntimeError(f"{name} wrote {written:,} bytes of about {expected:,}")


def _ranks_of(name: str, folder: Path) -> list[str]:
    """The trace as each rank's: a millisecond after the one before, since copies of one file are no ranks and refused."""
    paths = [str(folder / f"rank{rank}.json") for rank in range(max(_RANKS))]
    for rank, path in enumerate(paths):
        shutil.copyfile(name, path)
        with open(path, "r+b") as file:
            begin = file.seek(-_TAIL, os.SEEK_END)
            (found,) = _BASE.finditer(file.read())
            file.seek(begin + found.start(1))
            file.write(b"%d" % (int(found[1]) + rank * 1_000_000))
    return paths


def _packed(path: str) -> str:
    """The same compressed, by what everybody packs traces with; in a process of its own, too."""
    code = (
        "import gzip, shutil, sys; shutil.copyfileobj(open(sys.argv[1], 'rb'), gzip.open(sys.argv[1] + '.gz', 'wb', 6))"
    )
    subprocess.run([sys.executable, "-c", code, path], check=True)
    return f"{path}.gz"


def _by_rank(paths: Sequence[str]) -> list[str]:
    return [argument for rank, path in enumerate(paths) for argument in ("--rank", str(rank), path)]


def _once(out: Path, arguments: Sequence[str]) -> Measured:
    try:
        return _merge(out, arguments)
    finally:
        out.unlink(missing_ok=True)


def _merge(out: Path, arguments: Sequence[str], environ: Mapping[str, str] | None = None) -> Measured:
    return measure(sys.executable, "pass", _OURS, out, *arguments, outside=True, environ=environ)


def _compared(title: str, measured: Mapping[str, Sequence[Measured]]) -> None:
    """Print one row for each; the first is ours, and the first of each is not counted."""
    ours = [each.seconds for each in next(iter(measured.values()))[1:]]
    rows: list[list[str]] = []
    for name, (_, *counted) in measured.items():
        ratio = median_ratio(list(zip(ours, (each.seconds for each in counted), strict=True)))
        rows.append([name, *_shown(middle(counted)), f"{ratio:.1f}x" if rows else ""])
    show(title, ["", "time", "peak memory", "slower than ours (median of pairs)"], rows)


def _about(name: str) -> str:
    return f"{os.path.basename(name)}, {os.path.getsize(name) / 1e6:.0f} MB"


def _shown(measured: Measured) -> list[str]:
    return [f"{measured.seconds:.2f} s", f"{measured.peak_bytes / 1e6:.0f} MB"]
