"""The second pass: what stays of each run of events and what is new about it, written as one trace."""

from __future__ import annotations

import json
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from typing import TYPE_CHECKING, Any

from pytest_gputrace.errors import MergeError
from pytest_gputrace.timeline.links import link_ends
from pytest_gputrace.timeline.mark import MARK, account
from pytest_gputrace.timeline.outcome import MergedInput, MergeResult
from pytest_gputrace.timeline.plan import Flows, Plan
from pytest_gputrace.timeline.rewriting import Rewriter
from pytest_gputrace.traces.arguments import run_texts
from pytest_gputrace.traces.vocabulary import ANYWHERE
from pytest_gputrace.traces.writing import TraceFile

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

    from pytest_gputrace.timeline.deciding import Decision, Planned
    from pytest_gputrace.timeline.outcome import LeftOut
    from pytest_gputrace.timeline.rewriting import Written
    from pytest_gputrace.timeline.watch import Watch

__all__ = ["write"]

_BETWEEN = b",\n"
# Runs that are worked on at a time, for each thread: enough that none waits for another.
_AHEAD = 3


def write(
    decision: Decision, path: Path, left_out: Sequence[LeftOut], *, force: bool, jobs: int, watch: Watch
) -> MergeResult:
    """Write what was decided; the file has its name once it is complete.

    Raises:
        MergeError: an input is not as it was.
        PublishError: the file cannot be written.
    """
    file = TraceFile(path, force=force)
    pool = ThreadPoolExecutor(jobs, "gputrace-merge") if jobs > 1 else None
    try:
        writer = _Writer(file, pool, _AHEAD * jobs)
        writer.head(decision, left_out)
        inputs = [_input(each, decision.base_time_ns, writer.copy(each, watch)) for each in decision.planned]
        late: list[int] = []
        links = [_link(decision, index, writer, late) for index in range(len(decision.planned))]
        file.write(b"\n]}\n")
        size_bytes = file.publish()
    except (OSError, ValueError) as error:  # an input that is gone, or not as it was
        raise MergeError(f"not merged:\n  {error}", reasons=[str(error)]) from error
    finally:
        if pool is not None:
            pool.shutdown(cancel_futures=True)
        file.discard()
    return MergeResult(
        path=path, inputs=tuple(inputs), left_out=tuple(left_out), expected_ranks=decision.expected_ranks,
        missing_ranks=decision.missing_ranks, align=decision.align, clocks=tuple(decision.clocks),
        base_time_ns=decision.base_time_ns, last_ns=max(each.last_ns for each in inputs),
        events=sum(each.events for each in inputs) + sum(links),
        links=sum(links), unlinked=sum(len(each.survey.links) for each in decision.planned) - sum(links),
        size_bytes=size_bytes, notes=(*decision.notes, *_late(late)),
    )  # fmt: skip


class _Writer:
    """Writes the pieces of the file one after another; several threads may work ``ahead`` of that."""

    def __init__(self, file: TraceFile, pool: ThreadPoolExecutor | None, ahead: int) -> None:
        self._file = file
        self._pool = pool
        self._ahead = ahead

    def head(self, decision: Decision, left_out: Sequence[LeftOut]) -> None:
        """What stands before the events, and the metadata events, without which there is no process."""
        assert decision.tracks is not None
        root: dict[str, Any] = {MARK: account(decision, left_out)}
        if sources := _sources(decision.planned):
            root["file_info"] = sources
        root |= {"displayTimeUnit": "ms", "baseTimeNanoseconds": decision.base_time_ns}
        self._file.write(_json(root)[:-1] + b',"traceEvents":[\n')
        between = b""
        for event in decision.tracks.metadata():
            self._file.write(between + _json(event))
            between = _BETWEEN

    def copy(self, planned: Planned, watch: Watch) -> tuple[int, Flows]:
        """The events of one input; how many there were, and how many ends of arrows.

        Raises:
            ValueError: they are not what they were when the input was surveyed.
        """
        texts = run_texts(planned.survey.source, progress=watch.of(planned.survey.path, "merging"))
        try:
            events, flows = self.rewrite(Rewriter(planned.plan), texts)
        except ValueError as error:
            raise planned.survey.source.changed() from error
        if events != planned.survey.events:
            raise planned.survey.source.changed()
        return events, flows

    def rewrite(self, rewriter: Rewriter, texts: Iterable[bytes]) -> tuple[int, Flows]:
        """Runs of events, rewritten and written."""

        def work(text: bytes) -> tuple[Written, bytes, bytes]:
            written = rewriter.run(text)
            data = _BETWEEN + written.text if written.text else b""
            return written, data, self._file.pack(data)

        events, flows = 0, Flows()
        for written, data, packed in self._each(work, iter(texts)):
            self._file.append(data, packed)
            events += written.events
            flows = flows.plus(written.flows)
        return events, flows

    def _each(self, work: Any, texts: Iterator[bytes]) -> Iterator[tuple[Written, bytes, bytes]]:
        if self._pool is None:
            yield from map(work, texts)
            return
        waiting = deque(self._pool.submit(work, text) for text in islice(texts, self._ahead))
        while waiting:
            yield waiting.popleft().result()
            waiting.extend(self._pool.submit(work, text) for text in islice(texts, 1))


def _json(value: Any) -> bytes:
    """As text that every viewer reads: a file's name may hold what is no text."""
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode("utf-8", "replace")


def _link(decision: Decision, index: int, writer: _Writer, late: list[int]) -> int:
    """Write where the links of one VizTracer report end, in the Proton traces of its worker; how many do."""
    report = decision.planned[index]
    wanted = {number: report.plan.clock.at(start_ns) for number, start_ns in report.survey.links.items()}
    links = 0
    for other in decision.planned:
        if wanted and other.worker == report.worker and other.survey.format == "proton":
            # Arrows end where ranges are, whether or not the file has others there.
            ends = {(pid, tid, ANYWHERE): where for (pid, tid, _), where in other.plan.tracks.items()}
            plan = Plan(other.plan.clock, report.plan.ids, ends)
            events, _ = writer.rewrite(Rewriter(plan), link_ends(other.survey.source, other.plan.clock, wanted, late))
            links += events
    return links


def _late(links: Sequence[int]) -> Iterator[str]:
    if links:
        what = f"{len(links):,} links from VizTracer's frames start after their scope of Proton has ended"
        yield f"{what}, and viewers drop them: are the files of one run?"


def _sources(planned: Sequence[Planned]) -> dict[str, Any]:
    """The source code that reports hold: of a file that several hold, the first."""
    files: dict[str, Any] = {}
    functions: dict[str, Any] = {}
    for each in planned:
        told = each.survey.file_info or {}
        for all_of_them, key in ((files, "files"), (functions, "functions")):
            for name, value in told.get(key, {}).items() if isinstance(told.get(key), dict) else ():
                all_of_them.setdefault(name, value)
    return {"files": files, "functions": functions} if files or functions else {}


def _input(planned: Planned, begin_ns: int, written: tuple[int, Flows]) -> MergedInput:
    survey, clock = planned.survey, planned.plan.clock
    # What has no time begins and ends where the timeline does.
    first_ns, last_ns = (
        begin_ns if time_ns is None else begin_ns + clock.at(time_ns) for time_ns in (survey.first_ns, survey.last_ns)
    )
    events, flows = written
    rank = planned.worker.rank if planned.worker.rank >= 0 else None
    return MergedInput(
        path=survey.path, format=survey.format, worker=planned.worker.label, rank=rank, node=planned.node,
        base_time_ns=planned.base_time_ns, first_ns=first_ns, last_ns=last_ns,
        events=events, metadata=survey.metadata, untimed=survey.untimed, flows_in=survey.flows, flows_out=flows,
    )  # fmt: skip
