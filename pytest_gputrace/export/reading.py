"""A stopped profile, or its events -> records, by the fastest way that gives the right ones."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

from pytest_gputrace.export.kineto import UnknownToRawPath, kineto_records
from pytest_gputrace.export.proven import raw_profile
from pytest_gputrace.export.records import cpu_records

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_gputrace.export.records import Record

__all__ = ["ReadFrom", "Reading", "read"]

_LOG = logging.getLogger("pytest_gputrace")

ReadFrom: TypeAlias = Literal["kineto", "events"]


class Reading(NamedTuple):
    """The records, and what they are read from: Kineto's raw results or ``events()``."""

    records: Iterator[Record]
    read_from: ReadFrom


def read(profiler_or_events: Any) -> Reading:
    """The records of a stopped profile, anything else with ``events()``, or an iterable of events."""
    try:
        raw = raw_profile(profiler_or_events)
        if raw is not None:
            return Reading(kineto_records(raw.results, dialect=raw.dialect, symbols=raw.symbols, gpu=raw.gpu), "kineto")
    except UnknownToRawPath as what:
        _LOG.debug("the raw profile holds %s; reading events() instead", what)
    except Exception as error:  # noqa: BLE001  # a capture must not be lost to a short cut; events() says what is wrong
        _LOG.warning("the raw profile cannot be read (%r); reading events() instead, which takes longer", error)
    events = profiler_or_events.events() if hasattr(profiler_or_events, "events") else profiler_or_events
    return Reading(cpu_records(events), "events")
