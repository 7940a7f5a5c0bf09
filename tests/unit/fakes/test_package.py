from __future__ import annotations

import subprocess
import sys

import pytest

from pytest_gputrace import fakes

LOADED = """
import sys
from pytest_gputrace import fakes
for name in fakes.__all__:
    getattr(fakes, name)
allowed = {"pytest_gputrace", "pytest_gputrace.model", "pytest_gputrace.errors"}
ours = {name for name in sys.modules if name.startswith("pytest_gputrace") and ".fakes" not in name}
print(sorted(ours - allowed), sorted({"pytest", "torch", "numpy"} & set(sys.modules)))
"""


def test_every_public_name_is_there() -> None:
    assert len(set(fakes.__all__)) == len(fakes.__all__), "ruff keeps the order"
    assert all(getattr(fakes, name) is not None for name in fakes.__all__)
    assert set(fakes.__all__) <= set(dir(fakes))


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Gpu'"):
        fakes.Gpu  # noqa: B018  # the access is the test


def test_nothing_but_the_model_and_the_errors_is_loaded() -> None:
    done = subprocess.run([sys.executable, "-c", LOADED], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "[] []\n"
