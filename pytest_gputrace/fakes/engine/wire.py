"""JSON objects over a socket, one a line: how the frontend of a fake engine and a scheduler speak with each other."""

from __future__ import annotations

import json
import select
import threading
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import socket

__all__ = ["Wire"]

_CHUNK = 65536


class Wire:
    """One end. Any thread may ``send``; one alone may ``receive``."""

    def __init__(self, end: socket.socket) -> None:
        self._end = end
        self._buffer = b""
        self._sending = threading.Lock()

    def send(self, message: dict[str, Any]) -> None:
        """Send one object.

        Raises:
            OSError: the other end is gone.
        """
        with self._sending:
            self._end.sendall(json.dumps(message).encode() + b"\n")

    def receive(self, within_s: float | None) -> dict[str, Any] | None:
        """The next object, or None when none came in time; without a time, wait until one comes.

        Raises:
            EOFError: the other end is gone.
        """
        until_s = None if within_s is None else time.monotonic() + within_s
        while b"\n" not in self._buffer:
            left_s = None if until_s is None else max(0.0, until_s - time.monotonic())
            poll = select.poll()
            poll.register(self._end, select.POLLIN)
            if not poll.poll(None if left_s is None else left_s * 1000):
                return None
            try:
                chunk = self._end.recv(_CHUNK)
            except ConnectionError:
                chunk = b""
            if not chunk:
                raise EOFError("the other end is gone")
            self._buffer += chunk
        line, _, self._buffer = self._buffer.partition(b"\n")
        message: dict[str, Any] = json.loads(line)
        return message
