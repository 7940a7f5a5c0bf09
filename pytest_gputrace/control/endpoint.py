"""Profile control over HTTP, as one function from a request to a response: it opens no socket and starts no thread.

``POST /start_profile`` takes the fields of `ProfileRequest` as a JSON object, ``POST /stop_profile`` none;
``GET /profile_status`` changes nothing. What comes back is an `Answer` as JSON, always:

====  =====================================================================================================
200   it was done; for the status, whatever that is
400   no JSON object, unknown fields, values that cannot be: ``reasons`` holds each thing; nothing was changed
401   the token is missing or another one
403   ``output_dir`` is not below the allowed folder; or a page in a browser asked, not its user
404   no such path         405   no such method for it, ``Allow`` says which
409   the workers are in no state for it: start while a profile runs, stop before start, or activities that
      they cannot record as they are; nothing was changed
411   the body comes in chunks, and its length is not told
413   the body is too large         415   the body is not said to be JSON
500   a worker or a profiler failed; the verdicts on all ranks are in the answer all the same
====  =====================================================================================================

Only ``POST`` changes anything, so that no link, image or crawler can. `ControlServer` serves an endpoint. An engine that
has a server mounts it instead; ``handle`` waits for all workers, so an event loop calls it in a thread. As WSGI::

    def app(environ, start_response):
        headers = {name[5:].replace("_", "-"): value for name, value in environ.items() if name.startswith("HTTP_")}
        headers["Content-Type"] = environ.get("CONTENT_TYPE", "")
        headers["Content-Length"] = length = environ.get("CONTENT_LENGTH") or "0"
        body = environ["wsgi.input"].read(min(int(length[:20]), MOST_BYTES + 1) if length.isdecimal() else 0)
        path = environ["PATH_INFO"] + ("?" + environ["QUERY_STRING"] if environ.get("QUERY_STRING") else "")
        response = endpoint.handle(environ["REQUEST_METHOD"], path, headers, body)
        start_response(response.status_line, list(response.headers.items()))
        return [response.body]

and in an ASGI framework, here Starlette or FastAPI::

    @app.api_route("/start_profile", methods=["POST"])  # and the two others
    async def control(request: Request) -> Response:
        path = request.url.path + ("?" + request.url.query if request.url.query else "")
        body = b""
        async for part in request.stream():
            if len(body := body + part) > MOST_BYTES:
                break
        asked = request.method, path, request.headers, body
        response = await run_in_threadpool(endpoint.handle, *asked)
        return Response(response.body, response.status, response.headers)
"""

from __future__ import annotations

import http
import json
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from pytest_gputrace.control.answer import Answer
from pytest_gputrace.control.bearer import check_token, holds
from pytest_gputrace.control.origins import foreign_page
from pytest_gputrace.control.requestbody import read_object, read_request
from pytest_gputrace.errors import ControlError, ForeignFolderError, RequestError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pytest_gputrace.control.request import ProfileRequest

__all__ = ["MOST_BYTES", "Controlled", "Endpoint", "Response", "refusal"]

MOST_BYTES = 64 * 1024
"""The most that the body of a request may have; a server need not read more."""

_METHODS = {"/start_profile": "POST", "/stop_profile": "POST", "/profile_status": "GET"}
_LONGEST_REASON = 2000


class Controlled(Protocol):
    """What an endpoint controls: all workers together, as `Coordinator` does."""

    def start(self, request: ProfileRequest) -> Answer:
        """Start a profile on every worker."""

    def stop(self) -> Answer:
        """Stop it, and wait for its files."""

    def status(self) -> Answer:
        """What is going on."""


@dataclass(frozen=True)
class Response:
    """What is sent back: a status, headers, and a JSON object in UTF-8."""

    status: int
    body: bytes
    headers: Mapping[str, str] = field(default_factory=dict)

    @property
    def status_line(self) -> str:
        """The status with its phrase, such as ``200 OK``."""
        return f"{self.status} {http.HTTPStatus(self.status).phrase}"


class Endpoint:
    """Controls the profiles of one engine.

    Args:
        coordinator: the workers.
        allowed_dir: the folder that all profiles are written to or below; where a request names none, this one.
        token: what every request must carry (``Authorization: Bearer TOKEN``). Without one, who can reach the endpoint
            may use it, and it answers only to the names of loopback, so that no page can reach it by a name of its own.

    Raises:
        ControlError: the folder is none, or the token cannot be one.
    """

    def __init__(
        self, coordinator: Controlled, *, allowed_dir: str | os.PathLike[str], token: str | None = None
    ) -> None:
        check_token(token)
        self._coordinator = coordinator
        self._allowed_dir = Path(os.path.abspath(allowed_dir))
        self._token = token
        if self._allowed_dir.exists() and not self._allowed_dir.is_dir():
            raise ControlError(f"allowed_dir {self._allowed_dir} is no folder")

    @property
    def has_token(self) -> bool:
        """Whether a request must carry a token."""
        return self._token is not None

    def handle(self, method: str, path: str, headers: Mapping[str, str], body: bytes) -> Response:
        """Do what is asked, and wait until it is done. Never raises.

        Args:
            method: in capitals.
            path: with or without a query.
            headers: their names in any case.
            body: all of it, or more than `MOST_BYTES`.
        """
        told = {name.lower(): value for name, value in headers.items()}
        plain, _, query = path.partition("?")
        plain = plain.rstrip("/")
        refused = self._refused(told) or _misplaced(method, plain) or _unreadable(method, told, query, body)
        if refused is not None:
            return refused
        try:
            return self._done(plain, body)
        except ForeignFolderError as error:
            return refusal(403, str(error), error.reasons)
        except RequestError as error:
            return refusal(400, str(error), error.reasons)
        except Exception as error:  # noqa: BLE001  # a process border: who asked must hear of it
            return _respond(500, Answer(False, "failed", f"{type(error).__name__}: {error}"[:_LONGEST_REASON]))

    def _done(self, path: str, body: bytes) -> Response:
        if path == "/profile_status":
            return _respond(200, self._coordinator.status())
        if path == "/start_profile":
            request = read_request(body, self._allowed_dir)
            return _told(lambda: self._coordinator.start(request))
        if read_object(body):
            raise RequestError("/stop_profile takes no fields; send no body")
        return _told(self._coordinator.stop)

    def _refused(self, headers: Mapping[str, str]) -> Response | None:
        """The response to who may not ask at all."""
        page = headers.get("sec-fetch-site", "none")
        why = foreign_page(headers.get("host"), headers.get("origin"), page, any_host=self.has_token)
        if why:
            return refusal(403, why)
        if self._token is not None and not holds(headers.get("authorization", ""), self._token):
            told = {"WWW-Authenticate": "Bearer"}
            return refusal(401, "this endpoint needs its token: Authorization: Bearer TOKEN", headers=told)
        return None


def refusal(
    status: int, message: str, reasons: tuple[str, ...] = (), *, headers: Mapping[str, str] | None = None
) -> Response:
    """The response to a request that changed nothing."""
    told = tuple(reason[:_LONGEST_REASON] for reason in reasons)
    return _respond(status, Answer(False, "refused", message[:_LONGEST_REASON], reasons=told), headers)


def _misplaced(method: str, path: str) -> Response | None:
    """The response to a path or a method that there is not."""
    known = _METHODS.get(path)
    if known is None:
        return refusal(404, f"there is no such path; there are {', '.join(_METHODS)}")
    if method != known:
        return refusal(405, f"{path} takes {known}, nothing else", headers={"Allow": known})
    return None


def _unreadable(method: str, headers: Mapping[str, str], query: str, body: bytes) -> Response | None:
    """The response to a request whose fields are not where they are read."""
    if query and method == "POST":
        return refusal(400, "nothing is read from the query of a URL; send a JSON object as the body")
    if "transfer-encoding" in headers:  # whoever mounts this may have passed over it, and read nothing
        return refusal(411, "send the body with its Content-Length")
    if len(body) > MOST_BYTES:
        return refusal(413, f"the body has more than {MOST_BYTES} bytes")
    length = headers.get("content-length", str(len(body))).strip()
    if not length.isascii() or not length.isdecimal() or int(length[:20]) != len(body):
        return refusal(400, "the body is not as long as Content-Length says")
    kind = headers.get("content-type", "").partition(";")[0].strip().lower()
    if (body or kind) and method == "POST" and kind != "application/json":
        # A browser sends a form or a plain text to any site without asking that site first; JSON it does not.
        return refusal(415, "the body must be JSON and say so: Content-Type: application/json")
    return None


def _told(act: Callable[[], Answer]) -> Response:
    try:
        answer = act()
    except RequestError as error:
        return refusal(409, str(error), error.reasons)
    if answer.ok:
        return _respond(200, answer)
    return _respond(409 if answer.status == "refused" else 500, answer)


def _respond(status: int, answer: Answer, headers: Mapping[str, str] | None = None) -> Response:
    body = json.dumps(answer.as_json()).encode() + b"\n"
    always = {"Content-Type": "application/json", "Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}
    return Response(status, body, always | dict(headers or {}))
