"""The contract: every check by its id."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

from pytest_gputrace.conformance import content, distinct, failure, launchers, legacy, pairing
from pytest_gputrace.conformance.promise import ContractCheck

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["CHECKS", "ContractCheck"]

_FAMILIES = (distinct.FAMILY, launchers.FAMILY, legacy.FAMILY, content.FAMILY, failure.FAMILY, pairing.FAMILY)

CHECKS: Mapping[str, ContractCheck] = MappingProxyType(
    {
        check.id: check
        for check in sorted((check for family in _FAMILIES for check in family.checks), key=lambda c: c.id)
    }
)
