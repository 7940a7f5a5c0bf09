"""``--gputrace-conformance``: a contract without a test file, as a module made up on the spot with one class in it.

What is collected there is an `ExporterContract` like any other.
"""

from __future__ import annotations

import types
from typing import TYPE_CHECKING, Any

import pytest

from pytest_gputrace.conformance import CAPABILITIES, Subject
from pytest_gputrace.fakes.validate import check_legacy_template, check_text
from pytest_gputrace.plugin.contract import ExporterContract
from pytest_gputrace.plugin.contractoptions import named_reasons
from pytest_gputrace.plugin.contracttarget import load, place_of

if TYPE_CHECKING:
    from collections.abc import Generator

__all__ = ["ContractModule", "register"]

_OPTIONS = {
    "exporter": "--gputrace-conformance",
    "consumer": "--gputrace-consumer",
    "legacy_exporter": "--gputrace-legacy-exporter",
}


class ContractModule(pytest.Module):
    """The module that is in no file."""


def register(config: pytest.Config) -> None:
    """Load what the options name; collect it, and nothing else where no path was given.

    Raises:
        pytest.UsageError: it cannot be loaded, or an option cannot be used.
    """
    folder = config.invocation_params.dir
    namespace: dict[str, Any] = {"__test__": True}  # collected whatever python_classes says
    for name, option in _OPTIONS.items():
        text: str | None = config.getoption("gputrace_conformance" if name == "exporter" else f"gputrace_{name}")
        if text is not None:
            namespace[name] = _giving(name, load(text, option, folder))
    texts = config.getoption("gputrace_unclaimed") or []
    namespace["unclaimed"] = named_reasons("--gputrace-unclaimed", texts, CAPABILITIES, "capability")
    namespace |= _declared(config)
    module = types.ModuleType("gputrace_conformance")
    module.__dict__["TestContract"] = type("TestContract", (ExporterContract,), namespace)
    if config.args_source is not pytest.Config.ArgsSource.ARGS:
        config.args = []
    config.pluginmanager.register(
        CommandHooks(config.getoption("gputrace_conformance"), module), "gputrace-conformance"
    )


def _declared(config: pytest.Config) -> dict[str, Any]:
    """What the other options declare, as far as they are given."""
    model: str | None = config.getoption("gputrace_model")
    legacy_name: str | None = config.getoption("gputrace_legacy_name")
    variables: list[str] | None = config.getoption("gputrace_env")
    declared: dict[str, Any] = {}
    try:
        if model is not None:
            declared["model"] = check_text("--gputrace-model", "the model", model)
        if legacy_name is not None:
            where = "--gputrace-legacy-name"
            declared["legacy_name"] = check_legacy_template(where, legacy_name, model or Subject.model)
        if variables is not None:
            declared["env"] = _variables(variables)
    except ValueError as error:
        raise pytest.UsageError(str(error)) from error
    return declared


def _variables(texts: list[str]) -> dict[str, str]:
    variables: dict[str, str] = {}
    for text in texts:
        name, separator, value = text.partition("=")
        if not separator or not name:
            raise pytest.UsageError(f"--gputrace-env={text}: expected NAME=VALUE, such as OMP_NUM_THREADS=1")
        if name in variables:
            raise pytest.UsageError(f"--gputrace-env: {name} is given twice")
        variables[name] = value
    return variables


def _giving(name: str, value: object) -> object:
    def give(_self: object) -> object:
        """What was named on the command line."""
        return value

    return pytest.fixture(name=name)(give)


class CommandHooks:
    """Adds the module to what the session collects."""

    def __init__(self, text: str, module: types.ModuleType) -> None:
        self._text, self._module = text, module

    @pytest.hookimpl(wrapper=True)
    def pytest_make_collect_report(
        self, collector: pytest.Collector
    ) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
        """Add it, after what the paths name."""
        report = yield
        if isinstance(collector, pytest.Session) and report.passed:
            path = place_of(self._text, collector.config.invocation_params.dir)
            node = ContractModule.from_parent(collector, path=path, name=self._text, nodeid=self._text)
            node.obj = self._module
            report.result = [*(report.result or []), node]
        return report
