"""The frontend process of the fake engine: forks the schedulers, serves HTTP, and takes all of them with it.

Run as ``python -m pytest_gputrace.fakes.engine.process FD``: its configuration comes from the standard input, whose end
is the order to shut down; what it says when it is ready, or why it is not, goes to the descriptor.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import signal
import socket
import sys
import time
import traceback
from typing import TYPE_CHECKING, Any

from pytest_gputrace.control.activities import kinds, protondoor
from pytest_gputrace.control.coordinator import Coordinator
from pytest_gputrace.control.endpoint import Endpoint
from pytest_gputrace.fakes.engine.config import EngineConfig
from pytest_gputrace.fakes.engine.foreign import ForeignFrontend
from pytest_gputrace.fakes.engine.handle import SchedulerHandle
from pytest_gputrace.fakes.engine.scheduler import run_scheduler
from pytest_gputrace.fakes.engine.web import EngineServer
from pytest_gputrace.fakes.engine.wire import Wire
from pytest_gputrace.fakes.isolation import die_with_parent, fork

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from pytest_gputrace.fakes.engine.web import Told

__all__ = ["main"]

_TORCHS = {"CPU", "GPU", "MEM", "CUDA_PROFILER"}


def main(ready: int, parent: int) -> None:
    """Be the frontend until the standard input ends."""
    die_with_parent(parent)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # it is the test that is interrupted
    config = EngineConfig.from_text(sys.stdin.readline())
    schedulers: list[SchedulerHandle] = []
    try:
        _prepare(config.prepare)
        _fork_all(config, schedulers, ready)
        _wait_until_ready(schedulers, config.timeout_s)
        server = EngineServer(schedulers, _control(config, schedulers), config.timeout_s)
    except Exception as error:  # noqa: BLE001  # a process border: it ends in a message to the parent
        traceback.print_exc()
        _say(ready, {"error": f"{type(error).__name__}: {error}"})
    else:
        pids = {scheduler.tag: scheduler.pid for scheduler in schedulers}
        _say(ready, {"url": server.url, "pids": pids})
        sys.stdin.read()  # requests that are under way end with the process
    finally:
        for scheduler in schedulers:
            scheduler.end()


def _prepare(activities: Sequence[str]) -> None:
    """Import once what every scheduler would import for these activities; what is not installed stays away."""
    kinds()  # our own modules, too
    words = set(activities)
    if "PROTON" in words and not protondoor.missing():
        protondoor.open_proton()
    modules = {"viztracer": words & {"VIZTRACER"}, "torch": words & _TORCHS}
    for module, wanted in modules.items():
        if wanted:
            with contextlib.suppress(ImportError):
                importlib.import_module(module)


def _fork_all(config: EngineConfig, schedulers: list[SchedulerHandle], ready: int) -> None:
    """Fork the schedulers; no thread was started so far, and each keeps no descriptor but its own."""
    parent = os.getpid()
    mine: list[socket.socket] = []
    for worker in config.workers:
        here, there = socket.socketpair()
        mine.append(here)
        pid = fork()
        if pid == 0:
            run_scheduler(config, worker, there, parent, [ready, *(end.fileno() for end in mine)])
        there.close()
        schedulers.append(SchedulerHandle(worker, pid, Wire(here), config.timeout_s))


def _wait_until_ready(schedulers: Sequence[SchedulerHandle], timeout_s: float) -> None:
    until_s = time.monotonic() + timeout_s
    for scheduler in schedulers:
        scheduler.wait_until_ready(max(0.0, until_s - time.monotonic()))
    for scheduler in schedulers:
        scheduler.listen()


def _control(
    config: EngineConfig, schedulers: Sequence[SchedulerHandle]
) -> Callable[[str, str, Mapping[str, str], bytes], Told]:
    """What answers to the requests about profiles."""
    config.folder.mkdir(parents=True, exist_ok=True)
    if config.kind != "gputrace":
        foreign = ForeignFrontend(config, schedulers)
        return lambda method, path, headers, body: foreign.handle(method, path, body)
    coordinator = Coordinator(schedulers, reply_timeout_s=config.timeout_s, collect_timeout_s=config.collect_timeout_s)
    endpoint = Endpoint(coordinator, allowed_dir=config.folder, token=config.token)

    def handle(method: str, path: str, headers: Mapping[str, str], body: bytes) -> Told:
        response = endpoint.handle(method, path, headers, body)
        return response.status, response.body, response.headers

    return handle


def _say(ready: int, what: dict[str, Any]) -> None:
    with contextlib.suppress(OSError):  # the parent is gone: nobody wants to know
        os.write(ready, json.dumps(what).encode() + b"\n")


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
