"""Decides how the text of a file is to be read, has it read, and joins what is wrong with its wrapping to what is wrong with it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pytest_gputrace.traces.arguments import Runs
from pytest_gputrace.traces.compiled import scan
from pytest_gputrace.traces.formats import EXPECTED, format_of, of_first_item
from pytest_gputrace.traces.hatchet import read_tree
from pytest_gputrace.traces.judging import is_clean, judge
from pytest_gputrace.traces.pieces import NoEvents, Pieces
from pytest_gputrace.traces.reader import Problems, Reader
from pytest_gputrace.traces.records import ChromeRecords, EventList
from pytest_gputrace.traces.root import member, whole_number
from pytest_gputrace.traces.scanner import Problem

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_gputrace.traces.blocks import Blocks
    from pytest_gputrace.traces.columns import Columns
    from pytest_gputrace.traces.formats import Format
    from pytest_gputrace.traces.records import Records

__all__ = ["Opening"]

_LIMITS = ("cut", "gzip", "large")
# What of the root must be a whole number: where times count from, who wrote this.
_WHOLE_NUMBERS = (
    ("baseTimeNanoseconds",), ("viztracer_metadata", "baseTimeNanoseconds"), ("distributedInfo", "rank"),
    ("distributedInfo", "world_size"),
)  # fmt: skip


class Opening:
    """What one file turned out to hold. ``records`` is None for a Proton tree and for what is no trace."""

    def __init__(self, blocks: Blocks) -> None:
        self.format: Format = "unknown"
        self.metadata: dict[str, Any] = {}
        self.columns: Columns = ChromeRecords().columns()
        self.problems = Problems()
        self.runs = Runs()
        self.records: Records | None = None
        self._pieces = Pieces(iter(blocks))
        self._blocks = blocks

    @property
    def size_bytes(self) -> int:
        """How much text was read."""
        return self._pieces.size_bytes

    def read(self) -> None:
        """Read the text, and judge it."""
        try:
            start = self._pieces.find_list()
            known = of_first_item(start) if self._pieces.is_list else None
            if known == "proton-tree":
                self._tree()
            else:
                self._list(known)
        except NoEvents as broken:
            self.problems.add(_no_events(broken))
        self._wrapped()

    def _tree(self) -> None:
        tree = read_tree(self._pieces.whole())
        self.format, self.columns, self.metadata = "proton-tree", tree.columns, tree.devices
        self.problems.add(tree.problems)

    def _list(self, known: Format | None) -> None:
        reader = self._reader(known)
        self.problems, self.runs = reader.problems, reader.runs
        reader.read()
        self.columns, self.metadata = reader.records.columns(), reader.metadata
        self.format = known or format_of(self.metadata, self.columns)
        self.problems.add(self._types())

    def _reader(self, known: Format | None) -> Reader:
        self.records = EventList() if known == "superbench" else ChromeRecords()
        return Reader(self._pieces, self.records, None if known else scan())

    def _types(self) -> Iterator[Problem]:
        """What of the root should be a whole number, but is not. Its value may be anything, and is not shown."""
        for path in _WHOLE_NUMBERS:
            value = member(self.metadata, path)
            if value is not None and whole_number(self.metadata, path) is None:
                what = f"{'.'.join(path)!r} is {type(value).__name__}, not a whole number; it counts as missing"
                yield Problem("type", what, self._pieces.byte_of(*path))

    def _wrapped(self) -> None:
        """Add what is wrong with the wrapping. A text that ends too early because of it is said once, with its event."""
        found = self._blocks.problems
        limit = next((problem for problem in found if problem.kind in _LIMITS), None)
        cut = self.problems.pop("cut") if limit else None
        if limit is not None and limit.kind == "gzip" and limit.byte and (garbled := self.problems.pop("grammar")):
            what = f"{limit.message}; what comes out of it makes no sense from byte {garbled.byte} on"
            cut, found = garbled, [replace(limit, message=what) if one is limit else one for one in found]
            limit = next(problem for problem in found if problem.kind in _LIMITS)
        if limit or any(problem.kind == "empty" for problem in found):
            self.problems.pop("empty")
        self.problems.add(
            replace(problem, event=cut.event, where=cut.where) if cut is not None and problem is limit else problem
            for problem in found
        )
        second = self.problems.pop("second")
        if second is not None:
            if second.byte in self._blocks.members:
                more = "every member of this gzip file holds a document of its own: did each rank append its stream?"
                second = replace(second, message=f"{second.message}; {more}")
            self.problems.add([second])


def _no_events(broken: NoEvents) -> list[Problem]:
    if broken.what:
        return [Problem("root", broken.what, 0)]
    # The quick way, which the strict reader does not take for a text without a list of events.
    if broken.text.lstrip().startswith(b"{") and is_clean(broken.text):
        return [Problem("root", f'an object without a list "traceEvents"; {EXPECTED}', 0)]
    return judge(broken.text)
