"""What the contract's checks reported -> the lines of the terminal section. Pure; knows no pytest object."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

__all__ = ["summary"]

_WORST_LAST = (
    "held", "not checked", "broken as expected", "held though expected to break", "broken", "no verdict"
)  # fmt: skip
_SHOWN = ("held", "broken", "broken as expected", "held though expected to break", "not checked", "no verdict")


def summary(records: Iterable[Mapping[str, Any]], crashed: Iterable[str] = ()) -> list[str]:
    """One line for each exporter, in an order that does not depend on how many workers there were.

    Args:
        records: one for each check that ran; of a check that ran several times the worst counts.
        crashed: the node ids of tests whose worker died, in which case there is no record.
    """
    exporters: dict[str, dict[str, tuple[str, str]]] = {}
    totals: dict[str, int] = {}
    for record in records:
        totals[record["exporter"]] = record["checks"]
        outcomes = exporters.setdefault(record["exporter"], {})
        new = (record["outcome"], record["reason"])
        old = outcomes.get(record["check"], new)
        outcomes[record["check"]] = max(old, new, key=lambda outcome: _WORST_LAST.index(outcome[0]))
    for nodeid in crashed:
        check = re.search(r"\[(CT\d+)", nodeid)
        for exporter, outcomes in exporters.items():
            if check is not None and nodeid.startswith((f"{exporter}::", f"{exporter}[")):
                outcomes[check[1]] = ("no verdict", "")
    return [_line(exporter, exporters[exporter], totals[exporter]) for exporter in sorted(exporters)]


def _line(exporter: str, outcomes: Mapping[str, tuple[str, str]], total: int) -> str:
    parts = []
    for kind in _SHOWN:
        checks = sorted(check for check, (outcome, _) in outcomes.items() if outcome == kind)
        if not checks:
            continue
        if kind == "held":
            parts.append(f"{len(checks)} held")
        elif kind == "not checked":
            reasons = dict.fromkeys(outcomes[check][1] for check in checks)
            parts.append(f"{len(checks)} not checked ({'; '.join(reasons)})")
        else:
            parts.append(f"{len(checks)} {kind} ({', '.join(checks)})")
    count = f"{total} checks" if len(outcomes) == total else f"{len(outcomes)} of {total} checks"
    return f"{exporter}: {count}: {', '.join(parts)}"
