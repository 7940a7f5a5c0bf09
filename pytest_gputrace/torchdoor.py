"""The one door to torch: its profiler, whether a session is still ours, whether it has a GPU.

torch is imported inside the functions that need it, never when this module is.
"""

from __future__ import annotations

import contextlib
import threading
import warnings
from typing import TYPE_CHECKING, Any

from pytest_gputrace.errors import MissingDependencyError

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = [
    "STARTING",
    "STOLEN",
    "all_threads",
    "installed_torch",
    "missing_gpu",
    "profiler",
    "someone_profiles",
    "torchs_warnings",
    "was_stolen",
]

STARTING = threading.Lock()
"""torch has one session for the whole process: looking whether there is one and starting it must be one act."""

# Kineto's clock was seen 0.1 to 9 ms behind the system's at a start, never ahead (torch 2.4, 2.13, 2.14).
_CLOCK_SLACK_NS = 1_000_000

STOLEN = (
    "another profiler in this process took the session over while it ran (torch allows one at a time), so nothing was "
    "recorded; look for torch.profiler.profile or torch.autograd.profiler.profile inside the profiled code"
)


def installed_torch() -> Any:
    """The package, as it is when asked.

    Raises:
        MissingDependencyError: it is not installed, or broken.
    """
    try:
        import torch.profiler
    except ImportError as error:
        raise MissingDependencyError(
            "this records with torch, and torch is not installed; install your GPU's build of torch, or "
            "`pip install pytest-gputrace[torch]` where any build will do",
            package="torch",
        ) from error
    except OSError as error:  # a library of it is missing or broken
        raise MissingDependencyError(f"torch is installed and cannot be loaded: {error}", package="torch") from error
    return torch


def profiler() -> Any:
    """``torch.profiler``, as it is when asked: a test may have put a fake ``profile`` into it.

    Raises:
        MissingDependencyError: torch is not installed.
    """
    return installed_torch().profiler


def missing_gpu() -> str:
    """Why torch has no GPU in this process, and what to do; empty where it has one.

    Raises:
        MissingDependencyError: torch is not installed.
    """
    torch = installed_torch()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch warns of an old driver, and then says that there is no GPU
        if torch.cuda.is_available():
            return ""
    if torch.version.cuda is None and torch.version.hip is None:
        return f"torch {torch.__version__} is built for the CPU alone; install the build for your GPU"
    return (
        f"torch {torch.__version__} sees no GPU (torch.cuda.is_available() is False); see that the driver works, and "
        "that CUDA_VISIBLE_DEVICES, HIP_VISIBLE_DEVICES and the container hide none"
    )


def all_threads() -> Any:
    """The ``experimental_config`` whose profile records every thread and may be stopped by any; None on an older torch.

    Without it a profile that is stopped by another thread than its own is lost, on torch 2.13 without a word.
    """
    try:
        return installed_torch()._C._profiler._ExperimentalConfig(profile_all_threads=True)
    except (AttributeError, TypeError):
        return None


def someone_profiles() -> bool:
    """Whether a torch profiler session runs in this process, in whatever thread."""
    import torch.autograd

    # The first knows this thread only; the second all of them, from torch 2.5 or so.
    anywhere = getattr(torch.autograd.profiler, "_is_profiler_enabled", False)
    return bool(torch.autograd._profiler_enabled()) or anywhere is True


@contextlib.contextmanager
def torchs_warnings() -> Iterator[None]:
    """Keep a warning of torch's own from becoming an error in the middle of its state: that crashes the process."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*Profiler clears events")
        yield


def was_stolen(profile: Any, started_ns: int | None = None) -> bool:
    """Whether a stopped profile lost its session to another profiler.

    torch 2.12 and newer then report an empty profile whose trace began at 0; asking such a profile for its chrome
    trace kills the process. A profile that is merely empty has a start. Where the thief is still at work, the profile
    holds the thief's session: one that began after ours did, at ``started_ns`` of the epoch.
    """
    results = getattr(getattr(profile, "profiler", None), "kineto_results", None)
    start_ns = getattr(results, "trace_start_ns", None)
    start = start_ns() if callable(start_ns) else None
    if not isinstance(start, int):
        return False
    return start == 0 or (started_ns is not None and start > started_ns + _CLOCK_SLACK_NS)
