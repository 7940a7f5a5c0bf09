from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from pytest_gputrace.conformance import CAPABILITIES, CHECKS, Sizes, Subject
from pytest_gputrace.errors import ContractError, DeclarationError

if TYPE_CHECKING:
    from pytest_gputrace.fakes import Job


def export(job: Job) -> None:
    raise NotImplementedError


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"unclaimed": {"slrum": "no"}}, "unclaimed: 'slrum' is no capability; did you mean 'slurm'"),
        ({"unclaimed": {"cuda": ""}}, "unclaimed: cuda needs a reason, such as {'cuda': 'issue 12'}"),
        ({"unclaimed": {"cuda": " "}}, "unclaimed: cuda needs a reason"),
        ({"unclaimed": {"cuda": None}}, "unclaimed: cuda needs a reason"),
        ({"consumer": "pair"}, "consumer='pair' cannot be called; give the function itself"),
        ({"legacy_exporter": 3}, "legacy_exporter=3 cannot be called; give the function itself"),
        ({"exporter": None}, "exporter=None cannot be called; give the function itself"),
    ],
)
def test_a_declaration_that_cannot_be(given: dict[str, Any], message: str) -> None:
    with pytest.raises(DeclarationError) as caught:
        Subject(**{"exporter": export, **given})
    assert message in str(caught.value)
    assert isinstance(caught.value, ContractError)


def test_an_unknown_capability_is_answered_with_those_there_are() -> None:
    with pytest.raises(DeclarationError, match=f"there are {', '.join(CAPABILITIES)}$"):
        Subject(export, unclaimed={"xyz": "no"})


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"CT1O2": "issue 12"}, "expected_failures: 'CT1O2' is no check; did you mean 'CT1"),
        ({"CT102": ""}, "expected_failures: CT102 needs a reason, such as {'CT102': 'issue 12'}"),
    ],
)
def test_expected_failures_that_cannot_be(given: dict[str, str], message: str) -> None:
    with pytest.raises(DeclarationError) as caught:
        Subject(export, expected_failures=given).check_expected_failures(CHECKS)
    assert message in str(caught.value)


def test_good_declarations() -> None:
    subject = Subject(export, unclaimed={"mpi": "no MPI here"}, expected_failures={"CT108": "issue 12"})
    subject.check_expected_failures(CHECKS)


@pytest.mark.parametrize("given", [{"nodes": 0}, {"ranks": -1}, {"configurations": 0}])
def test_sizes_are_whole_numbers_above_zero(given: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="must be at least 1"):
        Sizes(**given)


def test_every_need_is_a_capability_and_every_least_a_size() -> None:
    for check in CHECKS.values():
        assert set(check.needs) <= CAPABILITIES.keys()
        assert set(check.least) <= {"nodes", "ranks", "configurations"}
