"""Serve an `Endpoint` on a socket of its own: each request in a thread, everything about it bounded."""

from __future__ import annotations

import contextlib
import http.server
import io
import ipaddress
import socket
import socketserver
import sys
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
_POLL_S = 0.05
_MOST_CONNECTIONS = 64
_DRAIN_S = 1.0
_ROOM_S = 1.0
_LONGEST_DRAIN = 1 << 20


class ControlServer:
    """A server for one endpoint; it serves, in a thread of its own, from when it is made until ``close``.

    ::

        with ControlServer(Endpoint(coordinator, allowed_dir="/data/profiles")) as server:
            print(server.url)

    A stop that is under way goes on when the server is closed. A process that forks makes it afterwards.

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
        self._closed = False
        serving = threading.Thread(
            target=self._server.serve_forever, args=(_POLL_S,), name="gputrace-control", daemon=True
        )
        serving.start()

    @property
    def url(self) -> str:
        """Where clients on this machine reach it."""
        bound = self._server.server_address
        address = _address(bound)
        shown = str(bound[0])
        if address.is_unspecified:
            shown = "127.0.0.1" if address.version == 4 else "::1"
        return f"http://{shown if address.version == 4 else f'[{shown}]'}:{bound[1]}"

    def close(self, timeout_s: float = _CLOSE_S) -> None:
        """Take no more requests; those under way have until ``timeout_s`` to end, and go on behind our back after that."""
        with self._lock:
            first, self._closed = not self._closed, True
        if not first:
            return
        deadline = time.monotonic() + timeout_s
        self._server.shutdown()
        self._server.server_close()
        self._server.wait(deadline)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


class _Server(http.server.ThreadingHTTPServer):
    request_queue_size = 128

    def __init__(self, endpoint: Endpoint, family: socket.AddressFamily, address: tuple[Any, ...]) -> None:
        self.address_family = family
        self.endpoint = endpoint
        self._free = threading.BoundedSemaphore(_MOST_CONNECTIONS)
        self._at_work: set[threading.Thread] = set()
        self._incomplete: dict[Any, None] = {}  # the connections whose request has not come yet, the oldest first
        self._looking = threading.Lock()
        super().__init__(address, _Handler)

    def server_bind(self) -> None:
        """Bind; without a look-up of our own name, which may take seconds."""
        socketserver.TCPServer.server_bind(self)

    def server_close(self) -> None:
        """Close the socket; without a wait for requests, `wait` has a deadline for that."""
        socketserver.TCPServer.server_close(self)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Handle a connection in a thread that `wait` knows from now on; one too many is closed."""
        if not self._has_room():
            self.shutdown_request(request)
            return
        with self._looking:
            self._incomplete[request] = None
        thread = threading.Thread(
            target=self._in_thread, args=(request, client_address), name="gputrace-control-request", daemon=True
        )
        self._at_work.add(thread)
        try:
            thread.start()
        except BaseException:
            self._ended(thread)
            raise

    def complete(self, request: Any) -> None:
        """Note that a request has come, so that its connection is not given up for another one."""
        with self._looking:
            self._incomplete.pop(request, None)

    def _has_room(self) -> bool:
        """Whether there is room for one more; who has been silent longest makes it, or else nobody else would be heard."""
        if self._free.acquire(blocking=False):
            return True
        with self._looking:
            oldest = next(iter(self._incomplete), None)
            self._incomplete.pop(oldest, None)
        if oldest is None:
            return False
        with contextlib.suppress(OSError):
            oldest.shutdown(socket.SHUT_RDWR)
        return self._free.acquire(timeout=_ROOM_S)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that went away is no news; anything else is a defect that must show."""
        if not isinstance(sys.exc_info()[1], OSError):
            super().handle_error(request, client_address)

    def wait(self, deadline: float) -> None:
        """Wait for the requests under way, but for the one that closes us."""
        for thread in self._at_work - {threading.current_thread()}:
            thread.join(max(0.0, deadline - time.monotonic()))

    def _in_thread(self, request: Any, client_address: Any) -> None:
        try:
            self.process_request_thread(request, client_address)
        finally:
            self.complete(request)
            self._ended(threading.current_thread())

    def _ended(self, thread: threading.Thread) -> None:
        self._at_work.discard(thread)
        self._free.release()


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def setup(self) -> None:
        """Read with one deadline for the whole request, however slowly its bytes come."""
        super().setup()
        self.rfile.close()
        self.rfile = io.BufferedReader(_DeadlineReader(self.connection, time.monotonic() + _READ_S, whole=True))

    def _serve(self) -> None:
        length = self.headers.get("Content-Length", "0").strip()
        answer = self.server.endpoint.handle
        if "Transfer-Encoding" in self.headers:
            self._refuse(411, "send the body with its Content-Length")
        elif not (length.isascii() and length.isdigit()):
            self._refuse(400, "Content-Length is no number")
        elif int(length[:20]) > MOST_BYTES:
            # The endpoint refuses it; blanks stand for what is not read.
            self._send(answer(self.command, self.path, self._told(), bytes(MOST_BYTES + 1)))
            self._drain()
        else:
            body = self.rfile.read(int(length))
            self.server.complete(self.connection)
            if len(body) == int(length):  # else who asked has gone
                self._send(answer(self.command, self.path, self._told(), body))

    # The names are those that the base class looks for.
    do_GET = do_HEAD = do_POST = do_PUT = do_PATCH = do_DELETE = do_OPTIONS = _serve  # noqa: N815

    def handle_expect_100(self) -> bool:
        """Do not ask for a body that will not be read."""
        length = self.headers.get("Content-Length", "").strip()
        too_large = length.isascii() and length.isdigit() and int(length[:20]) > MOST_BYTES
        return too_large or super().handle_expect_100()

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Refuse, in JSON, what the base class could not read; what that was is not repeated."""
        self.request_version = self.protocol_version  # else the base class takes it for HTTP/0.9, which has no headers
        self._refuse(code, HTTPStatus(code).phrase)

    def version_string(self) -> str:
        """What is told of us."""
        return "gputrace"

    def log_message(self, format: str, *args: Any) -> None:  # the base class calls it so
        """Say nothing: standard error belongs to the engine."""

    def _told(self) -> dict[str, str]:
        """The headers; one that came twice holds both, and is then none that anything is granted for."""
        told: dict[str, str] = {}
        for name, value in self.headers.items():
            key = name.lower()
            told[key] = f"{told[key]}, {value}" if key in told else value
        return told

    def _refuse(self, status: int, message: str) -> None:
        self._send(refusal(status, message))
        self._drain()

    def _send(self, response: Response) -> None:
        self.close_connection = True
        self.connection.settimeout(_READ_S)
        self.send_response(response.status)
        told = {**response.headers, "Content-Length": str(len(response.body)), "Connection": "close"}
        for name, value in told.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(response.body)

    def _drain(self) -> None:
        """Take in some of what was not read: closing on it would reset the connection, and the response with it."""
        rest = _DeadlineReader(self.connection, time.monotonic() + _DRAIN_S)
        left = _LONGEST_DRAIN
        with contextlib.suppress(OSError):
            self.connection.shutdown(socket.SHUT_WR)
            while left > 0 and (data := rest.read(1 << 16)):
                left -= len(data)


class _DeadlineReader(io.RawIOBase):
    """Reads from a socket until a deadline, which all reads share; of a ``whole`` request an early end is an error."""

    def __init__(self, connection: socket.socket, deadline: float, *, whole: bool = False) -> None:
        super().__init__()
        self._is_whole = whole
        self._connection = connection
        self._deadline = deadline

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        left = self._deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError("the request took too long to come")
        self._connection.settimeout(left)
        size = self._connection.recv_into(buffer)
        if not size and self._is_whole:
            # The base class takes the end of a cut request for the end of its headers, and would do what is asked.
            raise ConnectionAbortedError("the request was cut")
        return size


def _resolve(host: str, port: int) -> tuple[socket.AddressFamily, tuple[Any, ...]]:
    """The address that is bound: told of it is whether others reach it, so nothing is looked up again later."""
    if not 0 <= port <= 65535:
        raise ControlError(f"port {port} is none; give 0 to 65535")
    try:
        found = socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (OSError, UnicodeError) as error:
        raise ControlError(f"no address is known for the host {host!r}: {error}") from error
    family, _, _, _, address = min(found, key=lambda each: each[0] == socket.AF_INET6)
    return family, address


def _address(bound: Any) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    return ipaddress.ip_address(bound[0])
