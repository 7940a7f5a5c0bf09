"""The one door to Proton: its Python package where there is a GPU, otherwise its library alone, which records scopes.

Proton comes with Triton (``triton.profiler``) and, under another name, with TokenSpeed (``tokenspeed_triton.profiler``).
They are separate: each sees its own scopes only, so the one that is imported already is taken before one that is not.
Both packages ask Triton for a driver and fail on a machine without a GPU; their library does not.

Nothing of it is imported before `open_proton`.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.machinery
import importlib.util
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_gputrace.errors import ActivityError, MissingDependencyError

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["ProtonDoor", "active", "gpu", "missing", "open_proton"]

_HOMES = ("triton", "tokenspeed_triton")
_ALONE = "libproton"
"""The name of a library that is loaded without its package; its submodule is what counts."""
_DEVICE_NODES = {"cuda": ("/dev/nvidiactl", "/dev/dxg"), "hip": ("/dev/kfd",)}
_LIBRARY_BACKENDS = {"cuda": "cupti", "hip": "roctracer", "": "instrumentation"}
# Numbers of sessions are given out one by one; this many starts by others, or failed ones, are seen through.
_SESSIONS_AHEAD = 256

_MISSING = (
    "Proton is not installed; install triton (it comes with the CUDA and ROCm builds of torch), or tokenspeed-proton "
    "for scopes without a GPU, or leave PROTON out"
)


class ProtonDoor:
    """A Proton that is open: ``library`` is its compiled part, ``package`` its Python part, None to go without."""

    def __init__(self, home: str, library: Any, package: Any) -> None:
        self._home = home
        self._library = library
        self._package = package
        self._was_on: dict[int, bool] = {}

    def start(self, name: str, data: str, backend: str | None, mode: str | None, hook: str | None) -> int:
        """Start a session that will write to ``name`` and its format's ending; returns its number.

        Raises:
            ActivityError: Proton is disabled.
            Exception: whatever Proton raises; no session is left that counts as active.
        """
        flags = _flags(self._home)
        was_on = bool(getattr(flags, "profiling_on", False))
        before = _live(self._library)
        try:
            session = self._start(name, data, backend, mode, hook)
        except BaseException:
            self._give_up(_live(self._library) - before)
            if flags is not None:
                flags.profiling_on = was_on
            raise
        if flags is not None:
            flags.profiling_on = True  # the package's scopes ask it; its own start has set it
        self._was_on[session] = was_on
        _highest[self._library] = max(session, _highest.get(self._library, 0))
        return session

    def deactivate(self, session: int) -> None:
        """Record no more into this session, once what is under way on the GPU has come in."""
        proton = self._library if self._package is None else self._package
        try:
            proton.deactivate(session, True)
        except TypeError:  # before it could flush
            proton.deactivate(session)

    def finalize(self, session: int, output_format: str) -> None:
        """Write the session's file, or files, and end it. Proton does not tell when it could not write.

        Raises:
            Exception: whatever Proton raises; the session does not count as active all the same.
        """
        proton = self._library if self._package is None else self._package
        try:
            proton.finalize(session, output_format)
        except BaseException:
            _broken.setdefault(self._library, set()).add(session)
            raise
        finally:
            flags = _flags(self._home)
            if flags is not None:  # the package leaves it on, which would look like somebody else's session
                flags.profiling_on = self._was_on.pop(session, False)

    @contextlib.contextmanager
    def scope(self, name: str) -> Iterator[int | None]:
        """A scope around some work; its number, by which an event of another profiler can point to it."""
        if self._package is not None:
            with self._package.scope(name) as scope:
                yield getattr(scope, "id", None)
            return
        number = self._library.record_scope()
        self._library.enter_scope(number, name)
        try:
            yield number
        finally:
            self._library.exit_scope(number, name)

    def _start(self, name: str, data: str, backend: str | None, mode: str | None, hook: str | None) -> int:
        if self._package is not None:
            options = {} if mode is None else {"mode": mode}  # Triton 3.4 has no mode
            session = self._package.start(name, data=data, backend=backend, hook=hook, **options)
            if session is None:
                raise ActivityError(
                    "Proton is disabled in this process (triton.knobs.proton.disable)", activity="PROTON"
                )
            return int(session)
        vendor = gpu()
        backend = backend or _LIBRARY_BACKENDS[vendor]
        parts = [vendor or "cuda", mode] if backend == "instrumentation" else [mode]
        return int(self._library.start(name, "shadow", data, backend, ":".join(filter(None, parts))))

    def _give_up(self, sessions: set[int]) -> None:
        # A start that failed leaves a session behind, which may be beyond finalising.
        for session in sessions:
            with contextlib.suppress(Exception):
                self._library.finalize(session, "")
        _broken.setdefault(self._library, set()).update(sessions)


_opened: list[ProtonDoor] = []
_broken: dict[Any, set[int]] = {}
"""Sessions of each library that could not be ended, and record nothing."""
_highest: dict[Any, int] = {}


def open_proton() -> ProtonDoor:
    """Proton, loaded once per process.

    Raises:
        MissingDependencyError: it is not installed.
        Exception: what its import raises.
    """
    if not _opened:
        _opened.append(_open())
    return _opened[0]


def missing() -> str:
    """Why Proton cannot be had here, without importing it; empty when it can."""
    return "" if _package_home() or _loaded_library() or _library_file() else _MISSING


def active() -> str:
    """Why Proton is not free in this process, without importing it; empty when it is.

    A library is asked for its sessions. One that is too old to tell has its package's flag, which a session leaves on
    that has ended; where there is neither, a session cannot be seen.
    """
    for home in _HOMES:
        flags = _flags(home)
        if getattr(flags, "command_line", False):
            return "this program runs under the proton command, which owns the Proton session of the process; run it without"
        library = _library_of(home)
        if getattr(flags, "profiling_on", False) and not hasattr(library, "get_context_depth"):
            return f"a Proton session of somebody else is active (started through {home}.profiler); finalize it first"
    for library in filter(None, (_library_of(name) for name in (*_HOMES, ""))):
        if sessions := _live(library):
            numbers = ", ".join(map(str, sorted(sessions)))
            return f"a Proton session is active in this process already (number {numbers}); finalize it first"
    return ""


def gpu() -> str:
    """Whose GPU this process can reach: ``cuda``, ``hip`` or none at all, by torch where it is imported, else by devices."""
    version = getattr(sys.modules.get("torch"), "version", None)
    if getattr(version, "hip", None):
        return "hip"
    for vendor, nodes in _DEVICE_NODES.items():
        if any(os.path.exists(node) for node in nodes):
            return vendor
    return ""


def _open() -> ProtonDoor:
    home = _package_home()
    if home and gpu():
        package = importlib.import_module(f"{home}.profiler")
        return ProtonDoor(home, _library_of(home), package)
    loaded = _loaded_library()
    if loaded is not None:
        return ProtonDoor(*loaded, None)
    found = _library_file()
    if found is None:
        raise MissingDependencyError(_MISSING, package="triton")
    home, path = found
    loader = importlib.machinery.ExtensionFileLoader(_ALONE, str(path))
    spec = importlib.util.spec_from_loader(_ALONE, loader)
    assert spec is not None
    library = importlib.util.module_from_spec(spec)
    loader.exec_module(library)
    return ProtonDoor(home, library.proton, None)


def _package_home() -> str:
    """The package whose Proton can be imported: one that is already, else one whose parts are all there."""
    for home in _HOMES:
        if f"{home}.profiler" in sys.modules:
            return home
    for home in _HOMES:
        folder = _folder(home)
        if folder is None or _library_in(folder) is None:
            continue
        if (folder / "__init__.py").exists() and (folder / "profiler" / "__init__.py").exists():
            return home
    return ""


def _loaded_library() -> tuple[str, Any] | None:
    for home in (*_HOMES, ""):
        library = _library_of(home)
        if library is not None:
            return home, library
    return None


def _library_of(home: str) -> Any:
    """The library that was loaded with this package, with ``""`` the one without any; None when it was not."""
    if home:
        return getattr(sys.modules.get(f"{home}._C.libproton"), "proton", None)
    return sys.modules.get(f"{_ALONE}.proton")  # the module above it is not always there


def _library_file() -> tuple[str, Path] | None:
    for home in _HOMES:
        folder = _folder(home)
        path = None if folder is None else _library_in(folder)
        if path is not None:
            return home, path
    return None


def _folder(home: str) -> Path | None:
    try:
        spec = importlib.util.find_spec(home)
    except ValueError:  # a module without a spec, such as a test's stand-in
        return None
    places = None if spec is None else spec.submodule_search_locations
    return next((Path(place) for place in places or () if Path(place).is_dir()), None)


def _library_in(folder: Path) -> Path | None:
    return next(iter(sorted((folder / "_C").glob("libproton*.so"))), None)


def _flags(home: str) -> Any:
    return getattr(sys.modules.get(f"{home}.profiler.flags"), "flags", None)


def _live(library: Any) -> set[int]:
    """The sessions that ``library`` has and that were not given up."""
    depth = getattr(library, "get_context_depth", None)
    found: set[int] = set()
    if depth is None:
        return found
    for session in range(_highest.get(library, 0) + _SESSIONS_AHEAD):
        with contextlib.suppress(IndexError, RuntimeError):
            depth(session)
            found.add(session)
    return found - _broken.get(library, set())
