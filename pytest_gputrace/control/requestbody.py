"""The body of a request to start a profile: strict JSON, every reason why not, and a folder below the allowed one."""

from __future__ import annotations

import contextlib
import json
import os
import stat
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from pytest_gputrace.control.request import ProfileRequest
from pytest_gputrace.errors import ForeignFolderError, RequestError

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["read_object", "read_request"]


def read_object(body: bytes) -> dict[str, Any]:
    """The JSON object of a body; nothing at all stands for an empty one.

    Raises:
        RequestError: it is none, or one that two readers may read in two ways.
    """
    if not body.strip():
        return {}
    try:
        given = json.loads(body.decode("utf-8"), parse_constant=_refuse_constant, object_pairs_hook=_unique)
        json.dumps(given, ensure_ascii=False).encode("utf-8")  # an escape may stand for half a character
    except UnicodeError:
        raise RequestError("the body is not UTF-8") from None
    except RecursionError:
        raise RequestError("the body is nested too deeply") from None
    except ValueError as error:
        raise RequestError(f"the body is no JSON: {error}") from None
    if not isinstance(given, dict):
        raise RequestError(f"the body is a JSON {_kind(given)}; give an object, with fields of a profile")
    return given


def read_request(body: bytes, allowed_dir: Path) -> ProfileRequest:
    """The profile that a body asks for; its folder is the allowed one where none is given, and a real path.

    Raises:
        RequestError: with every reason why not.
        ForeignFolderError: it would write elsewhere.
    """
    given = read_object(body)
    request = _request(given, str(allowed_dir))
    told = given.get("output_dir")
    if told is not None and not os.path.isabs(told):
        raise RequestError(f"output_dir is not absolute; give the whole path of a folder below {allowed_dir}")
    return replace(request, output_dir=str(_real_folder(request.output_dir, allowed_dir)))


def _request(given: dict[str, Any], folder: str) -> ProfileRequest:
    """`ProfileRequest.from_json`, with what is wrong in the known fields told beside the unknown ones."""
    try:
        return ProfileRequest.from_json(given, output_dir=folder)
    except RequestError as error:
        reasons = list(error.reasons)
    known = {each.name for each in fields(ProfileRequest)}
    if not known.issuperset(given):
        try:
            ProfileRequest.from_json({name: given[name] for name in given if name in known}, output_dir=folder)
        except RequestError as error:
            reasons += error.reasons
    raise RequestError(f"this profile cannot be: {'; '.join(reasons)}", reasons=reasons)


def _real_folder(told: str, allowed_dir: Path) -> Path:
    """Where ``told`` leads to, symbolic links and ``..`` resolved.

    It is the real path that is written to, because a link may be turned elsewhere meanwhile.
    """
    try:
        real, allowed = Path(os.path.realpath(told)), Path(os.path.realpath(allowed_dir))
        if real != allowed and allowed not in real.parents:
            raise ForeignFolderError(f"output_dir leads out of {allowed_dir}; this endpoint writes nowhere else")
        with contextlib.suppress(FileNotFoundError):  # it will be made
            if not stat.S_ISDIR(os.stat(real).st_mode):
                raise RequestError("output_dir is there and is no folder; give another one")
    except (OSError, ValueError) as error:  # ValueError: a text that no file system can encode
        raise RequestError(f"output_dir cannot be used: {getattr(error, 'strerror', None) or error}") from None
    return real


def _unique(pairs: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in pairs:
        if name in found:
            raise ValueError(f"{name[:80]!r} is there twice")
        found[name] = value
    return found


def _refuse_constant(word: str) -> NoReturn:
    raise ValueError(f"{word} is no number of JSON")


def _kind(value: object) -> str:
    return {list: "list", str: "text", bool: "truth value", type(None): "null"}.get(type(value), "number")
