"""A contract that any exporter can be held to: named checks ``CT###``, each with a page that explains it.

Every check runs the exporter in simulated workers and judges the files by what is in them. The same with and without
pytest; public names are resolved on first use.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pytest_gputrace.conformance.contract import CHECKS, ContractCheck
    from pytest_gputrace.conformance.pages import page
    from pytest_gputrace.conformance.runner import Verdict, hold, not_checked
    from pytest_gputrace.conformance.subject import CAPABILITIES, Sizes, Subject

_HOMES = {
    "CAPABILITIES": "subject",
    "CHECKS": "contract",
    "ContractCheck": "contract",
    "Sizes": "subject",
    "Subject": "subject",
    "Verdict": "runner",
    "hold": "runner",
    "not_checked": "runner",
    "page": "pages",
}

__all__ = [
    "CAPABILITIES",
    "CHECKS",
    "ContractCheck",
    "Sizes",
    "Subject",
    "Verdict",
    "hold",
    "not_checked",
    "page",
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
