"""Start and stop a profile of an engine that runs elsewhere, whichever kind it is.

Nothing is sent but to the three paths of profile control, and the body of a start holds nothing but fields of a
profile: no generation request is sent from here, or changed.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from pytest_gputrace.control.answer import Answer
from pytest_gputrace.control.dialects import DIALECTS, KINDS
from pytest_gputrace.control.transport import Heard, Transport
from pytest_gputrace.errors import ControlError, RequestError, UnheardError

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["KINDS", "ProfileClient"]

_START, _STOP, _STATUS = "/start_profile", "/stop_profile", "/profile_status"


class ProfileClient:
    """Speaks to one engine.

    Args:
        url: where it serves: ``http://HOST:PORT``, or with ``https://`` or a path before those of the engine.
        kind: one of `KINDS`.
        token: sent as ``Authorization: Bearer TOKEN``; readable on the way where the URL is not ``https``.
        timeout_s: how long an answer may take. vLLM answers a stop when it has written, which may be minutes.

    Raises:
        ControlError: there is no such kind, or the URL or the token cannot be one.
    """

    def __init__(self, url: str, *, kind: str = "gputrace", token: str | None = None, timeout_s: float = 600.0) -> None:
        if kind not in DIALECTS:
            raise ControlError(f"there is no kind {kind!r} of engine; give one of {', '.join(KINDS)}")
        if not 0 < timeout_s < float("inf"):
            raise ControlError(f"timeout_s is {timeout_s!r}; give a number of seconds")
        self.kind = kind
        self._dialect = DIALECTS[kind]
        self._transport = Transport(url, token=token, timeout_s=timeout_s)
        self._ends_itself = False
        self._doubtful: ControlError | None = None

    @property
    def url(self) -> str:
        """Where the engine serves, without a slash at the end."""
        return self._transport.url

    def carries(self, name: str) -> bool:
        """Whether this kind of engine can be told the field ``name`` of `ProfileRequest`."""
        return name in self._dialect.names

    def may_have_reached(self, error: BaseException) -> bool:
        """Whether the request that ended in ``error`` may have been heeded, so that a profile may be running."""
        return error is self._doubtful

    def start(
        self,
        *,
        output_dir: str | None = None,
        profile_id: str | None = None,
        activities: Sequence[str] | None = None,
        start_step: int | None = None,
        num_steps: int | None = None,
        profile_by_stage: bool | None = None,
        stages: Sequence[str] | None = None,
        with_stack: bool | None = None,
        record_shapes: bool | None = None,
        deadline_s: float | None = None,
    ) -> Answer:
        """Start a profile, with fields of `ProfileRequest`. What is ``None`` is not sent, and the engine decides.

        ``output_dir`` is a folder of the engine's machine; a relative one is taken from the working directory here.

        Returns:
            What the engine says. Of a gputrace endpoint that may be a refusal, which changed nothing; other kinds do not
            tell more than that they accepted.

        Raises:
            RequestError: the engine cannot be told so; nothing was sent, or nothing was changed.
            ControlError: it could not be reached, or does not accept.
        """
        given: dict[str, Any] = {
            "output_dir": output_dir, "profile_id": profile_id, "activities": activities, "start_step": start_step,
            "num_steps": num_steps, "profile_by_stage": profile_by_stage, "stages": stages, "with_stack": with_stack,
            "record_shapes": record_shapes, "deadline_s": deadline_s,
        }  # fmt: skip
        body = self._dialect.body(given)
        heard = self._ask("POST", _START, None if body is None else json.dumps(body).encode())
        if self.kind == "gputrace":
            return self._own_answer(_START, heard)
        said = self._accepted(_START, heard)
        self._ends_itself = num_steps is not None
        waits = num_steps is not None or start_step is not None
        folder = None if body is None else body.get("output_dir")
        message = f"{self._dialect.title} accepted the profile{said}; its files come when it is stopped"
        return Answer(True, "armed" if waits else "recording", message, profile_id=profile_id, output_dir=folder)

    def stop(self) -> Answer:
        """Stop the profile that runs there.

        An engine that was given ``num_steps`` may have stopped itself, which some kinds call an error now: then the
        answer is a stop, says so, and the files decide.

        Returns:
            What the engine says. Of kinds other than gputrace it does not mean that the files are complete.

        Raises:
            ControlError: it could not be reached, or does not accept.
        """
        if self.kind == "gputrace":
            # Some servers call a body that is not there plain text, which an endpoint does not take.
            return self._own_answer(_STOP, self._ask("POST", _STOP, b"{}"))
        heard = self._ask("POST", _STOP, None)
        title = self._dialect.title
        if self._ends_itself and heard.status in (400, 409, 500):
            said = f"{title} had nothing to stop{self._said(heard)}; after num_steps it stops itself"
        else:
            said = f"{title} stopped{self._accepted(_STOP, heard)}"
        self._ends_itself = False
        return Answer(True, "stopped", f"{said}; its files are still to be collected")

    def status(self) -> Answer | None:
        """What is going on there; None where the kind of engine has no way to tell.

        Raises:
            ControlError: it could not be reached, or does not accept.
        """
        if self.kind != "gputrace":
            return None
        return self._own_answer(_STATUS, self._ask("GET", _STATUS, None))

    def _ask(self, method: str, path: str, body: bytes | None) -> Heard:
        self._doubtful = None
        try:
            return self._transport.ask(method, path, body)
        except UnheardError as error:
            if error.sent:
                self._doubtful = error
            raise

    def _own_answer(self, path: str, heard: Heard) -> Answer:
        """The answer of an endpoint of ours."""
        try:
            answer = Answer.from_json(self._transport.clean(json.loads(heard.body)))
        except (ValueError, TypeError, AttributeError, RecursionError):
            self._accepted(path, heard)
            raise self._doubt(
                f"{self.url}{path} gave no answer of a gputrace endpoint{self._said(heard)}; is it another kind of engine?"
            ) from None
        if heard.status in (400, 403):
            reasons = [self._transport.shown(str(reason)) for reason in answer.reasons or (answer.message,)]
            raise RequestError(f"{self.url}{path} refused: {'; '.join(reasons)}", reasons=reasons)
        if heard.status not in (200, 409, 500):
            raise ControlError(self._refusal(path, heard, self._transport.shown(str(answer.message))))
        return answer

    def _accepted(self, path: str, heard: Heard) -> str:
        """What an engine said along with its yes, for a message."""
        if not 200 <= heard.status < 300:
            message = self._refusal(path, heard, self._transport.shown(heard.body))
            # A proxy that waited no longer; the engine behind it may have heard.
            raise self._doubt(message) if heard.status in (502, 503, 504) else ControlError(message)
        if _says_no(heard.body):
            raise ControlError(f"{self.url}{path} refused{self._said(heard)}")
        return self._said(heard)

    def _refusal(self, path: str, heard: Heard, said: str) -> str:
        message = f"{self.url}{path} answered {heard.status}"
        if 300 <= heard.status < 400:
            target = self._transport.shown(heard.location)
            return f"{message}: it leads to {target!r}, and a request is not sent on; give the URL that it leads to"
        if said:
            message += f": {said}"
        if heard.status in (404, 405):
            message += f"; {self._dialect.title} does not offer it here: {self._dialect.offered}"
        elif heard.status == 401:
            message += "; give the token that it was started with"
        return message

    def _doubt(self, message: str) -> ControlError:
        self._doubtful = ControlError(message)
        return self._doubtful

    def _said(self, heard: Heard) -> str:
        line = self._transport.shown(heard.body)
        return f" ({line})" if line else ""


def _says_no(body: bytes) -> bool:
    """Whether a body says in JSON that what was asked was not done, under a status that says it was."""
    try:
        said = json.loads(body)
    except (ValueError, RecursionError):
        return False
    return isinstance(said, dict) and any(said.get(name) is False for name in ("success", "ok"))
