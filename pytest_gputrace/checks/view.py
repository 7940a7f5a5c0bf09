"""One trace as the rules look at it: the answers several of them need, each worked out once."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from pytest_gputrace.checks.words import shown
from pytest_gputrace.traces import vocabulary
from pytest_gputrace.traces.columns import NO_ID
from pytest_gputrace.traces.pairing import launch_rows

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from pytest_gputrace.traces import Trace
    from pytest_gputrace.traces.columns import Columns

__all__ = ["View"]

EPOCH_US = 1e15
"""Microseconds since 1970 are above this from the year 2001 on; no time since a boot or a base is."""


# After the last call of step() a profile records until it stops: a step by name alone.
_REST_OF_A_LOOP = 0.1


class View:
    """A trace, and rows and masks of its events."""

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        self.columns: Columns = trace.events

    @cached_property
    def ranges(self) -> NDArray[np.bool_]:
        """Which events have a begin and a duration of their own (``X``)."""
        return vocabulary.of_phase(self.columns, "X")

    @property
    def repaired(self) -> dict[str, Any] | None:
        """What ``gputrace repair`` wrote of its work, where this is such a file."""
        account = self.trace.metadata.get("gputrace_repaired")
        return account if isinstance(account, dict) else None

    @property
    def merged(self) -> bool:
        """Whether this is several traces in one file, as `gputrace merge` writes them."""
        return self.trace.format == "merged"

    @property
    def whole(self) -> bool:
        """Whether all that was recorded is here: the text ends where it should, and no repair left events out."""
        return self.trace.whole and (self.repaired is None or self.repaired.get("events_lost") == 0)

    @property
    def lost_values(self) -> bool:
        """Whether values of events were left out as no number, so that to miss them says nothing new."""
        return any(problem.kind in ("number", "type") for problem in self.trace.problems)

    @cached_property
    def work(self) -> NDArray[np.intp]:
        """The rows of GPU work."""
        return np.flatnonzero(vocabulary.gpu_work(self.columns))

    @cached_property
    def gpu_events(self) -> int:
        """How many events tell of a GPU, in whatever way their format does."""
        columns = self.columns
        if columns.gpu_us is not None:
            return int((columns.gpu_us > 0).sum())
        if self.trace.format == "proton-tree":
            return int((columns.device != NO_ID).sum())
        return len(self.work)

    @cached_property
    def kernels(self) -> int:
        """How many kernels there are."""
        return int(vocabulary.kernels(self.columns).sum())

    @cached_property
    def launches(self) -> NDArray[np.intp]:
        """The rows of calls that launch kernels, graphs included, in order of time."""
        return self._by_time(vocabulary.launches(self.columns))

    @cached_property
    def single_launches(self) -> NDArray[np.intp]:
        """The rows of calls that launch one kernel each, in order of time."""
        return self._by_time(vocabulary.launches(self.columns, graphs=False))

    @cached_property
    def launched_by(self) -> NDArray[np.intp]:
        """For each row of ``work`` the row of the call that launched it, -1 where none is known."""
        return launch_rows(self.columns, self.work)

    @cached_property
    def successful_launches(self) -> NDArray[np.bool_]:
        """For each row of ``single_launches``, whether work on the GPU has its correlation id."""
        columns = self.columns
        return np.isin(columns.correlation[self.single_launches], columns.correlation[self.work])

    @cached_property
    def gpu_steps(self) -> dict[int, int]:
        """How much GPU work each profiler step has, by its number: what was launched in it, or else ran in it."""
        steps = vocabulary.steps(self.columns)
        if not steps:
            return {}
        columns, rows = self.columns, np.array(sorted(steps.values(), key=lambda row: self.columns.ts_us[row]))
        numbers = {row: number for number, row in steps.items()}
        begins, ends = columns.ts_us[rows], columns.ts_us[rows] + columns.dur_us[rows]
        source = np.where(self.launched_by >= 0, self.launched_by, self.work)
        times = columns.ts_us[source]
        place = np.searchsorted(begins, times, side="right") - 1
        inside = (place >= 0) & (times < ends[np.maximum(place, 0)])
        counts = np.bincount(place[inside], minlength=len(rows))
        durations = columns.dur_us[rows]
        if len(rows) > 1 and not counts[-1] and durations[-1] < _REST_OF_A_LOOP * np.median(durations[:-1]):
            rows, counts = rows[:-1], counts[:-1]
        return {numbers[row]: int(count) for row, count in zip(rows.tolist(), counts, strict=True)}

    @cached_property
    def usual_time_us(self) -> float:
        """The time in the middle of all ranges that do not begin at 0; NaN where there are none."""
        times = self.columns.ts_us[self.ranges]
        times = times[times > 0]
        return float(np.median(times)) if len(times) else float("nan")

    def name(self, row: int) -> str:
        """The name of an event for a message: in quotes, printable, not too long."""
        return shown(self.columns.names[self.columns.name[row]])

    def _by_time(self, mask: NDArray[np.bool_]) -> NDArray[np.intp]:
        rows = np.flatnonzero(mask)
        return rows[np.argsort(self.columns.ts_us[rows], kind="stable")]
