"""``gputrace rules``: what a rule about traces or a check of the contract asks, why, and how to fix it."""

from __future__ import annotations

import difflib
import sys
from typing import TYPE_CHECKING

from pytest_gputrace.cli.terminal import say

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable

    from pytest_gputrace.cli.commands import Commands

__all__ = ["add"]


def add(commands: Commands) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser(
        "rules",
        help="what a rule about traces or a check of the contract asks, why, and how to fix it",
        description="Print the pages of rules about traces (GT codes, of gputrace check) and of checks of the contract "
        "(CT codes, of pytest --gputrace-conformance).",
        epilog="examples: gputrace rules GT301; gputrace rules negative-duration; gputrace rules GT3 CT1",
    )
    parser.add_argument(
        "rule",
        nargs="*",
        help="a code, such as GT301, a rule's name, such as negative-duration, or the begin of some codes, such as "
        "GT3; all with their titles when left out",
    )
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    """Print the pages of the rules that are named, and lists of those whose begin is given."""
    pages, lines, codes = _known()
    texts, problems = [], []
    for asked in options.rule or [""]:
        code = codes.get(asked.lower(), asked.upper())
        begun = [line for known, line in lines.items() if known.startswith(code)]
        if code in pages:
            texts.append(pages[code](code).rstrip())
        elif begun:
            texts.append("\n".join(begun))
        else:
            problems.append(_unknown(asked, [*pages, *codes]))
    for problem in problems:
        print(f"gputrace rules: {problem}", file=sys.stderr)
    if problems:
        return 2
    say("\n\n".join(dict.fromkeys(texts)))
    return 0


def _known() -> tuple[dict[str, Callable[[str], str]], dict[str, str], dict[str, str]]:
    """What prints the page of each code, the line of each code, and the code of each name."""
    from pytest_gputrace import conformance
    from pytest_gputrace.checks import pages as rule_pages
    from pytest_gputrace.checks.rules import RULES

    captures = [code for code in rule_pages.page_codes() if code.startswith("GT1")]
    names = {code: rule_pages.name(code) for code in captures} | {code: rule.name for code, rule in RULES.items()}
    pages = {**dict.fromkeys(conformance.CHECKS, conformance.page), **dict.fromkeys(names, rule_pages.page)}
    lines = {code: f"{code}  {rule.name}: {rule.title}" for code, rule in RULES.items()}
    lines |= {code: f"{code}  {name}: a finding of gputrace_check" for code, name in names.items() if code not in RULES}
    lines |= {id: f"{id}  {check.title}" for id, check in conformance.CHECKS.items()}
    return pages, lines, {name: code for code, name in names.items()}


def _unknown(asked: str, known: list[str]) -> str:
    near = [
        *difflib.get_close_matches(asked.upper(), known, n=1),
        *difflib.get_close_matches(asked.lower(), known, n=1),
    ]
    hint = f"did you mean {near[0]}?" if near else "all of them: gputrace rules"
    return f"there is no {asked}; {hint}"
