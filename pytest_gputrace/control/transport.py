"""One HTTP request to an engine and its answer, bounded in size and time; what goes wrong is told with the URL."""

from __future__ import annotations

import http.client
import re
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

__all__ = ["Heard", "Transport", "first_line"]

_MOST_BYTES = 64 << 20
_BLOCK = 1 << 16
_LONGEST_LINE = 300


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
        proxies = urllib.request.ProxyHandler({} if is_loopback(host) else None)
        self._opener = urllib.request.build_opener(proxies, _NoRedirect)

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
        try:
            try:
                answer: Any = self._opener.open(request, timeout=self._timeout_s)
            except urllib.error.HTTPError as error:
                answer = error
            with answer:
                return Heard(answer.status, _read(answer, deadline), answer.headers.get("Location") or "")
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise self._unheard(method, path, error) from error

    def shown(self, body: bytes | str) -> str:
        """The first line of what an engine wrote, without our token."""
        line = first_line(body)
        return line if self._token is None else line.replace(self._token, "***")

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


def first_line(body: bytes | str) -> str:
    """The first line that says something, printable and bounded."""
    text = body[: 16 * _LONGEST_LINE].decode("utf-8", "replace") if isinstance(body, bytes) else body
    line = next((line.strip() for line in text.splitlines() if line.strip()), "")
    line = "".join(char if char.isprintable() else ascii(char)[1:-1] for char in line)
    return line if len(line) <= _LONGEST_LINE else f"{line[:_LONGEST_LINE]}..."


class _Bare(urllib.request.Request):
    """A request with the headers that it was given: an empty body gets no type, which urllib makes up as a form's.

    Engines that take no body or an optional one refuse a form, and an empty text that is called JSON.
    """

    def has_header(self, header_name: str) -> bool:
        return header_name == "Content-type" or super().has_header(header_name)


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
    told = url if "://" in url else f"http://{url}"
    if not re.fullmatch(r"[\x21-\x7e]+", told):
        raise ControlError(f"{first_line(url)!r} is no URL: it has a blank or a character that URLs do not have")
    try:
        parts = urllib.parse.urlsplit(told)
        host, _ = parts.hostname, parts.port
    except ValueError as error:
        raise ControlError(f"{first_line(url)!r} is no URL: {error}") from None
    if parts.username is not None or parts.password is not None:
        raise ControlError("the URL holds a name or a password; give the token as token")
    if parts.scheme not in ("http", "https"):
        wrong = f"{parts.scheme}:// is not spoken; give http:// or https://"
    elif not host:
        wrong = "it names no host"
    elif parts.query or parts.fragment:
        wrong = "it has a query or a fragment; give it without"
    if wrong is not None:
        raise ControlError(f"{first_line(url)!r} is no URL of an engine: {wrong}")
    return f"{parts.scheme}://{parts.netloc}{parts.path.rstrip('/')}", host or ""
