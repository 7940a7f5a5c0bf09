from __future__ import annotations

import pytest

from pytest_gputrace.control.activities.protonsettings import ProtonSettings, owned_since_import
from pytest_gputrace.errors import RequestError

OURS = "GPUTRACE_PROTON_"
THEIRS = "TOKENSPEED_KERNEL_PROFILE_"


def reasons_of(environ: dict[str, str]) -> tuple[str, ...]:
    with pytest.raises(RequestError) as caught:
        ProtonSettings.from_environ(environ)
    return caught.value.reasons


def test_without_variables_it_is_a_trace_that_can_be_merged() -> None:
    assert ProtonSettings.from_environ({}) == ProtonSettings("trace", "chrome_trace", None, None, "triton")


def test_each_variable_of_ours_counts_before_tokenspeeds() -> None:
    ours = {"DATA": "tree", "BACKEND": "roctracer", "MODE": "periodic_flushing", "HOOK": "none"}
    theirs = {"DATA": "trace", "BACKEND": "cupti", "MODE": "pcsampling", "HOOK": "triton"}
    environ = {THEIRS + name: value for name, value in theirs.items()}
    assert ProtonSettings.from_environ(environ) == ProtonSettings(
        "trace", "chrome_trace", "cupti", "pcsampling", "triton"
    )
    environ |= {OURS + name: value for name, value in ours.items()} | {OURS + "FORMAT": "hatchet_msgpack"}
    assert ProtonSettings.from_environ(environ) == ProtonSettings(
        "tree", "hatchet_msgpack", "roctracer", "periodic_flushing:format=hatchet_msgpack", None
    )


@pytest.mark.parametrize(
    ("environ", "data", "form"),
    [
        ({THEIRS + "DATA": "tree"}, "tree", "hatchet"),
        ({THEIRS + "OUTPUT_FORMAT": "hatchet_msgpack"}, "tree", "hatchet_msgpack"),
        ({THEIRS + "DATA": "tree", THEIRS + "OUTPUT_FORMAT": ""}, "tree", "hatchet"),
        ({OURS + "FORMAT": "hatchet"}, "tree", "hatchet"),
        ({OURS + "DATA": "TREE"}, "tree", "hatchet"),
        ({OURS + "DATA": "tree", THEIRS + "OUTPUT_FORMAT": "hatchet_msgpack"}, "tree", "hatchet_msgpack"),
        ({OURS + "DATA": "trace", THEIRS + "OUTPUT_FORMAT": "hatchet"}, "trace", "chrome_trace"),
        ({OURS + "FORMAT": "hatchet", THEIRS + "DATA": "trace"}, "tree", "hatchet"),
        ({OURS + "DATA": "trace", THEIRS + "DATA": "bogus"}, "trace", "chrome_trace"),
    ],
)
def test_data_and_format_are_always_of_a_kind(environ: dict[str, str], data: str, form: str) -> None:
    settings = ProtonSettings.from_environ(environ)
    assert (settings.data, settings.format) == (data, form)


@pytest.mark.parametrize(
    ("data", "form"),
    [(OURS + "DATA", OURS + "FORMAT"), (THEIRS + "DATA", THEIRS + "OUTPUT_FORMAT")],
)
def test_a_format_that_does_not_fit_the_data_is_refused_naming_both_variables(data: str, form: str) -> None:
    [reason] = reasons_of({data: "trace", form: "hatchet"})
    assert reason == (
        f"{data} is 'trace' and {form} is 'hatchet'; trace data goes with chrome_trace, hatchet with tree data"
    )


@pytest.mark.parametrize(
    ("name", "choices"),
    [
        ("DATA", "trace, tree"),
        ("BACKEND", "cupti, rocprofiler, roctracer, instrumentation"),
        ("MODE", "pcsampling, periodic_flushing, default, mma"),
        ("HOOK", "triton, none"),
        ("FORMAT", "chrome_trace, hatchet, hatchet_msgpack"),
    ],
)
def test_an_unknown_value_is_refused_naming_the_variable_and_the_choices(name: str, choices: str) -> None:
    assert reasons_of({OURS + name: "bogus"}) == (f"{OURS}{name} is 'bogus'; it is one of {choices}",)


def test_every_wrong_value_is_told_at_once() -> None:
    assert len(reasons_of({OURS + "DATA": "x", OURS + "HOOK": "y", THEIRS + "BACKEND": "z"})) == 3


def test_a_mode_must_be_one_of_its_backend() -> None:
    [reason] = reasons_of({OURS + "BACKEND": "roctracer", THEIRS + "MODE": "pcsampling:interval=10"})
    assert reason == f"{THEIRS}MODE is 'pcsampling'; it is one of periodic_flushing"
    told = {OURS + "BACKEND": "instrumentation", OURS + "MODE": "default:granularity=warp_2"}
    assert ProtonSettings.from_environ(told).mode == "default:granularity=warp_2"


def test_what_is_flushed_as_it_goes_has_the_format_of_the_profile() -> None:
    name = OURS + "MODE"
    assert ProtonSettings.from_environ({name: "periodic_flushing"}).mode == "periodic_flushing:format=chrome_trace"
    [reason] = reasons_of({name: "periodic_flushing:format=hatchet"})
    assert reason.startswith(f"{name} is 'periodic_flushing:format=hatchet', and the profile's format is chrome_trace")


@pytest.mark.parametrize("value", ["1", "true", "YES", "on"])
def test_a_session_that_tokenspeed_starts_at_import_owns_the_process(value: str) -> None:
    assert "unset TOKENSPEED_KERNEL_PROFILE" in owned_since_import({"TOKENSPEED_KERNEL_PROFILE": value})


@pytest.mark.parametrize("environ", [{}, {"TOKENSPEED_KERNEL_PROFILE": "0"}, {"TOKENSPEED_KERNEL_PROFILE": ""}])
def test_without_such_a_session_proton_is_ours(environ: dict[str, str]) -> None:
    assert owned_since_import(environ) == ""
