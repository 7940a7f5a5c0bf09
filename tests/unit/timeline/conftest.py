"""What tests of timelines share: surveys made by hand, and traces read back as their viewers see them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_gputrace.timeline.names import Names
from pytest_gputrace.timeline.plan import Flows
from pytest_gputrace.timeline.survey import Survey
from pytest_gputrace.traces.arguments import Runs, Source

if TYPE_CHECKING:
    from typing import Protocol

    class SurveyOf(Protocol):
        def __call__(self, **known: Any) -> Survey: ...


@pytest.fixture
def survey_of() -> SurveyOf:
    """A survey of which only what matters is given."""

    def of(**known: Any) -> Survey:
        path = Path(known.pop("path", "trace.json"))
        facts: dict[str, Any] = {
            "path": path, "format": "kineto", "problems": (), "source": Source(path, (0, 0, 0), Runs(), None),
            "base_time_ns": None, "rank": None, "world_size": None, "host": "", "events": 1, "metadata": 0, "untimed": 0,
            "first_ns": 0, "last_ns": 0, "tracks": frozenset(), "names": Names(), "flows": Flows(), "ids": None,
            "links": {}, "collectives": None, "groups": {}, "file_info": None,
        }  # fmt: skip
        return Survey(**{**facts, **known})

    return of
