"""One trace file, read strictly: its events as columns, its metadata, and everything that is wrong with its text."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_gputrace.traces.arguments import Source, arguments
from pytest_gputrace.traces.blocks import Blocks
from pytest_gputrace.traces.devices import Device, devices
from pytest_gputrace.traces.opening import Opening
from pytest_gputrace.traces.root import whole_number

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterator, Sequence

    from pytest_gputrace.traces.columns import Columns
    from pytest_gputrace.traces.formats import Format
    from pytest_gputrace.traces.scanner import Problem

__all__ = ["Device", "Trace", "open_trace"]

# With such a problem the text was not read to its end, or not all that is in it is in the columns.
_NOT_WHOLE = frozenset({"empty", "cut", "grammar", "second", "trailing", "root", "gzip", "large"})


@dataclass(frozen=True, repr=False)
class Trace:
    """What one file holds.

    ``format`` is told from the content. ``metadata`` is the root without its events: empty for a list, the device map
    for a Proton tree. ``base_time_ns`` is what times count from, None where the file does not say. ``problems`` are
    those of the text, the first of each kind, with its byte and event; events that stand before the first one that
    cannot be read are in ``events`` all the same. ``whole`` is whether the text was read to its end and nothing of it
    is missing; ``size_bytes`` is how much text there is, inflated, as far as it was read; ``zipped`` is whether the file
    is compressed by gzip, whatever its name says.
    """

    path: Path
    format: Format
    metadata: dict[str, Any]
    base_time_ns: int | None
    events: Columns
    problems: tuple[Problem, ...]
    whole: bool
    size_bytes: int
    zipped: bool
    _source: Source = field(repr=False, compare=False)

    def __repr__(self) -> str:
        """Nothing of the metadata: it may hold an environment."""
        return f"<Trace {self.path}: {self.format}, {len(self.events)} events, {len(self.problems)} problems>"

    @property
    def rank(self) -> int | None:
        """The rank that ``distributedInfo`` names; None where it names none."""
        return whole_number(self.metadata, ("distributedInfo", "rank"))

    @property
    def world_size(self) -> int | None:
        """The number of ranks that ``distributedInfo`` names; None where it names none."""
        return whole_number(self.metadata, ("distributedInfo", "world_size"))

    @property
    def devices(self) -> tuple[Device, ...]:
        """The GPUs that the file lists, whether or not they have events."""
        return devices(self.metadata)

    def arguments(self, rows: Sequence[int]) -> Iterator[tuple[int, dict[str, Any]]]:
        """The arguments of some events, by row, in the order of the file: one pass over it, decoding what is asked for.

        Those of a Proton tree's node are its metrics, those of SuperBench's records what no column holds.

        Raises:
            IndexError: there is no such row.
            OSError: the file cannot be read.
            ValueError: the file has changed since it was opened.
        """
        return arguments(self._source, self.events, rows)


def open_trace(
    path: str | os.PathLike[str], *, max_bytes: int | None = None, progress: Callable[[int], None] | None = None
) -> Trace:
    """Read a trace of Kineto, Proton, VizTracer or SuperBench, plain or compressed by gzip; the content decides.

    Memory is that of the columns, of one run of events as text, and of the text around the list of events; a Proton
    tree is held whole. Of the text, inflated, no more than ``max_bytes`` are read. ``progress`` is called on the way
    with the bytes of the file that were read since it was last.

    Raises:
        OSError: the file cannot be read.
    """
    path = Path(path)
    stamp = Source.stamp_of(path.stat())
    blocks = Blocks(path, max_bytes=max_bytes, progress=progress)
    opening = Opening(blocks)
    opening.read()
    problems = tuple(opening.problems)
    return Trace(
        path=path,
        format=opening.format,
        metadata=opening.metadata,
        base_time_ns=_base(opening.metadata),
        events=opening.columns,
        problems=problems,
        whole=not any(problem.kind in _NOT_WHOLE for problem in problems),
        size_bytes=opening.size_bytes,
        zipped=blocks.zipped,
        _source=Source(path, stamp, opening.runs, opening.records),
    )


def _base(metadata: dict[str, Any]) -> int | None:
    base = whole_number(metadata, ("baseTimeNanoseconds",))
    return whole_number(metadata, ("viztracer_metadata", "baseTimeNanoseconds")) if base is None else base
