"""Checks of what a caller hands over: each text names the argument, the value, and what is accepted.

A wrong type is a ``TypeError``, a wrong value a ``ValueError``. ``where`` is the caller's name, for the text.
"""

from __future__ import annotations

import difflib
import math
import operator
import os
import string
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

__all__ = [
    "LEGACY_FIELDS",
    "check_configuration",
    "check_flag",
    "check_legacy_template",
    "check_seconds",
    "check_text",
    "check_texts",
    "check_variables",
    "check_who",
    "configuration_names",
    "did_you_mean",
    "one_of",
    "whole",
    "work_folders",
]

LEGACY_FIELDS = ("model", "local_rank", "rank", "node", "configuration")
_NAME_BYTES = 255  # NAME_MAX of every usual Linux file system


def did_you_mean(word: object, known: Iterable[str]) -> str:
    """``; did you mean 'nodes'?`` where a known word is near, else nothing."""
    near = difflib.get_close_matches(word, list(known), n=1) if isinstance(word, str) else []
    return f"; did you mean {near[0]!r}?" if near else ""


def one_of(where: str, name: str, value: object, known: Sequence[str]) -> None:
    """Refuse a word that is not known."""
    if value not in known:
        raise ValueError(f"{where}: {name} {value!r} is not one of {', '.join(known)}{did_you_mean(value, known)}")


def whole(where: str, name: str, value: Any, least: int = 1) -> int:
    """``value`` as an int; refuse what is no whole number or is below ``least``."""
    accepted = f"a whole number of at least {least}"
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise TypeError(f"{where}: {name}={value!r} must be {accepted}, not a {type(value).__name__}")
    number = operator.index(value)
    if number < least:
        raise ValueError(f"{where}: {name}={value!r} must be at least {least}")
    return number


def check_seconds(where: str, name: str, value: Any) -> None:
    """Refuse what is no usable time limit."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"{where}: {name}={value!r} must be a number of seconds above 0, not a {type(value).__name__}")
    if not math.isfinite(value) or not 0 < value <= 1e9:
        raise ValueError(f"{where}: {name}={value!r} must be a number of seconds above 0 and at most 1e9")


def check_flag(where: str, name: str, value: object) -> None:
    """Refuse what is neither True nor False."""
    if not isinstance(value, bool):
        raise TypeError(f"{where}: {name}={value!r} must be True or False")


def check_text(where: str, name: str, value: object) -> str:
    """Refuse what is not a text of at least one character on one line."""
    if not isinstance(value, str):
        raise TypeError(f"{where}: {name}={value!r} must be a text, not a {type(value).__name__}")
    if not value:
        raise ValueError(f"{where}: {name} is empty; give at least one character")
    if any(ord(letter) < 32 or ord(letter) == 127 for letter in value):
        raise ValueError(f"{where}: {name} {value!r} holds a control character (such as a newline or NUL)")
    try:
        value.encode("utf-8")
    except UnicodeEncodeError:
        raise ValueError(f"{where}: {name} {value!r} cannot be written as UTF-8") from None
    return value


def check_texts(where: str, name: str, value: object, item: str, example: str) -> list[str]:
    """``value`` as a list; refuse one bare text, and items that are no texts."""
    if isinstance(value, str | bytes):
        raise TypeError(f"{where}: {name}={value!r} is one text; give a list of them: {name}=[{value!r}]")
    if not isinstance(value, Iterable):
        raise TypeError(f"{where}: {name}={value!r} must be a list of texts, such as {name}={example}")
    return [check_text(where, item, each) for each in value]


def check_configuration(where: str, value: object) -> str:
    """Refuse a configuration that is not a relative path of plain folder names, as SuperBench uses it."""
    accepted = "a name that is a folder below benchmarks/, such as 'model-benchmarks:gpt/fp16'"
    return _relative_folder(where, "configuration", value, accepted)


def _relative_folder(where: str, name: str, value: object, accepted: str) -> str:
    text = check_text(where, name, value)
    if text.startswith("/"):
        raise ValueError(f"{where}: {name} {text!r} is an absolute path; give {accepted}")
    for part in text.split("/"):
        if part in ("", ".", ".."):
            raise ValueError(f"{where}: {name} {text!r} has the part {part!r}; give {accepted}")
        if len(part.encode()) > _NAME_BYTES:
            raise ValueError(f"{where}: {name} {text!r} has a part of more than {_NAME_BYTES} bytes")
    return text


def work_folders(where: str, value: object) -> tuple[str, ...]:
    """``value`` as a tuple of relative folders, at least one; two workers may share one."""
    given = value
    if isinstance(value, Iterable) and not isinstance(value, str | bytes):
        given = [os.fspath(each) if isinstance(each, os.PathLike) else each for each in value]
    names = check_texts(where, "work_dirs", given, "work_dirs: folder", "['out/first', 'out/second']")
    if not names:
        raise ValueError(f"{where}: work_dirs={value!r}: their number must be at least 1")
    accepted = "a path below the node's folder, such as 'out/first'"
    return tuple(_relative_folder(where, "work_dirs: folder", name, accepted) for name in names)


def configuration_names(where: str, value: object) -> tuple[str, ...]:
    """``value`` as a tuple of configurations: at least one, each once."""
    names = check_texts(where, "configurations", value, "configuration", "['model-benchmarks:gpt/fp16']")
    if not names:
        raise ValueError(f"{where}: configurations={value!r}: their number must be at least 1")
    for name in names:
        check_configuration(where, name)
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ValueError(f"{where}: a configuration is given twice in configurations: {', '.join(map(repr, twice))}")
    return tuple(names)


def check_variables(where: str, name: str, value: object) -> dict[str, str]:
    """``value`` as environment variables; refuse what the system would."""
    if not isinstance(value, Mapping):
        raise TypeError(f"{where}: {name}={value!r} must be a mapping of names to texts, such as {{'A': '1'}}")
    for variable, content in value.items():
        if not isinstance(variable, str) or not isinstance(content, str):
            raise TypeError(f"{where}: {name}: {variable!r}={content!r} must be a text with a text, such as 'A': '1'")
        if not variable or "=" in variable or "\0" in variable + content:
            raise ValueError(f"{where}: {name}: {variable!r}={content!r}: no system takes such a variable")
    return dict(value)


def check_legacy_template(where: str, value: object, model: str, configuration: str = "c") -> str:
    """Refuse a template that does not become a relative path, or that asks for what is not known."""
    text = check_text(where, "legacy_name", value)
    accepted = ", ".join(f"{{{field}}}" for field in LEGACY_FIELDS)
    try:
        fields = [field for _, field, _, _ in string.Formatter().parse(text) if field is not None]
        for field in fields:
            if field not in LEGACY_FIELDS:
                raise ValueError(
                    f"{where}: legacy_name {text!r} has the field {{{field}}}; known are {accepted}"
                    f"{did_you_mean(field, LEGACY_FIELDS)}"
                )
        name = text.format(model=model, local_rank=0, rank=0, node="node0", configuration=configuration)
    except ValueError as error:
        if str(error).startswith(where):
            raise
        raise ValueError(f"{where}: legacy_name {text!r} is no template ({error}); its fields are {accepted}") from None
    if name.startswith("/") or any(part in ("", ".", "..") for part in name.split("/")):
        raise ValueError(f"{where}: legacy_name {text!r} gives {name!r}; it must name a file below the trace folder")
    return text


def check_who(where: str, who: object) -> None:
    """Refuse a ``who=`` that cannot be asked about a worker."""
    if who is None or (callable(who) and not isinstance(who, type)):
        return
    raise TypeError(
        f"{where}: who={who!r} selects nobody; give Who(node=, rank=, configuration=) or a function of the job, such as "
        "lambda job: job.worker.rank == 0"
    )
