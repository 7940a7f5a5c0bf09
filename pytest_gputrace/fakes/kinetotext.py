"""A trace as text in the layout of Kineto of torch 2.13: one key of an event a line, arguments on one line.

Writes whatever it is given, also what no profiler would: that is for faults. Knows the layout only.
"""

from __future__ import annotations

import json
import math
from typing import Any

__all__ = ["kineto_layout"]

_TIMES = ("ts", "dur")


def kineto_layout(document: dict[str, Any]) -> str:
    """The text of ``document``: keys in its order, those after ``traceEvents`` on the last line as Kineto writes them."""
    before: list[str] = []
    after: list[str] = []
    events: str | None = None
    for key, value in document.items():
        if key == "traceEvents" and isinstance(value, list):
            events = ",".join(map(_event, value))
        else:
            (before if events is None else after).append(f"{json.dumps(key)}: {_value(value)}")
    head = "".join(f"    {item},\n" for item in before)
    if events is None:
        return "{\n" + head.rstrip(",\n") + "\n}"
    return "{\n" + head + f'    "traceEvents": [\n{events}\n  ]' + "".join(f",{item}" for item in after) + "\n}"


def _event(event: Any) -> str:
    if not isinstance(event, dict):
        return f"\n  {_value(event)}"
    plain = ",\n".join(
        f'    "{key}": {_number(key, value)}' for key, value in event.items() if key not in ("args", "bp")
    )
    if "bp" in event:  # Kineto's flows end so
        plain += f'\n    , "bp": {_value(event["bp"])}'
    if "args" in event:
        comma = "," if event.get("ph") == "M" else "\n    ,"
        plain += f'{comma}\n    "args": {_arguments(event["args"])}'
    return "\n  {\n" + plain + "\n  }"


def _arguments(args: Any) -> str:
    return f"{{\n      {_value(args)[1:-1]}\n    }}" if isinstance(args, dict) else _value(args)


def _number(key: str, value: Any) -> str:
    """Times have three decimals, whole nanoseconds."""
    return f"{value:.3f}" if key in _TIMES and isinstance(value, float) and math.isfinite(value) else _value(value)


def _value(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
