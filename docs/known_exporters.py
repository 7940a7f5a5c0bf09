"""Holds exporters that others have released to every check of the contract, and writes ``known-exporters.md``.

``python docs/known_exporters.py [PAGE]``; needs torch, viztracer and accelerate. The adapters below are all there is
between a package and the checks: each calls it as its documentation shows, in a simulated worker, for one job.
"""

from __future__ import annotations

import hashlib
import inspect
import itertools
import json
import os
import re
import sys
import tempfile
import textwrap
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import torch
from accelerate import Accelerator, PartialState
from accelerate.utils import ProfileKwargs
from viztracer import VizTracer

from pytest_gputrace import export_events
from pytest_gputrace.conformance import CHECKS, Sizes, Subject, hold, not_checked
from pytest_gputrace.errors import ContractError
from pytest_gputrace.fakes.files import event_list

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from pytest_gputrace.conformance import ContractCheck
    from pytest_gputrace.fakes import Job

    Exporter = Callable[[Job], None]

PAGE = Path(__file__).with_name("known-exporters.md")
PACKAGES = ("torch", "viztracer", "accelerate")
SIZES = Sizes()


# As documented. In a simulated worker torch.profiler.profile is the fake one, so it must be looked up at each call.


def torch_handler(job: Job) -> None:
    for _ in range(job.rounds):
        handler = torch.profiler.tensorboard_trace_handler(str(job.trace_dir))
        with torch.profiler.profile(on_trace_ready=handler):
            pass


def torch_handler_named(job: Job) -> None:
    for _ in range(job.rounds):
        handler = torch.profiler.tensorboard_trace_handler(str(job.trace_dir), worker_name=f"rank{job.worker.rank}")
        with torch.profiler.profile(on_trace_ready=handler):
            pass


def torch_one_path(job: Job) -> None:
    for _ in range(job.rounds):
        with torch.profiler.profile() as prof:
            pass
        prof.export_chrome_trace(str(job.trace_dir / "trace.json"))


def viztracer_one_path(job: Job) -> None:
    for number in range(job.rounds):
        with VizTracer(output_file=str(job.trace_dir / "result.json"), verbose=0) as tracer:
            tracer.log_instant(job.capture(number).mark())
            work(9)


def viztracer_pid(job: Job) -> None:
    for number in range(job.rounds):
        with VizTracer(output_file=str(job.trace_dir / "result.json"), pid_suffix=True, verbose=0) as tracer:
            tracer.log_instant(job.capture(number).mark())
            work(9)


def accelerate_profile(job: Job) -> None:
    stand_alone(job)
    accelerator = Accelerator(cpu=True, kwargs_handlers=[ProfileKwargs(output_trace_dir=str(job.trace_dir))])
    for _ in range(job.rounds):
        with accelerator.profile():
            pass


def superbench(job: Job) -> None:
    sources = ("PROC_RANK", "LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK")
    rank = next((int(text) for name in sources if (text := os.environ.get(name))), 0)
    for _ in range(job.rounds):
        with torch.profiler.profile(record_shapes=True) as prof:
            pass
        with open(job.trace_dir / f"torch-profiler-sb-{job.model}-{rank}.json", "w", encoding="utf-8") as file:
            json.dump(event_list(prof.events()), file, sort_keys=True)


def ours(job: Job) -> None:
    for _ in range(job.rounds):
        with torch.profiler.profile(record_shapes=True) as prof:
            pass
        export_events(prof, model=job.model, trace_dir=job.trace_dir, configuration=job.configuration or None)


# With what helps: a name of one's own for each capture, and a look at what came of it.


def torch_own_path(job: Job) -> None:
    for _ in range(job.rounds):
        path = own_path(job)
        with torch.profiler.profile() as prof:
            pass
        prof.export_chrome_trace(str(path))
        if not (prof.events() and path.exists()):
            raise RuntimeError(f"nothing was recorded, or {path.name} was not written")


def viztracer_own_path(job: Job) -> None:
    for number in range(job.rounds):
        path = own_path(job)
        private = path.with_name(f".{path.name}")
        with VizTracer(output_file=str(private), verbose=0) as tracer:
            tracer.log_instant(job.capture(number).mark())
            work(9)
        private.rename(path)


def accelerate_own_folder(job: Job) -> None:
    stand_alone(job)
    accelerator = Accelerator(cpu=True)
    for _ in range(job.rounds):
        folder = own_path(job, "")
        with accelerator.profile(ProfileKwargs(output_trace_dir=str(folder))) as prof:
            pass
        if not (prof.events() and any(folder.glob("*.json"))):
            raise RuntimeError(f"nothing was recorded, or no file was written to {folder.name}")


def own_path(job: Job, suffix: str = ".json") -> Path:
    """A folder for each configuration, by its hash, since names have a limit; in it the rank and the next free number."""
    folder = job.trace_dir / hashlib.sha256(job.configuration.encode()).hexdigest()[:16]
    folder.mkdir(parents=True, exist_ok=True)
    paths = (folder / f"rank{job.worker.rank}-{number}{suffix}" for number in itertools.count())
    return next(path for path in paths if not path.exists())


def stand_alone(job: Job) -> None:
    """Let accelerate start without a process group, which simulated workers cannot form, and tell it its rank.

    It asks ``torch.distributed`` for the rank where there is a group: under ``accelerate launch`` and torchrun, RANK.
    """
    for name in ("RANK", "LOCAL_RANK", "WORLD_SIZE"):
        os.environ.pop(name, None)
    PartialState(cpu=True).process_index = job.worker.rank


def work(number: int) -> int:
    """Some function calls to trace: enough for a file of several disk blocks."""
    return number if number < 2 else work(number - 1) + work(number - 2)


def pair(baseline: Path, target: Path) -> dict[str, float]:
    """A consumer for those who write the legacy file: pairs files by name and compares their CPU times."""
    ratios = {}
    for path in sorted(baseline.rglob("*.json")):
        one, other = (json.loads(file.read_text()) for file in (path, target / path.relative_to(baseline)))
        ratios[path.name] = sum(event["cpu_time"] for event in other) / sum(event["cpu_time"] for event in one)
    return ratios


@dataclass(frozen=True)
class Known:
    """One exporter: its column, how it is called, what it does not claim, what helps it and in which words."""

    name: str
    exporter: Exporter
    unclaimed: Mapping[str, str]
    advice: str
    advised: Exporter | None = None
    consumer: Callable[[Path, Path], Any] | None = None


_NO_LEGACY = {"legacy": "has no legacy file"}
_NO_TORCH = {
    **_NO_LEGACY,
    "torch_profiler": "records Python calls, not torch.profiler's events",
    "cuda": "records nothing of a GPU",
    "hip": "records nothing of a GPU",
}
_NO_LAUNCHER = "is started by accelerate launch or torchrun"
_TORCH_ADVICE = (
    "`export_chrome_trace` to a path of one's own, that no other capture has, and a look at the events and the file: "
    "torch reports neither an empty profile nor a file that it could not write."
)
_VIZTRACER_ADVICE = (
    "An `output_file` of its own for each capture, saved under a private name and renamed once it is whole."
)

KNOWN = (
    Known(
        "torch handler",
        torch_handler,
        _NO_LEGACY,
        "For several workers torch asks for a `worker_name`: the next section. The time in the names keeps captures "
        "apart, and keeps two runs from being paired by name; where that matters, " + _TORCH_ADVICE,
        torch_own_path,
    ),
    Known(
        "torch handler, worker_name",
        torch_handler_named,
        _NO_LEGACY,
        "A folder for each configuration leaves less to the clock. Where two runs are paired by name, " + _TORCH_ADVICE,
        torch_own_path,
    ),
    Known("torch one path", torch_one_path, _NO_LEGACY, _TORCH_ADVICE, torch_own_path),
    Known("VizTracer", viztracer_one_path, _NO_TORCH, _VIZTRACER_ADVICE, viztracer_own_path),
    Known("VizTracer, pid_suffix", viztracer_pid, _NO_TORCH, _VIZTRACER_ADVICE, viztracer_own_path),
    Known(
        "accelerate",
        accelerate_profile,
        {**_NO_LEGACY, "slurm": _NO_LAUNCHER, "mpi": _NO_LAUNCHER, "proc_rank": _NO_LAUNCHER},
        "The rank is in the name. An `output_trace_dir` of its own for each capture does the rest, and a look at the "
        "events and the file, as with torch.",
        accelerate_own_folder,
    ),
    Known(
        "SuperBench",
        superbench,
        {"hip": "profiles on CUDA builds only", "slurm": "has no Slurm mode"},
        "`export_events` writes the same shared file, for those who read it, and beside it a file of its own for each "
        "capture. Without it: leave `SB_TORCH_PROFILER_TRACE_DIR` unset, and the file goes into the rank folder of its "
        "configuration, where consumers that look into one shared folder do not find it.",
        ours,
        pair,
    ),
    Known("export_events", ours, {}, "", consumer=pair),
)


@dataclass(frozen=True)
class Answer:
    """What one check said of one exporter, and the line that says why."""

    mark: Literal["yes", "**no**", "-", "none"]
    line: str = ""


_COUNT = re.compile(r"\d+ of (\d+) captures? kept")
_MASKS = (
    (r"\S*\bknown_exporters\.py:\d+", "CODE"),
    (r"\b(?:node\d+|localhost)_\d+\.\d{19}\b", "HOST_PID.TIME"),
    (r"\.\d{19}\b", ".TIME"),
    (r"\bresult_\d+\.json", "result_PID.json"),
    (r", after event \d+ \(.*?\)(?=:)", ""),
    (r"\b(byte|event) [1-9]\d*\b", r"\1 N"),
)
_CAUSE_LIMIT = 220
_judged: dict[tuple[Exporter, str], Answer] = {}
_DEADLINE_S = 300.0  # a loaded machine is no reason for another page


def ask(check: ContractCheck, subject: Subject) -> Answer:
    reason = not_checked(check, subject, SIZES)
    if reason:
        return Answer("-", reason)
    key = subject.exporter, check.id
    if key not in _judged:  # what helps one exporter helps several
        _judged[key] = judged(check, subject)
    return _judged[key]


def judged(check: ContractCheck, subject: Subject) -> Answer:
    with tempfile.TemporaryDirectory() as folder:
        try:
            verdict = hold(check, subject, Path(folder), SIZES)
        except ContractError as error:
            return Answer("none", masked(str(error).splitlines()[0], folder))
        return Answer("yes") if verdict.ok else Answer("**no**", masked(found(verdict.message), folder))


def found(message: str) -> str:
    """The first thing a check found; where that is a count, with who met whom."""
    first, *others = message.partition("  found:")[2].splitlines()
    count = _COUNT.fullmatch(first.strip())
    if count is None:
        return first.strip()
    if "lockstep(" in message:  # how long each text is, and so what is left where they overlap, is chance
        return f"not all of {count[1]} captures kept"
    cause = others[0].strip() if others[0].startswith(" " * 12) else ""
    if " met in " in cause:
        cause = cause.partition(": it holds")[0]
    if not cause or not cause.isascii() or len(cause) > _CAUSE_LIMIT or " characters)" in cause:
        return first.strip()
    return f"{first.strip()}: {cause}"


def masked(text: str, folder: str) -> str:
    """Without what differs from run to run."""
    text = text.replace(folder, "FOLDER")
    for pattern, instead in _MASKS:
        text = re.sub(pattern, instead, text)
    return text


def answers(known: Known, checks: list[str], exporter: Exporter) -> dict[str, Answer]:
    """Hold one exporter to ``checks``; shows how far it is on a terminal."""
    subject = Subject(exporter, unclaimed=known.unclaimed, consumer=known.consumer, deadline_s=_DEADLINE_S)
    told = {}
    for number, id in enumerate(checks, 1):
        if sys.stderr.isatty():
            print(f"\r\033[K{known.name} ({exporter.__name__}): {number} of {len(checks)}", end="", file=sys.stderr)
        told[id] = ask(CHECKS[id], subject)
    if sys.stderr.isatty():
        print(file=sys.stderr)
    return told


_HEAD = """\
# Known exporters

What is often used to save a profile, held to every check of [the contract](reference/contract.md). None of it was made
for this: a profiler's own saving is meant for one person who looks at one trace. The table shows what goes wrong when
ranks, nodes, configurations and runs share one folder; each section shows what helps, held to the same checks.

This page is written by a program, the same byte for byte each time:

```bash
python -m pip install . {pins}
python docs/known_exporters.py    # or: tox -e known-exporters
```

What was run:

- {released}, as released, called as their documentation shows.
  SuperBench cannot be installed by pip: its dump is written out from its source (commit 700d6501). `export_events` is
  this project's own.
- Jobs of up to {nodes} nodes x {ranks} ranks x {configurations} configurations in one shared folder, no larger than a check
  needs; more configurations where a check is about their names.
- `torch.profiler.profile` inside the workers is this project's fake one. What is judged is the handler around it: its
  names and its files. The fake writes as torch 2.13 was seen to: beside and renamed at the end, errors on stderr only,
  odd names as they come. For a lost session it raises, where torch 2.13 dies (CT508). VizTracer and accelerate run as
  they are.

| answer | means |
| --- | --- |
| yes | the check found nothing wrong |
| **no** | a capture was lost, a file was broken, or a failure went unreported |
| - | not asked: about something that the exporter does not claim to do |
| none | asked, without an answer; the section says why |
"""

_READING = """\
`gputrace rules CT101` explains a check. Below, HOST, PID, TIME and N stand for what differs from run to run.
"""


def page() -> str:
    told = {known.name: answers(known, list(CHECKS), known.exporter) for known in KNOWN}
    released = {name: version(name).partition("+")[0] for name in PACKAGES}
    head = _HEAD.format(
        pins=" ".join(f"{name}=={number}" for name, number in released.items()),
        released=", ".join(f"{name} {number}" for name, number in released.items()),
        **vars(SIZES),
    )
    sections = (line for known in KNOWN for line in _section(known, told[known.name]))
    shared = [
        "## What the calls above share",
        "",
        *(line for part in (own_path, stand_alone, work) for line in _code(part)),
    ]
    return "\n".join([head, *_table(told), "", _READING, *sections, *shared]).rstrip() + "\n"


def _table(told: Mapping[str, Mapping[str, Answer]]) -> Iterator[str]:
    rows = [["check", *told]]
    rows += [[f"{id} {check.title}", *(each[id].mark for each in told.values())] for id, check in CHECKS.items()]
    kept = [f"{len(_of(each, 'yes'))} of {len(each) - len(_of(each, '-'))}" for each in told.values()]
    rows.append(["yes, of those asked", *kept])
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in [rows[0], ["-" * width for width in widths], *rows[1:]]:
        yield "| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) + " |"


def _section(known: Known, mine: Mapping[str, Answer]) -> Iterator[str]:
    yield from (f"## {known.name}", "", *_code(known.exporter))
    reasons = {reason: None for each in mine.values() if each.mark == "-" for reason in [each.line]}
    if reasons:
        yield from ("Not asked:", "", *(f"- {reason}" for reason in reasons), "")
    lost, unanswered = _of(mine, "**no**"), _of(mine, "none")
    for title, ids in ("What it loses:", lost), ("Without an answer:", unanswered):
        if ids:
            yield from (title, "", *(f"- {id} {CHECKS[id].title}: `{mine[id].line}`" for id in ids), "")
    if not (lost or unanswered):
        yield from ("Nothing is lost.", "")
    if known.advised is not None:
        again = answers(known, lost, known.advised)
        yield from ("What helps:", "", *textwrap.wrap(known.advice, 118), "", *_code(known.advised))
        yield from (f"Of the {len(lost)} above, {len(_of(again, 'yes'))} are a yes then.", "")
        left = _of(again, "**no**", "none")
        yield from [*(f"- {id} remains: `{again[id].line}`" for id in left), ""] if left else []


def _code(function: Callable[..., Any]) -> Iterator[str]:
    yield from ("```python", inspect.getsource(function).rstrip(), "```", "")


def _of(told: Mapping[str, Answer], *marks: str) -> list[str]:
    return [id for id, answer in told.items() if answer.mark in marks]


def main() -> None:
    target = Path(sys.argv[1]) if len(sys.argv) > 1 else PAGE
    target.write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main()
