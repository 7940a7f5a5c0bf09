"""Builds the compiled reader of traces into the wheel where there is a C compiler; without one the wheel is pure Python.

``$CC`` or ``cc`` compiles it. ``GPUTRACE_PURE=1`` leaves it out.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from packaging.tags import platform_tags

FOLDER = "pytest_gputrace/traces/compiled"
SOURCES = ("scan.c", "splice.c")
FLAGS = ["-std=c99", "-O3", "-fPIC", "-shared", "-fvisibility=hidden", "-Wall", "-Wextra"]
# What such a wheel may be called here: it was not built to run on older systems, as those of PyPI must be.
_NOT_HERE = ("manylinux", "musllinux")


class CustomBuildHook(BuildHookInterface[Any]):
    """Compiles beside the source for an editable install, and for a wheel apart from it."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Add the library to the wheel, and say for which platform it is."""
        self._built = tempfile.TemporaryDirectory()
        root = Path(self.root) / FOLDER
        library = (root if version == "editable" else Path(self._built.name)) / "scan.so"
        if os.environ.get("GPUTRACE_PURE") == "1" or not self._compile([root / name for name in SOURCES], library):
            return
        build_data["pure_python"] = False
        platform = next(tag for tag in platform_tags() if not tag.startswith(_NOT_HERE))
        build_data["tag"] = f"py3-none-{platform}"
        if version != "editable":
            build_data["force_include"][str(library)] = f"{FOLDER}/scan.so"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Remove what was built apart."""
        self._built.cleanup()

    def _compile(self, sources: list[Path], library: Path) -> bool:
        compiler = shlex.split(os.environ.get("CC", "cc"))
        if shutil.which(compiler[0]) is None:
            self.app.display_warning(
                f"no C compiler ({compiler[0]}): traces will be read by Python alone, at half the speed"
            )
            return False
        fresh = library.with_suffix(".new")
        # As a whole or not at all: a process may have the old one loaded.
        flags = [*FLAGS, *shlex.split(os.environ.get("CFLAGS", ""))]
        done = subprocess.run(
            [*compiler, *flags, "-o", str(fresh), *map(str, sources), "-lm"],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        if done.returncode:
            self.app.display_warning(f"the compiled reader of traces was left out: {done.stderr.strip()}")
            return False
        fresh.replace(library)
        return True
