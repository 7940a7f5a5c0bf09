"""Serve an `Endpoint` on a socket of its own: each request in a thread, everything about it bounded."""

from __future__ import annotations

import contextlib
import http.server
import io
import ipaddress
import socket
import socketserver
import threading
import time
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from pytest_gputrace.control.endpoint import MOST_BYTES, Endpoint, Response, refusal
from pytest_gputrace.errors import ControlError

if TYPE_CHECKING:
    from types import TracebackType

    from typing_extensions import Self

__all__ = ["ControlServer"]

_READ_S = 10.0
"""How long a client may take to send its request, and again to take the response."""
_CLOSE_S = 10.0
_MOST_CONNECTIONS = 64
_LONGEST_DRAIN = 1 << 20


class ControlServer:
    """A server for one endpoint, bound at once. ::

        with ControlServer(Endpoint(coordinator, allowed_dir="/data/profiles")) as server:
            print(server.url)

    serves in a thread of its own until the block ends; an engine that has a thread for it calls ``serve_forever`` there,
    and ``close`` from anywhere. A stop that is under way goes on when the server is closed.

    Args:
        endpoint: answers the requests.
        host: the address to bind, or a name of one; only this machine reaches the default.
        port: 0 for any that is free.

    Raises:
        ControlError: it cannot be bound; or other machines would reach it, and the endpoint has no token.
    """

    def __init__(self, endpoint: Endpoint, host: str = "127.0.0.1", port: int = 0) -> None:
        family, address = _resolve(host, port)
        if not (_address(address).is_loopback or endpoint.has_token):
            raise ControlError(
                f"{host or 'every address'!r} can be reached from other machines, and whoever reaches an endpoint without"
                " a token may use it; give the endpoint a token, or bind 127.0.0.1"
            )
        try:
            self._server = _Server(endpoint, family, address)
        except OSError as error:
            raise ControlError(f"cannot bind {host}:{port}: {error.strerror or error}") from error
        self._lock = threading.Lock()
        self._serving = False
        self._closed = False

    @property
    def url(self) -> str:
        """Where clients on this machine reach it."""
        bound = self._server.server_address
        address = _address(bound)
        shown = str(bound[0])
        if address.is_unspecified:
            shown = "127.0.0.1" if address.version == 4 else "::1"
        return f"http://{shown if address.version == 4 else f'[{shown}]'}:{bound[1]}"

    def serve_forever(self) -> None:
        """Serve in this thread until ``close``; at once over when that was called before."""
        with self._lock:
            if self._closed:
                return
            self._serving = True
        self._server.serve_forever(poll_interval=0.05)

    def close(self, timeout_s: float = _CLOSE_S) -> None:
        """Take no more requests; those under way have until ``timeout_s`` to end, and go on behind our back after that."""
        with self._lock:
            first, self._closed = not self._closed, True
        if not first:
            return
        deadline = time.monotonic() + timeout_s
        if self._serving:
            self._server.shutdown()
        self._server.server_close()
        self._server.wait(deadline)

    def __enter__(self) -> Self:
        threading.Thread(target=self.serve_forever, name="gputrace-control", daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


class _Server(socketserver.ThreadingMixIn, http.server.HTTPServer):
    daemon_threads = True
    block_on_close = False  # it would wait for ever; `wait` has a deadline

    def __init__(self, endpoint: Endpoint, family: socket.AddressFamily, address: tuple[Any, ...]) -> None:
        self.address_family = family
        self.endpoint = endpoint
        self._free = threading.BoundedSemaphore(_MOST_CONNECTIONS)
        self._at_work: set[threading.Thread] = set()
        super().__init__(address, _Handler)  # type: ignore[arg-type]  # IPv6 has addresses of four parts

    def server_bind(self) -> None:
        """Bind; without a look-up of our own name, which may take seconds."""
        socketserver.TCPServer.server_bind(self)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Handle a connection in a thread; one too many is closed."""
        if self._free.acquire(blocking=False):
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """One connection, from its first byte to its last."""
        thread = threading.current_thread()
        self._at_work.add(thread)
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._at_work.discard(thread)
            self._free.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that went away is no news; anything else is a defect that must show."""
        if not isinstance(sys.exception() if hasattr(sys, "exception") else sys.exc_info()[1], OSError):
            super().handle_error(request, client_address)

    def wait(self, deadline: float) -> None:
        """Wait for the requests under way; one may be who closes us."""
        for thread in self._at_work - {threading.current_thread()}:
            thread.join(max(0.0, deadline - time.monotonic()))


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def setup(self) -> None:
        """Read with one deadline for the whole request, however slowly its bytes come."""
        super().setup()
        self.rfile = io.BufferedReader(_DeadlineReader(self.connection, time.monotonic() + _READ_S))

    def _serve(self) -> None:
        length = self.headers.get("Content-Length", "0")
        if "Transfer-Encoding" in self.headers:
            self._send(refusal(411, "send the body with its Content-Length"))
        elif not (length.isascii() and length.isdigit()):
            self._send(refusal(400, "Content-Length is no number"))
        elif int(length[:20]) > MOST_BYTES:
            self._send(self.server.endpoint.handle(self.command, self.path, self._told(), b" " * (MOST_BYTES + 1)))
        else:
            body = self.rfile.read(int(length))
            if len(body) < int(length):
                return  # who asked has gone
            self._send(self.server.endpoint.handle(self.command, self.path, self._told(), body))

    do_GET = do_HEAD = do_POST = do_PUT = do_PATCH = do_DELETE = do_OPTIONS = _serve  # noqa: N815  # their names are given

    def handle_expect_100(self) -> bool:
        """Let nobody send a body that will not be read."""
        length = self.headers.get("Content-Length", "")
        return bool(length.isdigit() and int(length[:20]) > MOST_BYTES) or super().handle_expect_100()
