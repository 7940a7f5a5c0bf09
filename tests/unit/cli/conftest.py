"""No launcher around the tests, and a stand-in for the engine of ``gputrace check``."""

from __future__ import annotations

import os
import sys
import types
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest

from pytest_gputrace.checks.outcome import FileReport, Report
from pytest_gputrace.checks.rule import Rule
from pytest_gputrace.model import Severity

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(autouse=True)
def _no_launcher(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in list(os.environ):
        if "RANK" in name or name.startswith(("SLURM_", "OMPI_", "WORLD_", "LOCAL_WORLD_")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("GPUTRACE_NODE_ID", "n1")
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def known_rules(monkeypatch: pytest.MonkeyPatch) -> dict[str, Rule]:
    """The rules that the command knows, and ``page`` of each."""
    rules = {
        "GT301": Rule("GT301", "negative-duration", "an event ends before it begins", Severity.ERROR),
        "GT302": Rule("GT302", "impossible-duration", "an event lasts longer than a day", Severity.ERROR),
        "GT501": Rule("GT501", "missing-rank", "a rank left no file", Severity.ERROR),
    }
    _stand_in(monkeypatch, "pytest_gputrace.checks.rules", RULES=rules)
    _stand_in(
        monkeypatch,
        "pytest_gputrace.checks.pages",
        page=lambda code: f"# {code}\n\nwhy\n",
        page_codes=lambda: ["GT106", *rules],
        name=lambda code: {"GT106": "lost-capture"}[code],
    )
    return rules


@dataclass
class Engine:
    """Gives ``report``, or raises ``error``; ``asked`` is how it was called."""

    report: Report = field(
        default_factory=lambda: Report((FileReport("a.json", "kineto", 5, 2, 100, looked_at={"GT301": 5}),))
    )
    error: BaseException | None = None
    asked: dict[str, Any] = field(default_factory=dict)

    def check(self, paths: list[str], **asked: Any) -> Report:
        self.asked = {"paths": paths, **asked}
        if self.error is not None:
            raise self.error
        return self.report


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch, known_rules: dict[str, Rule]) -> Engine:
    stand_in = Engine()
    _stand_in(monkeypatch, "pytest_gputrace.checks.check", check=stand_in.check)
    return stand_in


def _stand_in(monkeypatch: pytest.MonkeyPatch, name: str, /, **content: Any) -> None:
    module = types.ModuleType(name)
    module.__dict__.update(content)
    monkeypatch.setitem(sys.modules, name, module)
    parent, _, last = name.rpartition(".")
    monkeypatch.setattr(sys.modules[parent], last, module, raising=False)
