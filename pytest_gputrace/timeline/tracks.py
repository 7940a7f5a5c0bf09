"""Gives every process of the timeline a number that no input uses, its threads numbers of their own, and all of them names."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pytest_gputrace.timeline.plan import Where
from pytest_gputrace.timeline.processes import PROFILERS, processes

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pytest_gputrace.timeline.names import Other
    from pytest_gputrace.timeline.plan import Id
    from pytest_gputrace.timeline.processes import Process
    from pytest_gputrace.timeline.survey import Survey
    from pytest_gputrace.timeline.workers import Worker

__all__ = ["Member", "Tracks"]

_FIRST_PID = 10_000_000  # above the process ids of every Linux (4,194,304 at most)
_OF_A_WORKER = 1000
_PIDS_END = 2**31  # viewers keep no more
# What shows processes of the host; Proton has one of its own.
_OF_THE_HOST = ("kineto", "viztracer", "chrome")


@dataclass(frozen=True)
class Member:
    """One input and whose it is; ``node`` is empty where it is not worth telling."""

    survey: Survey
    worker: Worker
    node: str = ""


@dataclass
class _Placed:
    """A process of the timeline with its number, the threads of the file that go to it, and how each is numbered."""

    label: str
    pid: int = -1
    tids: dict[Id, int] = field(default_factory=dict)
    names: dict[Id, str] = field(default_factory=dict)
    order: dict[Id, int | float] = field(default_factory=dict)
    labels: list[str] = field(default_factory=list)
    others: list[Other] = field(default_factory=list)


class Tracks:
    """The processes and threads of all members, which are in the order of the timeline."""

    def __init__(self, members: Sequence[Member]) -> None:
        self._members = members
        self._placed: dict[tuple[Worker, str, Process], _Placed] = {}
        self._places = [self._places_of(member) for member in members]
        self._label()
        self._number()

    def of(self, index: int) -> dict[tuple[Id, Id, int], Where]:
        """Where the tracks of one member go: by process, thread, and the sort of lane."""
        return {
            (pid, tid, lane): Where(placed.pid, placed.tids[_thread(tid)])
            for (pid, tid, lane), placed in self._places[index].items()
        }

    def metadata(self) -> Iterator[dict[str, Any]]:
        """The metadata events: names, and an order by worker. None has a time."""
        for order, placed in enumerate(self._placed.values()):
            yield _event("process_name", placed.pid, 0, name=placed.label)
            yield _event("process_sort_index", placed.pid, 0, sort_index=order)
            if placed.labels:
                yield _event("process_labels", placed.pid, 0, labels=", ".join(placed.labels))
            for tid, number in sorted(placed.tids.items(), key=lambda item: item[1]):
                yield _event("thread_name", placed.pid, number, name=placed.names[tid])
                if tid in placed.order:
                    yield _event("thread_sort_index", placed.pid, number, sort_index=placed.order[tid])
            for other in placed.others:
                tid = placed.tids.get(_thread(other.tid), placed.pid)
                yield {"ph": "M", "name": other.name, "pid": placed.pid, "tid": tid, "args": other.args}

    def _places_of(self, member: Member) -> dict[tuple[Id, Id, int], _Placed]:
        survey = member.survey
        placed: dict[tuple[Id, Id, int], _Placed] = {}
        first: dict[Id, _Placed] = {}
        for track, process in sorted(processes(survey).items(), key=lambda item: (item[1][:4], _order(item[0][1]))):
            key = (member.worker, survey.format, process)
            own = self._placed.setdefault(key, _Placed(process.label))
            _name(own, survey, process, track[1])
            if member.node and (text := f"node {member.node}") not in own.labels:
                own.labels.append(text)
            placed[track] = own
            first.setdefault(process.pid, own)
        for other in survey.names.others:
            if other.pid in first:
                first[other.pid].others.append(other)
        return placed

    def _label(self) -> None:
        """Call each by its worker, and what shows the host by its profiler where its worker has several."""
        profilers: dict[Worker, set[str]] = {}
        for worker, format, _ in self._placed:
            profilers.setdefault(worker, set()).update([format] if format in _OF_THE_HOST else [])
        taken: dict[str, int] = {}
        for (worker, format, process), placed in self._placed.items():
            full = f"{worker.label} · {placed.label}" if worker.label else placed.label
            if len(profilers[worker]) > 1 and not process.is_gpu and format in _OF_THE_HOST:
                full = f"{full} ({PROFILERS[format]})"
            taken[full] = taken.get(full, 0) + 1
            placed.label = full if taken[full] == 1 else f"{full} #{taken[full]}"

    def _number(self) -> None:
        used = {
            pid
            for member in self._members
            for pid, _, _ in member.survey.tracks
            if isinstance(pid, int) and _FIRST_PID <= pid < _PIDS_END
        }
        workers: dict[Worker, int] = {}
        for (worker, _, _), placed in self._placed.items():
            number = worker.rank if worker.rank >= 0 else len(workers)
            pid = workers.setdefault(worker, _FIRST_PID + number * _OF_A_WORKER)
            while pid in used or pid in placed.tids:  # a thread of that number would be its main thread
                pid += 1
            placed.pid = workers[worker] = pid
            used.add(pid)
            _number_threads(placed)


def _name(placed: _Placed, survey: Survey, process: Process, tid: Id) -> None:
    """Note a thread, with the name that is meant for this lane of its file."""
    names = survey.names.threads.get((process.pid, tid), [])
    tid = _thread(tid)
    placed.tids.setdefault(tid, -1)
    fitting = [name for name in names if ("stream" in name.lower()) == process.is_gpu]
    placed.names[tid] = (fitting or names or [_default_name(process, tid)])[-1]
    if (order := survey.names.thread_order.get((process.pid, tid))) is not None:
        placed.order[tid] = order
    labels = survey.names.labels.get(process.pid, "")
    # A thread of the host may be filed under the number of a GPU, which is what that process is labelled as then.
    if labels and labels not in placed.labels and (process.is_gpu or "GPU" not in labels):
        placed.labels.append(labels)


def _default_name(process: Process, tid: Id) -> str:
    if isinstance(tid, str):
        return tid or "unnamed"
    if tid is None or tid < 0:
        return "no thread"
    if process.label == "Proton":
        return f"CPU Thread {tid}"
    return f"stream {tid}" if process.is_gpu else f"thread {tid}"


def _number_threads(placed: _Placed) -> None:
    """Threads keep their numbers, but for those that viewers take for another: 0 for the main thread, -1 for 0."""
    kept = {tid for tid in placed.tids if isinstance(tid, int) and 0 < tid < _PIDS_END}
    free = (number for number in range(1, _PIDS_END) if number not in kept and number != placed.pid)
    for tid in sorted(placed.tids, key=_order):
        placed.tids[tid] = tid if isinstance(tid, int) and tid in kept else next(free)


def _thread(tid: Id) -> Id:
    """An event that names no thread is on that of -1, as viewers have it."""
    return -1 if tid is None else tid


def _order(tid: Id) -> tuple[int, int, str]:
    return (1, 0, tid) if isinstance(tid, str) else (0, -1 if tid is None else tid, "")


def _event(what: str, pid: int, tid: int, **args: Any) -> dict[str, Any]:
    return {"ph": "M", "name": what, "pid": pid, "tid": tid, "args": args}
