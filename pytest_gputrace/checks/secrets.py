"""Rules about what should not leave the machine with a trace. They count and never quote."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytest_gputrace.checks.rule import Hit, Looked
from pytest_gputrace.checks.words import number

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_gputrace.checks.rule import Settings
    from pytest_gputrace.checks.view import View

__all__ = ["carries_environment", "carries_source"]

_VARIABLES = frozenset({"PATH", "HOME", "USER", "PWD", "SHELL", "HOSTNAME", "LD_LIBRARY_PATH", "PYTHONPATH", "LANG"})
_FEWEST_VARIABLES = 2
_SECRET_WORDS = ("TOKEN", "SECRET", "PASSWORD", "PASSWD", "API_KEY", "ACCESS_KEY", "CREDENTIAL")


def carries_environment(view: View, settings: Settings) -> Looked:
    """GT601: the environment of the process that made the trace is in it."""
    metadata = view.trace.metadata
    looked = Looked(len(metadata))
    for variables in _mappings(metadata):
        if len(_VARIABLES & variables.keys()) >= _FEWEST_VARIABLES:
            secret = sum(any(word in str(name).upper() for word in _SECRET_WORDS) for name in variables)
            what = f"an environment of {number(len(variables), 'variable')} is in the metadata"
            named = f", {secret} named like a token or a password" if secret else ""
            looked.hits.append(Hit(f"{what}{named}; remove it before you hand the file on"))
    return looked


def carries_source(view: View, settings: Settings) -> Looked:
    """GT602: source code is in the trace, as VizTracer's ``file_info`` holds it."""
    metadata = view.trace.metadata
    looked = Looked(len(metadata))
    info = metadata.get("file_info")
    files = info.get("files") if isinstance(info, dict) else None
    if isinstance(files, dict) and files:
        what = f"the source text of {number(len(files), 'file')} is in the metadata"
        looked.hits.append(Hit(f"{what}; remove file_info before you hand the file on"))
    return looked


def _mappings(value: Any) -> Iterator[dict[str, Any]]:
    """Every object in the metadata, at any depth; lists of ``NAME=value`` count as one too."""
    waiting = [value]
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict):
            yield value
            waiting += value.values()
        elif isinstance(value, list):
            pairs = [text.split("=", 1)[0] for text in value if isinstance(text, str) and "=" in text]
            if pairs:
                yield dict.fromkeys(pairs)
            waiting += [item for item in value if isinstance(item, dict | list)]
