"""The pytest plugin: hooks only, each reads, calls and hands over.

The only room that imports pytest. Loading it must cost nothing: whatever is heavy is imported where it is used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_gputrace.plugin import contracthooks
from pytest_gputrace.plugin.contractoptions import add_contract_options
from pytest_gputrace.plugin.fixtures import (
    _gputrace_evidence,
    _gputrace_hold,
    gputrace_check,
    gputrace_cluster,
    gputrace_dir,
    gputrace_engine,
    gputrace_fake_profiler,
    gputrace_fault,
    gputrace_rank_dirs,
    gputrace_server,
)
from pytest_gputrace.plugin.options import SETTINGS, Settings, add_options

if TYPE_CHECKING:
    import pytest

__all__ = [
    "_gputrace_evidence",
    "_gputrace_hold",
    "gputrace_check",
    "gputrace_cluster",
    "gputrace_dir",
    "gputrace_engine",
    "gputrace_fake_profiler",
    "gputrace_fault",
    "gputrace_rank_dirs",
    "gputrace_server",
    "pytest_addoption",
    "pytest_configure",
]


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare the options."""
    add_options(parser)
    add_contract_options(parser)


def pytest_configure(config: pytest.Config) -> None:
    """Read the settings; register what keeps and tells only where it was asked for."""
    config.stash[SETTINGS] = settings = Settings.from_config(config)
    if settings.enabled:
        from pytest_gputrace.plugin import recording

        recording.register(config)
    contracthooks.register(config)
