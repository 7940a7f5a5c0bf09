"""What each kind of engine takes at its profile endpoint: fields under its own names, activities, and what it needs.

Facts alone, and what is made of them; nothing is sent from here. A field that an engine cannot be told is refused with
what to do instead, because an engine that passes over a field records something else than was asked for.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any

from pytest_gputrace.control.request import ACTIVITIES, ProfileRequest
from pytest_gputrace.errors import RequestError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

__all__ = ["DIALECTS", "KINDS", "Dialect"]

_FIELDS = tuple(each.name for each in fields(ProfileRequest))


@dataclass(frozen=True)
class Dialect:
    """The endpoint of one kind of engine.

    ``names`` are the fields of `ProfileRequest` that it takes, under the names it has for them; ``instead`` says what to
    do about others. ``offered`` is what an engine needs to have the endpoint at all. ``only_counts_stages``: by
    stage it needs ``num_steps`` (its scheduler dies without) and passes over ``start_step``. ``stages_lower``: its stages
    are written small.
    """

    kind: str
    title: str
    names: Mapping[str, str]
    activities: tuple[str, ...]
    offered: str
    instead: Mapping[str, str] = field(default_factory=dict)
    only_counts_stages: bool = False
    stages_lower: bool = False

    def body(self, given: Mapping[str, Any]) -> dict[str, Any] | None:
        """What is sent to start a profile: exactly the fields that are given; None for an engine that takes none.

        Args:
            given: fields of `ProfileRequest`; ``None`` stands for one that is not given, which the engine then decides.

        Raises:
            RequestError: with every reason why it cannot be told so.
        """
        told = {name: value for name, value in given.items() if value is not None}
        reasons = [*self._untellable(told), *self._wrong_values(told)]
        if reasons:
            raise RequestError(f"{self.title} cannot be asked for this profile: {'; '.join(reasons)}", reasons=reasons)
        if not self.names:
            return None
        return {self.names[name]: self._written(name, value) for name, value in told.items()}

    def _untellable(self, told: Mapping[str, Any]) -> Iterator[str]:
        for name in told:
            if name not in _FIELDS:
                yield f"there is no field {name!r}; the fields are {', '.join(_FIELDS)}"
            elif name not in self.names:
                yield f"{name} cannot be told to {self.title}; {self.instead[name]}"

    def _wrong_values(self, told: Mapping[str, Any]) -> Iterator[str]:
        known = {name: told[name] for name in told if name in self.names}
        words = known.pop("activities", None)
        try:
            ProfileRequest.from_json(known, output_dir=os.curdir)
        except RequestError as error:
            yield from error.reasons
        if words is not None:
            yield from self._wrong_activities(words)
        if self.only_counts_stages and told.get("profile_by_stage"):
            if "num_steps" not in told:
                yield f"by stage {self.title} needs num_steps: without, its scheduler dies at the next batch"
            if "start_step" in told:
                yield f"by stage {self.title} passes over start_step; leave it out"

    def _wrong_activities(self, words: object) -> Iterator[str]:
        if not isinstance(words, (list, tuple)) or not words:
            yield f"activities is {words!r}; give a list of some of {', '.join(self.activities)}"
            return
        asked = [word.upper() if isinstance(word, str) else repr(word) for word in words]
        unknown = [word for word in asked if word not in self.activities]
        if unknown:
            yield f"{self.title} has no activity {', '.join(unknown)}; give some of {', '.join(self.activities)}"
        both = [word for word in ("GPU", "CUDA_PROFILER") if word in asked]
        if "PROTON" in asked and both:
            yield (
                f"PROTON excludes {' and '.join(both)}: a process has one client of the GPU's profiler;"
                " CPU, MEM and VIZTRACER go with it"
            )

    def _written(self, name: str, value: Any) -> Any:
        if name == "output_dir":
            return os.path.abspath(value)
        if name == "activities":
            return list(dict.fromkeys(word.upper() for word in value))
        if name == "stages":
            return [word.lower() if self.stages_lower else word.upper() for word in value]
        return value


def _same(*names: str) -> dict[str, str]:
    return {name: name for name in names}


_NO_DEADLINE = "it has no deadline: give num_steps, or stop it yourself"
_NAMES_ITSELF = "it names its files itself: give each profile an output_dir of its own"

GPUTRACE = Dialect(
    kind="gputrace",
    title="a gputrace endpoint",
    names=_same(*_FIELDS),
    activities=ACTIVITIES,
    offered="the engine has to mount pytest_gputrace.control.Endpoint or run a ControlServer; is this its address?",
)
"""Ours: all fields of `ProfileRequest`. Files: see `pytest_gputrace.windownames`."""

SGLANG = Dialect(
    kind="sglang",
    title="SGLang",
    names={
        **_same(
            "output_dir", "start_step", "num_steps", "activities", "profile_by_stage", "with_stack", "record_shapes"
        ),
        "stages": "profile_stages",
    },
    activities=("CPU", "GPU", "MEM", "RPD", "CUDA_PROFILER"),
    offered="every SGLang server has it; is this the address of the server itself, not of a router?",
    instead={"profile_id": _NAMES_ITSELF, "deadline_s": _NO_DEADLINE},
    only_counts_stages=True,
    stages_lower=True,
)
"""SGLang: answers a line of text, and before the files are written; unknown words are passed over there.

Where nothing is said it writes to ``SGLANG_TORCH_PROFILER_DIR`` (``/tmp``), CPU and GPU, with stacks. With ``num_steps``
it stops itself, and a stop after that is an error to it. ``profile_stages`` are heeded with ``SGLANG_PROFILE_V2`` alone,
which knows no profile that is not by stage. Files: ``[PREFIX-]TIME-TP-n[-DP-n][-PP-n][-EP-n][-STAGE].trace.json.gz``,
``TIME-TP-n-memory[-STAGE].pickle``, ``rpd-TIME-TP-n.trace.json.gz``; parts for the dimensions in use.
"""

TOKENSPEED = Dialect(
    kind="tokenspeed",
    title="TokenSpeed",
    names=_same(
        "output_dir",
        "start_step",
        "num_steps",
        "activities",
        "profile_by_stage",
        "with_stack",
        "record_shapes",
        "profile_id",
    ),
    activities=("CPU", "GPU", "MEM", "CUDA_PROFILER", "VIZTRACER", "PROTON"),
    offered="its control server passes it on to the gateway; is this the address of the control server?",
    instead={"stages": "by stage it records prefill and decode, always both", "deadline_s": _NO_DEADLINE},
    only_counts_stages=True,
)
"""TokenSpeed: refuses before anything starts; unknown words are passed over there.

Where nothing is said it writes to ``TOKENSPEED_PROFILER_DIR`` (``/tmp``), CPU and GPU, with stacks, under the local time
to the second. With ``num_steps`` it stops itself, and a stop after that is an error to it. Files:
``ID-[DPn-][CPn-]TPn[-STAGE].trace.json.gz``, the same with ``.viztracer.json`` and ``.proton`` with Proton's suffix, and
``ID-TAG-memory[-STAGE].pickle``; its Proton writes hatchet files unless ``TOKENSPEED_KERNEL_PROFILE_DATA`` says otherwise.
"""

TRTLLM = Dialect(
    kind="trtllm",
    title="TensorRT-LLM",
    names=_same("output_dir", "num_steps", "start_step", "activities"),
    activities=("CPU", "GPU", "CUDA_PROFILER"),
    offered="it needs a trtllm-serve with runtime profiling (pull request 13872, merged in 2026) and the PyTorch backend",
    instead={
        "profile_id": _NAMES_ITSELF,
        "deadline_s": _NO_DEADLINE,
        "profile_by_stage": "it does not tell stages apart; leave it out",
        "stages": "it does not tell stages apart; leave them out",
        "with_stack": "leave it to the engine",
        "record_shapes": "leave it to the engine",
    },
)
"""TensorRT-LLM: ``trtllm-serve`` on the PyTorch backend; other backends warn, answer well and record nothing.

CUDA_PROFILER alone leaves torch's profiler out, for ``nsys profile -c cudaProfilerApi``. Files: torch's traces, one for
each rank with ``-rank-N`` in its name as ``TLLM_TORCH_PROFILE_TRACE`` has it too.
"""

VLLM = Dialect(
    kind="vllm",
    title="vLLM",
    names={},
    activities=(),
    offered=(
        'serve it with --profiler-config \'{"profiler": "torch", "torch_profiler_dir": "DIR"}\','
        " or before 0.13 with VLLM_TORCH_PROFILER_DIR=DIR"
    ),
    instead={
        "output_dir": "serve it with torch_profiler_dir in --profiler-config",
        "profile_id": "it names its files itself",
        "activities": 'serve it with "profiler" in --profiler-config: torch or cuda',
        "start_step": "serve it with delay_iterations in --profiler-config",
        "num_steps": "serve it with max_iterations in --profiler-config",
        "profile_by_stage": "it does not tell stages apart; leave it out",
        "stages": "it does not tell stages apart; leave them out",
        "with_stack": "serve it with torch_profiler_with_stack in --profiler-config",
        "record_shapes": "serve it with torch_profiler_record_shapes in --profiler-config",
        "deadline_s": "it has no deadline: serve it with max_iterations in --profiler-config, or stop it yourself",
    },
)
"""vLLM: no body either way, an empty answer; it has the endpoints only where it was served with a profiler.

A stop writes the files first, which may take minutes. A start while it records is passed over there. Files: torch's
``NAME.TIME_NS.pt.trace.json.gz`` with ``dp0_pp0_tp0_dcp0_ep0_rank0`` as NAME (older ones: host and process), and one of
the front end, ``HOST_PID.async_llm``, unless ``ignore_frontend`` is set.
"""

DIALECTS = {each.kind: each for each in (SGLANG, VLLM, TOKENSPEED, TRTLLM, GPUTRACE)}
KINDS = tuple(DIALECTS)
"""The kinds of engines there are."""
