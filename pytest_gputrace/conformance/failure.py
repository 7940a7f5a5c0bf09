"""CT5: when something goes wrong: no half file under a final name, no success without a trace, nothing lost before."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from pytest_gputrace.conformance.judgement import Judgement, joined
from pytest_gputrace.conformance.promise import Family
from pytest_gputrace.fakes import faults

if TYPE_CHECKING:
    from pytest_gputrace.conformance.trial import Trial
    from pytest_gputrace.fakes.faults import Fault

__all__ = ["FAMILY"]

FAMILY = Family()

_KILL_EVENTS = range(1, 13)
_OPENINGS = range(1, 6)
# The last one: whoever writes after the victim could write over what it left.
_VICTIM = faults.Who(rank=1)


@FAMILY.check("CT501", "a worker killed while it writes leaves no half file under a final name", needs=("in_process",))
def killed(trial: Trial) -> Judgement:
    """SIGKILL at some bytes of a file, and at one file event after the other; a neighbour writes unharmed."""
    size = _smallest_file(trial)
    places = sorted({0, 1, size // 4, size // 2, size - 1})
    deaths = [faults.sigkill(at_byte=count, who=_VICTIM) for count in places]
    judgements = [_after_kill(trial, death) for death in deaths]
    # One that writes a log, or all of it elsewhere, and then copies it into place, would die before it comes there.
    for opening in _OPENINGS:
        death = faults.sigkill(at_byte=size // 2, opening=opening, who=_VICTIM)
        judgements.append(_after_kill(trial, death))
        if not judgements[-1].looked_at:
            break  # it opens no more
    for number in _KILL_EVENTS:
        judgement = _after_kill(trial, faults.sigkill(number, who=_VICTIM))
        judgements.append(judgement)
        if not judgement.looked_at:
            break  # it came to its end before that event
    return joined(judgements)


def _smallest_file(trial: Trial) -> int:
    """How long a trace of this exporter is, in bytes, where nothing goes wrong."""
    return max(1, min((reading.path.stat().st_size for reading in trial.run().readings), default=1))


def _after_kill(trial: Trial, fault: Fault) -> Judgement:
    scene = trial.run(ranks=2, faults=[fault], may_miss=True)
    if not any(scene.run.struck.values()):
        return Judgement("", 0)
    survivor = [capture for capture in scene.expected if capture.rank == 0]
    judgement = scene.judge("whole files only, and the neighbour's capture", of=survivor)
    return dataclasses.replace(judgement, problems=(*scene.broken_files(), *judgement.problems))


@FAMILY.check("CT502", "what a killed worker left stands in nobody's way", needs=("in_process",))
def after_killed(trial: Trial) -> Judgement:
    """The same job runs again in the folder in which a worker was killed half way through its file."""
    half = _smallest_file(trial) // 2
    first = trial.run(ranks=2, faults=[faults.sigkill(at_byte=half, who=_VICTIM)])
    second = trial.run(first.cluster.root, ranks=2, first_round=1)
    return second.judge("the captures of a run that follows one that was killed")


@FAMILY.check("CT503", "a full disk is reported, and leaves no half file under a final name", needs=("in_process",))
def disk_full(trial: Trial) -> Judgement:
    """No file can grow past the half of a trace. The files of an earlier run stay whole."""
    earlier = trial.run(ranks=2)
    half = _smallest_file(trial) // 2
    scene = trial.run(earlier.cluster.root, ranks=2, first_round=1, faults=[faults.disk_full(half)])
    return scene.judge_reports("an error from the exporter, and whole files only", whole_files=True)


@FAMILY.check("CT504", "a folder that cannot be written is reported")
def read_only(trial: Trial) -> Judgement:
    """The trace folder may be read, not written."""
    scene = trial.run(ranks=2, faults=[faults.read_only()])
    return scene.judge_reports("an error from the exporter", whole_files=True)


@FAMILY.check("CT505", "names that SMB refuses are not needed to keep a capture")
def refused_names(trial: Trial) -> Judgement:
    """Making a file whose name SMB refuses fails, as it does in a folder on a Windows share."""
    names = ("model-benchmarks:gpt/fp16", "nccl-bw:default", "a?b", "con")
    scene = trial.run(configurations=names, faults=[faults.refused_names()])
    return scene.judge(f"{len(names)} configurations, a file of its own for each on a Windows share")


@FAMILY.check("CT506", "a folder that is not there is made or reported")
def missing_folder(trial: Trial) -> Judgement:
    """Writing into a missing folder must not look like success."""
    scene = trial.run(faults=[faults.missing_folder()])
    return scene.judge_reports("the capture, or an error from the exporter", whole_files=True)


@FAMILY.check("CT507", "a profile without events is reported", needs=("torch_profiler",))
def empty_profile(trial: Trial) -> Judgement:
    """Success with an empty trace is the loss that is found last."""
    scene = trial.run(faults=[faults.empty_profile()])
    return scene.judge_reports("an error from the exporter: nothing was recorded")


@FAMILY.check("CT508", "a profile whose session another profiler took is reported", needs=("torch_profiler",))
def stolen_session(trial: Trial) -> Judgement:
    """Since torch 2.13 an inner profiler takes the session without a word; exporting then kills the process."""
    scene = trial.run(faults=[faults.stolen_session()])
    return scene.judge_reports("an error from the exporter: the recording was lost")
