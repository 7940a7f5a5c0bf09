"""The build hook: a library for this platform where there is a compiler, a pure wheel where there is none."""

from __future__ import annotations

import ctypes
import importlib.util
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    import types

ROOT = Path(__file__).parents[2]
HOOK = ROOT / "hatch_build.py"
FOLDER = "pytest_gputrace/traces/compiled"
SOURCES = ["scan.c", "splice.c"]
HAS_HATCHLING = importlib.util.find_spec("hatchling") is not None

pytestmark = pytest.mark.skipif(not HAS_HATCHLING, reason="needs hatchling: it is not installed")
needs_compiler = pytest.mark.skipif(shutil.which("cc") is None, reason="needs compiled: a C compiler, cc")


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("CC", "CFLAGS", "GPUTRACE_PURE"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / FOLDER).mkdir(parents=True)
    for name in SOURCES:
        shutil.copy(ROOT / FOLDER / name, tmp_path / FOLDER)
    return tmp_path


def hook_module() -> types.ModuleType:
    spec = importlib.util.spec_from_file_location("hatch_build", HOOK)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def built(root: Path, version: str = "standard") -> dict[str, Any]:
    """What the hook says of the wheel; of a library that is to go into it, the bytes."""
    hook = hook_module().CustomBuildHook(str(root), {}, None, None, str(root), "wheel")
    data: dict[str, Any] = {"pure_python": True, "force_include": {}}
    hook.initialize(version, data)
    data["force_include"] = {to: Path(source).read_bytes() for source, to in data["force_include"].items()}
    hook.finalize(version, data, "")
    return data


@needs_compiler
def test_the_library_goes_into_a_wheel_for_every_python_of_the_platform(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CFLAGS", "-Wpedantic -Werror")
    data = built(project)
    assert not data["pure_python"]
    assert data["tag"].startswith("py3-none-")
    [(place, library)] = data["force_include"].items()
    assert place == f"{FOLDER}/scan.so"
    assert sorted(path.name for path in (project / FOLDER).iterdir()) == SOURCES
    (tmp_path / "loaded.so").write_bytes(library)
    loaded = ctypes.CDLL(str(tmp_path / "loaded.so"))
    assert loaded.gputrace_version() > 0
    assert loaded.gputrace_splice  # of the other source


@needs_compiler
def test_of_an_editable_install_the_library_is_beside_its_source(project: Path) -> None:
    data = built(project, "editable")
    assert data["force_include"] == {}
    assert sorted(path.name for path in (project / FOLDER).iterdir()) == ["scan.c", "scan.so", "splice.c"]


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("CC", "no-such-compiler", "no C compiler (no-such-compiler)"),
        ("CC", "false", "was left out"),
        ("GPUTRACE_PURE", "1", ""),
    ],
)
@pytest.mark.parametrize("version", ["standard", "editable"])
def test_the_wheel_is_pure_where_nothing_can_or_may_be_compiled(
    name: str, value: str, said: str, version: str, project: Path, monkeypatch: pytest.MonkeyPatch, capfd: Any
) -> None:
    monkeypatch.setenv(name, value)
    assert built(project, version) == {"pure_python": True, "force_include": {}}
    assert said in "".join(capfd.readouterr())
    assert sorted(path.name for path in (project / FOLDER).iterdir()) == SOURCES
