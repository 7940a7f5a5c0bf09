"""Where the files of one window go: private ones while they are written, final names that replace nothing.

A profiler writes its file itself, under a private name in the folder of the final one; what it left there is looked at
and then published.
"""

from __future__ import annotations

import os
import secrets
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_gputrace.errors import PublishError
from pytest_gputrace.naming import name_limit
from pytest_gputrace.publish import PRIVATE_PREFIX, publish_written
from pytest_gputrace.windownames import window_name

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["Output"]


@dataclass(frozen=True)
class Output:
    """The names of one worker's window: the profile's id, the worker's tag and the stage, if it is one of a stage.

    ``real`` is the path of the folder behind links when the window opened: whoever may write beside it must not send
    what was recorded elsewhere by a link in its place. Empty where that is nobody's concern.
    """

    folder: Path
    profile_id: str
    tag: str
    stage: str | None = None
    real: str = ""

    def private(self, ending: str) -> Path:
        """A path in the folder that nobody else has, for a profiler to write to; made of ASCII without a dot before ``ending``.

        Raises:
            PublishError: the folder is another one than when the window opened.
        """
        self._hold_to_place()
        return self.folder / f"{PRIVATE_PREFIX}{secrets.token_hex(8)}{ending}"

    def publish(self, private: Path, profiler: str, ending: str) -> Path:
        """Bring a complete private file to the disk and give it its final name, the next one that is free.

        Args:
            private: the file, in this folder.
            profiler: as it stands in the name.
            ending: with its dot, such as ``.json.gz``.

        Returns:
            The final path.

        Raises:
            PublishError: it is not there, or cannot be published; it is left where it is.
        """
        self._hold_to_place()
        limit = name_limit(self.folder)

        def name_of(attempt: int) -> str:
            return window_name(
                self.profile_id,
                self.tag,
                stage=self.stage,
                profiler=profiler,
                ending=ending,
                attempt=attempt,
                limit=limit,
            )

        return publish_written(private, self.folder, name_of)

    def _hold_to_place(self) -> None:
        if self.real and (now := os.path.realpath(self.folder)) != self.real:
            what = f"{self.folder} leads to {now} now, and led to {self.real} when recording began; nothing is written there"
            raise PublishError(what, path=self.folder)
