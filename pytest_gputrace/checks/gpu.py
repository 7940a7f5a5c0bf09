"""Rules about the half of a trace that the GPU should have written (family E), and about an empty trace."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from pytest_gputrace.checks.rule import Hit, Looked
from pytest_gputrace.checks.words import first, number
from pytest_gputrace.model import Severity
from pytest_gputrace.traces import vocabulary

if TYPE_CHECKING:
    from pytest_gputrace.checks.rule import Settings
    from pytest_gputrace.checks.view import View

__all__ = [
    "buffer_overflow",
    "empty_trace",
    "empty_tree",
    "head_kernels_missing",
    "launches_without_kernels",
    "no_gpu_timing",
    "no_gpu_work",
    "no_kernels",
    "profiler_errors",
    "repaired",
    "steps_without_gpu",
]

# One call at the beginning may belong to what ran before the window.
_FEWEST_AT_THE_HEAD = 2
_REST_IS_WHOLE = 0.9
# A kernel may last no time, and several may where times are whole microseconds.
_FEWEST_WITHOUT_TIME = 4
_HALF = 0.5
# Kineto's own marks, which stand in a profile of nothing too.
_MARKS = ("Trace", "overhead")


def no_kernels(view: View, settings: Settings) -> Looked:
    """GT401: kernels were launched, and none was recorded."""
    if not view.whole:
        return Looked(0)
    count = len(view.launches) or _proton_launches(view)
    looked = Looked(count)
    if count and not view.kernels:
        work = f"{number(len(view.work), 'copy or set', 'copies and sets')}" if len(view.work) else "nothing"
        what = f"{number(count, 'launch', 'launches')}, no kernel; of the GPU there is {work}"
        row = int(view.launches[0]) if len(view.launches) else None
        looked.hits.append(
            Hit(f"{what}: did the profiler lose the GPU? Another profiler in the process, its driver's rights", row)
        )
    return looked


def no_gpu_work(view: View, settings: Settings) -> Looked:
    """GT402: nothing of a GPU. An error only where a GPU is expected."""
    if not view.whole or not len(view.columns):
        return Looked(0)
    looked = Looked(1)
    if not view.gpu_events and not len(view.launches):
        severity = Severity.ERROR if settings.expect_gpu else Severity.INFO
        looked.hits.append(Hit("no kernel, copy or launch: nothing of a GPU is in this trace", severity=severity))
    return looked


def launches_without_kernels(view: View, settings: Settings) -> Looked:
    """GT403: most launches have no kernel. Some never have: captured into a graph, cut off by the window."""
    if not view.whole or not view.kernels:
        return Looked(0)
    done = view.successful_launches
    looked = Looked(len(done))
    if len(done) and done.mean() < _HALF:
        missing = view.single_launches[~done]
        what = f"{len(missing)} of {len(done)} launches have no kernel; were they captured into a graph, or was a buffer lost?"
        looked.hits.append(Hit(what, int(missing[0])))
    return looked


def steps_without_gpu(view: View, settings: Settings) -> Looked:
    """GT404: some steps of the profiler have GPU work, others none."""
    if not view.whole or not len(view.work):
        return Looked(0)
    steps = view.gpu_steps
    looked = Looked(len(steps))
    empty = sorted(number for number, count in steps.items() if not count)
    if empty and len(empty) < len(steps):
        what = f"{len(empty)} of {len(steps)} steps have no GPU work: {first(empty)}"
        row = vocabulary.steps(view.columns)[empty[0]]
        looked.hits.append(Hit(f"{what}; was recording on the GPU late, or its buffer full?", row))
    return looked


def head_kernels_missing(view: View, settings: Settings) -> Looked:
    """GT405: the first launches have no kernel, nearly all later ones do."""
    if not view.whole or not view.kernels:
        return Looked(0)
    done = view.successful_launches
    looked = Looked(len(done))
    if done.any():
        head = int(np.argmax(done))
        if head >= _FEWEST_AT_THE_HEAD and done[head:].mean() >= _REST_IS_WHOLE:
            what = f"the first {head} of {len(done)} launches have no kernel, nearly all later ones do"
            advice = "was recording on the GPU not on yet? Give the profile a warm-up step"
            looked.hits.append(Hit(f"{what}: {advice}", int(view.single_launches[0])))
    return looked


def empty_tree(view: View, settings: Settings) -> Looked:
    """GT406: a Proton tree of a root and nothing else."""
    if view.trace.format != "proton-tree" or not view.whole:
        return Looked(0)
    looked = Looked(1)
    if len(view.columns) <= 1:
        looked.hits.append(
            Hit("a tree of a root and nothing else: nothing ran between start and finalize, or nothing was seen")
        )
    return looked


def empty_trace(view: View, settings: Settings) -> Looked:
    """GT407: no event that is work: success with an empty trace."""
    if view.trace.format == "proton-tree" or not view.whole:
        return Looked(0)
    columns = view.columns
    looked = Looked(1)
    without_phase = vocabulary.chosen(columns.phases, columns.phase, lambda phase: not phase)  # SuperBench's manner
    working = vocabulary.of_phase(columns, "XBbnC") & vocabulary.of_category(columns, lambda word: word not in _MARKS)
    if not len(columns):
        looked.hits.append(Hit("no event at all"))
    elif view.trace.format != "superbench" and not working.any() and not without_phase.any():
        looked.hits.append(
            Hit(
                f"{number(len(columns), 'event')}, none of them work: only names of tracks and the profiler's own marks"
            )
        )
    return looked


def no_gpu_timing(view: View, settings: Settings) -> Looked:
    """GT408: no GPU event lasts any time."""
    placed = view.work[view.columns.ts_us[view.work] > 0]  # at 0 stands what has no time at all
    looked = Looked(len(placed))
    times = view.columns.ts_us[placed]
    if len(placed) >= _FEWEST_WITHOUT_TIME and (times % 1 != 0).any() and (view.columns.dur_us[placed] == 0).all():
        what = f"all {len(placed)} GPU events have dur 0; was the timing of kernels not collected?"
        looked.hits.append(Hit(what, int(placed[0])))
    return looked


def repaired(view: View, settings: Settings) -> Looked:
    """GT411: the file was repaired, so that events may be missing that the run recorded."""
    account = view.repaired
    if account is None:
        return Looked(0)
    lost, changes = account.get("events_lost"), account.get("changes")
    missing = "nobody knows how many events are missing" if lost is None else f"{lost} events are missing"
    what = f"repaired: {missing}, {changes} places were changed; rules about what is missing did not look at it"
    return Looked(
        1,
        [Hit(what)]
        if lost != 0
        else [Hit(f"repaired: nothing is missing, {changes} places were changed", severity=Severity.INFO)],
    )


def buffer_overflow(view: View, settings: Settings) -> Looked:
    """GT409: VizTracer's buffer was full, and the oldest events are lost."""
    about = view.trace.metadata.get("viztracer_metadata")
    if not isinstance(about, dict) or "overflow" not in about:
        return Looked(0)
    looked = Looked(1)
    if about["overflow"]:
        looked.hits.append(Hit("VizTracer's buffer was full: the oldest events are lost; raise tracer_entries"))
    return looked


def profiler_errors(view: View, settings: Settings) -> Looked:
    """GT410: the profiler wrote its own errors into the file. They are not shown: they hold paths and names."""
    if view.trace.format != "kineto" or not view.whole:
        return Looked(0)
    looked = Looked(1)
    errors = view.trace.metadata.get("ERROR")
    if isinstance(errors, list) and errors:
        looked.hits.append(Hit(f'the profiler logged {number(len(errors), "error")}, see the list "ERROR" at the root'))
    return looked


def _proton_launches(view: View) -> int:
    """How many launches Proton's arrows begin at; those that have no kernel are there all the same."""
    if view.trace.format != "proton":
        return 0
    arrows = vocabulary.named(view.columns, lambda name: name == "launch->kernel")
    return int((arrows & vocabulary.of_phase(view.columns, "s")).sum())
