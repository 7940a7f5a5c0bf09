"""What users import to hold their exporter to the contract: a class to inherit from, and a decorator.

Declares only; the checks are found at collection (``contractnodes``) and run by ``contractrun``.
"""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, TypeVar

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from pytest_gputrace.fakes import Job
    from pytest_gputrace.plugin.contractrun import Asked, Hold

__all__ = ["DECLARED", "Declared", "ExporterContract", "declared_in_class", "declared_on", "gputrace_checks"]

_FUNCTION = TypeVar("_FUNCTION", bound="Callable[..., Any]")
_ATTRIBUTE = "__gputrace_checks__"

DECLARED = ("unclaimed", "expected_failures", "model", "legacy_name", "deadline_s", "env")
"""What can be declared about an exporter; the names are those of `Subject`."""


class Declared(NamedTuple):
    """What a class or a decorator declares: ``options`` and ``callables`` are arguments of `Subject`."""

    options: Mapping[str, Any]
    callables: Mapping[str, Any]


class ExporterContract:
    """Inherit, give a fixture ``exporter``, and every check of the contract is a test of your class.

    Declared as class attributes, all optional: ``unclaimed`` (capability -> reason), ``expected_failures`` (check ->
    reason), ``model``, ``legacy_name``, ``deadline_s``, ``env``. An intermediate base class says ``__test__ = False``.
    """

    __test__: ClassVar[object] = False

    unclaimed: ClassVar[Mapping[str, str]]
    expected_failures: ClassVar[Mapping[str, str]]
    model: ClassVar[str]
    legacy_name: ClassVar[str]
    deadline_s: ClassVar[float]
    env: ClassVar[Mapping[str, str]]

    def __init_subclass__(cls, **options: Any) -> None:
        """Keep ``__test__ = False`` from being inherited: it would hide the subclass, and nothing would be checked."""
        super().__init_subclass__(**options)
        if "__test__" not in vars(cls):
            # True would be collected under any name. pytest asks for ``is True`` there, so 1 changes nothing.
            cls.__test__ = 1

    @pytest.fixture
    def consumer(self, request: pytest.FixtureRequest) -> Callable[[Path, Path], Any] | None:
        """What reads two trace folders; a ``consumer`` of the module where there is one, else ``None``."""
        found: Callable[[Path, Path], Any] | None = _outer(request, "consumer")
        return found

    @pytest.fixture
    def legacy_exporter(self, request: pytest.FixtureRequest) -> Callable[[Job], Any] | None:
        """The exporter as it was; a ``legacy_exporter`` of the module where there is one, else ``None``."""
        found: Callable[[Job], Any] | None = _outer(request, "legacy_exporter")
        return found

    def test_contract(
        self,
        check: Asked,
        exporter: Callable[[Job], Any],
        consumer: Callable[[Path, Path], Any] | None,
        legacy_exporter: Callable[[Job], Any] | None,
        _gputrace_hold: Hold,  # noqa: PT019  # its value is used
    ) -> None:
        """Hold the exporter to one check."""
        # Not hidden from tracebacks: where every frame is, pytest adds a line that says so to the message.
        _gputrace_hold(check, exporter=exporter, consumer=consumer, legacy_exporter=legacy_exporter)

    test_contract.__test__ = True  # type: ignore[attr-defined]  # collected whatever python_functions says


def gputrace_checks(
    exporter: Callable[[Job], Any],
    *,
    unclaimed: Mapping[str, str] | None = None,
    expected_failures: Mapping[str, str] | None = None,
    consumer: Callable[[Path, Path], Any] | None = None,
    legacy_exporter: Callable[[Job], Any] | None = None,
    model: str | None = None,
    legacy_name: str | None = None,
    deadline_s: float | None = None,
    env: Mapping[str, str] | None = None,
) -> Callable[[_FUNCTION], _FUNCTION]:
    """Make a test of each check of the contract: ``def test_mine(check): check()``.

    Args:
        exporter: called in every simulated worker with its `Job`.
        unclaimed: capabilities it does not have, each with the reason.
        expected_failures: checks it is known to break, each with the reason.
        consumer: called with two trace folders, for the checks that need one.
        legacy_exporter: writes only the legacy file, as it always was; SuperBench's own when left out.
        model: the model's name in every job.
        legacy_name: a template for ``job.legacy_name``.
        deadline_s: for each run of simulated workers; ``--gputrace-deadline`` comes before it.
        env: variables for every simulated worker.
    """
    given = {
        "unclaimed": unclaimed,
        "expected_failures": expected_failures,
        "model": model,
        "legacy_name": legacy_name,
        "deadline_s": deadline_s,
        "env": env,
    }
    declared = Declared(
        {name: value for name, value in given.items() if value is not None},
        {"exporter": exporter, "consumer": consumer, "legacy_exporter": legacy_exporter},
    )

    def decorate(function: _FUNCTION) -> _FUNCTION:
        if not inspect.isfunction(function):
            raise TypeError(
                f"gputrace_checks decorates a test function, got {function!r}; a class inherits ExporterContract"
            )
        if hasattr(function, _ATTRIBUTE):
            raise TypeError(f"{function.__qualname__}: gputrace_checks is given twice; write a test for each exporter")
        setattr(function, _ATTRIBUTE, declared)
        function.__test__ = True  # type: ignore[attr-defined]  # collected whatever its name is
        return pytest.mark.usefixtures("_gputrace_hold")(function)

    return decorate


def declared_on(function: object) -> Declared | None:
    """What the decorator declared about the exporter; ``None`` for any other function."""
    declared = getattr(function, _ATTRIBUTE, None) if inspect.isfunction(function) else None
    return declared if isinstance(declared, Declared) else None


def declared_in_class(cls: type[ExporterContract]) -> Declared:
    """What a class declares about its exporter."""
    return Declared({name: getattr(cls, name) for name in DECLARED if hasattr(cls, name)}, {})


def _outer(request: pytest.FixtureRequest, name: str) -> Any:
    """The fixture of that name outside the class: one in the module counts, though the base class has its own."""
    try:
        return request.getfixturevalue(name)
    except pytest.FixtureLookupError as error:
        if error.argname != name:  # there is one, and what it asks for is missing
            raise
        return None
