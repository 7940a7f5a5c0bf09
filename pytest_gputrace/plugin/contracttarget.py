"""``MODULE:CALLABLE`` on the command line -> the callable; what cannot be had is a usage error with its cause."""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import os
import sys
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_gputrace.fakes.validate import did_you_mean
from pytest_gputrace.plugin.contract import ExporterContract

if TYPE_CHECKING:
    from types import ModuleType

__all__ = ["load", "place_of"]


def load(text: str, option: str, folder: Path) -> Any:
    """Import what ``text`` names; modules in ``folder`` can be imported.

    Raises:
        pytest.UsageError: it is not there, cannot be imported, or is nothing to call.
    """
    where = f"{option}={text}"
    module_name, _, name = text.rpartition(":")
    if not module_name or not name or module_name.endswith(":"):
        raise pytest.UsageError(
            f"{where}: expected MODULE:CALLABLE, such as my_package.traces:export or traces.py:export; "
            "a test class needs no option, give its path"
        )
    module = _module(module_name, where, folder)
    value: Any = module
    for part in name.split("."):
        try:
            value = getattr(value, part)
        except AttributeError as error:
            hint = did_you_mean(part, dir(value))
            raise pytest.UsageError(f"{where}: there is no {part!r} in {module_name}{hint}") from error
    if isinstance(value, type) and issubclass(value, ExporterContract):
        path = getattr(module, "__file__", None) or "its path"
        raise pytest.UsageError(
            f"{where} is a test class: run it without {option}, as any test: pytest {path}::{name}; "
            f"{option} takes the exporter itself"
        )
    if not callable(value):
        raise pytest.UsageError(f"{where}: {name} cannot be called, it is {value!r:.100}")
    return value


def place_of(text: str, folder: Path) -> Path:
    """Where the code lies, as far as is known."""
    module_name = text.rpartition(":")[0]
    if _is_path(module_name):
        return Path(os.path.abspath(folder / module_name))
    file = getattr(sys.modules.get(module_name), "__file__", None)
    return folder if file is None else Path(file)


def _is_path(module_name: str) -> bool:
    return module_name.endswith(".py")


def _module(module_name: str, where: str, folder: Path) -> ModuleType:
    path = place_of(f"{module_name}:", folder) if _is_path(module_name) else None
    if path is not None and not path.is_file():
        raise pytest.UsageError(f"{where}: there is no file {path}")
    for importable in [folder] if path is None else [folder, path.parent]:
        if str(importable) not in sys.path:
            sys.path.insert(0, str(importable))
    try:
        return importlib.import_module(module_name) if path is None else _from_file(path)
    except (Exception, SystemExit) as error:
        raise pytest.UsageError(f"{where}: {module_name} cannot be imported: {_cause(error)}") from error


def _from_file(path: Path) -> ModuleType:
    # Not the bare stem: trace.py or json.py in a folder of yours would be taken for Python's own.
    name = f"gputrace_conformance_{path.stem}_{hashlib.sha256(os.fsencode(path)).hexdigest()[:8]}"
    if name in sys.modules:  # the consumer is in the exporter's file
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} is no Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # before it runs: what is defined in it is looked up there
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def _cause(error: BaseException) -> str:
    """The error in one line, with the last line of the user's code that it came through."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if "importlib" not in frame.filename]
    place = f" ({frames[-1].filename}:{frames[-1].lineno})" if len(frames) > 1 else ""
    return f"{type(error).__name__}: {error}{place}"
