"""What is asked for when a profile is started: its fields, their limits, and their form in JSON.

All of it is checked when a request is made, before anything is changed anywhere. It knows nothing of profilers.
"""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import TYPE_CHECKING, Any

from pytest_gputrace.errors import RequestError

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["ACTIVITIES", "DEADLINE_S", "DEFAULT_ACTIVITIES", "DEFAULT_STAGES", "ProfileRequest", "new_profile_id"]

ACTIVITIES = ("CPU", "GPU", "MEM", "CUDA_PROFILER", "PROTON", "VIZTRACER")
"""The words for what can be recorded, as serving engines have them."""

DEFAULT_ACTIVITIES = ("CPU", "GPU")
DEADLINE_S = 600.0
"""When a window is closed at the latest, where nothing else is said."""
DEFAULT_STAGES = ("PREFILL", "DECODE")
"""The stages that are recorded by stage where none are named."""

_LONGEST_ID = 200
_LONGEST_STAGE = 64
_MOST_STAGES = 32
_LONGEST_DEADLINE_S = 7 * 24 * 3600.0
_MOST_STEPS = 1 << 48


def new_profile_id() -> str:
    """An id that no other profile has: the nanosecond, and a random part for those of the same one."""
    return f"{time.time_ns()}-{secrets.token_hex(4)}"


@dataclass(frozen=True)
class ProfileRequest:
    """One profile, as it is asked of every worker alike.

    Args:
        output_dir: the folder for the files; made when missing. Relative to the working directory of who asks.
        profile_id: what the names of all files begin with; a new one when not given.
        activities: any of `ACTIVITIES`, in any case.
        start_step: the number of the step that is recorded first, counted by each worker from 0 since its session was
            made; one that has passed means the next. ``None`` records at once.
        num_steps: how many steps are recorded, of each stage where it is done by stage; ``None`` until stopped.
        profile_by_stage: a window, and a file, for each stage. A stage's window lasts from its first step to its
            ``num_steps``-th, or until a stage comes that has no window yet. Without ``num_steps`` it lasts until a step
            of any other stage comes.
        stages: which ones, in capitals; `DEFAULT_STAGES` when not given.
        with_stack: have torch's profiler record Python's stacks.
        record_shapes: have torch's profiler record the shapes of arguments.
        deadline_s: seconds after which a window is closed whatever else happens.

    Raises:
        RequestError: with every reason why this cannot be.
    """

    output_dir: str
    profile_id: str = field(default_factory=new_profile_id)
    activities: tuple[str, ...] = DEFAULT_ACTIVITIES
    start_step: int | None = None
    num_steps: int | None = None
    profile_by_stage: bool = False
    stages: tuple[str, ...] = ()
    with_stack: bool = False
    record_shapes: bool = False
    deadline_s: float = DEADLINE_S

    def __post_init__(self) -> None:
        for name in ("activities", "stages"):
            object.__setattr__(self, name, _words(getattr(self, name)))
        reasons = list(self._reasons())
        if reasons:
            raise RequestError(f"this profile cannot be: {'; '.join(reasons)}", reasons=reasons)
        object.__setattr__(self, "output_dir", os.path.abspath(self.output_dir))
        if self.profile_by_stage and not self.stages:
            object.__setattr__(self, "stages", DEFAULT_STAGES)

    @classmethod
    def from_json(cls, given: Mapping[str, Any], *, output_dir: str | None = None) -> ProfileRequest:
        """Make one from the fields of a JSON object; ``null`` stands for a field that is not given.

        Args:
            given: the fields, by the names that this class has.
            output_dir: the folder where ``given`` has none.

        Raises:
            RequestError: also for a field that there is not.
        """
        if not isinstance(given, Mapping):
            raise RequestError(f"a profile is asked for by an object with fields, not by {_short(given)}")
        known = [each.name for each in fields(cls)]
        unknown = [name for name in given if name not in known]
        if unknown:
            what = f"there is no field {', '.join(map(repr, unknown))}; the fields are {', '.join(known)}"
            raise RequestError(what)
        told = {name: value for name, value in given.items() if value is not None}
        if "output_dir" not in told:
            if output_dir is None:
                raise RequestError("output_dir is not given; say in which folder the files shall be")
            told["output_dir"] = output_dir
        return cls(**told)

    def as_json(self) -> dict[str, Any]:
        """The fields, as `from_json` takes them."""
        return {name: list(value) if isinstance(value, tuple) else value for name, value in asdict(self).items()}

    def _reasons(self) -> Iterator[str]:
        yield from self._wrong_texts()
        yield from self._wrong_words()
        yield from self._wrong_numbers()
        for name in ("profile_by_stage", "with_stack", "record_shapes"):
            if not isinstance(getattr(self, name), bool):
                yield f"{name} is {getattr(self, name)!r}; it is true or false"

    def _wrong_texts(self) -> Iterator[str]:
        if not isinstance(self.output_dir, str) or not self.output_dir:
            yield f"output_dir is {self.output_dir!r}; it is the path of a folder"
        elif "\0" in self.output_dir:
            yield "output_dir has a character NUL"
        elif not _is_encodable(self.output_dir):
            yield "output_dir has a character that no file system can hold"
        if not isinstance(self.profile_id, str) or not 0 < len(self.profile_id) <= _LONGEST_ID:
            yield f"profile_id is {_short(self.profile_id)}; it is a text of 1 to {_LONGEST_ID} characters"

    def _wrong_words(self) -> Iterator[str]:
        activities: object = self.activities  # which may come from JSON
        if not isinstance(activities, tuple):
            yield f"activities is {activities!r}; it is a list of words"
        elif not self.activities:
            yield f"activities is empty; give some of {', '.join(ACTIVITIES)}"
        else:
            unknown = [word for word in self.activities if word not in ACTIVITIES]
            if unknown:
                yield f"no activity is called {', '.join(map(_short, unknown))}; give some of {', '.join(ACTIVITIES)}"
        stages: object = self.stages
        if not isinstance(stages, tuple):
            yield f"stages is {stages!r}; it is a list of words"
            return
        if self.stages and not self.profile_by_stage:
            yield "stages are named, and profile_by_stage is not set"
        if len(self.stages) > _MOST_STAGES:
            yield f"{len(self.stages)} stages are named; {_MOST_STAGES} are the most"
        for word in self.stages:
            if not 0 < len(word) <= _LONGEST_STAGE:
                yield f"a stage is {_short(word)}; it is a text of 1 to {_LONGEST_STAGE} characters"

    def _wrong_numbers(self) -> Iterator[str]:
        for name, least in (("start_step", 0), ("num_steps", 1)):
            value = getattr(self, name)
            if value is not None and (type(value) is not int or not least <= value <= _MOST_STEPS):
                yield f"{name} is {_short(value)}; it is a whole number from {least}"
        deadline_s = self.deadline_s
        if type(deadline_s) not in (int, float) or not 0 < deadline_s <= _LONGEST_DEADLINE_S:
            yield f"deadline_s is {_short(deadline_s)}; it is a number of seconds, up to a week"


def _words(given: Any) -> Any:
    """Words in capitals, each once, in the order given; what is no list of words as it is."""
    if isinstance(given, (list, tuple)):
        return tuple(dict.fromkeys(word.upper() if isinstance(word, str) else _short(word) for word in given))
    return given


def _is_encodable(path: str) -> bool:
    try:
        os.fsencode(path)
    except UnicodeEncodeError:
        return False
    return True


def _short(value: object) -> str:
    try:
        text = repr(value)
    except ValueError:  # a whole number of thousands of digits
        return "a number without end"
    return text if len(text) <= 100 else f"{text[:80]}..."
