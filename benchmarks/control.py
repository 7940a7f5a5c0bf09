"""What a session costs the worker that is not profiled: its step, against the idle step of torch's own profiler.

The rival is ``torch.profiler.profile.step`` under a schedule that waits, which is how a worker without a session keeps
a profiler at hand.
"""

from __future__ import annotations

import logging
import statistics
import tempfile
import time
from typing import TYPE_CHECKING

from torch.profiler import profile, schedule

from benchmarks.table import show
from pytest_gputrace.control import Session

if TYPE_CHECKING:
    from collections.abc import Callable

_STEPS = 20_000


def main(count: int) -> None:
    """Measure and print."""
    waiting = profile(schedule=schedule(wait=1 << 40, warmup=1, active=1))
    waiting.start()
    session, armed = Session(coordinates={"TP": 0}), Session(coordinates={"TP": 1})
    with tempfile.TemporaryDirectory() as folder:
        reply = armed.start({"output_dir": folder, "activities": ["CPU"], "start_step": 1 << 40})
        assert reply.ok, reply.message
        rows = [
            _row("nothing is recorded", lambda: session.step("DECODE"), waiting.step, count),
            _row("nothing is recorded, in a with statement", lambda: _in_with(session), waiting.step, count),
            _row("waits for a step that is still to come", lambda: armed.step("DECODE"), waiting.step, count),
        ]
        logging.disable()  # it says, rightly, that nothing was recorded
        armed.close()
    waiting.stop()
    show(
        f"A step of a worker, against an idle step of torch.profiler, {_STEPS:,} each: `python -m benchmarks control`",
        ["session", "torch.profiler", "session.step", "ratio (median of pairs)"],
        rows,
    )


def _in_with(session: Session) -> None:
    with session.step("DECODE"):
        pass


def _row(name: str, ours: Callable[[], object], rival: Callable[[], object], count: int) -> list[str]:
    pairs = [(_ns_each(rival), _ns_each(ours)) for _ in range(count)]
    theirs, own = (statistics.median(column) for column in zip(*pairs, strict=True))
    ratio = statistics.median(one / other for one, other in pairs)
    return [name, f"{theirs / 1000:.1f} us", f"{own / 1000:.2f} us", f"{ratio:.0f}x"]


def _ns_each(step: Callable[[], object]) -> float:
    start_ns = time.perf_counter_ns()
    for _ in range(_STEPS):
        step()
    return (time.perf_counter_ns() - start_ns) / _STEPS
