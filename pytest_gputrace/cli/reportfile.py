"""The file that a report goes to: where it may be, and that it never holds the report of an earlier run."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from pytest_gputrace.errors import PublishError

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["ReportFile"]


class ReportFile:
    """A file for a report on ``paths``; folders to it are made, and what it held is gone from the begin.

    Raises:
        PublishError: it is one of ``paths``, a check would take it for a trace, or it cannot be written.
    """

    def __init__(self, path: Path, paths: Iterable[str]) -> None:
        from pytest_gputrace.traces.search import SUFFIXES

        self._path = path
        for checked in map(Path, paths):
            if path.exists() and checked.exists() and path.samefile(checked):
                raise PublishError(f"{path} is to be checked; write the report to another file", path=path)
            inside = checked.is_dir() and path.resolve().is_relative_to(checked.resolve())
            if inside and path.name.endswith(SUFFIXES):
                what = f"{path} lies in {checked}, where the next check would take it for a trace"
                raise PublishError(
                    f"{what}; write the report elsewhere, or to another kind of name than *{path.suffix}", path=path
                )
        self.write("")

    def write(self, text: str) -> None:
        """Make ``text`` its content."""
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            # Names of files may hold halves of characters, which no encoding has.
            self._path.write_text(text, encoding="utf-8", errors="backslashreplace")
        except OSError as error:
            raise PublishError(f"cannot write {self._path}: {error.strerror or error}", path=self._path) from error
