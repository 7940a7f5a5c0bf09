"""The HTTP server of the fake engine: traffic, what became of the processes, and the profile endpoint it mounts."""

from __future__ import annotations

import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

from pytest_gputrace.errors import ControlError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from pytest_gputrace.fakes.engine.handle import SchedulerHandle

__all__ = ["EngineServer", "Told"]

Told = tuple[int, bytes, "Mapping[str, str]"]
"""The status, the body and the headers of a response."""

_MOST_BYTES = 1 << 20
_SOCKET_S = 60.0
_JSON = {"Content-Type": "application/json"}
_MOST = {"requests": 10_000, "tokens": 100_000}


class EngineServer:
    """Serves on loopback, a thread per request, until the process ends.

    Args:
        workers: the schedulers.
        control: answers what is not the engine's own: method, path, headers, body.
        timeout_s: how long traffic may take.
    """

    def __init__(
        self,
        workers: Sequence[SchedulerHandle],
        control: Callable[[str, str, Mapping[str, str], bytes], Told],
        timeout_s: float,
    ) -> None:
        self._workers, self._control, self._timeout_s = workers, control, timeout_s
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self._respond))
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, name="http", daemon=True).start()

    def _respond(self, method: str, path: str, headers: Mapping[str, str], body: bytes) -> Told:
        if (method, path) == ("GET", "/engine"):
            return _told(200, self._state())
        if path != "/generate":
            return self._control(method, path, headers, body)
        if method != "POST":
            return _told(405, {"error": "/generate takes POST"})
        try:
            requests, tokens = _traffic(body)
        except ValueError as error:
            return _told(400, {"error": str(error)})
        return self._generate(requests, tokens)

    def _state(self) -> dict[str, Any]:
        return {
            "steps": {worker.tag: worker.steps for worker in self._workers},
            "deaths": {worker.tag: death for worker in self._workers if (death := worker.death())},
        }

    def _generate(self, requests: int, tokens: int) -> Told:
        """Share the requests among the DP groups, and wait until all ranks of each group have made the steps."""
        groups = 1 + max(worker.worker.coordinates.get("DP", 0) for worker in self._workers)
        until_s = time.monotonic() + self._timeout_s
        asked = []
        for worker in self._workers:
            group = worker.worker.coordinates.get("DP", 0)
            share = requests // groups + (group < requests % groups)
            if share:
                asked.append((worker, worker.send("run", requests=share, tokens=tokens)))
        steps: dict[str, int] = {}
        errors = []
        for worker, number in asked:
            try:
                steps[worker.tag] = worker.answer(number, until_s - time.monotonic())["steps"]
            except ControlError as error:
                errors.append(str(error))
        if errors:
            return _told(500, {"steps": steps, "error": "; ".join(errors)})
        return _told(200, {"steps": steps})


def _traffic(body: bytes) -> tuple[int, int]:
    """How many requests, of how many tokens each.

    Raises:
        ValueError: this is no request to generate; a field of a profile, above all, does not belong here.
    """
    try:
        given = json.loads(body) if body else {}
    except ValueError:
        given = None
    if not isinstance(given, dict):
        raise ValueError("the body is no JSON object")  # of a body, not of an argument
    unknown = sorted(set(given) - set(_MOST))
    if unknown:
        raise ValueError(f"a request to generate has no field {', '.join(unknown)}; it has {', '.join(_MOST)}")
    numbers = {"requests": 1, "tokens": 8} | given
    for name, most in _MOST.items():
        if type(numbers[name]) is not int or not 0 <= numbers[name] <= most:
            raise ValueError(f"{name} is {numbers[name]!r}; it is a whole number up to {most}")
    return numbers["requests"], numbers["tokens"]


def _told(status: int, what: Mapping[str, Any]) -> Told:
    return status, json.dumps(what).encode() + b"\n", _JSON


def _handler(respond: Callable[[str, str, Mapping[str, str], bytes], Told]) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        timeout = _SOCKET_S
        protocol_version = "HTTP/1.1"

        def _do(self) -> None:
            length = self.headers.get("Content-Length", "0")
            if not length.isdigit() or int(length) > _MOST_BYTES:
                self.close_connection = True
                return self._send(413, b"", {})
            body = self.rfile.read(int(length))
            return self._send(*respond(self.command, self.path, dict(self.headers.items()), body))

        def _send(self, status: int, body: bytes, headers: Mapping[str, str]) -> None:
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        # The names are those that the base class looks for.
        do_GET = do_POST = do_PUT = do_DELETE = _do  # noqa: N815

    return Handler
