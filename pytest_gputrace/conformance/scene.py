"""What one run left: every new file with the marks inside it, and why a capture is not kept.

Files are found by comparing the folders before and after; whose they are is read from their content, never from a
name. Judges captures and files; knows no check.
"""

from __future__ import annotations

import dataclasses
import os
import re
import stat
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_gputrace.checks.captures import kept, read
from pytest_gputrace.conformance.judgement import Judgement, short
from pytest_gputrace.errors import ContractError
from pytest_gputrace.fakes.snapshot import is_new, snapshot

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pytest_gputrace.checks.captures import Reading
    from pytest_gputrace.fakes import Cluster, ClusterRun, Outcome
    from pytest_gputrace.fakes.snapshot import Snapshot
    from pytest_gputrace.model import Capture

__all__ = ["Scene", "counted", "files_below", "is_trace_name", "legacy_paths", "read_new", "told"]

_TRACE_SUFFIXES = (".json", ".json.gz", ".chrome_trace")
_CONFIGURATION_SHOWN = 40
_LARGEST = 1 << 28
_NOTES = ".runs"  # the cluster's own folder for logs and results


def is_trace_name(path: str | os.PathLike[str]) -> bool:
    """Whether whoever collects traces would take a file for one: a final name, no private one, in no private folder.

    Args:
        path: relative to the folder that is collected.
    """
    return not any(part.startswith(".") for part in Path(path).parts) and str(path).lower().endswith(_TRACE_SUFFIXES)


def files_below(root: Path) -> Snapshot:
    """All files below a cluster's folder, without the cluster's own."""
    notes = f"{root / _NOTES}{os.sep}"
    return {path: stamp for path, stamp in snapshot([root]).items() if not path.startswith(notes)}


def read_new(cluster: Cluster, legacy: frozenset[str], before: Snapshot) -> Iterator[Reading]:
    """Read every file under a trace's name that was made or changed since ``before``, wherever below the root."""
    for path in sorted(files_below(cluster.root)):
        if is_trace_name(os.path.relpath(path, cluster.root)) and is_new(path, before) and _is_readable(path):
            base = cluster.trace_dir if Path(path).is_relative_to(cluster.trace_dir) else cluster.root
            reading = read(Path(path), name=os.path.relpath(path, base))
            yield dataclasses.replace(reading, legacy=path in legacy)


def _is_readable(path: str) -> bool:
    """Whether there is an end to what can be read there: no pipe, and nothing that fills the memory."""
    try:
        status = os.stat(path)
    except OSError:
        return True  # a link that leads nowhere is a file that is lost; reading says so
    if status.st_size > _LARGEST:
        raise ContractError(f"{path} has {status.st_size} bytes; a trace of a simulated worker is never that large")
    return stat.S_ISREG(status.st_mode)


def legacy_paths(run: ClusterRun[Any]) -> set[str]:
    """The legacy file of every worker."""
    return {str(outcome.job.legacy_path) for outcome in run}


@dataclass(frozen=True)
class Scene:
    """One run of one exporter in one cluster, and the files it left.

    ``legacy`` are the paths that the exporter claims to share with others; all are its own where it claims none.
    ``has_own_files`` says that it wrote others in this run or one before, so that the legacy file alone keeps nothing.
    """

    cluster: Cluster
    run: ClusterRun[Any]
    legacy: frozenset[str]
    readings: tuple[Reading, ...]
    has_own_files: bool = False

    @property
    def expected(self) -> list[Capture]:
        """Every capture that must be kept."""
        return self.cluster.expected

    @property
    def injected(self) -> tuple[str, ...]:
        """The faults, and how many workers each struck."""
        idle = {fault.text for fault in self.run.requested if fault.may_be_idle and not fault.struck}
        return tuple(
            f"{text} in {struck} of {self.run.selected[text]} workers"
            for text, struck in self.run.struck.items()
            if text not in idle
        )

    @cached_property
    def kept(self) -> list[Capture]:
        """The captures that a file of their own holds whole, valid and finite."""
        return kept(self.own)

    def homes(self) -> dict[Capture, Reading]:
        """The file of each capture that is kept."""
        return {reading.captures[0]: reading for reading in self.own if reading.marks and self._is_home(reading)}

    def judge(self, expected: str = "", *, of: Iterable[Capture] | None = None) -> Judgement:
        """Whether each capture (``of``, or all) is kept in a file of its own, and no file holds anything else.

        Args:
            expected: what is promised, in words; the size of the job when left out.
            of: the captures that must be kept.
        """
        wanted = self.expected if of is None else list(of)
        lost = [capture for capture in wanted if capture not in self.kept]
        problems = [f"{len(wanted) - len(lost)} of {counted(len(wanted), 'capture')} kept"] if lost else []
        problems += [self.why_lost(capture) for capture in lost] if self.cluster.turns else self._why_together(lost)
        problems += self._nobodys(lost)
        problems += self._twice(wanted)
        return Judgement(
            expected or f"{counted(len(wanted), 'capture')}, a file of its own for each: {self.size}",
            len(wanted),
            tuple(dict.fromkeys(problems)),
            self.injected,
            self.cluster.trace_dir,
        )

    def judge_reports(self, expected: str, *, whole_files: bool = False) -> Judgement:
        """Whether every worker either kept its captures or raised.

        Args:
            expected: what is promised, in words.
            whole_files: whether half files under final names are a problem too.
        """
        problems = []
        for outcome in self.run:
            captures = [outcome.job.capture(number) for number in range(outcome.job.rounds)]
            lost = next((capture for capture in captures if capture not in self.kept), None)
            if outcome.ok and lost is not None:
                left = ", ".join(map(self.named, self.traces_of(outcome)[:3]))
                what = f"left {left}, without the capture" if left else "left no file"
                problems.append(f"{told(lost)}: the exporter returned as if all were well, and {what}")
        if whole_files:
            problems += self.broken_files()
        return Judgement(expected, len(self.run), tuple(problems), self.injected, self.cluster.trace_dir)

    @property
    def size(self) -> str:
        """The job in words."""
        cluster = self.cluster
        counts = [(cluster.nodes, "node"), (cluster.ranks, "rank"), (len(cluster.configurations), "configuration")]
        counts += [(cluster.rounds, "round")] if cluster.rounds > 1 else []
        return " x ".join(counted(count, word) for count, word in counts)

    def why_lost(self, capture: Capture) -> str:
        """In one line, what became of a capture that is not kept: who met whom in which file, or at which byte."""
        outcome, who = self.outcome_of(capture), told(capture)
        if not outcome.ok:
            return f"{who}: {_death(outcome)}"
        for path in outcome.touched:
            later = self._later(outcome, path)
            if later is not None:
                return f"{_both(outcome, later)} met in {self.named(path)}: {self.holds(path)}"
        own = self.own
        for reading in own:
            if capture in reading.captures:
                return f"{who}: {self._broken(reading)}"
        written = [reading for reading in self.readings if str(reading.path) in outcome.touched]
        rounds = [each for reading in written for each in reading.captures if _is_other_round(each, capture)]
        if rounds:
            return f"{who}: no file holds it, only {told(rounds[0])}: is every one of job.rounds captured, and kept?"
        for reading in (*(each for each in written if each in own), *written):
            if reading.legacy and capture in reading.captures:
                return f"{who}: only the legacy file {reading.name} has it, which the next writer replaces"
            return f"{who}: the file it wrote, {self.named(reading.path)}: {self.holds(str(reading.path))}"
        said = f"{who}: the exporter returned as if all were well, and no file holds it"
        others = [self.named(path) for path in outcome.touched if path not in map(str, self.legacy)]
        if others and not written:
            return (
                f"{said}; it wrote {', '.join(others[:2])}, but traces are looked for as {', '.join(_TRACE_SUFFIXES)}"
            )
        return said

    def _why_together(self, lost: list[Capture]) -> list[str]:
        """As `why_lost` for workers that wrote at the same time, so that nobody knows who wrote which file."""
        problems = self.broken_files() if lost else []
        raised = [capture for capture in lost if not self.outcome_of(capture).ok]
        problems += [self.why_lost(capture) for capture in raised]
        silent = [told(capture) for capture in lost if capture not in raised]
        if silent:
            more = f" and {len(silent) - 2} more" if len(silent) > 2 else ""
            homes = [f"{self.named(r.path)} has {told(r.captures[0])}" for r in self.homes().values()]
            there = f"; {'; '.join(homes[:2])}" if homes else ""
            problems.append(
                f"no file holds {', '.join(silent[:2])}{more}, and the exporter returned as if all were well{there}"
            )
        return problems

    def outcome_of(self, capture: Capture) -> Outcome[Any]:
        """How the worker of a capture ended."""
        return self.run.of(capture.node, capture.rank, capture.configuration)

    def named(self, path: str | Path) -> str:
        """A path as messages show it."""
        base = self.cluster.trace_dir
        return short(os.path.relpath(path, base if Path(path).is_relative_to(base) else self.cluster.root), 200)

    def broken_files(self) -> list[str]:
        """The files under final names that hold something broken or half, one line each."""
        return [self._broken(reading) for reading in self.readings if not (reading.marks and self._is_home(reading))]

    def traces_of(self, outcome: Outcome[Any]) -> list[str]:
        """The paths with a trace's name that a worker touched in its turn."""
        root = self.cluster.root
        return [path for path in outcome.touched if is_trace_name(os.path.relpath(path, root))]

    @property
    def own(self) -> list[Reading]:
        """The files that can keep a capture: all but the shared legacy ones, or all where there are no others."""
        own = [reading for reading in self.readings if not reading.legacy]
        return own if own or self.has_own_files else list(self.readings)

    @staticmethod
    def _is_home(reading: Reading) -> bool:
        return reading.whole(reading.captures[0])

    def _later(self, outcome: Outcome[Any], path: str) -> Outcome[Any] | None:
        """The next worker that touched a file of ``outcome``'s; only turns can tell."""
        place = self.run.outcomes.index(outcome)
        if path in self.legacy and any(not reading.legacy for reading in self.readings):
            return None  # to share the legacy file is what it is for
        return next((other for other in self.run.outcomes[place + 1 :] if path in other.touched), None)

    def holds(self, path: str) -> str:
        """In words, what is in a file of this run."""
        reading = next((reading for reading in self.readings if str(reading.path) == path), None)
        if reading is None:
            return "it is gone"
        if not reading.ok:
            return f"it is broken, {_place(reading)}"
        return f"it holds {' and '.join(map(told, reading.captures[:2])) or 'no mark of any capture'}"

    def _broken(self, reading: Reading) -> str:
        name = self.named(reading.path)
        if not reading.ok:
            return f"{name} is broken, {_place(reading)}"
        if len(reading.captures) > 1:
            return f"{name} holds {len(reading.captures)} captures: {', '.join(map(told, reading.captures[:2]))}"
        if reading.marks:
            return f"{name} holds {reading.broken_marks() or f'{told(reading.captures[0])} instead'}"
        what = f"none of its {reading.events} events is a mark" if reading.events else "it has no event"
        return f"{name}: {what}, so nothing proves which capture it holds"

    def _nobodys(self, lost: list[Capture]) -> list[str]:
        """Files that are broken, or hold no capture, half of one, or two, and explain no loss."""
        return [
            self._broken(reading)
            for reading in self.own
            if not (reading.marks and self._is_home(reading)) and not any(each in lost for each in reading.captures)
        ]

    def _twice(self, wanted: Iterable[Capture]) -> list[str]:
        homes: dict[Capture, list[str]] = {}
        for reading in self.own:
            if reading.marks and self._is_home(reading):
                homes.setdefault(reading.captures[0], []).append(short(reading.name))
        known = set(wanted)
        return [
            f"{told(capture)} is in {len(names)} files: {', '.join(names[:3])}"
            for capture, names in homes.items()
            if len(names) > 1 and capture in known
        ]


def counted(count: int, word: str) -> str:
    """``2 ranks``."""
    return f"{count} {word}" + ("s" if count != 1 else "")


def told(capture: Capture) -> str:
    """A capture for a message; its configuration may fill a whole name."""
    return str(dataclasses.replace(capture, configuration=short(capture.configuration, _CONFIGURATION_SHOWN)))


def _is_other_round(one: Capture, other: Capture) -> bool:
    return one != other and dataclasses.replace(one, round=other.round) == other


def _both(one: Outcome[Any], other: Outcome[Any]) -> str:
    """Two workers, without repeating what they share."""
    first, second = told(one.job.capture()), told(other.job.capture())
    if one.job.configuration == other.job.configuration:
        return f"{first} and {other.job.worker.node} rank {other.job.worker.rank}"
    if one.job.worker == other.job.worker:
        return f"{short(one.job.configuration, _CONFIGURATION_SHOWN)} and {second}"
    return f"{first} and {second}"


def _death(outcome: Outcome[Any]) -> str:
    if outcome.signal is not None:
        return outcome.headline
    return f"the exporter raised {short(outcome.headline, 300)}"


def _place(reading: Reading) -> str:
    """The first error of a file, without the file's name, which the caller has said."""
    message = next(finding.message for finding in reading.findings if finding.severity.value == "error")
    return re.sub(r"^.*?: (?=byte \d|cannot)", "", message, count=1, flags=re.DOTALL)
