"""CT6: a consumer that pairs the files of a baseline with those of a target: what it says of old and new folders.

"Old" is a folder with legacy files only, "new" one in which each capture has a file of its own as well. The consumer
is called in a worker of its own, always with the same two paths, so that its outputs can be compared byte for byte.
"""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_gputrace.conformance.answers import Answer, ask
from pytest_gputrace.conformance.control import legacy_exporter
from pytest_gputrace.conformance.distinct import plain_configurations
from pytest_gputrace.conformance.judgement import Judgement, short
from pytest_gputrace.conformance.promise import Family
from pytest_gputrace.errors import ContractError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from pytest_gputrace.conformance.trial import Trial
    from pytest_gputrace.fakes import Job

__all__ = ["FAMILY"]

FAMILY = Family()

_SEEDS = {"baseline": 1, "target": 2}  # other times in the same events


@FAMILY.check("CT601", "old/old: legacy files beside nothing else give what they always gave",
              needs=("legacy",), consumer=True, control=True)  # fmt: skip
def old_old(trial: Trial) -> Judgement:
    """Both folders with the legacy files that the exporter under test wrote, without its other files."""
    folders = _Folders(trial)
    return _same(folders, "old/old", folders.ask(folders.legacy_of_new("baseline"), folders.legacy_of_new("target")))


@FAMILY.check("CT602", "old/new: files that a baseline lacks change nothing",
              needs=("legacy",), consumer=True, control=True)  # fmt: skip
def old_new(trial: Trial) -> Judgement:
    """An old baseline with a new target."""
    folders = _Folders(trial)
    return _same(folders, "old/new", folders.ask(folders.old("baseline"), folders.new("target")))


@FAMILY.check("CT603", "new/new: each capture of its own is one more pair",
              needs=("legacy",), consumer=True, control=True)  # fmt: skip
def new_new(trial: Trial) -> Judgement:
    """Each file that both folders have beside the legacy ones must count: without it the output is another one."""
    folders = _Folders(trial)
    folders.prove_consumer()
    baseline, target = folders.new("baseline"), folders.new("target")
    expected = f"one more pair for each of {folders.captures} captures"
    whole = folders.ask(baseline, target)
    if whole.raised:
        return folders.judgement(expected, [f"the consumer raised {whole.text(200)}"])
    own = folders.own(baseline)
    paired = [name for name in own if (target / name).exists()]
    problems = [f"{short(name)} of the baseline has no partner in the target" for name in own if name not in paired]
    if len(own) < folders.captures:
        problems.insert(0, f"{len(own)} files beside the legacy ones in the baseline, for {folders.captures} captures")
    problems += [
        f"the output is the same with and without {short(name)}: the consumer does not look at it"
        for name in paired
        if folders.ask(folders.without(baseline, name), folders.without(target, name)) == whole
    ]
    return folders.judgement(expected, problems)


@FAMILY.check("CT604", "new/old: a missing counterpart gets the consumer's own answer",
              needs=("legacy",), consumer=True, control=True)  # fmt: skip
def new_old(trial: Trial) -> Judgement:
    """The answer is compared with that for files of other names which have no counterpart either."""
    folders = _Folders(trial)
    folders.prove_consumer()
    baseline = folders.new("baseline")
    renamed = folders.with_other_names(baseline)
    found = folders.ask(baseline, folders.old("target"))
    wanted = folders.ask(renamed, folders.old("target"))
    same = found.masked(folders.own(baseline)) == wanted.masked(folders.own(renamed))
    problems = [] if same else [f"the consumer {found.told()}", f"for files of other names it {wanted.told()}"]
    return folders.judgement("the answer that the consumer gives for any file without a counterpart", problems)


def _same(folders: _Folders, pairing: str, found: Answer) -> Judgement:
    control = folders.control
    problems = []
    if found != control:
        problems = [f"the consumer {found.told()}", f"with legacy files only it {control.told()}"]
    return folders.judgement(f"{pairing}: the output of the legacy-only control", problems)


@dataclass
class _Folders:
    """The folders of one check, each made once."""

    trial: Trial
    count: int = 0

    def __post_init__(self) -> None:
        self._made: dict[tuple[str, str], Path] = {}
        self.homes: dict[Path, list[str]] = {}

    @property
    def captures(self) -> int:
        """How many captures each new folder should hold."""
        return self.trial.sizes.ranks * self.trial.sizes.configurations

    @cached_property
    def control(self) -> Answer:
        """What the consumer says of two old folders; twice, since an output that changes cannot be compared."""
        first, second = (self.ask(self.old("baseline"), self.old("target")) for _ in range(2))
        if first.raised:
            raise ContractError(f"the consumer raised for two folders of legacy files only: {first.text(300)}")
        if first != second:
            raise ContractError("the consumer's output differs when it is called twice; it cannot be compared")
        return first

    def prove_consumer(self) -> None:
        """Raise `ContractError` for a consumer that nothing can be said with."""
        _ = self.control

    def old(self, side: str) -> Path:
        """A folder that the legacy exporter filled."""
        return self._filled(side, "old", legacy_exporter(self.trial))

    def new(self, side: str) -> Path:
        """A folder that the exporter under test filled."""
        return self._filled(side, "new", None)

    def _filled(self, side: str, age: str, exporter: Callable[[Job], Any] | None) -> Path:
        if (side, age) not in self._made:
            sizes = self.trial.sizes
            cluster = self.trial.cluster(
                ranks=sizes.ranks, configurations=plain_configurations(sizes.configurations), seed=_SEEDS[side]
            )
            scene = self.trial.run_in(cluster, exporter)
            failed = next((outcome for outcome in scene.run if not outcome.ok), None)
            if failed is not None:
                raise ContractError(f"there is no {age} {side} to pair: {short(str(failed), 300)}")
            self._made[side, age] = cluster.trace_dir
            own = [str(reading.path) for reading in scene.homes().values() if not reading.legacy]
            below = [path for path in own if Path(path).is_relative_to(cluster.trace_dir)]
            self.homes[cluster.trace_dir] = [os.path.relpath(path, cluster.trace_dir) for path in below]
        return self._made[side, age]

    def own(self, folder: Path) -> list[str]:
        """The files of captures in a new folder beside the legacy ones, by their path in it."""
        return sorted(self.homes[folder])

    def legacy_of_new(self, side: str) -> Path:
        """A copy of a new folder with the legacy files only."""
        folder = self.new(side)
        return self._copy(folder, leave_out=self.own(folder))

    def without(self, folder: Path, name: str) -> Path:
        """A copy without one file."""
        return self._copy(folder, leave_out=[name])

    def with_other_names(self, folder: Path) -> Path:
        """A copy in which the files beside the legacy ones have names of nobody's."""
        copy = self._copy(folder, leave_out=self.own(folder))
        self.homes[copy] = []
        for name in self.own(folder):
            other = _other_name(name)
            shutil.copyfile(folder / name, copy / other)
            self.homes[copy].append(other)
        return copy

    def _copy(self, folder: Path, leave_out: Iterable[str] = ()) -> Path:
        self.count += 1
        copy = self.trial.folder / f"copy{self.count}"
        shutil.copytree(folder, copy)
        for name in leave_out:
            (copy / name).unlink()
        return copy

    def ask(self, baseline: Path, target: Path) -> Answer:
        """What the consumer says of two folders, put at the same two places each time."""
        return ask(self.trial, baseline, target)

    def judgement(self, expected: str, problems: list[str]) -> Judgement:
        """Of the captures in the folders."""
        return Judgement(expected, self.captures, tuple(problems), (), self.trial.folder)


def _other_name(name: str) -> str:
    """A name of the same length, different for different ones: an aligned or a sorted output must not change by it."""
    end = max(name.lower().rfind(suffix) for suffix in (".json", ".chrome_trace"))
    stem, suffix = name[:end], name[end:]
    last = stem[-1]
    if last.isdigit():
        return f"{stem[:-1]}{(int(last) + 5) % 10}{suffix}"
    return f"{stem[:-1]}{chr((ord(last.lower()) - ord('a') + 13) % 26 + ord('a'))}{suffix}"
