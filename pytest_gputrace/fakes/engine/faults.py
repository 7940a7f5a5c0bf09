"""What can be wrong with a fake serving engine: each fault is a frozen description, carried out in its processes.

Nothing here acts, and nothing of the rest of the library is loaded: a test holds these, the engine's processes read
them. What each does in a scheduler stands in ``harm``.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal, get_args

from pytest_gputrace.fakes.validate import check_seconds, check_text, one_of, whole

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = [
    "ACTIVITIES",
    "FAULTS",
    "CutsShort",
    "Dies",
    "DiskFull",
    "EarlyReply",
    "EngineFault",
    "FolderVanishes",
    "IgnoresSigterm",
    "InnerProfiler",
    "Moment",
    "NeverWrites",
    "NoTraffic",
    "Refuses",
    "SaveFails",
    "SecondRoundEmpty",
    "StartFails",
    "StopBlocks",
    "WritesSlowly",
    "fault_from_json",
]

ACTIVITIES = ("CPU", "GPU", "MEM", "CUDA_PROFILER", "PROTON", "VIZTRACER")
"""What an engine can be asked to record."""

Moment = Literal["recording", "stopping", "writing", "stopped"]
"""When a scheduler dies: in its first step after a start, when it is told to stop, in the middle of its first file, or
right after it answered that it stopped."""


@dataclass(frozen=True, repr=False)
class EngineFault:
    """Base of all; by itself it does nothing.

    Args:
        tag: the scheduler that is struck, such as ``DP1-TP0``; every one when not given.
    """

    tag: str | None = None
    name: ClassVar[str] = ""

    def __post_init__(self) -> None:
        if self.tag is not None:
            check_text(self.name, "tag", self.tag)

    def strikes(self, coordinates: str) -> bool:
        """Whether the scheduler with these coordinates is struck; a session's tag has more behind them."""
        return self.tag is None or f"{self.tag}-".startswith(f"{coordinates}-")

    def as_json(self) -> dict[str, Any]:
        """As `fault_from_json` takes it."""
        return {"name": self.name, **dataclasses.asdict(self)}

    def __str__(self) -> str:
        given = [
            f"{field.name}={value!r}"
            for field in dataclasses.fields(self)
            if (value := getattr(self, field.name)) != field.default
        ]
        return f"{self.name}({', '.join(given)})"

    __repr__ = __str__


@dataclass(frozen=True, repr=False)
class EarlyReply(EngineFault):
    """All but the first scheduler answer "stopped" at once, and write ``late_s`` later."""

    late_s: float = 0.5
    name: ClassVar[str] = "early_reply"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_seconds(self.name, "late_s", self.late_s)


@dataclass(frozen=True, repr=False)
class NeverWrites(EngineFault):
    """The scheduler says that it records and that it stopped, and writes no file."""

    name: ClassVar[str] = "never_writes"


@dataclass(frozen=True, repr=False)
class SecondRoundEmpty(EngineFault):
    """The first profile is as it should be; every later one is said to be a success, and there is no file of it."""

    name: ClassVar[str] = "second_round_empty"


@dataclass(frozen=True, repr=False)
class StopBlocks(EngineFault):
    """The scheduler never comes back from a stop, as in a barrier that somebody does not come to."""

    name: ClassVar[str] = "stop_blocks"


@dataclass(frozen=True, repr=False)
class Dies(EngineFault):
    """The scheduler ends at a moment: by SIGKILL, or with ``exit_code`` where it is given."""

    at: Moment = "recording"
    exit_code: int | None = None
    name: ClassVar[str] = "dies"

    def __post_init__(self) -> None:
        super().__post_init__()
        one_of(self.name, "at", self.at, get_args(Moment))
        if self.exit_code is not None:
            whole(self.name, "exit_code", self.exit_code, 0)
            if self.at == "writing":
                raise ValueError("dies: in the middle of a file a process is killed; leave exit_code out")


@dataclass(frozen=True, repr=False)
class WritesSlowly(EngineFault):
    """The scheduler writes in place, under the final name, and never comes to the end: the file grows and grows."""

    every_s: float = 0.02
    name: ClassVar[str] = "writes_slowly"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_seconds(self.name, "every_s", self.every_s)


@dataclass(frozen=True, repr=False)
class CutsShort(EngineFault):
    """The scheduler writes half of its file in place, under the final name, and is killed then."""

    name: ClassVar[str] = "cuts_short"


@dataclass(frozen=True, repr=False)
class InnerProfiler(EngineFault):
    """In its first step after a start the scheduler uses a torch profiler of its own, which takes over the session."""

    name: ClassVar[str] = "inner_profiler"


@dataclass(frozen=True, repr=False)
class StartFails(EngineFault):
    """The profiler of ``activity`` raises when it is started."""

    activity: str = "VIZTRACER"
    name: ClassVar[str] = "start_fails"

    def __post_init__(self) -> None:
        super().__post_init__()
        one_of(self.name, "activity", self.activity, ACTIVITIES)


@dataclass(frozen=True, repr=False)
class SaveFails(EngineFault):
    """The profiler of ``activity`` raises when it should write."""

    activity: str = "VIZTRACER"
    name: ClassVar[str] = "save_fails"

    def __post_init__(self) -> None:
        super().__post_init__()
        one_of(self.name, "activity", self.activity, ACTIVITIES)


@dataclass(frozen=True, repr=False)
class Refuses(EngineFault):
    """The scheduler refuses every profile, because of ``reason``."""

    reason: str = "another profiler is active in this process"
    name: ClassVar[str] = "refuses"


@dataclass(frozen=True, repr=False)
class FolderVanishes(EngineFault):
    """In its first step after a start the scheduler removes the folder for the files, with all that is in it."""

    name: ClassVar[str] = "folder_vanishes"


@dataclass(frozen=True, repr=False)
class DiskFull(EngineFault):
    """From a start on the scheduler can write no file beyond ``at_byte`` bytes."""

    at_byte: int = 256
    name: ClassVar[str] = "disk_full"

    def __post_init__(self) -> None:
        super().__post_init__()
        whole(self.name, "at_byte", self.at_byte, 0)


@dataclass(frozen=True, repr=False)
class IgnoresSigterm(EngineFault):
    """SIGTERM does not end the scheduler."""

    name: ClassVar[str] = "ignores_sigterm"


@dataclass(frozen=True, repr=False)
class NoTraffic(EngineFault):
    """The scheduler makes ``after_steps`` steps and then none, whatever is asked of it: the traffic has ended."""

    after_steps: int = 0
    name: ClassVar[str] = "no_traffic"

    def __post_init__(self) -> None:
        super().__post_init__()
        whole(self.name, "after_steps", self.after_steps, 0)


FAULTS: dict[str, type[EngineFault]] = {
    fault.name: fault
    for fault in (
        CutsShort, Dies, DiskFull, EarlyReply, FolderVanishes, IgnoresSigterm, InnerProfiler, NeverWrites, NoTraffic,
        Refuses, SaveFails, SecondRoundEmpty, StartFails, StopBlocks, WritesSlowly,
    )
}  # fmt: skip
"""Every fault by its name."""


def fault_from_json(given: Mapping[str, Any]) -> EngineFault:
    """Read one back.

    Raises:
        ValueError: there is no fault of that name.
    """
    fields = dict(given)
    name = fields.pop("name", None)
    one_of("fault", "name", name, sorted(FAULTS))
    return FAULTS[name](**fields)
