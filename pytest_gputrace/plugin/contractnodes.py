"""Collection of contracts: a test for each check, and a guard against classes and functions that lost some.

Runs no check.
"""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import pytest

from pytest_gputrace.conformance import CHECKS, Subject
from pytest_gputrace.errors import DeclarationError
from pytest_gputrace.fakes.validate import check_legacy_template, check_seconds, check_text, check_variables
from pytest_gputrace.plugin import contractrun
from pytest_gputrace.plugin.contract import DECLARED, Declared, ExporterContract, declared_in_class, declared_on
from pytest_gputrace.plugin.contractoptions import CONTRACT
from pytest_gputrace.plugin.contractrun import Asked, Broken, asked_of

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["guard", "parametrise"]

_FIXTURES = {
    "exporter": "export  # what is called with a Job in every simulated worker",
    "consumer": "consume  # what is called with two trace folders",
    "legacy_exporter": "export_as_ever  # what is called with a Job, and writes the legacy file only",
}
"""What ``test_contract`` asks for -> what such a fixture returns, for the advice."""


def parametrise(metafunc: pytest.Metafunc) -> None:
    """Make a test of each check, where the function is one of a contract."""
    function: object = metafunc.function
    if function is ExporterContract.test_contract and metafunc.cls is not None:
        declared, name = declared_in_class(metafunc.cls), metafunc.cls.__qualname__
        _refuse_misspelt(metafunc.cls)
        place = f"expected_failures of {name}"
    else:
        found = declared_on(function)
        if found is None:
            return
        declared, name = found, metafunc.function.__qualname__
        place = f"expected_failures in the decorator of {name}"
        if "check" not in inspect.signature(metafunc.function).parameters:
            raise pytest.Collector.CollectError(
                f"{name}: gputrace_checks gives an argument 'check': def {name}(check): check()"
            )
    _validate(name, declared)
    contractrun.register(metafunc.config)
    reasons: dict[str, dict[str, str]] = {}
    for check, reason in declared.options.get("expected_failures", {}).items():
        reasons.setdefault(check, {})[place] = reason
    settings = metafunc.config.stash[CONTRACT]
    for check, reason, source in settings.expected:
        reasons.setdefault(check, {})[source] = reason
    declared = declared._replace(options=settings.about(declared.options))
    metafunc.parametrize("check", [_param(check, declared, reasons.get(check, {})) for check in CHECKS])


def _param(check: str, declared: Declared, reasons: Mapping[str, str]) -> Any:
    reason = "; ".join(dict.fromkeys(reasons.values()))
    asked = Asked(CHECKS[check], declared.options, reason, tuple(reasons))
    marks = [pytest.mark.xfail(reason=reason, raises=Broken, strict=True)] if reasons else []
    return pytest.param(asked, id=check, marks=marks)


def _refuse_misspelt(cls: type[ExporterContract]) -> None:
    """Refuse an attribute that declares nothing and has almost the name of one that does."""
    for each in cls.__mro__:
        if not issubclass(each, ExporterContract) or each is ExporterContract:
            continue
        for name, value in vars(each).items():
            if name in DECLARED or name.startswith("_") or callable(value) or hasattr(type(value), "__get__"):
                continue
            near = difflib.get_close_matches(name, DECLARED, n=1, cutoff=0.75)
            if near:
                raise pytest.Collector.CollectError(
                    f"{each.__qualname__}: {name} declares nothing; did you mean {near[0]}? Where it is something of "
                    f"your own, call it _{name}"
                )


def _validate(name: str, declared: Declared) -> None:
    """Refuse what cannot be declared, once and at collection; what the callables are is known later, in a fixture."""
    options = declared.options
    try:
        for each in ("unclaimed", "expected_failures"):
            if not isinstance(options.get(each, {}), Mapping):
                raise DeclarationError(f"{each} is a dict of reasons by name, got {options[each]!r}")
        subject = Subject(**({"exporter": print} | dict(declared.callables) | dict(options)))
        subject.check_expected_failures(CHECKS)
        check_text("contract", "model", subject.model)
        check_legacy_template("contract", subject.legacy_name, subject.model)
        check_seconds("contract", "deadline_s", subject.deadline_s)
        check_variables("contract", "env", options.get("env", {}))
    except (DeclarationError, TypeError, ValueError) as error:
        raise pytest.Collector.CollectError(f"{name}: {error}") from error


def guard(collector: pytest.Collector, report: pytest.CollectReport) -> bool:
    """Let a class or module fail whose checks were not all collected: who selects, does so with ``-k`` and the like.

    Returns whether it was refused.
    """
    if not report.passed or not isinstance(collector, pytest.Module | pytest.Class):
        return False
    nodes = report.result or []
    problems = [*_incomplete(collector, nodes), *_hidden(collector, nodes)]
    if problems:
        report.outcome = "failed"
        report.longrepr = "\n".join(problems)
        report.result = []
    return bool(problems)


def _incomplete(collector: pytest.Module | pytest.Class, nodes: Iterable[object]) -> Iterable[str]:
    """The class itself, and the decorated functions in it or in the module, as far as checks are missing."""
    obj: Any = collector.obj
    if not getattr(obj, "__test__", True):
        return
    functions = [node for node in nodes if isinstance(node, pytest.Function)]
    if isinstance(collector, pytest.Class) and issubclass(obj, ExporterContract):
        own = [node for node in functions if node.function is ExporterContract.test_contract]
        yield from _missing(obj.__qualname__, own, "leave test_contract as it is, and have no __init__")
        yield from _without_fixture(obj, own[:1])
    for name in dir(obj):
        if declared_on(inspect.getattr_static(obj, name, None)) is not None:
            yield from _missing(name, [node for node in functions if node.originalname == name], "filter none of them")


def _missing(name: str, functions: Iterable[pytest.Function], advice: str) -> Iterable[str]:
    found = {asked.check.id for function in functions if (asked := asked_of(function)) is not None}
    missing = [check for check in CHECKS if check not in found]
    if missing:
        yield (
            f"{name}: {len(missing)} of {len(CHECKS)} checks of the contract are not collected: {', '.join(missing)}; "
            f"{advice}; what an exporter does not do or is known to break is declared (unclaimed, expected_failures), "
            "and to run a few there is -k"
        )


def _without_fixture(cls: type[ExporterContract], nodes: Iterable[pytest.Function]) -> Iterable[str]:
    """What ``test_contract`` asks for and nobody gives: no fixture of the class, its module or a conftest."""
    for node in nodes:
        known: Mapping[str, object] | None = getattr(getattr(node, "_fixtureinfo", None), "name2fixturedefs", None)
        for name, returned in _FIXTURES.items():
            if known is None or known.get(name) or name in node.callspec.params:
                continue
            told = f"there is no fixture {name}"
            if hasattr(cls, name):
                told = f"{name} in the class is no fixture, and there is no other"
            yield (
                f"{cls.__qualname__}: {told}; write\n\n"
                f"    @pytest.fixture\n    def {name}(self):\n        return {returned}\n"
            )


def _hidden(collector: pytest.Module | pytest.Class, nodes: Iterable[object]) -> Iterable[str]:
    """Subclasses in the module (or nested in the class) that pytest does not take for test classes."""
    collected = {node.obj for node in nodes if isinstance(node, pytest.Class)}
    for cls in dict.fromkeys(value for value in vars(collector.obj).values() if inspect.isclass(value)):
        if issubclass(cls, ExporterContract) and cls is not ExporterContract and cls.__test__ and cls not in collected:
            patterns = ", ".join(collector.config.getini("python_classes"))
            yield (
                f"{cls.__qualname__}: is an ExporterContract, and pytest does not collect it, so none of its checks "
                f"would run; give it a name that python_classes ({patterns}) matches, or say __test__ = False in a "
                "class that others inherit from"
            )
