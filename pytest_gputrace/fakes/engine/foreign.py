"""How other engines answer ``/start_profile`` and ``/stop_profile``, and how their workers profile: naively.

A model of what their sources say, kept to what a client sees: bodies, replies, and who is waited for. All but vLLM answer
a stop when the first worker has, and the others write later.
"""

from __future__ import annotations

import json
import os
import threading
import time
from typing import TYPE_CHECKING, Any

from pytest_gputrace.errors import ControlError
from pytest_gputrace.fakes.engine.faults import EarlyReply
from pytest_gputrace.fakes.engine.naive import NaiveSession
from pytest_gputrace.fakes.traces import FakeTrace

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_gputrace.control.reply import Reply
    from pytest_gputrace.fakes.engine.config import EngineConfig
    from pytest_gputrace.fakes.engine.handle import SchedulerHandle
    from pytest_gputrace.fakes.engine.session import NaiveFiles, Place

__all__ = ["ForeignFrontend", "foreign_session"]

_LATE_S = 0.3
_FIELDS = {
    "sglang": (
        "output_dir", "start_step", "num_steps", "activities", "profile_by_stage", "profile_stages", "with_stack",
        "record_shapes",
    ),
    "trtllm": ("output_dir", "start_step", "num_steps", "activities"),
    "tokenspeed": (
        "output_dir", "start_step", "num_steps", "activities", "profile_by_stage", "with_stack", "record_shapes",
        "profile_id",
    ),
    "vllm": (),
}  # fmt: skip
_PLAIN, _JSON = {"Content-Type": "text/plain; charset=utf-8"}, {"Content-Type": "application/json"}
_Told = tuple[int, bytes, dict[str, str]]


def foreign_session(place: Place, files: NaiveFiles, config: EngineConfig) -> NaiveSession:
    """The session of a worker of another engine; every one but the first writes later than it says."""
    if any(isinstance(fault, EarlyReply) for fault in config.faults) or config.kind == "vllm":
        late_s = 0.0  # the fault says how much; vLLM answers for all
    else:
        late_s = _LATE_S if place.worker.rank else 0.0
    return NaiveSession(place.worker.tag, place, files, late_s=late_s)


class ForeignFrontend:
    """The HTTP side of another engine."""

    def __init__(self, config: EngineConfig, workers: Sequence[SchedulerHandle]) -> None:
        self._config, self._workers = config, workers

    def handle(self, method: str, path: str, body: bytes) -> _Told:
        """The status, the body and the headers of the response."""
        if path not in ("/start_profile", "/stop_profile"):
            return 404, b'{"detail":"Not Found"}', _JSON
        if method != "POST":
            return 405, b'{"detail":"Method Not Allowed"}', _JSON
        try:
            return self._start(body) if path == "/start_profile" else self._stop()
        except ControlError as error:
            return 500, f"Internal Server Error: {error}\n".encode(), _PLAIN

    def _start(self, body: bytes) -> _Told:
        try:
            given = json.loads(body) if body else {}
        except ValueError:
            given = None
        if not isinstance(given, dict):
            return 422, b'{"detail":"the body is no JSON object"}', _JSON
        # As pydantic does it, these engines pass over fields that they do not know.
        request = {key: value for key, value in given.items() if key in _FIELDS[self._config.kind]}
        request.setdefault("profile_id", self._new_id())
        if refusal := self._refusal(request):
            return 400, f"{refusal}\n".encode(), _PLAIN
        return self._answer("Start profiling.\n", self._ask_all("start", request, len(self._workers)))

    def _stop(self) -> _Told:
        waited_for = len(self._workers) if self._config.kind == "vllm" else 1
        replies = self._ask_all("stop", {}, waited_for)
        if self._config.kind == "vllm" and all(reply.ok for reply in replies):
            self._write_its_own()
        return self._answer("Stop profiling. This will take some time.\n", replies)

    def _refusal(self, request: dict[str, Any]) -> str:
        words = set(request.get("activities") or ())
        if self._config.kind == "tokenspeed" and "PROTON" in words and words & {"GPU", "CUDA_PROFILER"}:
            return "PROTON cannot be combined with GPU or CUDA_PROFILER: one GPU profiling client per process"
        return ""

    def _new_id(self) -> str:
        if self._config.kind == "tokenspeed":
            return time.strftime("%Y%m%d-%H%M%S")
        return str(time.time())

    def _ask_all(self, what: str, request: dict[str, Any], waited_for: int) -> list[Reply]:
        """Ask everybody, and wait for the first ones only."""
        replies: list[Reply] = []
        asked = [(worker, worker.send(what, request=request)) for worker in self._workers]
        for worker, number in asked[:waited_for]:
            replies.append(worker.reply(number))
        for worker, number in asked[waited_for:]:
            threading.Thread(target=_forget, args=(worker, number), daemon=True).start()
        return replies

    def _write_its_own(self) -> None:
        """The frontend of vLLM profiles itself, too: a file of no rank."""
        name = f"{self._config.node or 'node0'}_{os.getpid()}.async_llm.{time.time_ns()}.pt.trace.json.gz"
        FakeTrace("cpu").write(self._config.folder / name)

    def _answer(self, text: str, replies: Sequence[Reply]) -> _Told:
        if self._config.kind == "vllm":
            return 200, b"", {}  # a start while it records, and a stop while it does not, are passed over
        refused = [reply.message for reply in replies if not reply.ok]
        if refused:
            return 500, f"Internal Server Error: {refused[0]}\n".encode(), _PLAIN
        if self._config.kind == "trtllm":
            return 200, json.dumps({"status": "success"}).encode(), _JSON
        return 200, text.encode(), _PLAIN


def _forget(worker: SchedulerHandle, number: int) -> None:
    """Take the answer that nobody waits for."""
    try:
        worker.reply(number)
    except ControlError as error:
        print(f"nobody was told: {error}", flush=True)  # noqa: T201  # the engine's log
