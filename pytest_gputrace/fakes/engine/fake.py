"""``FakeEngine``: a serving engine as a test holds it, with a frontend process and its schedulers, all of them real.

Nothing of it runs in the test's own process, which it changes in nothing. The work is in ``process``.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_gputrace.errors import ControlError
from pytest_gputrace.fakes.engine.config import EngineConfig
from pytest_gputrace.fakes.isolation import readable

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import TracebackType

    from typing_extensions import Self

    from pytest_gputrace.fakes.engine.config import EngineKind
    from pytest_gputrace.fakes.engine.faults import EngineFault
    from pytest_gputrace.fakes.events import Vendor

__all__ = ["FakeEngine"]

_LOG_LINES = 30
_SHUTDOWN_S = 5.0
_GONE_S = 10.0
_POLL_S = 0.005


class FakeEngine:
    """A frontend process with DP x TP scheduler processes, which step through batches when there is traffic.

    ::

        with FakeEngine(tmp_path, dp=2, tp=2) as engine:
            client = ProfileClient(engine.url)
            client.start(activities=["VIZTRACER", "PROTON"])
            engine.generate(requests=4)
            answer = client.stop()

    Each scheduler has the library's own session, and all of them end by SIGKILL, whatever happens: nothing is written at
    exit. When the block is left, and when this process ends, no process of the engine is left.

    Args:
        root: for the log and, in ``profiles``, the profiles; made when missing.
        dp: how many groups the requests are shared among.
        tp: how many schedulers each group has; all of them make the same steps.
        vendor: torch's profiler is a fake one of a CUDA or HIP build; ``None`` leaves it as it is.
        faults: what is wrong with it, some of ``pytest_gputrace.fakes.engine.faults``.
        token: what a request about profiles must carry.
        node: the name of its node in the workers' tags; ``None`` for tags of coordinates alone.
        step_s: how long a step waits for the device.
        prepare: activities whose profilers are imported once, before the schedulers are forked; others load theirs
            when a profile starts.
        kind: whose answers and files these are. Every kind but ``gputrace`` profiles as naively as that engine does.
        timeout_s: for the start, for each answer of a scheduler, and for all traffic of one call.
        collect_timeout_s: how long the frontend waits, once it is told to stop, for all files of a profile.

    Raises:
        TypeError: an argument is of the wrong kind.
        ValueError: an argument cannot be, or a fault is for a scheduler that there is not.
    """

    def __init__(
        self,
        root: Path | str,
        *,
        dp: int = 1,
        tp: int = 2,
        vendor: Vendor | None = "cuda",
        faults: Sequence[EngineFault] = (),
        token: str | None = None,
        node: str | None = "node0",
        step_s: float = 0.001,
        prepare: Sequence[str] = ("VIZTRACER", "PROTON"),
        kind: EngineKind = "gputrace",
        timeout_s: float = 60.0,
        collect_timeout_s: float = 60.0,
    ) -> None:
        self._config = EngineConfig(
            os.path.abspath(root), dp, tp, vendor, tuple(faults), token, node, step_s, tuple(prepare), kind, timeout_s,
            collect_timeout_s,
        )  # fmt: skip
        self._process: subprocess.Popen[str] | None = None
        self._url = ""
        self._pids: dict[str, int] = {}

    @property
    def folder(self) -> Path:
        """Where profiles go, and below which all of them must."""
        return self._config.folder

    @property
    def log(self) -> Path:
        """What all processes print."""
        return self._config.log

    @property
    def kind(self) -> str:
        """Whose answers and files these are."""
        return self._config.kind

    @property
    def url(self) -> str:
        """Where it serves."""
        self._running()
        return self._url

    @property
    def pids(self) -> dict[str, int]:
        """The process of each scheduler, by its tag; those of ended ones stay."""
        return dict(self._pids)

    @property
    def pid(self) -> int:
        """The frontend's process."""
        return self._running().pid

    @property
    def tags(self) -> list[str]:
        """The tags of the schedulers' sessions, by rank."""
        return list(self._pids)

    def start(self) -> Self:
        """Start all processes, and wait until it serves. It ends with the thread that starts it.

        Raises:
            ControlError: it did not come up in time, or not at all; ends with the last lines of its log.
        """
        if self._process is not None:
            raise ControlError("FakeEngine: it was started before; make a new one")
        self.log.parent.mkdir(parents=True, exist_ok=True)
        ready, end = os.pipe()
        try:
            self._process = self._spawn(end)
            os.close(end)
            end = -1
            self._greet(ready)
        except BaseException:
            self.shutdown()
            raise
        finally:
            for descriptor in (ready, end):
                if descriptor >= 0:
                    os.close(descriptor)
        return self

    def generate(self, requests: int = 1, tokens: int = 8) -> dict[str, int]:
        """Send traffic, and wait until it is worked off: per request one PREFILL step, and ``tokens`` DECODE steps.

        Returns:
            How many steps each scheduler made for it, by tag; one whose group had no request is not there.

        Raises:
            ControlError: a scheduler ended, or was not done in time.
        """
        steps: dict[str, int] = self._ask("/generate", {"requests": requests, "tokens": tokens})["steps"]
        return steps

    def steps(self) -> dict[str, int]:
        """How many steps each scheduler has made in all traffic that is worked off, by tag."""
        steps: dict[str, int] = self._ask("/engine")["steps"]
        return steps

    def deaths(self) -> dict[str, str]:
        """How each scheduler ended that has, by tag: ``killed by signal 9 (SIGKILL)``, ``exited with 3``."""
        deaths: dict[str, str] = self._ask("/engine")["deaths"]
        return deaths

    def kill(self, tag: str, signal_number: int = signal.SIGKILL) -> None:
        """Send a signal to one scheduler, by its tag or the coordinates it begins with.

        Raises:
            ControlError: there is none of that tag.
        """
        self._running()
        for known, pid in self._pids.items():
            if f"{known}-".startswith(f"{tag}-"):
                # Ended ones are not reaped before somebody asks for deaths; then there is nothing to signal.
                if _is_running(pid, self.pid):
                    os.kill(pid, signal_number)
                return
        raise ControlError(f"FakeEngine: no scheduler is {tag!r}; there are {', '.join(self._pids)}")

    def shutdown(self) -> None:
        """End it as engines do, all schedulers by SIGKILL, and wait until no process is left; harmless when repeated.

        Raises:
            ControlError: a process is still there.
        """
        process = self._process
        if process is None or process.stdin is None or process.stdin.closed:
            return
        with contextlib.suppress(OSError):
            process.stdin.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_SHUTDOWN_S if self._url else 0)  # one that did not come up may not listen
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait(_GONE_S)
        until_s = time.monotonic() + _GONE_S
        while left := [tag for tag, pid in self._pids.items() if _is_running(pid, process.pid)]:
            if time.monotonic() > until_s:
                raise ControlError(f"FakeEngine: {', '.join(left)} did not end (see {self.log})")
            time.sleep(_POLL_S)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.shutdown()

    def _spawn(self, end: int) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "pytest_gputrace.fakes.engine.process", str(end), str(os.getpid())]
        with open(self.log, "ab") as log:
            process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=log, stderr=log, text=True, pass_fds=[end], cwd=self.log.parent,
                start_new_session=True,
            )  # fmt: skip
        assert process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # it ended already; that is told by who waits for it
            process.stdin.write(self._config.as_text())
            process.stdin.flush()
        return process

    def _greet(self, ready: int) -> None:
        """Wait for the frontend's only line."""
        until_s = time.monotonic() + self._config.timeout_s
        line = b""
        while not line.endswith(b"\n"):
            if not readable(ready, max(0.0, until_s - time.monotonic())):
                raise self._not_up(f"was not ready within {self._config.timeout_s:g} s")
            chunk = os.read(ready, 65536)
            if not chunk:
                raise self._not_up("ended before it was ready")
            line += chunk
        word = json.loads(line)
        if "error" in word:
            raise self._not_up(f"could not start: {word['error']}")
        self._url, self._pids = word["url"], word["pids"]

    def _not_up(self, what: str) -> ControlError:
        tail = "\n".join(self.log.read_text(encoding="utf-8", errors="replace").splitlines()[-_LOG_LINES:])
        return ControlError(f"FakeEngine: the frontend {what}; {self.log} ends with:\n{tail}")

    def _running(self) -> subprocess.Popen[str]:
        if self._process is None or not self._url:
            raise ControlError("FakeEngine: it was not started; use it in a with statement")
        return self._process

    def _ask(self, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        """Ask the frontend, never through a proxy."""
        self._running()
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self._url + path, data, {"Content-Type": "application/json"})
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        try:
            with opener.open(request, timeout=self._config.timeout_s + 5) as response:
                answer: dict[str, Any] = json.load(response)
        except urllib.error.HTTPError as error:
            with error:
                told = json.loads(error.read() or b"{}").get("error", "")
            raise ControlError(f"FakeEngine: {path} answered {error.code}: {told} (see {self.log})") from None
        except OSError as error:
            raise ControlError(f"FakeEngine: {path} was not answered: {error} (see {self.log})") from error
        return answer


def _is_running(pid: int, group: int) -> bool:
    """Whether a process of that group is there and no zombie; another one may have the number by now."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace").rpartition(")")[2].split()
    except OSError:
        return False
    return fields[0] not in "ZX" and int(fields[2]) == group
