"""The examples about trace files on the page run, and say what the page says they do."""

from __future__ import annotations

import doctest
import re
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "fakes.md"
EXAMPLES = re.findall(r"```pycon\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)


@pytest.mark.parametrize("example", EXAMPLES, ids=range(len(EXAMPLES)))
def test_an_example_says_what_it_does(example: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    test = doctest.DocTestParser().get_doctest(example, {}, "example", str(PAGE), 0)
    said: list[str] = []
    results = doctest.DocTestRunner(optionflags=doctest.FAIL_FAST).run(test, out=said.append)
    assert results.failed == 0, "".join(said)
    assert results.attempted > 5


def test_there_are_examples() -> None:
    assert len(EXAMPLES) == 3
