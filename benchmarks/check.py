"""``gputrace check`` on large traces, against ``json.load`` of the same file and HolisticTraceAnalysis.

Every measurement is a process of its own. Ours is timed from outside, start of Python and imports included; a rival only
while it reads. Memory is the most that the process held. HolisticTraceAnalysis has an interpreter of its own, named by
GPUTRACE_HTA_PYTHON; it is left out where that is not set.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.measure import made, measure, middle
from benchmarks.table import median_ratio, show
from pytest_gputrace.fakes import FakeTrace

if TYPE_CHECKING:
    from benchmarks.measure import Measured

_RANKS = 1000

_OURS = "from pytest_gputrace.cli import main; assert main(['check', path]) == 0, 'not clean'"
_RIVALS = {
    "json.load": ("", "import json", "json.load(open(path, encoding='utf-8'))"),
    "json.load, gc off": ("", "import gc, json; gc.disable()", "json.load(open(path, encoding='utf-8'))"),
    "HTA parser": (
        "GPUTRACE_HTA_PYTHON",
        "from hta.common.trace_parser import parse_trace_dataframe; from hta.configs.parser_config import ParserConfig",
        "parse_trace_dataframe(path, ParserConfig.get_default_cfg())",
    ),
    "HTA full load": (
        "GPUTRACE_HTA_PYTHON",
        "from hta.trace_analysis import TraceAnalysis",
        "TraceAnalysis(trace_files={0: path})",
    ),
}


def main(count: int, size_mb: int = 100) -> None:
    """Print, for a real ROCm and a real CUDA trace of about this size, the time and memory of all."""
    names = made(size_mb)
    if not names:
        print("\ncheck: left out, needs traces: a folder of real ones, named by GPUTRACE_TRACES", file=sys.stderr)
    for name in names:
        _compare(name, count)
    if len(names) > 1:
        with tempfile.TemporaryDirectory() as folder:
            _at_once(names, Path(folder), count)
    with tempfile.TemporaryDirectory() as folder:
        _many_ranks(Path(folder), count)


def _at_once(names: list[str], folder: Path, count: int) -> None:
    """Several files one after the other, and two at a time."""
    paths = []
    for name in names:
        for copy in ("a", "b"):  # a file under several names is read as often
            paths.append(str(folder / f"{copy}-{os.path.basename(name)}"))
            os.symlink(name, paths[-1])
    pairs = []
    for _ in range(count + 1):
        both = [_seconds([*paths, "--jobs", str(jobs)]) for jobs in (2, 1)]
        pairs.append((both[0], both[1]))
    two, one = (statistics.median(pair[at] for pair in pairs[1:]) for at in (0, 1))
    show(
        f"{len(paths)} files of {os.path.getsize(paths[0]) / 1e6:.0f} MB: one and two at a time",
        ["", "time", "slower (median of pairs)"],
        [["--jobs 2", f"{two:.2f} s", ""], ["--jobs 1", f"{one:.2f} s", f"{median_ratio(pairs[1:]):.2f}x"]],
    )


def _many_ranks(folder: Path, count: int) -> None:
    """A thousand small files of one job, with the rules about sets."""
    for rank in range(_RANKS):
        FakeTrace(rank=rank, world_size=_RANKS).write(folder / f"trace-rank{rank}.json")
    code = "for name in os.listdir(path): json.load(open(os.path.join(path, name), encoding='utf-8'))"
    pairs = []
    for _ in range(count + 1):
        ours = _seconds([str(folder), "--expect-ranks", str(_RANKS)])
        pairs.append((ours, measure(sys.executable, "import json", code, folder).seconds))
    ours, rival = (statistics.median(pair[at] for pair in pairs[1:]) for at in (0, 1))
    show(
        f"{_RANKS:,} ranks of one job, a small file each",
        ["", "time", "slower than ours (median of pairs)"],
        [
            ["gputrace check", f"{ours:.2f} s", ""],
            ["json.load of each", f"{rival:.2f} s", f"{median_ratio(pairs[1:]):.1f}x"],
        ],
    )


def _seconds(arguments: list[str]) -> float:
    start = time.perf_counter()
    command = [sys.executable, "-m", "pytest_gputrace", "check", *arguments]
    subprocess.run(command, stdout=subprocess.DEVNULL, timeout=1800, check=True)
    return time.perf_counter() - start


def _compare(path: str, count: int) -> None:
    size = os.path.getsize(path)
    ours: list[Measured] = []
    rows = []
    for name, (variable, prepare, work) in _RIVALS.items():
        python = os.environ.get(variable, "") if variable else sys.executable
        if not python:
            print(f"\ncheck: {name} left out, since {variable} names no interpreter that has it", file=sys.stderr)
            continue
        measured = []
        for _ in range(count + 1):  # one uncounted pair
            mine = measure(sys.executable, "pass", _OURS, path, outside=True)
            measured.append((mine, measure(python, prepare, work, path)))
        ours += [mine for mine, _ in measured[1:]]
        rival = [rival for _, rival in measured[1:]]
        ratio = median_ratio([(mine.seconds, other.seconds) for mine, other in measured[1:]])
        rows.append([name, *_shown(rival, size), f"{ratio:.1f}x"])
    rows.insert(0, ["gputrace check", *_shown(ours, size), ""])
    show(
        f"{os.path.basename(path)}, {size / 1e6:.0f} MB: `python -m benchmarks check --size {round(size / 1e8) * 100}`",
        ["", "time", "peak memory", "of the file", "slower than ours (median of pairs)"],
        rows,
    )


def _shown(measured: list[Measured], size: int) -> list[str]:
    seconds, peak = middle(measured)
    return [f"{seconds:.2f} s", f"{peak / 1e6:.0f} MB", f"{peak / size:.2f}x"]
