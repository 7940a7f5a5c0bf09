"""One distinct, valid, finite GPU trace per node, rank and configuration, and the pytest plugin that proves it.

Public names are resolved on first use, so that importing the package costs nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pytest_gputrace.checks.check import check
    from pytest_gputrace.checks.outcome import FileReport, Report
    from pytest_gputrace.errors import (
        ClusterError,
        ContractError,
        DeclarationError,
        EmptyCaptureError,
        ExportError,
        GputraceError,
        IdentityError,
        LayoutError,
        MergeError,
        MissingDependencyError,
        NamingError,
        PublishError,
        SelectionError,
        SessionStolenError,
        UnknownPathError,
    )
    from pytest_gputrace.export.exporter import ExportResult, export_events
    from pytest_gputrace.export.profiled import profiled
    from pytest_gputrace.identity import Identity, Source, identify
    from pytest_gputrace.layout import RankFolder, recognise
    from pytest_gputrace.model import Capture, Finding, Severity, WorkerId
    from pytest_gputrace.naming import legacy_name, parse_name, qualified_name
    from pytest_gputrace.plugin.contract import ExporterContract, gputrace_checks
    from pytest_gputrace.timeline.merge import merge
    from pytest_gputrace.timeline.outcome import MergeResult
    from pytest_gputrace.traces.trace import Trace, open_trace

_HOMES = {
    "Capture": "model",
    "ClusterError": "errors",
    "ContractError": "errors",
    "DeclarationError": "errors",
    "EmptyCaptureError": "errors",
    "ExportError": "errors",
    "ExportResult": "export.exporter",
    "ExporterContract": "plugin.contract",
    "FileReport": "checks.outcome",
    "Finding": "model",
    "GputraceError": "errors",
    "Identity": "identity",
    "IdentityError": "errors",
    "LayoutError": "errors",
    "MergeError": "errors",
    "MergeResult": "timeline.outcome",
    "MissingDependencyError": "errors",
    "NamingError": "errors",
    "PublishError": "errors",
    "RankFolder": "layout",
    "Report": "checks.outcome",
    "SelectionError": "errors",
    "SessionStolenError": "errors",
    "Severity": "model",
    "Source": "identity",
    "Trace": "traces.trace",
    "UnknownPathError": "errors",
    "WorkerId": "model",
    "check": "checks.check",
    "export_events": "export.exporter",
    "gputrace_checks": "plugin.contract",
    "identify": "identity",
    "legacy_name": "naming",
    "merge": "timeline.merge",
    "open_trace": "traces.trace",
    "parse_name": "naming",
    "profiled": "export.profiled",
    "qualified_name": "naming",
    "recognise": "layout",
}

__all__ = [
    "Capture",
    "ClusterError",
    "ContractError",
    "DeclarationError",
    "EmptyCaptureError",
    "ExportError",
    "ExportResult",
    "ExporterContract",
    "FileReport",
    "Finding",
    "GputraceError",
    "Identity",
    "IdentityError",
    "LayoutError",
    "MergeError",
    "MergeResult",
    "MissingDependencyError",
    "NamingError",
    "PublishError",
    "RankFolder",
    "Report",
    "SelectionError",
    "SessionStolenError",
    "Severity",
    "Source",
    "Trace",
    "UnknownPathError",
    "WorkerId",
    "check",
    "export_events",
    "gputrace_checks",
    "identify",
    "legacy_name",
    "merge",
    "open_trace",
    "parse_name",
    "profiled",
    "qualified_name",
    "recognise",
]


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f"{__name__}.{home}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
