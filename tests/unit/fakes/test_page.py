from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "fakes.md"
EXAMPLES = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)


@pytest.mark.skipif(sys.platform != "linux", reason="needs Linux: simulated nodes")
@pytest.mark.parametrize("example", EXAMPLES, ids=range(len(EXAMPLES)))
def test_the_pages_examples_run(example: str, tmp_path: Path) -> None:
    script = tmp_path / "example.py"
    script.write_text(example, encoding="utf-8")
    subprocess.run([sys.executable, "-W", "error", script], check=True, timeout=60, cwd=tmp_path)


def test_there_are_examples() -> None:
    assert len(EXAMPLES) == 10
