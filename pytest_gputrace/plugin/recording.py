"""The way of a test's evidence: judged in the process that ran it, carried by its teardown report, told at the end.

Registered with --gputrace only. The same way with and without xdist.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from pytest_gputrace.plugin.fixtures import EVIDENCE
from pytest_gputrace.plugin.folders import RUN, new_run
from pytest_gputrace.plugin.options import SETTINGS
from pytest_gputrace.plugin.workers import DEAD_WORKERS, RUN_INPUT, WorkerHooks

if TYPE_CHECKING:
    from collections.abc import Generator
    from pathlib import Path

    from pytest_gputrace.plugin.contracthooks import ContractHooks
    from pytest_gputrace.report.captures import ItemRecord

__all__ = ["RECORDS", "TIMELINES", "Recording", "register"]

RECORDS = pytest.StashKey[list["ItemRecord"]]()
"""What the tests reported; in the process that writes the summary."""

TIMELINES = pytest.StashKey[list[str]]()
"""What came of the timelines, as lines of the summary; there with --gputrace-merge only."""

_ATTRIBUTE = "gputrace"


def register(config: pytest.Config) -> None:
    """Name the run, or take the name the controller gave it, and start to keep evidence."""
    given: dict[str, Any] | None = getattr(config, "workerinput", None)
    config.stash[RUN] = new_run() if given is None or RUN_INPUT not in given else given[RUN_INPUT]
    config.stash[RECORDS] = []
    config.stash[DEAD_WORKERS] = []
    config.pluginmanager.register(Recording(config), "gputrace-recording")
    if given is None:
        config.pluginmanager.register(WorkerHooks(config), "gputrace-workers")
        if config.stash[SETTINGS].merge:
            from pytest_gputrace.plugin.merging import MergingHooks

            config.stash[TIMELINES] = []
            hooks = MergingHooks(config, config.stash[RECORDS], config.stash[TIMELINES])
            config.pluginmanager.register(hooks, "gputrace-merging")


class Recording:
    """The hooks; their state is in the stash."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Judge at the end of the call, while every folder of the test is there; tell with the teardown."""
        report = yield
        evidence = item.stash.get(EVIDENCE, None)
        if evidence is not None:
            if call.when == "teardown":
                setattr(report, _ATTRIBUTE, evidence.record())
            elif call.when == "call" or call.excinfo is not None:
                evidence.judge()
        return report

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Collect, in the process that writes the summary."""
        record: ItemRecord | None = getattr(report, _ATTRIBUTE, None)
        if record is not None and not hasattr(self._config, "workerinput"):
            self._config.stash[RECORDS].append(record)

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Write the summary."""
        if self._config.option.collectonly:
            return
        from pytest_gputrace.report.captures import summary

        records = self._config.stash[RECORDS]
        folder = self._config.stash[SETTINGS].folder / self._config.stash[RUN]
        every = [*records, *_lost(folder, records, self._config.stash[DEAD_WORKERS])]
        contract: ContractHooks | None = self._config.pluginmanager.get_plugin("gputrace-contract")
        timelines = self._config.stash.get(TIMELINES, [])
        if not every and not timelines and contract is not None and contract.told:
            return  # what was checked is in the contract's own section
        terminalreporter.ensure_newline()
        terminalreporter.section("gputrace")
        # In an order that does not depend on how many workers there were.
        for line in [*summary(sorted(every, key=lambda record: record["test"])), *timelines]:
            terminalreporter.write_line(line)


def _lost(folder: Path, records: list[ItemRecord], dead: list[str]) -> list[ItemRecord]:
    """The tests that ran a cluster and never reported, from what they left in the folder of the run."""
    from pytest_gputrace.plugin.evidence import MANIFEST, encodable, read_manifest

    reported = {record["folder"] for record in records}
    lost = []
    for path in sorted(folder.glob(f"*/{MANIFEST}")):
        evidence = None if encodable(str(path.parent)) in reported else read_manifest(path)
        if evidence is not None:
            died = f"lost with its worker {evidence.worker}"
            lost.append(evidence.record(lost=died if evidence.worker in dead else "lost: it never reported its end"))
    return lost
