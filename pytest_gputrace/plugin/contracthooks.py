"""The contract's hooks that are always there. Each looks whether a contract is in use at all, then hands over.

Loaded at every start of pytest: whatever is not a look is imported in a hook's body.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import pytest

from pytest_gputrace.plugin.contractoptions import CONTRACT, ContractSettings

if TYPE_CHECKING:
    from collections.abc import Generator

__all__ = ["REPORT_ATTRIBUTE", "register"]

REPORT_ATTRIBUTE = "gputrace_contract"
"""What reports carry, as builtins, so that it crosses from an xdist worker: how a check ended, or "refused"."""

_HOME = "pytest_gputrace.plugin.contract"
"""Who uses the contract has imported this: no contract can be in a module before."""


def register(config: pytest.Config) -> None:
    """Read the settings, listen for contracts, and take in the one of the command line."""
    config.stash[CONTRACT] = ContractSettings.from_config(config)
    config.pluginmanager.register(ContractHooks(config), "gputrace-contract")
    if config.getoption("gputrace_conformance") is not None:
        from pytest_gputrace.plugin import contractcommand

        contractcommand.register(config)


class ContractHooks:
    """The hooks."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._records: list[dict[str, Any]] = []
        self._crashed: list[str] = []
        self._refusing = False  # in what is being collected now
        self._refused = False

    @property
    def told(self) -> bool:
        """Whether any check of a contract ran."""
        return bool(self._records)

    @pytest.hookimpl(tryfirst=True)  # before hooks of users: what they filter is then missed by the guard
    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        """Make a test of each check."""
        if _HOME in sys.modules:
            from pytest_gputrace.plugin import contractnodes

            try:
                contractnodes.parametrise(metafunc)
            except pytest.Collector.CollectError:
                self._refusing = True
                raise

    @pytest.hookimpl(wrapper=True, trylast=True)  # innermost: --lf takes tests away on purpose
    def pytest_make_collect_report(
        self, collector: pytest.Collector
    ) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
        """Refuse a class, function or module of which checks are missing."""
        report = yield
        if _HOME in sys.modules:
            from pytest_gputrace.plugin import contractnodes

            if contractnodes.guard(collector, report) or (self._refusing and report.failed):
                setattr(report, REPORT_ATTRIBUTE, "refused")
                self._refusing = False
        return report

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Note, in the process that ends the run, that a contract was refused."""
        self._refused = self._refused or hasattr(report, REPORT_ATTRIBUTE)

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Say wrong use where a contract was refused.

        pytest says 2, xdist 1, which would mean that an exporter was tried and broke its promises.
        """
        ended = session.exitstatus != pytest.ExitCode.INTERNAL_ERROR and not hasattr(session.config, "workerinput")
        if self._refused and ended:
            session.exitstatus = pytest.ExitCode.USAGE_ERROR

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Collect, in the process that writes the summary."""
        if hasattr(self._config, "workerinput"):
            return
        record: dict[str, Any] | None = getattr(report, REPORT_ATTRIBUTE, None)
        if record is not None and str(report.outcome) != "rerun":  # of pytest-rerunfailures
            self._records.append(record)
        elif report.when not in ("setup", "call", "teardown"):  # xdist's word for a worker that died
            self._crashed.append(report.nodeid)

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Write the summary, where checks ran."""
        if not self._records:
            return
        from pytest_gputrace.plugin.contractsummary import summary

        terminalreporter.ensure_newline()
        terminalreporter.section("gputrace contract")
        for line in summary(self._records, self._crashed):
            terminalreporter.write_line(line)
