"""The contract's options and ini values -> `ContractSettings`. Imports the contract only where a check is named."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from typing_extensions import Self

__all__ = ["CONTRACT", "ContractSettings", "add_contract_options", "named_reasons"]

_SIZES = {
    "nodes": ("nodes", "nodes"),
    "ranks": ("ranks", "ranks on each node"),
    "configs": ("configurations", "configurations"),
}
"""The word in the option -> the argument of `Sizes`, and the words of the help."""

_OTHER_WAY = {
    "gputrace_consumer": "--gputrace-consumer",
    "gputrace_legacy_exporter": "--gputrace-legacy-exporter",
    "gputrace_legacy_name": "--gputrace-legacy-name",
    "gputrace_model": "--gputrace-model",
    "gputrace_env": "--gputrace-env",
    "gputrace_unclaimed": "--gputrace-unclaimed",
}


def add_contract_options(parser: pytest.Parser) -> None:
    """Declare everything about the contract that is read from the command line and the ini file."""
    group = parser.getgroup("gputrace")
    group.addoption(
        "--gputrace-conformance",
        default=None,
        metavar="MODULE:CALLABLE",
        help="hold this exporter to the contract, without a test file; MODULE may be a path that ends in .py",
    )
    group.addoption(
        "--gputrace-consumer",
        default=None,
        metavar="MODULE:CALLABLE",
        help="with --gputrace-conformance: what reads two trace folders, for the checks that need one",
    )
    group.addoption(
        "--gputrace-legacy-exporter",
        default=None,
        metavar="MODULE:CALLABLE",
        help="with --gputrace-conformance: the exporter as it was, writes the legacy file only",
    )
    group.addoption(
        "--gputrace-legacy-name",
        default=None,
        metavar="TEMPLATE",
        help="with --gputrace-conformance: a template for job.legacy_name, such as prof-{model}-{local_rank}.json",
    )
    group.addoption(
        "--gputrace-model",
        default=None,
        metavar="NAME",
        help="with --gputrace-conformance: the model's name in every job",
    )
    group.addoption(
        "--gputrace-env",
        action="append",
        default=None,
        metavar="NAME=VALUE",
        help="with --gputrace-conformance: a variable for every simulated worker; may be given again",
    )
    group.addoption(
        "--gputrace-unclaimed",
        action="append",
        default=None,
        metavar="NAME:REASON",
        help="with --gputrace-conformance: a capability that the exporter does not have; may be given again",
    )
    group.addoption(
        "--gputrace-expect-fail",
        action="append",
        default=None,
        metavar="ID:REASON",
        help="a check of the contract that is known to be broken, such as CT102:issue 12; may be given again",
    )
    parser.addini(
        "gputrace_expect_fail", "checks known to be broken, one ID:REASON a line", type="linelist", default=[]
    )
    group.addoption(
        "--gputrace-deadline",
        default=None,
        metavar="SECONDS",
        help="how long each run of simulated workers may take, whatever is declared (default: what is, else 60)",
    )
    parser.addini("gputrace_deadline", "the seconds where none are declared, as --gputrace-deadline", default=None)
    for word, (_, words) in _SIZES.items():
        group.addoption(
            f"--gputrace-{word}", default=None, metavar="N", help=f"how many {words} the contract's jobs have at least"
        )
        parser.addini(f"gputrace_{word}", f"how many {words}, as --gputrace-{word} says", default=None)


class ContractSettings(NamedTuple):
    """What the user asked of the contract: arguments of `Sizes`, and checks expected to break.

    ``expected`` is of (id, reason, the declaration to remove once the check holds). Of the deadlines the first comes
    before what is declared about an exporter, the second after it.
    """

    sizes: Mapping[str, int]
    expected: tuple[tuple[str, str, str], ...]
    first_deadline_s: float | None = None
    last_deadline_s: float | None = None

    @classmethod
    def from_config(cls, config: pytest.Config) -> Self:
        """Sizes: command line, then ini, then the contract's own. Expected failures: those of both.

        Raises:
            pytest.UsageError: a value cannot be used.
        """
        if config.getoption("gputrace_conformance") is None:
            for name, option in _OTHER_WAY.items():
                if config.getoption(name) is not None:
                    raise pytest.UsageError(f"{option} says something about --gputrace-conformance, which is not given")
        sizes = {argument: size for word, (argument, _) in _SIZES.items() if (size := _size(config, word))}
        first = _seconds("--gputrace-deadline", config.getoption("gputrace_deadline"))
        last = _seconds("gputrace_deadline in the ini file", _ini(config, "gputrace_deadline"))
        return cls(sizes, _expected(config), first, last)

    def about(self, declared: Mapping[str, Any]) -> dict[str, Any]:
        """What holds for an exporter about which ``declared`` was declared."""
        options = dict(declared)
        if self.first_deadline_s is not None:
            options["deadline_s"] = self.first_deadline_s
        elif self.last_deadline_s is not None:
            options.setdefault("deadline_s", self.last_deadline_s)
        return options


def _size(config: pytest.Config, word: str) -> int | None:
    given: Any = config.getoption(f"gputrace_{word}")
    source = f"--gputrace-{word}"
    if given is None:
        source = f"gputrace_{word} in the ini file"
        given = _ini(config, f"gputrace_{word}")
    if given is None:
        return None
    if not re.fullmatch(r"0*[1-9][0-9]{0,5}", given.strip(), re.ASCII):
        raise pytest.UsageError(f"{source}: expected a whole number of at least 1, got {given!r}")
    return int(given)


def _seconds(source: str, text: str | None) -> float | None:
    if text is None:
        return None
    seconds = float(text) if re.fullmatch(r"\d{1,12}(\.\d{0,9})?|\.\d{1,9}", text.strip(), re.ASCII) else 0.0
    if not 0 < seconds <= 1e9:
        raise pytest.UsageError(f"{source}: expected a number of seconds above 0 and at most 1e9, got {text!r}")
    return seconds


def _expected(config: pytest.Config) -> tuple[tuple[str, str, str], ...]:
    option, key = "--gputrace-expect-fail", "gputrace_expect_fail"
    sources = ((option, config.getoption(key) or []), (f"{key} in the ini file", _ini(config, key)))
    if not any(texts for _, texts in sources):
        return ()
    from pytest_gputrace.conformance import CHECKS

    expected = []
    for source, texts in sources:
        for check, reason in named_reasons(source, texts, CHECKS, "check").items():
            place = f"{option}={check}" if source == option else source
            expected.append((check, reason, place))
    return tuple(expected)


def named_reasons(source: str, texts: Iterable[str], known: Iterable[str], kind: str) -> dict[str, str]:
    """Read texts such as ``CT102:issue 12``.

    Raises:
        pytest.UsageError: a reason is missing, or a name is not known or given twice.
    """
    from pytest_gputrace.conformance.subject import check_declarations
    from pytest_gputrace.errors import DeclarationError

    known = list(known)
    reasons: dict[str, str] = {}
    for text in texts:
        name, _, reason = (part.strip() for part in text.partition(":"))
        try:
            check_declarations(source, {name: reason or "none"}, known, kind)
        except DeclarationError as error:
            raise pytest.UsageError(str(error)) from error
        if not reason:
            raise pytest.UsageError(f"{source}: {name} needs a reason, such as {name}:issue 12")
        if name in reasons:
            raise pytest.UsageError(f"{source}: {name} is given twice")
        reasons[name] = reason
    return reasons


def _ini(config: pytest.Config, name: str) -> Any:
    try:
        return config.getini(name)
    except (TypeError, ValueError) as error:  # a number where a text belongs, in a native TOML table
        raise pytest.UsageError(f"{name} in the ini file: {error}") from error


CONTRACT = pytest.StashKey[ContractSettings]()
