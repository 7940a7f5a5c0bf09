"""How Proton is to record: from variables of our own, then from TokenSpeed's, then by default a trace that can be merged.

Reads an environment it is given; knows nothing of Proton itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_gputrace.errors import RequestError

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["BACKENDS", "ProtonSettings", "owned_since_import"]

BACKENDS = ("cupti", "rocprofiler", "roctracer", "instrumentation")

_FORMATS = {"trace": ("chrome_trace",), "tree": ("hatchet", "hatchet_msgpack")}
"""The formats that each kind of data can be written in, the usual one first."""
_DATA_OF = {each: data for data, formats in _FORMATS.items() for each in formats}
_GPU_MODES = ("pcsampling", "periodic_flushing")
_MODES = {
    "cupti": _GPU_MODES,
    "rocprofiler": _GPU_MODES,
    "roctracer": ("periodic_flushing",),
    "instrumentation": ("default", "mma"),
}
_EVERY_MODE = tuple(dict.fromkeys(mode for modes in _MODES.values() for mode in modes))
_HOOKS = ("triton", "none")

_FIELDS = {"data": "DATA", "backend": "BACKEND", "mode": "MODE", "hook": "HOOK"}
_OURS = {field: f"GPUTRACE_PROTON_{word}" for field, word in (_FIELDS | {"format": "FORMAT"}).items()}
_TOKENSPEEDS = {
    field: f"TOKENSPEED_KERNEL_PROFILE_{word}" for field, word in (_FIELDS | {"format": "OUTPUT_FORMAT"}).items()
}
_OWNER = "TOKENSPEED_KERNEL_PROFILE"


@dataclass(frozen=True)
class ProtonSettings:
    """What Proton is started and finalised with.

    ``backend`` and ``mode`` are None where Proton, or whoever opens it, chooses. ``hook`` is what tells of launches of
    Triton's kernels; it needs Proton's Python package, and without that there is none.
    """

    data: str = "trace"
    format: str = "chrome_trace"
    backend: str | None = None
    mode: str | None = None
    hook: str | None = "triton"

    @classmethod
    def from_environ(cls, environ: Mapping[str, str]) -> ProtonSettings:
        """Read them: ``GPUTRACE_PROTON_*`` first, ``TOKENSPEED_KERNEL_PROFILE_*`` for what those leave open.

        Where only one of data and format is told, the other one follows; TokenSpeed's format counts where it fits.

        Raises:
            RequestError: with every value that Proton does not know, and every pair that does not go together.
        """
        told = _Told(environ)
        data, form = told.data_and_format()
        backend = told.one_of("backend", BACKENDS)
        hook = told.one_of("hook", _HOOKS)
        settings = cls(data, form, backend, told.mode(backend, form), None if hook == "none" else "triton")
        if told.reasons:
            raise RequestError("; ".join(told.reasons), reasons=told.reasons)
        return settings


def owned_since_import(environ: Mapping[str, str]) -> str:
    """Why Proton is not ours to start: TokenSpeed started it when it was imported, and keeps it. Empty when it did not."""
    if environ.get(_OWNER, "").strip().lower() not in ("1", "true", "yes", "on"):
        return ""
    return (
        f"{_OWNER} is set, so TokenSpeed starts a Proton session when it is imported, which owns this process until it "
        f"exits; unset {_OWNER} and start the engine again"
    )


class _Told:
    """What an environment says of Proton; collects what is wrong with it."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self.reasons: list[str] = []
        self._ours = _values(environ, _OURS)
        self._tokenspeeds = _values(environ, _TOKENSPEEDS)

    def one_of(self, field: str, choices: tuple[str, ...]) -> str | None:
        """The value of the first variable that is set, None where none is or the value is unknown."""
        for names, values in ((_OURS, self._ours), (_TOKENSPEEDS, self._tokenspeeds)):
            if field in values:
                return self._checked(names[field], values[field].lower(), choices)
        return None

    def data_and_format(self) -> tuple[str, str]:
        """Both, always of a kind."""
        data, form = self._pair(_OURS, self._ours)
        if data is None and form is None:
            data, form = self._pair(_TOKENSPEEDS, self._tokenspeeds)
        data = data or ("trace" if form is None else _DATA_OF[form])
        theirs = self._tokenspeeds.get("format", "").lower()
        return data, form or (theirs if theirs in _FORMATS[data] else _FORMATS[data][0])

    def mode(self, backend: str | None, form: str) -> str | None:
        """The mode, one that flushes as it goes always with the format that the profile has."""
        for names, values in ((_OURS, self._ours), (_TOKENSPEEDS, self._tokenspeeds)):
            if "mode" in values:
                name, mode = names["mode"], values["mode"]
                break
        else:
            return None
        head, _, options = mode.partition(":")
        choices = _EVERY_MODE if backend is None else _MODES[backend]
        if self._checked(name, head, choices) != "periodic_flushing":
            return mode
        flushed = dict(option.partition("=")[::2] for option in options.split(":") if option)
        if flushed.setdefault("format", form) != form:
            self.reasons.append(f"{name} is {mode!r}, and the profile's format is {form}; leave its format out")
        return ":".join([head, *(f"{key}={value}" for key, value in flushed.items())])

    def _pair(self, names: Mapping[str, str], values: Mapping[str, str]) -> tuple[str | None, str | None]:
        data = self._checked(names["data"], values.get("data", "").lower(), tuple(_FORMATS))
        form = self._checked(names["format"], values.get("format", "").lower(), tuple(_DATA_OF))
        if data and form and _DATA_OF[form] != data:
            self.reasons.append(
                f"{names['data']} is {data!r} and {names['format']} is {form!r}; {data} data goes with "
                f"{' or '.join(_FORMATS[data])}, {form} with {_DATA_OF[form]} data"
            )
            return data, None
        return data, form

    def _checked(self, name: str, value: str, choices: tuple[str, ...]) -> str | None:
        if value in choices:
            return value
        if value:
            self.reasons.append(f"{name} is {value!r}; it is one of {', '.join(choices)}")
        return None


def _values(environ: Mapping[str, str], names: Mapping[str, str]) -> dict[str, str]:
    # An empty variable is one that is not set: TokenSpeed's own default for the format is an empty text.
    return {field: value for field, name in names.items() if (value := environ.get(name, "").strip())}
