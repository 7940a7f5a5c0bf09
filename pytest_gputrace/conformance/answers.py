"""What a consumer answers, as bytes that can be compared: its output, or the exception it raised."""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_gputrace.conformance.judgement import short
from pytest_gputrace.errors import ClusterError, ContractError
from pytest_gputrace.fakes import Cluster

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_gputrace.conformance.trial import Trial

__all__ = ["Answer", "ask"]


@dataclass(frozen=True)
class Answer:
    """``raised`` is the exception's type, empty where the consumer returned; ``output`` what it said either way."""

    raised: str
    output: bytes

    def text(self, limit: int) -> str:
        """For people."""
        return short(self.output.decode(errors="replace"), limit)

    def told(self) -> str:
        """In words."""
        return f"raised {self.text(150)}" if self.raised else f"returned {len(self.output)} bytes: {self.text(120)!r}"

    def masked(self, names: Sequence[str]) -> Answer:
        """The same with each of ``names`` replaced by its place among them."""
        output = self.output
        for place, name in enumerate(names):
            output = output.replace(name.encode(), f"<file {place}>".encode())
        return Answer(self.raised, output)


def ask(trial: Trial, baseline: Path, target: Path) -> Answer:
    """Call the consumer in a process of its own.

    Raises:
        ContractError: it died, was late, or returned what cannot be compared.
    """
    consumer = trial.subject.consumer
    assert consumer is not None  # the check is not asked without one
    pair = trial.folder / "pair"
    shutil.rmtree(pair, ignore_errors=True)
    shutil.copytree(baseline, pair / "baseline")
    shutil.copytree(target, pair / "target")
    cluster = Cluster(
        trial.folder / "consumer", nodes=1, ranks=1, configurations=["consumer"], deadline_s=trial.subject.deadline_s
    )
    try:
        run = cluster.run(lambda _: _bytes(consumer(pair / "baseline", pair / "target")), check=False)
    except ClusterError as error:
        raise ContractError(f"the consumer gave no answer: {error}") from error
    (outcome,) = run
    if outcome.ok:
        assert outcome.value is not None
        return Answer("", outcome.value)
    if outcome.error_type in (None, "SystemExit", _NO_OUTPUT):
        raise ContractError(f"the consumer gave no answer: {short(outcome.headline, 300)}")
    return Answer(outcome.error_type, outcome.headline.encode("utf-8", "backslashreplace"))


class _NoOutputError(TypeError):
    """The consumer returned what cannot be compared."""


_NO_OUTPUT = f"{__name__}.{_NoOutputError.__qualname__}"


def _path_text(value: object) -> str:
    if isinstance(value, Path):
        return str(value)
    raise TypeError(f"{type(value).__name__} is nothing that JSON can hold")


def _bytes(value: Any) -> bytes:
    """A consumer's output: bytes, a text, a file or folder it wrote, or anything that JSON can hold."""
    if value is None:
        raise _NoOutputError("it returned None; let it return its output, or the path of what it wrote")
    if isinstance(value, bytes):
        return value
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace")
    if isinstance(value, Path) and value.is_dir():
        files = sorted(path for path in value.rglob("*") if path.is_file())
        return b"".join(f"{path.relative_to(value)}\n".encode() + path.read_bytes() + b"\n" for path in files)
    if isinstance(value, Path):
        return value.read_bytes()
    try:
        return json.dumps(value, sort_keys=True, default=_path_text).encode()
    except (TypeError, ValueError) as error:
        raise _NoOutputError(f"it returned a {type(value).__name__}, which cannot be compared: {error}") from error
