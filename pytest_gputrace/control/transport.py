"""One HTTP request to an engine and its answer, bounded in size and time; what goes wrong is told with the URL."""

from __future__ import annotations

import contextlib
import http.client
import re
import socket
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pytest_gputrace.control.bearer import authorization, check_token
from pytest_gputrace.control.origins import is_loopback
from pytest_gputrace.errors import ControlError, UnheardError

if TYPE_CHECKING:
    from email.message import Message

    from typing_extensions import Self

__all__ = ["Heard", "Transport", "first_line"]

_MOST_BYTES = 64 << 20
_BLOCK = 1 << 16
_LONGEST_LINE = 300
_MOST_SHOWN = 1 << 16


@dataclass(frozen=True)
class Heard:
    """What an engine answered."""

    status: int
    body: bytes
    location: str = ""


class Transport:
    """Sends requests to the paths below one URL.

    Args:
        url: with or without ``http://``, with a path before those of the engine or without.
        token: sent with each request.
        timeout_s: how long an answer may take; an engine may write for minutes before it answers a stop.

    Raises:
        ControlError: it is no URL of an engine, or the token cannot be one.
    """

    def __init__(self, url: str, *, token: str | None, timeout_s: float) -> None:
        check_token(token)
        self.url, host = _normal(url)
        self._token = token
        self._timeout_s = timeout_s
        # A proxy has another loopback.
        self._proxies = urllib.request.ProxyHandler({} if is_loopback(host) else None)

    def ask(self, method: str, path: str, body: bytes | None) -> Heard:
        """Send one request and take in the answer, whatever its status is.

        Raises:
            UnheardError: none came.
        """
        headers = {"Accept": "application/json, text/plain, */*"}
        if body is not None:
            headers["Content-Type"] = "application/json"
        elif method == "POST":
            body = b""  # with Content-Length: 0, which some servers insist on
        if self._token is not None:
            headers["Authorization"] = authorization(self._token)
        request = _Bare(self.url + path, body, headers, method=method)
        deadline = time.monotonic() + self._timeout_s
        with _Deadline(self._timeout_s) as timed:
            try:
                try:
                    opener = urllib.request.build_opener(self._proxies, _NoRedirect, _Http(timed), _Https(timed))
                    answer: Any = opener.open(request, timeout=self._timeout_s)
                except urllib.error.HTTPError as error:
                    answer = error
                with answer:
                    return Heard(answer.status, _read(answer, deadline), answer.headers.get("Location") or "")
            except (OSError, http.client.HTTPException, ValueError) as error:
                raise self._unheard(method, path, TimeoutError() if timed.passed else error) from error

    def shown(self, body: bytes | str) -> str:
        """The first line of what an engine wrote, without our token."""
        text = body.decode("utf-8", "replace") if isinstance(body, bytes) else body
        return first_line(self.clean(text)[:_MOST_SHOWN])

    def clean(self, value: Any) -> Any:
        """A text, or all texts in lists and objects of JSON, without our token: an engine may repeat it."""
        if isinstance(value, str):
            return value if self._token is None else value.replace(self._token, "***")
        if isinstance(value, list):
            return [self.clean(each) for each in value]
        if isinstance(value, dict):
            return {self.clean(name): self.clean(each) for name, each in value.items()}
        return value

    def _unheard(self, method: str, path: str, error: Exception) -> UnheardError:
        cause = getattr(error, "reason", error)
        what = f"{method} {self.url}{path}"
        if isinstance(cause, ConnectionRefusedError):
            return UnheardError(f"{what}: nobody listens there; is the engine up, and is this its port?", sent=False)
        if isinstance(cause, TimeoutError):
            return UnheardError(
                f"{what}: no answer in {self._timeout_s:g} s; it may still be at work: look there, or allow more time",
                sent=True,
            )
        told = self.shown(str(cause)) or type(cause).__name__
        # urllib wraps what goes wrong before all of the request is out; what comes as it is came later.
        sent = not isinstance(error, urllib.error.URLError) or isinstance(cause, ConnectionError)
        return UnheardError(f"{what}: no answer that can be read: {told}", sent=sent)


def first_line(text: str) -> str:
    """The first line that says something, printable and bounded."""
    line = next((line.strip() for line in text.splitlines() if line.strip()), "")
    line = "".join(char if char.isprintable() else ascii(char)[1:-1] for char in line)
    return line if len(line) <= _LONGEST_LINE else f"{line[:_LONGEST_LINE]}..."


class _Bare(urllib.request.Request):
    """A request with the headers that it was given: an empty body gets no type, which urllib makes up as a form's.

    Engines that take no body or an optional one refuse a form, and an empty text that is called JSON.
    """

    def has_header(self, header_name: str) -> bool:
        return header_name == "Content-type" or super().has_header(header_name)


class _Deadline:
    """Ends every connection made under it when its time is up, however slowly the other side sends.

    The timeout of a socket begins anew with each byte. ``passed`` says whether the time was up.
    """

    def __init__(self, timeout_s: float) -> None:
        self.passed = False
        self._sockets: list[socket.socket] = []
        self._timer = threading.Timer(timeout_s, self._end)
        self._timer.daemon = True

    def watch(self, connected: socket.socket) -> None:
        """End this one, too."""
        self._sockets.append(connected)
        if self.passed:
            self._end()

    def __enter__(self) -> Self:
        self._timer.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._timer.cancel()

    def _end(self) -> None:
        self.passed = True
        for connected in self._sockets:
            with contextlib.suppress(OSError):  # it is closed already
                connected.shutdown(socket.SHUT_RDWR)


def _watched(base: type[http.client.HTTPConnection], deadline: _Deadline) -> type[http.client.HTTPConnection]:
    class Watched(base):  # type: ignore[misc,valid-type]  # one of two classes of the standard library
        def connect(self) -> None:
            super().connect()
            deadline.watch(self.sock)

    return Watched


class _Http(urllib.request.HTTPHandler):
    def __init__(self, deadline: _Deadline) -> None:
        super().__init__()
        self._deadline = deadline

    def http_open(self, req: urllib.request.Request) -> Any:
        return self.do_open(_watched(http.client.HTTPConnection, self._deadline), req)


class _Https(urllib.request.HTTPSHandler):
    def __init__(self, deadline: _Deadline) -> None:
        super().__init__()
        self._deadline = deadline

    def https_open(self, req: urllib.request.Request) -> Any:
        return self.do_open(_watched(http.client.HTTPSConnection, self._deadline), req)


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """Follows nothing: a POST would become a GET without its body, and the token would go to another place."""

    def redirect_request(
        self, req: urllib.request.Request, fp: Any, code: int, msg: str, headers: Message, newurl: str
    ) -> None:
        return None


def _read(answer: Any, deadline: float) -> bytes:
    expected: int | None = answer.length  # None where the answer is as long as the connection, or in chunks
    parts: list[bytes] = []
    size = 0
    while size != expected:  # an engine may keep the connection open after its answer
        data = answer.read1(_BLOCK if expected is None else min(_BLOCK, expected - size))
        if not data:
            break
        parts.append(data)
        size += len(data)
        if size > _MOST_BYTES:
            raise ValueError(f"the answer has more than {_MOST_BYTES} bytes")
        if time.monotonic() > deadline:
            raise TimeoutError
    if expected is not None and size < expected:
        raise http.client.IncompleteRead(b"".join(parts), expected - size)
    return b"".join(parts)


def _normal(url: str) -> tuple[str, str]:
    """The URL without a slash at its end, and its host."""
    wrong = None
    # What stands before an @ or behind may be a secret.
    shown = "what was given" if "@" in url else first_line(re.split(r"[?#]", url)[0])
    told = url if "://" in url else f"http://{url}"
    if not re.fullmatch(r"[\x21-\x7e]+", told):
        raise ControlError(f"{shown} is no URL: it has a blank or a character that URLs do not have")
    try:
        parts = urllib.parse.urlsplit(told)
        host, _ = parts.hostname, parts.port
    except ValueError as error:
        why = "" if "@" in url else f": {error}"
        raise ControlError(f"{shown} is no URL{why}") from None
    if parts.username is not None or parts.password is not None:
        raise ControlError("the URL holds a name or a password; give the token as token")
    if parts.scheme not in ("http", "https"):
        wrong = f"{parts.scheme}:// is not spoken; give http:// or https://"
    elif not host:
        wrong = "it names no host"
    elif parts.query or parts.fragment:
        wrong = "it has a query or a fragment; give it without"
    if wrong is not None:
        raise ControlError(f"{shown} is no URL of an engine: {wrong}")
    return f"{parts.scheme}://{parts.netloc}{parts.path.rstrip('/')}", host or ""
