"""Who is held to the contract, and what was declared about it. Data and its validation; runs nothing."""

from __future__ import annotations

import inspect
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from pytest_gputrace.errors import DeclarationError
from pytest_gputrace.fakes.validate import did_you_mean, whole

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from pathlib import Path

    from pytest_gputrace.fakes.job import Job

__all__ = ["CAPABILITIES", "SUPERBENCH_LEGACY_NAME", "Sizes", "Subject", "check_declarations"]

CAPABILITIES: Mapping[str, str] = MappingProxyType(
    {
        "cuda": "keeps the GPU half of a profile on a CUDA build",
        "hip": "keeps the GPU half of a profile on a HIP build",
        "in_process": "writes its files from Python, in the worker's own process",
        "layout": "knows by the rank folder whether there is a configuration",
        "legacy": "also writes the legacy file, job.legacy_name, which workers share",
        "mpi": "is started by MPI",
        "multi_node": "several nodes write to one folder",
        "proc_rank": "is started by an executor that sets PROC_RANK and nothing else",
        "rounds": "captures more than once in a process",
        "slurm": "is started by Slurm",
        "torch_profiler": "records with torch.profiler, or with job.profiler()",
    }
)
"""What an exporter may say it does not do, and so is not held to. All are claimed unless declared otherwise."""

SUPERBENCH_LEGACY_NAME = "torch-profiler-sb-{model}-{local_rank}.json"


@dataclass(frozen=True)
class Sizes:
    """How large the jobs of the contract are, where its checks leave it open."""

    nodes: int = 2
    ranks: int = 2
    configurations: int = 3

    def __post_init__(self) -> None:
        for name in ("nodes", "ranks", "configurations"):
            whole("Sizes", name, getattr(self, name))


@dataclass(frozen=True)
class Subject:
    """An exporter and what is declared about it.

    Args:
        exporter: called in every simulated worker with its `Job`; writes the trace, raises when it could not.
        unclaimed: capabilities it does not have, each with the reason.
        expected_failures: checks it is known to break, each with the reason.
        consumer: ``consumer(baseline, target)``, called with two trace folders; what it returns (bytes, text, a path
            to what it wrote, or anything JSON can hold) is its output.
        legacy_exporter: writes only the legacy file, as it always was; SuperBench's own when left out.
        model: the model's name in every job.
        legacy_name: a template for ``job.legacy_name``, as `Cluster` takes it.
        deadline_s: for each run of simulated workers.
        env: variables for every worker, beside a small clean environment and the launcher's.

    Raises:
        DeclarationError: an unknown check or capability, or one without a reason.
    """

    exporter: Callable[[Job], Any]
    unclaimed: Mapping[str, str] = field(default_factory=dict)
    expected_failures: Mapping[str, str] = field(default_factory=dict)
    consumer: Callable[[Path, Path], Any] | None = None
    legacy_exporter: Callable[[Job], Any] | None = None
    model: str = "resnet50"
    legacy_name: str = SUPERBENCH_LEGACY_NAME
    deadline_s: float = 60.0
    env: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in ("exporter", "consumer", "legacy_exporter"):
            value = getattr(self, name)
            if not callable(value) and not (value is None and name != "exporter"):
                raise DeclarationError(f"{name}={value!r} cannot be called; give the function itself")
            if inspect.iscoroutinefunction(value) or inspect.isgeneratorfunction(value):
                raise DeclarationError(f"{name}={value!r} does nothing when it is called; give a plain function")
        check_declarations("unclaimed", self.unclaimed, CAPABILITIES, "capability")

    def check_expected_failures(self, known: Iterable[str]) -> None:
        """Refuse expected failures that name no check in ``known``."""
        check_declarations("expected_failures", self.expected_failures, known, "check")


def check_declarations(where: str, given: Mapping[str, str], known: Iterable[str], kind: str) -> None:
    """Refuse a name that is not known, and one without a reason.

    Raises:
        DeclarationError: with the names that are known.
    """
    names = list(known)
    for name, reason in given.items():
        if name not in names:
            raise DeclarationError(
                f"{where}: {name!r} is no {kind}{did_you_mean(name, names)}; there are {', '.join(names)}"
            )
        if not isinstance(reason, str) or not reason.strip():
            raise DeclarationError(f"{where}: {name} needs a reason, such as {{{name!r}: 'issue 12'}}")
