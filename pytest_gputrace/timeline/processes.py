"""Which process of the timeline each lane of a file goes to, and what that is called.

A process of the timeline holds one kind of thing of one worker: a process of the host as one profiler saw it, or one GPU.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, NamedTuple

from pytest_gputrace.traces.vocabulary import ANYWHERE, FLOW_END, ON_GPU, ON_HOST

if TYPE_CHECKING:
    from pytest_gputrace.timeline.plan import Id
    from pytest_gputrace.timeline.survey import Survey

__all__ = ["PROFILERS", "Process", "processes"]

PROFILERS = {"kineto": "Kineto", "proton": "Proton", "viztracer": "VizTracer", "chrome": "Chrome trace"}
"""Formats with times on a clock, as people call what writes them."""

# Proton numbers the lanes of its streams from here on, and of each further device this much later.
_PROTON_STREAMS, _PROTON_DEVICE = 100_000, 1_000_000
_MAIN_PROCESS = "MainProcess"  # what VizTracer calls whatever it was started in


class Process(NamedTuple):
    """A process of the timeline, before it has a number: sorted as it is shown, with what it is called within its worker.

    ``pid`` is its process in the file.
    """

    is_gpu: bool
    is_text: bool
    number: int
    text: str
    pid: Id
    label: str


def processes(survey: Survey) -> dict[tuple[Id, Id, int], Process]:
    """Where each track of a file goes."""
    if survey.format == "proton":
        return {track: _of_proton(*track) for track in survey.tracks}
    lanes: dict[tuple[Id, Id], set[int]] = defaultdict(set)
    for pid, tid, lane in survey.tracks:
        lanes[pid, tid].add(lane)
    on_gpu = {pid for pid, _, lane in survey.tracks if lane == ON_GPU}
    on_host = {pid for pid, _, lane in survey.tracks if lane == ON_HOST}
    places = {}
    for pid, tid, lane in survey.tracks:
        is_gpu = lane == ON_GPU
        if lane in (ANYWHERE, FLOW_END):
            sure = lanes[pid, tid] & {ON_GPU, ON_HOST}
            prefers_gpu = lane == FLOW_END or ON_HOST not in sure
            is_gpu = (ON_GPU in sure and prefers_gpu) if sure else pid in on_gpu and pid not in on_host
        places[pid, tid, lane] = _process(survey, pid, is_gpu=is_gpu)
    return places


def _process(survey: Survey, pid: Id, *, is_gpu: bool) -> Process:
    if is_gpu:
        return _named(True, pid, f"GPU {pid}" if isinstance(pid, int) else f"GPU {pid!r}")
    if isinstance(pid, str):
        return _named(False, pid, pid or "unnamed")
    if pid is None or pid < 0:
        return Process(False, False, -1, "", -1, "no process")
    name = survey.names.processes.get(pid, "process")
    if survey.format == "viztracer" and name in (_MAIN_PROCESS, "process"):
        name = "python"
    return _named(False, pid, f"{name} {pid}")


def _of_proton(pid: Id, tid: Id, lane: int) -> Process:
    if isinstance(pid, str):  # of one kernel's inside: a block on a core
        return _named(True, pid, f"Proton {pid}")
    if isinstance(tid, int) and tid >= _PROTON_STREAMS:
        device = tid // _PROTON_DEVICE
        return Process(True, False, device, "", pid, f"Proton GPU {device}")
    return Process(False, False, 0, "", pid, "Proton")


def _named(is_gpu: bool, pid: Id, label: str) -> Process:
    is_text = isinstance(pid, str)
    return Process(
        is_gpu, is_text, 0 if isinstance(pid, str) else pid or 0, pid if isinstance(pid, str) else "", pid, label
    )
