"""CT1: each capture has a file of its own, whoever else writes beside it: ranks, nodes, configurations, other runs.

Every check changes one thing only, and workers write one after another, so that one that is broken names its cause.
"""

from __future__ import annotations

import dataclasses
import unicodedata
from pathlib import PurePath
from typing import TYPE_CHECKING

from pytest_gputrace.conformance.judgement import Judgement, joined, short
from pytest_gputrace.conformance.portable import why_refused
from pytest_gputrace.conformance.promise import Family
from pytest_gputrace.conformance.scene import files_below, legacy_paths, told
from pytest_gputrace.conformance.trial import refuse_idle_faults
from pytest_gputrace.fakes import faults

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from pytest_gputrace.conformance.scene import Scene
    from pytest_gputrace.conformance.trial import Trial

__all__ = ["FAMILY", "LOCKSTEP_PATIENCE_S", "plain_configurations"]

FAMILY = Family()

LOCKSTEP_PATIENCE_S = 3.0
"""Shorter than the 5 s after which many a lock gives up: an exporter that waits for one must not be failed by us."""

_PLAIN = ("fp16", "fp32", "bf16", "fp8", "int8", "tf32")
_SLASHES = ("gpt", "gpt/fp16", "gpt/fp16/train", "bert/fp16", "bert/fp16/train")
_CLEANED_ALIKE = ("a:b", "a_b", "a-b", "a b", "a.b", "a.c", "a/b", "a__b", "a+b", "a=b", "a~b", "ab")
_FOLDED_ALIKE = ("fp16", "FP16", "Fp16", "caf\u00e9", "cafe\u0301", "CAF\u00c9", "stra\u00dfe", "strasse")
_REFUSED = ('a"b', "a*b", "a:b", "a<b>", "a?b", "a\\b", "a|b", "con", "NUL", "com1.x", "ends.", "ends ", "a\u00a0b")
# A name may have 255 bytes. How much of it an exporter adds is its own affair: one of these lengths hits the limit.
_LIMIT = 255
_ASCII_BYTES = range(150, _LIMIT + 1)
_WIDE, _WIDE_BYTES = "\u6f22", 3
_WIDE_CHARACTERS = range(20, _LIMIT // _WIDE_BYTES + 1)


def plain_configurations(count: int) -> list[str]:
    """Configurations that differ, and have nothing special about them."""
    return [*_PLAIN, *(f"case{number}" for number in range(count))][:count]


@FAMILY.check("CT100", "an exporter that returns has kept the capture: one worker, one whole file")
def plain(trial: Trial) -> Judgement:
    """No other worker, no fault."""
    return trial.run().judge()


@FAMILY.check("CT101", "every rank of a node keeps its capture", ranks=2)
def ranks(trial: Trial) -> Judgement:
    """One node, several ranks."""
    return trial.run(ranks=trial.sizes.ranks).judge()


@FAMILY.check("CT102", "every node keeps its capture in one shared folder", needs=("multi_node",), nodes=2)
def nodes(trial: Trial) -> Judgement:
    """Equal local ranks, different global ranks."""
    scene = trial.run(nodes=trial.sizes.nodes)
    return scene.judge(
        f"{scene.size}: the local rank is 0 on each, the global rank differs; a file of its own for each"
    )


@FAMILY.check("CT103", "every configuration of a model keeps its capture", configurations=2)
def configurations(trial: Trial) -> Judgement:
    """One worker for each of several configurations."""
    return trial.run(configurations=plain_configurations(trial.sizes.configurations)).judge()


@FAMILY.check("CT104", "a configuration with slashes keeps its capture, whatever its last part")
def slashes(trial: Trial) -> Judgement:
    """Configurations that share their last part, or are the beginning of another one."""
    return _of(trial, _SLASHES, "that share parts between slashes")


@FAMILY.check("CT105", "configurations that cleaning makes equal keep their captures")
def cleaned(trial: Trial) -> Judgement:
    """What a regular expression would turn into one name."""
    return _of(trial, _CLEANED_ALIKE, "that differ in punctuation only")


@FAMILY.check("CT106", "names differ in more than case and Unicode form")
def folded(trial: Trial) -> Judgement:
    """SMB, NTFS and APFS fold case, APFS and HFS+ the Unicode form too: there such names are one file."""
    scene = trial.run(configurations=_FOLDED_ALIKE)
    judgement = scene.judge(f"{len(_FOLDED_ALIKE)} configurations in files whose names differ where case is folded")
    by_key: dict[str, list[str]] = {}
    for reading in scene.homes().values():
        by_key.setdefault(_folded(reading.name), []).append(reading.name)
    alike = [
        f"{' and '.join(map(short, names))} are one file where case or Unicode forms are folded"
        for names in by_key.values()
        if len(names) > 1
    ]
    return dataclasses.replace(judgement, problems=(*judgement.problems, *alike))


def _folded(name: str) -> str:
    # Canonical caseless matching (Unicode 3.13, D145).
    once = unicodedata.normalize("NFD", unicodedata.normalize("NFD", name).casefold())
    return unicodedata.normalize("NFC", once)


@FAMILY.check("CT107", "names can be copied to any file system")
def portable(trial: Trial) -> Judgement:
    """Names that NTFS, SMB and exFAT refuse are lost when traces are copied there."""
    scene = trial.run(configurations=_REFUSED)
    judgement = scene.judge(f"{len(_REFUSED)} configurations in files with portable names")
    problems = [
        f"{short(reading.name)} {why}"
        for reading in scene.homes().values()
        if (why := why_refused(PurePath(reading.name).parts))
    ]
    return dataclasses.replace(judgement, problems=(*judgement.problems, *problems))


@FAMILY.check("CT108", "configurations of any length keep their captures")
def long_names(trial: Trial) -> Judgement:
    """Every length up to what a folder may have, and long ones that differ at one place only."""
    alike = ["x" * _LIMIT, "y" + "x" * (_LIMIT - 1), "x" * (_LIMIT - 1) + "y", "x" * 127 + "y" + "x" * 127]
    lengths = ["c" * length for length in _ASCII_BYTES]
    parts = ["x" * 200 + "/" + "y" * 200 + end for end in ("", "z", "/z")]
    return _of(trial, [*lengths, *alike, *parts], f"of {_ASCII_BYTES[0]} bytes and more")


@FAMILY.check("CT109", "configurations of any length in bytes keep their captures")
def wide_names(trial: Trial) -> Judgement:
    """Letters of three bytes: a limit of characters is none of bytes, and a cut may fall inside a letter."""
    lengths = [_WIDE * count + "c" * (count % _WIDE_BYTES) for count in _WIDE_CHARACTERS if count < _LIMIT // 3]
    alike = [_WIDE * 84 + "a", _WIDE * 84 + "b", "\u5b57" + _WIDE * 84, _WIDE * 60 + "/" + _WIDE * 60]
    return _of(trial, [*lengths, *alike], "of letters of three bytes each")


@FAMILY.check("CT110", "the same job gets the same names tomorrow")
def repeatable(trial: Trial) -> Judgement:
    """Baseline and target are paired by name: a clock or a process id in it leaves every file without a partner."""
    names = plain_configurations(2)
    # Tomorrow they come in another order: who is first must not matter.
    days = ((names, 1_800_000_000.0), (names[::-1], 1_800_090_061.5))
    scenes = [trial.run(ranks=2, configurations=order, faults=[faults.frozen_clock(time_s)]) for order, time_s in days]
    first, second = (scene.homes() for scene in scenes)
    both = [capture for capture in first if capture in second]
    problems = [
        f"{told(capture)} is in {short(first[capture].name)}, and a day later in {short(second[capture].name)}"
        for capture in both
        if first[capture].name != second[capture].name
    ]
    names_then, names_now = (sorted(reading.name for reading in scene.own) for scene in scenes)
    if not both and names_then != names_now:  # where captures meet, who is last stays: the names must still be the same
        problems = [f"the files are {_some(names_then)}, and a day later {_some(names_now)}"]
    expected = "the same file names when the same job runs a day later, in another folder"
    return Judgement(
        expected, len(both) or len(names_then), tuple(problems), scenes[0].injected, scenes[1].cluster.trace_dir
    )


def _some(names: Sequence[str]) -> str:
    return ", ".join(map(short, names[:2])) or "none"


@FAMILY.check("CT111", "nothing is unique by its host, process id or clock", needs=("multi_node",), nodes=2, ranks=2)
def frozen(trial: Trial) -> Judgement:
    """Containers have equal host names and process ids, and a fast machine writes two files within one tick."""
    sizes = trial.sizes
    scene = trial.run(
        nodes=sizes.nodes,
        ranks=sizes.ranks,
        configurations=plain_configurations(2),
        faults=[faults.equal_hosts(), faults.frozen_clock()],
    )
    return scene.judge(f"{scene.size}, one host name for all, equal process ids, one time: a file of its own for each")


@FAMILY.check("CT112", "every round of a process keeps its capture", needs=("rounds",))
def rounds(trial: Trial) -> Judgement:
    """Three captures, one after the other, in one process: a file and its one backup would hold two."""
    return trial.run(rounds=3).judge()


@FAMILY.check("CT113", "a repeated run keeps what the run before it kept")
def repeated(trial: Trial) -> Judgement:
    """The same job twice more in the same folder. The legacy file may be replaced where there are others, nothing else."""
    root = trial.folder / "repeated"
    judgements = []
    before: list[str] = []
    for run in range(3):
        scene = trial.run(root, ranks=2, first_round=run)
        judgement = scene.judge("the files of the runs before as they were, and those of this one beside them")
        problems = (*_changed_since(scene, before), *judgement.problems)
        judgements.append(dataclasses.replace(judgement, problems=problems))
        before += [str(reading.path) for reading in scene.own]
    return joined(judgements)


def _changed_since(scene: Scene, before: Iterable[str]) -> Iterator[str]:
    now = {str(reading.path): reading for reading in scene.readings}
    there = files_below(scene.cluster.root)
    for path in before:
        name = scene.named(path)
        if path not in there:
            yield f"{name} of an earlier run is gone"
        elif path in now and now[path].captures:
            yield f"{name} of an earlier run now holds {told(now[path].captures[0])}"
        elif path in now:
            yield f"{name} of an earlier run was written again"


@FAMILY.check("CT114", "files of an earlier job in the folder are left as they are")
def stale(trial: Trial) -> Judgement:
    """Complete traces of other captures lie there already; the legacy file may be replaced, nothing else."""
    earlier = trial.cluster(ranks=2, faults=[faults.stale_files()])
    trial.run_in(earlier, lambda job: None)
    before = files_below(earlier.root)
    scene = trial.run(earlier.root, ranks=2)
    there = files_below(earlier.root)
    put = {path: stamp for path, stamp in before.items() if path not in legacy_paths(scene.run)}
    problems = [
        f"{scene.named(path)}, a file of an earlier job, was {'changed' if path in there else 'removed'}"
        for path, stamp in put.items()
        if there.get(path) != stamp
    ]
    judgement = scene.judge("the files of an earlier job as they were, and those of this one beside them")
    looked_at = judgement.looked_at + len(put)
    return dataclasses.replace(judgement, looked_at=looked_at, problems=(*problems, *judgement.problems))


@FAMILY.check("CT115", "all workers writing at once keep their captures", needs=("in_process",))
def at_once(trial: Trial) -> Judgement:
    """All go from file event to file event together: shared temporary names and look-then-write always collide."""
    scene = trial.run(
        nodes=trial.nodes,
        ranks=trial.sizes.ranks,
        configurations=plain_configurations(max(2, trial.sizes.configurations)),
        faults=[faults.lockstep(LOCKSTEP_PATIENCE_S)],
        turns=False,
        may_miss=True,
    )
    judgement = scene.judge()
    if judgement.ok:
        refuse_idle_faults(scene.run)  # nothing was lost, and nobody met: that proves nothing
    return judgement


@FAMILY.check("CT116", "LOCAL_RANK=0 for every worker loses no capture", ranks=2)
def local_rank_zero(trial: Trial) -> Judgement:
    """A launcher that gives each worker one device may call it number 0; the global rank still differs."""
    scene = trial.run(nodes=trial.nodes, ranks=trial.sizes.ranks, env={"LOCAL_RANK": "0"})
    return scene.judge(f"{scene.size}, LOCAL_RANK=0 and another RANK in each: a file of its own for each")


def _of(trial: Trial, names: Sequence[str], what: str) -> Judgement:
    scene = trial.run(configurations=names)
    return scene.judge(f"{len(names)} configurations {what}: a file of its own for each")
