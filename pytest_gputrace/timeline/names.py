"""What the metadata events of a file call its processes and threads."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from pytest_gputrace.timeline.plan import Id

__all__ = ["Names", "Other"]

# Those that are written anew, whatever they hold here.
_OWN = frozenset({"process_name", "process_labels", "process_sort_index", "thread_name", "thread_sort_index"})
# Of one thread: two are meant where a GPU's lane and a thread of the host have one number.
_MOST_NAMES = 7
# A recorder writes a handful of others.
_MOST_OTHERS = 1000


class Other(msgspec.Struct, frozen=True):
    """A metadata event that names no process and no thread."""

    name: str
    pid: Any
    tid: Any
    args: Any


class _Event(msgspec.Struct, gc=False):
    ph: Any = None
    name: Any = None
    pid: Any = None
    tid: Any = None
    args: Any = None


_EVENTS = msgspec.json.Decoder(list[_Event])


@dataclass
class Names:
    """Names by process, and by process and thread; sort indices of threads; the rest as it stands.

    Of a thread there are several names where a GPU's lane and a thread of the host have one number.
    """

    processes: dict[Id, str] = field(default_factory=dict)
    labels: dict[Id, str] = field(default_factory=dict)
    threads: dict[tuple[Id, Id], list[str]] = field(default_factory=dict)
    thread_order: dict[tuple[Id, Id], int | float] = field(default_factory=dict)
    others: list[Other] = field(default_factory=list)

    def read(self, text: bytes) -> None:
        """Note the metadata events among some events; of two about one thing the later one counts, as viewers have it."""
        for event in _EVENTS.decode(b"[" + text + b"]"):
            if event.ph == "M" and isinstance(event.args, dict):
                self._note(event)

    def _note(self, event: _Event) -> None:
        pid, tid, args = _id(event.pid), _id(event.tid), event.args
        name, labels, order = args.get("name"), args.get("labels"), args.get("sort_index")
        if event.name == "process_name" and isinstance(name, str):
            self.processes[pid] = name
        elif event.name == "process_labels" and isinstance(labels, str):
            self.labels[pid] = labels
        elif event.name == "thread_name" and isinstance(name, str):
            known = self.threads.setdefault((pid, tid), [])
            if name in known:
                known.remove(name)
            known[:] = [*known[-_MOST_NAMES:], name]
        elif event.name == "thread_sort_index" and isinstance(order, int | float):
            self.thread_order[pid, tid] = order
        elif isinstance(event.name, str) and event.name not in _OWN and len(self.others) < _MOST_OTHERS:
            self.others.append(Other(event.name, pid, tid, args))


def _id(value: Any) -> Id:
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value if isinstance(value, int | str) and not isinstance(value, bool) else None
