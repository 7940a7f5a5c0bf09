"""The token between a client and an endpoint: how it is sent, and how it is compared. It is never shown to anybody."""

from __future__ import annotations

import hmac

from pytest_gputrace.errors import ControlError

__all__ = ["authorization", "check_token", "holds"]

_LONGEST = 4096


def check_token(token: str | None) -> None:
    """Refuse a token that protects nothing, or that no header can carry.

    Raises:
        ControlError: says what is wrong, and not what the token is.
    """
    if token is None:
        return
    if not isinstance(token, str):
        raise ControlError(f"the token is a {type(token).__name__}; give a text, or None for no token")
    if not token:
        raise ControlError("the token is empty; give a text that is hard to guess, or None for no token")
    if len(token) > _LONGEST:
        raise ControlError(f"the token is longer than {_LONGEST} characters")
    if any(char.isspace() or not char.isprintable() for char in token):
        raise ControlError("the token holds a space or a control character; no header carries it")


def authorization(token: str) -> str:
    """The value of the header ``Authorization``, as `http.client` takes it: UTF-8, one character for each byte."""
    return "Bearer " + token.encode().decode("latin-1")


def holds(header: str, token: str) -> bool:
    """Whether the header ``Authorization`` carries ``token``; takes as long for one wrong token as for another."""
    scheme, _, told = header.strip().partition(" ")
    expected = token.encode()
    # A server hands a header on as Latin-1, some frameworks as UTF-8.
    readings = [told.strip().encode(encoding, "replace") for encoding in ("latin-1", "utf-8")]
    same = [hmac.compare_digest(reading, expected) for reading in readings]
    return scheme.lower() == "bearer" and any(same)
