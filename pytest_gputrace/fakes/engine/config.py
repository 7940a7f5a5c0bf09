"""How a fake engine is to be, as data that its frontend reads from a pipe; and which schedulers it has."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

from pytest_gputrace.fakes.engine.faults import ACTIVITIES, EngineFault, fault_from_json
from pytest_gputrace.fakes.events import VENDORS
from pytest_gputrace.fakes.validate import check_seconds, check_text, did_you_mean, one_of, whole
from pytest_gputrace.model import WorkerId

__all__ = ["KINDS", "EngineConfig", "EngineKind"]

EngineKind = Literal["gputrace", "sglang", "vllm", "trtllm", "tokenspeed"]
KINDS: tuple[str, ...] = get_args(EngineKind)


@dataclass(frozen=True)
class EngineConfig:
    """All that the processes of an engine need to know; see `FakeEngine` for the fields.

    Raises:
        TypeError: a field is of the wrong kind.
        ValueError: a number is too small, a word is unknown, or a fault is for a scheduler that there is not.
    """

    root: str
    dp: int = 1
    tp: int = 2
    vendor: str | None = "cuda"
    faults: tuple[EngineFault, ...] = ()
    token: str | None = None
    node: str | None = "node0"
    step_s: float = 0.001
    prepare: tuple[str, ...] = ("VIZTRACER", "PROTON")
    kind: str = "gputrace"
    timeout_s: float = 60.0
    collect_timeout_s: float = 60.0

    def __post_init__(self) -> None:
        for name in ("dp", "tp"):
            whole("FakeEngine", name, getattr(self, name))
        one_of("FakeEngine", "kind", self.kind, KINDS)
        for word in self.prepare:
            one_of("FakeEngine", "an activity to prepare", word, ACTIVITIES)
        if self.vendor is not None:
            one_of("FakeEngine", "vendor", self.vendor, VENDORS)
        if self.node is not None:
            check_text("FakeEngine", "node", self.node)
        for name in ("step_s", "timeout_s", "collect_timeout_s"):
            check_seconds("FakeEngine", name, getattr(self, name))
        for fault in self.faults:
            self._check_fault(fault)

    def _check_fault(self, fault: object) -> None:
        if not isinstance(fault, EngineFault):
            raise TypeError(f"FakeEngine: {fault!r} is no fault of an engine; give some of enginefaults")
        tags = [worker.tag for worker in self.workers]
        if not any(fault.strikes(tag) for tag in tags):
            what = f"FakeEngine: {fault} is for no scheduler of this engine, which has {', '.join(tags)}"
            raise ValueError(f"{what}{did_you_mean(fault.tag, tags)}")

    @property
    def folder(self) -> Path:
        """Where profiles go."""
        return Path(self.root) / "profiles"

    @property
    def log(self) -> Path:
        """Where the output of all processes goes."""
        return Path(self.root) / "engine.log"

    @property
    def workers(self) -> list[WorkerId]:
        """Who the schedulers are, by rank. A single DP group is no dimension, as in real engines."""
        size = self.dp * self.tp
        return [
            WorkerId(
                self.node or "node0", rank, rank, size, size,
                coordinates={**({"DP": rank // self.tp} if self.dp > 1 else {}), "TP": rank % self.tp},
            )
            for rank in range(size)
        ]  # fmt: skip

    def as_text(self) -> str:
        """One line, as `from_text` takes it."""
        fields = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        return json.dumps({**fields, "faults": [fault.as_json() for fault in self.faults]}) + "\n"

    @classmethod
    def from_text(cls, text: str) -> EngineConfig:
        """Read one back."""
        fields = json.loads(text)
        faults = tuple(fault_from_json(each) for each in fields.pop("faults"))
        return cls(**{**fields, "prepare": tuple(fields["prepare"])}, faults=faults)
