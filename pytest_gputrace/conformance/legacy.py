"""CT3: the legacy file stays what it always was, and nothing that happens to it reaches a capture's own file."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from pytest_gputrace.conformance.control import control_bytes, legacy_exporter
from pytest_gputrace.conformance.distinct import LOCKSTEP_PATIENCE_S, plain_configurations
from pytest_gputrace.conformance.judgement import Judgement, joined, short
from pytest_gputrace.conformance.promise import Family
from pytest_gputrace.conformance.scene import told
from pytest_gputrace.fakes import OUTSIDE_LAYOUT, faults

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pytest_gputrace.checks.captures import Reading
    from pytest_gputrace.conformance.scene import Scene
    from pytest_gputrace.conformance.trial import Trial
    from pytest_gputrace.fakes.faults import Fault, Moment

__all__ = ["FAMILY"]

FAMILY = Family()

_MOMENTS: tuple[Moment, ...] = ("start", "legacy-written", "every-open", "end")


@FAMILY.check("CT301", "the legacy file has the name that consumers know", needs=("legacy",), ranks=2)
def name(trial: Trial) -> Judgement:
    """Each worker's own turn leaves it, in the trace folder."""
    scene = trial.run(ranks=trial.sizes.ranks)
    problems = [
        f"{outcome.job.worker.node} rank {outcome.job.worker.rank} wrote no {outcome.job.legacy_name}"
        + (f"; it wrote {', '.join(map(scene.named, scene.traces_of(outcome)[:3]))}" if outcome.touched else "")
        for outcome in scene.run
        if str(outcome.job.legacy_path) not in outcome.touched
    ]
    problems += [
        f"{scene.named(reading.path)} is no trace: {scene.holds(str(reading.path))}"
        for reading in scene.readings
        if reading.legacy and not (reading.ok and reading.events)
    ]
    expected = f"the legacy file of each worker, such as {scene.run.outcomes[0].job.legacy_name}"
    return Judgement(expected, len(scene.run), tuple(problems), (), scene.cluster.trace_dir)


@FAMILY.check("CT302", "the legacy file has the bytes it always had", needs=("legacy", "torch_profiler"), control=True)
def content(trial: Trial) -> Judgement:
    """Those that the exporter without anything new writes for the same profile, NaN and infinities included."""
    return joined([_same_bytes(trial), _same_bytes(trial, faults=[faults.bad_values(math.nan, math.inf, -math.inf)])])


@FAMILY.check("CT303", "the legacy file is that of the last capture", needs=("legacy", "torch_profiler"), control=True)
def last_write(trial: Trial) -> Judgement:
    """Several configurations, one after another, share it."""
    return _same_bytes(trial, configurations=plain_configurations(max(2, trial.sizes.configurations)))


@FAMILY.check("CT304", "a legacy file written over by others costs no capture", needs=("legacy",))
def overwritten(trial: Trial) -> Judgement:
    """At four moments: before, just after it was written, at every file event, after the return."""
    return _struck(trial, faults.overwrite_legacy)


@FAMILY.check("CT305", "a legacy file cut short by others costs no capture", needs=("legacy",))
def truncated(trial: Trial) -> Judgement:
    """At four moments: before, just after it was written, at every file event, after the return."""
    return _struck(trial, faults.truncate_legacy)


@FAMILY.check("CT307", "workers that write the legacy file at once leave one of theirs, whole", needs=("legacy",))
def side_by_side(trial: Trial) -> Judgement:
    """Configurations of one rank share it, and go from file event to file event together."""
    names = plain_configurations(max(2, trial.sizes.configurations))
    scene = trial.run(configurations=names, faults=[faults.lockstep(LOCKSTEP_PATIENCE_S)], turns=False, may_miss=True)
    files = [reading for reading in scene.readings if reading.legacy]
    broken = [
        f"{scene.named(reading.path)}: {scene.holds(str(reading.path))}"
        for reading in files
        if not (reading.captures and reading.whole(reading.captures[0])) and not _has_no_mark(reading)
    ]
    problems = broken if files else [f"no worker left a {scene.run.outcomes[0].job.legacy_name}"]
    problems += [
        f"{told(outcome.job.capture())}: the exporter raised {short(outcome.headline, 200)}"
        for outcome in scene.run
        if not outcome.ok
    ]
    expected = f"one whole file of {len(names)} workers that share it, and none of them fails"
    return Judgement(expected, max(1, len(files)), tuple(problems), scene.injected, scene.cluster.trace_dir)


def _has_no_mark(reading: Reading) -> bool:
    """Whether a legacy format simply keeps no event names; that it is whole JSON is then all that can be said."""
    return reading.ok and reading.events > 0 and not reading.marks


@FAMILY.check(
    "CT306", "outside the executor's layout there is the legacy file and nothing else",
    needs=("legacy", "layout", "torch_profiler"), control=True,
)  # fmt: skip
def fallback(trial: Trial) -> Judgement:
    """No configuration is known there: folders that only look like rank folders, a valid rank outside among them."""
    cluster = trial.cluster(work_dirs=OUTSIDE_LAYOUT, process_group=False)
    wanted = control_bytes(trial, cluster)
    scene = trial.run_in(cluster)
    problems = []
    for outcome in scene.run:
        where = short(str(outcome.job.rank_dir.relative_to(cluster.root / "node0")))
        own = [path for path in scene.traces_of(outcome) if path != str(outcome.job.legacy_path)]
        if not outcome.ok:
            problems.append(f"in {where} the exporter raised {short(outcome.headline, 200)}")
        elif str(outcome.job.legacy_path) not in outcome.touched:
            problems.append(f"in {where} it wrote no {outcome.job.legacy_name}")
        if own:
            problems.append(f"in {where} it also wrote {', '.join(map(scene.named, own[:2]))}, for no configuration")
    problems += _differences(scene, wanted)
    expected = f"the legacy file only, in {len(OUTSIDE_LAYOUT)} folders outside benchmarks/<configuration>/rank<N>"
    return Judgement(expected, len(scene.run), tuple(problems), (), cluster.trace_dir)


def _same_bytes(trial: Trial, **options: Any) -> Judgement:
    cluster = trial.cluster(**options)
    wanted = control_bytes(trial, cluster)
    scene = trial.run_in(cluster)
    expected = f"the bytes of the legacy exporter in {', '.join(map(scene.named, list(wanted)[:3]))}"
    problems = tuple(_differences(scene, wanted))
    return Judgement(expected, len(wanted), problems, scene.injected, cluster.trace_dir)


def _differences(scene: Scene, wanted: dict[str, bytes]) -> Iterator[str]:
    for path, expected in wanted.items():
        named = scene.named(path)
        try:
            with open(path, "rb") as file:
                found = file.read()
        except OSError as error:
            yield f"{named} cannot be read: {error.strerror}"
            continue
        if found != expected:
            pairs = enumerate(zip(found, expected, strict=False))
            place = next((index for index, (one, other) in pairs if one != other), min(len(found), len(expected)))
            here, there = found[place : place + 40], expected[place : place + 40]
            yield (
                f"{named} differs from byte {place} on ({len(found)} bytes, not {len(expected)}): "
                f"{here.decode(errors='replace')!r} instead of {there.decode(errors='replace')!r}"
            )


def _struck(trial: Trial, fault: Callable[[Moment], Fault]) -> Judgement:
    judgements = []
    for moment in _MOMENTS:
        # One worker: with two, each could find its capture in the file that was written over for the other.
        cluster = trial.cluster()
        # A legacy file of an earlier run, so that there is something to damage at every moment.
        trial.run_in(cluster, legacy_exporter(trial))
        scene = trial.run(cluster.root, faults=[fault(moment)], may_miss=True)
        if any(scene.run.struck.values()):  # at a moment of writing it does not, where none is written
            judgements.append(scene.judge("the capture's own file whole, whatever happens to the legacy file"))
    return joined(judgements)
