"""Makes torch look like a CUDA or a HIP build with devices, for as long as a block runs.

Where torch is not loaded yet it is changed when it is; without torch the fake profile is handed out all the same.
"""

from __future__ import annotations

import contextlib
import importlib.abc
import importlib.util
import sys
from types import ModuleType, SimpleNamespace
from typing import TYPE_CHECKING, Any

from pytest_gputrace.fakes.cudafake import FakeCudart, FakeMemoryHistory
from pytest_gputrace.fakes.events import VENDORS
from pytest_gputrace.fakes.profiler import CapturePlan, FakeProfile, profile_class
from pytest_gputrace.fakes.validate import one_of, whole
from pytest_gputrace.model import Capture

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from importlib.machinery import ModuleSpec

    from pytest_gputrace.fakes.events import Vendor
    from pytest_gputrace.model import WorkerId

__all__ = ["fake_torch", "fake_torch_for", "taken_names_known"]

_ABSENT = object()
# As the module type itself gets it: a lazy module's own way to its names would load it.
_names_of = vars(ModuleType)["__dict__"].__get__
# The real class and the names that hold it, for the workers that are forked while they are known.
_known: tuple[object, list[tuple[dict[str, Any], str]]] | None = None
_DEVICES: dict[str, dict[str, Any]] = {
    "cuda": {
        "name": "NVIDIA H100 80GB HBM3", "total_memory": 85_045_477_376, "multi_processor_count": 132,
        "warp_size": 32, "major": 9, "minor": 0,
    },
    "hip": {
        "name": "AMD Instinct MI300X", "total_memory": 206_141_652_992, "multi_processor_count": 304,
        "warp_size": 64, "major": 9, "minor": 4, "gcnArchName": "gfx942:sramecc+:xnack-",
    },
}  # fmt: skip
_VERSIONS = {"cuda": ("12.8", None), "hip": (None, "6.4.43483-a187df25c")}


@contextlib.contextmanager
def fake_torch(
    vendor: Vendor = "cuda",
    capture: Capture | None = None,
    *,
    seed: int = 0,
    steps: int = 2,
    values: tuple[complex, ...] = (),
    device_count: int = 8,
) -> Iterator[type[FakeProfile]]:
    """Replace torch's profiler, its device queries, the history of its memory and its CUDA runtime; all of it is undone.

    The profiler is also replaced where a module took it by name (``from torch.profiler import profile``).
    Each profile made inside takes the next round of ``capture``: its own round, then one more, and so on.

    Yields:
        The class that stands in for ``torch.profiler.profile``.

    Raises:
        ValueError: the vendor is neither ``cuda`` nor ``hip``, or a number is negative.
    """
    one_of("fake_torch", "vendor", vendor, VENDORS)
    whole("fake_torch", "steps", steps, 0)
    whole("fake_torch", "device_count", device_count, 0)
    plan = CapturePlan(capture or Capture("node0", 0, "fake"), vendor, seed, steps, values)
    with fake_torch_for(plan, device_count=device_count) as profile:
        yield profile


@contextlib.contextmanager
def fake_torch_for(
    plan: CapturePlan, *, device_count: int = 8, group: WorkerId | None = None
) -> Iterator[type[FakeProfile]]:
    """``fake_torch`` with a plan that the caller keeps, so that it can be shared or changed.

    With ``group``, torch.distributed says that the worker's process group is there.
    """
    profile = profile_class(plan)
    with contextlib.ExitStack() as undo:

        def dress(torch: Any) -> None:
            real = torch.profiler.profile
            for names, name in _taken_names(real):
                undo.callback(_give_back, names, name, profile, real)
                names[name] = profile
            replacements = _replacements(torch, plan.vendor, profile, device_count)
            for owner, name, value in [*replacements, *_process_group(torch, group)]:
                undo.callback(_restore, owner, name, vars(owner).get(name, _ABSENT))
                setattr(owner, name, value)

        if "torch" in sys.modules:
            dress(sys.modules["torch"])
        else:
            hook = _OnImport("torch", dress)
            sys.meta_path.insert(0, hook)
            undo.callback(hook.withdraw)
        yield profile


@contextlib.contextmanager
def taken_names_known() -> Iterator[None]:
    """Look once for the modules that took the profiler by name; workers forked in the block need not look again."""
    global _known
    real = None
    profiler = _names(_names(sys.modules.get("torch")).get("profiler"))
    if profiler:
        real = profiler.get("profile")
    before, _known = _known, None
    if real is not None:
        _known = real, list(_taken_names(real))
    try:
        yield
    finally:
        _known = before


def _names(module: object) -> dict[str, Any]:
    """The globals of a module without a word to its code; none for anything else that stands in ``sys.modules``."""
    found: dict[str, Any] = _names_of(module) if issubclass(type(module), ModuleType) else {}
    return found


def _taken_names(real: object) -> Iterable[tuple[dict[str, Any], str]]:
    """Where a module outside torch holds the class itself: its globals, and the name there."""
    if _known is not None and _known[0] is real:
        return [(names, name) for names, name in _known[1] if names.get(name) is real]
    return [
        (names, name)
        for key, module in list(sys.modules.items())
        if not str(key).startswith("torch.") and key != "torch"
        for names in [_names(module)]
        for name, value in list(names.items())
        if value is real
    ]


def _give_back(names: dict[str, Any], name: str, fake: object, real: object) -> None:
    """Put the real class back, unless the module has put something else there meanwhile."""
    if names.get(name) is fake:
        names[name] = real


class _OnImport(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Calls ``then`` with a module once its first import is complete; importing it stays the importer's business."""

    def __init__(self, name: str, then: Callable[[Any], None]) -> None:
        self._name, self._then = name, then
        self._loader: Any = None

    def find_spec(self, fullname: str, path: Any, target: Any = None) -> ModuleSpec | None:
        """Find the module as if this hook were not there, and put itself before its loader."""
        if fullname != self._name:
            return None
        self.withdraw()
        spec = importlib.util.find_spec(fullname)
        if spec is not None:
            self._loader, spec.loader = spec.loader, self
        return spec

    def create_module(self, spec: ModuleSpec) -> Any:
        """As the module's own loader makes it."""
        return self._loader.create_module(spec)

    def exec_module(self, module: Any) -> None:
        """Run the module, then tell."""
        module.__spec__.loader = module.__loader__ = self._loader
        self._loader.exec_module(module)
        self._then(module)

    def withdraw(self) -> None:
        """Watch no longer."""
        if self in sys.meta_path:
            sys.meta_path.remove(self)


def _restore(owner: Any, name: str, value: Any) -> None:
    if value is _ABSENT:
        delattr(owner, name)
    else:
        setattr(owner, name, value)


def _process_group(torch: Any, worker: WorkerId | None) -> list[tuple[Any, str, Any]]:
    """What tells of a process group. A barrier returns at once; no collective works, for nobody is there to answer."""
    if worker is None or not torch.distributed.is_available():
        return []
    answers = {
        "is_initialized": lambda: True,
        "get_rank": lambda group=None: worker.rank,
        "get_world_size": lambda group=None: worker.world_size,
        "get_backend": lambda group=None: "gloo",
        "barrier": lambda *args, **options: None,
    }
    return [(torch.distributed, name, answer) for name, answer in answers.items()]


def _replacements(torch: Any, vendor: Vendor, profile: type[FakeProfile], count: int) -> list[tuple[Any, str, Any]]:
    properties = SimpleNamespace(**_DEVICES[vendor])
    activities = torch.profiler.ProfilerActivity
    cuda, hip = _VERSIONS[vendor]
    real_enabled = torch.autograd._profiler_enabled

    def enabled() -> bool:
        return FakeProfile._recording is not None or bool(real_enabled())

    pairs: list[tuple[Any, str, Any]] = [
        (torch.profiler, "profile", profile),
        (torch.profiler.profiler, "profile", profile),
        (torch.profiler, "supported_activities", lambda: {activities.CPU, activities.CUDA}),
        # Whoever asks whether a profiler runs must see the fake one too.
        (torch.autograd, "_profiler_enabled", enabled),
        (torch.version, "cuda", cuda),
        (torch.version, "hip", hip),
    ]
    device_queries = {
        "is_available": lambda: count > 0,
        "device_count": lambda: count,
        "get_device_name": lambda device=None: properties.name,
        "get_device_properties": lambda device=None: properties,
        "get_device_capability": lambda device=None: (properties.major, properties.minor),
        # A caller that was told of a device goes on to use these; the CPU build's own raise.
        "current_device": lambda: 0,
        "set_device": lambda device: None,
        "synchronize": lambda device=None: None,
    }
    pairs += [(torch.cuda, name, query) for name, query in device_queries.items()]
    return [*pairs, *_cuda_calls(torch, count)]


def _cuda_calls(torch: Any, count: int) -> list[tuple[Any, str, Any]]:
    history, runtime = FakeMemoryHistory(count), FakeCudart()
    return [
        (torch.cuda.memory, "_record_memory_history", history.record),
        (torch.cuda.memory, "_snapshot", history.snapshot),
        (torch.cuda.memory, "_dump_snapshot", history.dump),
        (torch._C, "_cuda_isHistoryEnabled", history.is_enabled),
        (torch.cuda, "cudart", lambda: runtime),
    ]
