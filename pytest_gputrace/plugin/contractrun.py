"""Runs one check as one pytest test, and notes on its report how it ended."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from pytest_gputrace.conformance import CHECKS, Sizes, Subject, hold, not_checked
from pytest_gputrace.errors import DeclarationError, GputraceError
from pytest_gputrace.plugin.contract import ExporterContract, declared_on
from pytest_gputrace.plugin.contracthooks import REPORT_ATTRIBUTE
from pytest_gputrace.plugin.contractoptions import CONTRACT
from pytest_gputrace.plugin.evidence import encodable

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping

    from _pytest.outcomes import Failed

    from pytest_gputrace.conformance import ContractCheck
else:
    Failed = pytest.fail.Exception  # the public way to it, which mypy does not follow

__all__ = ["Asked", "Broken", "Hold", "NoVerdict", "asked_of", "register"]


class Broken(Failed):
    """The exporter breaks a promise of the contract; the only thing that an expected failure expects."""

    __module__ = "builtins"  # as pytest's own outcomes: people see "Broken: ..."


class NoVerdict(Failed):
    """Nothing can be said about the exporter: set-up failed, a worker died or was late, nothing was asked."""

    __module__ = "builtins"


class Asked(NamedTuple):
    """One check as a test's parameter.

    ``options`` is what was declared about the exporter, ``reason`` why the check is expected to break, ``sources`` the
    declarations that say so; none where it is to hold.
    """

    check: ContractCheck
    options: Mapping[str, Any]
    reason: str = ""
    sources: tuple[str, ...] = ()


class _Note(NamedTuple):
    outcome: str
    reason: str = ""
    raised: BaseException | None = None


class _Failing(NamedTuple):
    """The check in which it came out that an exporter always fails, and the first line of what was said then."""

    check: str
    line: str


_NOTE = pytest.StashKey[_Note]()
_FAILING = pytest.StashKey[dict[tuple[object, ...], _Failing]]()
"""The exporters that always fail, as far as this process knows; in the stash of the configuration."""


class Hold:
    """Holds an exporter to one check, in the folder of the test; one call is one check."""

    def __init__(self, request: pytest.FixtureRequest) -> None:
        self._request = request
        self._item: pytest.Item = request.node
        if _NOTE in self._item.stash:  # of an earlier run of the same test
            del self._item.stash[_NOTE]

    def __call__(self, asked: Asked, **callables: Any) -> None:
        """Return where the promise is kept; else raise `Broken`, or `NoVerdict`, or skip."""
        __tracebackhide__ = True
        check, failing, who = asked.check, self._request.config.stash.setdefault(_FAILING, {}), _who(self._item)
        if _NOTE in self._item.stash:
            self._refuse(f"{check.id}: no verdict: check() was called before in this test; one call is one check")
        try:
            subject = Subject(**callables, **asked.options)
            sizes = Sizes(**self._request.config.stash[CONTRACT].sizes)
            reason = not_checked(check, subject, sizes)
            known = failing.get(who)
            # The same check again is a rerun, which may end in another way.
            if not reason and known is not None and known.check != check.id:
                self._refuse(f"{check.id}: no verdict: as in {known.check}: {known.line}")
            if reason and asked.sources and any(name in subject.unclaimed for name in check.needs):
                places = " and ".join(asked.sources)
                raise DeclarationError(
                    f"expected to break ({places}), and never asked: {reason}; remove one of the two"
                )
            verdict = None if reason else hold(check, subject, self._request.getfixturevalue("gputrace_dir"), sizes)
            if verdict is not None:
                failing.pop(who, None)
        except GputraceError as error:
            if getattr(error, "always", False):
                failing[who] = _Failing(check.id, str(error).partition("\n")[0].rstrip(" :"))
            self._refuse(f"{check.id}: no verdict: {error}")
        if verdict is None:
            unclaimed = [f"{name}: {subject.unclaimed[name]}" for name in check.needs if name in subject.unclaimed]
            skipped = pytest.skip.Exception(f"{check.id} not checked: {reason}")
            self._raise("not checked", skipped, unclaimed[0] if unclaimed else reason)
        elif not verdict.ok:
            self._raise("broken", Broken(verdict.message, pytrace=False))
        else:
            self._item.stash[_NOTE] = _Note("held")

    def _refuse(self, message: str) -> None:
        __tracebackhide__ = True
        self._raise("no verdict", NoVerdict(message, pytrace=False))

    def _raise(self, outcome: str, error: BaseException, reason: str = "") -> None:
        __tracebackhide__ = True
        self._item.stash[_NOTE] = _Note(outcome, reason, error)
        raise error from None


def _who(item: pytest.Item) -> tuple[object, ...]:
    """The exporter that a test asks: its class or function, and every parameter but the check."""
    params: Mapping[str, object] = getattr(getattr(item, "callspec", None), "params", {})
    others = sorted((name, id(value)) for name, value in params.items() if name != "check")
    return (item.parent, getattr(item, "originalname", item.name), *others)


def register(config: pytest.Config) -> None:
    """Follow the tests of a contract; called where one is collected, so that no other run pays for it."""
    if not config.pluginmanager.has_plugin("gputrace-contract-run"):
        config.pluginmanager.register(ItemHooks(), "gputrace-contract-run")


def asked_of(item: object) -> Asked | None:
    """The check that a test asks; ``None`` for a test of something else."""
    callspec = getattr(item, "callspec", None)
    asked = None if callspec is None else callspec.params.get("check")
    return asked if isinstance(asked, Asked) else None


class ItemHooks:
    """The hooks around each test of a contract."""

    @pytest.hookimpl(wrapper=True)
    def pytest_pyfunc_call(self, pyfuncitem: pytest.Function) -> Generator[None, object, object]:
        """Hand a decorated function its ``check``; let none pass that did not call it, or swallowed what it said."""
        __tracebackhide__ = True
        asked = asked_of(pyfuncitem)
        if asked is None:
            return (yield)
        declared = declared_on(pyfuncitem.function)
        if declared is not None:
            run: Any = pyfuncitem.funcargs["_gputrace_hold"]
            pyfuncitem.funcargs["check"] = functools.partial(run, asked, **declared.callables)
        result = yield
        note = pyfuncitem.stash.get(_NOTE, None)
        if note is None:
            told = f"{pyfuncitem.originalname} never called check(), so nothing was checked"
            raise NoVerdict(f"{asked.check.id}: no verdict: {told}", pytrace=False)
        if note.raised is not None:
            raise note.raised
        return result

    @pytest.hookimpl(wrapper=True, tryfirst=True)  # outside of pytest's own, which knows what xfail made of it
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Note how the check ended."""
        report = yield
        asked = asked_of(item)
        if asked is not None and isinstance(item, pytest.Function) and report.when != "teardown":
            outcome, reason = _judge(item, asked, call, report)
            if report.when == "call" or not report.passed:
                record = {
                    "exporter": _exporter(item, asked.check.id),
                    "check": asked.check.id,
                    "outcome": outcome,
                    "reason": reason,
                    "checks": len(CHECKS),
                }
                setattr(report, REPORT_ATTRIBUTE, encodable(record))
        return report


def _judge(item: pytest.Item, asked: Asked, call: pytest.CallInfo[None], report: pytest.TestReport) -> tuple[str, str]:
    """The outcome in the summary's words; makes the report say what pytest's own words do not."""
    check, raised = asked.check.id, None if call.excinfo is None else call.excinfo.value
    if hasattr(report, "wasxfail"):
        if asked.sources and isinstance(raised, Broken):
            return "broken as expected", ""
        # A mark or a call of xfail that nobody declared would also hide that there is no verdict.
        del report.wasxfail
        report.outcome = "failed"
        told = f", and the check is {item.stash[_NOTE].outcome}" if _NOTE in item.stash else ""
        report.longrepr = f"{check}: xfail does not count here{told}; declare expected_failures = {{'{check}': 'why'}}"
        return "no verdict", ""
    note = item.stash.get(_NOTE, _Note("no verdict"))
    if report.skipped:
        skipped = report.longrepr[2] if isinstance(report.longrepr, tuple) else ""
        return "not checked", note.reason or skipped.removeprefix("Skipped: ")
    if report.passed:
        return "held", ""
    if raised is None and asked.sources:
        places = " and from ".join(asked.sources)
        report.longrepr = (
            f"{check} holds now, though it was expected to break ({asked.reason}): remove it from {places}"
        )
        return "held though expected to break", ""
    return ("broken" if isinstance(raised, Broken) else "no verdict"), ""


def _exporter(item: pytest.Function, check: str) -> str:
    """Whose check it is, in the summary: a class, a function, or the text on the command line."""
    from pytest_gputrace.plugin.contractcommand import ContractModule

    node = item.parent
    assert node is not None
    if isinstance(node.parent, ContractModule):
        name = node.parent.nodeid
    elif item.function is ExporterContract.test_contract:
        name = node.nodeid
    else:
        name = f"{node.nodeid}::{item.originalname}"
    others = [part for part in item.callspec.id.split("-") if part != check]
    return f"{name}[{'-'.join(others)}]" if others else name
